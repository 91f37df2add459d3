/* The resolving child's life: questions from its desk (net/desk.h) to the library, answers back. See recursor.h. May not look into answers; what a
 * client sends is not believed, and costs no more than its slot. */
#include "internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "net/desk.h"
#include "proto/dns/question.h"

#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
	CONNECTIONS_MAX = 1200,  /* MAX_IN_FLIGHT of the reactor is 1000 */
	QUESTIONS_MAX = 2000,    /* asked of the library, also for clients that went; above it: SERVFAIL */
	IDLE_S = 30,             /* a connection that asks nothing, or whose question is not answered */
	BOGUS_LINES = 20,        /* lines about bogus answers in a minute */
};

/* Outlives its asker: the library cannot be told to forget it. */
struct question {
	struct desk_asker *asker; /* NULL: it went */
	struct dns_question q;
	unsigned char wire[12 + 255 + 4];
};

static struct {
	struct event_base *base;
	struct desk *desk;
	unsigned n_questions, bogus_lines;
	int64_t bogus_us;
	uint64_t asked, secure, bogus, failed, refused;
} r;

static void tell_bogus(const struct question *k, const char *why)
{
	int64_t now = clock_mono_us();
	r.bogus++;
	if (now - r.bogus_us > 60 * US_PER_S) {
		r.bogus_us = now;
		r.bogus_lines = 0;
	}
	if (r.bogus_lines++ < BOGUS_LINES)
		log_warn(NULL, "event=dns-bogus name=%s type=%u reason=%s", log_qz(k->q.text), k->q.type, log_qz(why));
}

static void answered(void *arg, int rcode, const unsigned char *packet, size_t n, bool secure, const char *why_bogus)
{
	static unsigned char out[DNS_MESSAGE_MAX];
	struct question *k = arg;
	r.n_questions--;
	r.secure += secure;
	r.failed += rcode != 0 && !why_bogus;
	if (why_bogus)
		tell_bogus(k, why_bogus);
	if (k->asker) {
		size_t m = dns_question_answer(k->wire, &k->q, why_bogus ? 2 : (unsigned)rcode, packet, n, secure, out);
		desk_answer(k->asker, out, m);
	}
	free(k);
}

static void gone(void *arg, struct desk_asker *a)
{
	struct question *k = desk_get(a);
	(void)arg;
	k->asker = NULL;
}

static void ask(void *arg, struct desk_asker *a, const unsigned char *wire, size_t n)
{
	struct question *k = calloc(1, sizeof *k);
	(void)arg;
	if (!k || dns_question_read(wire, n, &k->q)) {
		free(k);
		r.refused++;
		desk_drop(a);
		return;
	}
	memcpy(k->wire, wire, 12 + k->q.n);
	k->asker = a;
	desk_set(a, k);
	r.asked++;
	r.n_questions++;
	if (r.n_questions > QUESTIONS_MAX || library_ask(k->q.text, k->q.type, answered, k))
		answered(k, 2, NULL, 0, false, NULL);
}

static uint64_t refused(void)
{
	return r.refused + (r.desk ? desk_refused(r.desk) : 0);
}

static void tell_counts(void)
{
	static uint64_t told;
	if (told == r.asked + refused())
		return;
	told = r.asked + refused();
	log_info(NULL, "event=recursor-counts asked=%llu secure=%llu bogus=%llu failed=%llu refused=%llu open=%u", (unsigned long long)r.asked,
	    (unsigned long long)r.secure, (unsigned long long)r.bogus, (unsigned long long)r.failed, (unsigned long long)refused(), r.n_questions);
}

int recursor_main(const struct recursor_params *p)
{
	struct config *c = config_thaw(p->blob);
	struct desk_conf desk = { .accounts = p->clients, .n_accounts = p->n_clients, .connections = CONNECTIONS_MAX, .idle_s = IDLE_S,
		.question_max = DNS_QUERY_MAX, .ask = ask, .gone = gone };
	const char *why = "";
	signal(SIGPIPE, SIG_IGN);
	int fd = c ? desk_bind(p->state_dir, RECURSOR_SOCKET, &why) : -1;
	if (c && fd < 0)
		log_error(NULL, "event=recursor-socket path=%s/" RECURSOR_SOCKET " reason=%s", p->state_dir, log_qz(why));
	if (fd < 0 || p->become(p->arg))
		return 1;
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (!(r.base = event_base_new()) || library_start(r.base, c))
		return 1;
	config_free(c);
	log_info(NULL, "event=recursor-ready");
	int rc = desk_serve(r.base, fd, &desk, &r.desk, tell_counts);
	library_end();
	return rc ? 1 : 0;
}
