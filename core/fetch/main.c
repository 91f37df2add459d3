/* The fetching child's life: domains that are asked for at its desk (net/desk.h), each resolved and fetched once however many ask, some at a time,
 * the others in a queue. See fetch.h. What a client asks for is a name and nothing else; it costs no more than its place in the queue. */
#include "internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "net/desk.h"

#include <event2/event.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/queue.h>

enum {
	CONNECTIONS_MAX = 2000,
	IDLE_S = 90,
	ADDRESSES_MAX = 8,       /* of one name that are tried */
	RESOLVE_US = 8 * 1000 * 1000,
	FAILURES = 512,          /* domains whose last failure is remembered, so that a crowd of askers is one fetch */
	FAILURE_US = 30 * 1000 * 1000,
	WAIT_US = 20 * 1000 * 1000, /* in the queue; who waits longer hears that we are busy */
};

struct asker {
	TAILQ_ENTRY(asker) link;
	struct desk_asker *at;
	struct job *job;
};

/* One domain that is being fetched, or waits for it. */
struct job {
	TAILQ_ENTRY(job) link;
	TAILQ_HEAD(, asker) askers;
	char domain[DNS_NAME_MAX + 1];
	bool begun;
	int64_t since_us;
	/* resolving */
	struct net_dns_group *dns;
	unsigned open;
	struct reach_address to[ADDRESSES_MAX];
	size_t n_to;
	const char *refused, *unanswered; /* of the addresses that may not be connected to; of a question: why */
};
TAILQ_HEAD(jobs, job);

struct failure {
	char domain[DNS_NAME_MAX + 1];
	char why[STS_WIRE_WHY_MAX + 1];
	enum sts_wire_class class;
	int64_t at_us;
};

static struct {
	const struct fetch_params *params;
	struct event_base *base;
	struct desk *desk;
	struct net_dns *dns;
	struct reach *reach;
	struct jobs running, waiting;
	unsigned n_running, n_waiting, at_once, waiting_max;
	struct failure failure[FAILURES];
	unsigned next_failure;
	uint64_t asked, fetched, failed, webpki, busy, bad;
} f;

static void start_waiting(void);

/* -- answers */

static void tell(struct desk_asker *at, enum sts_wire_class c, struct str text)
{
	struct buf out = BUF_INIT(STS_WIRE_ANSWER_MAX);
	if (sts_wire_answer_put(&out, c, text))
		desk_drop(at);
	else
		desk_answer(at, out.p, out.n);
	buf_free(&out);
}

static struct failure *failure_of(const char *domain)
{
	for (unsigned i = 0; i < FAILURES; i++)
		if (f.failure[i].at_us && strcmp(f.failure[i].domain, domain) == 0)
			return &f.failure[i];
	return NULL;
}

static void remember(const char *domain, enum sts_wire_class c, struct str why)
{
	struct failure *x = failure_of(domain);
	if (c == STS_WIRE_OK || c == STS_WIRE_BUSY) {
		if (x && c == STS_WIRE_OK)
			x->at_us = 0;
		return;
	}
	if (!x)
		x = &f.failure[f.next_failure++ % FAILURES];
	snprintf(x->domain, sizeof x->domain, "%s", domain);
	snprintf(x->why, sizeof x->why, "%.*s", STR_ARG(why));
	x->class = c;
	x->at_us = clock_mono_us();
}

static void end_job(struct job *j, enum sts_wire_class c, struct str text)
{
	struct asker *a;
	uint64_t *counts[] = { &f.fetched, &f.failed, &f.webpki, &f.busy };
	++*counts[c];
	remember(j->domain, c, text);
	if (c == STS_WIRE_OK)
		log_info(NULL, "event=sts-fetched domain=%s octets=%zu took_ms=%lld", log_qz(j->domain), text.n, (long long)((clock_mono_us() - j->since_us) / 1000));
	else
		log_info(NULL, "event=sts-not-fetched domain=%s result=%s reason=%s", log_qz(j->domain), sts_wire_class_name(c), log_q(text));
	while ((a = TAILQ_FIRST(&j->askers))) {
		TAILQ_REMOVE(&j->askers, a, link);
		tell(a->at, c, text);
		free(a);
	}
	TAILQ_REMOVE(j->begun ? &f.running : &f.waiting, j, link);
	--*(j->begun ? &f.n_running : &f.n_waiting);
	net_dns_group_free(j->dns);
	free(j);
}

static void end_and_next(struct job *j, enum sts_wire_class c, struct str text)
{
	end_job(j, c, text);
	start_waiting();
}

/* -- a fetch */

static void on_transfer(void *arg, enum sts_wire_class c, struct str text)
{
	end_and_next(arg, c, text);
}

static void on_address(void *arg, const struct dns_answer *a)
{
	struct job *j = arg;
	if (a->status == DNS_TEMPFAIL)
		j->unanswered = "its addresses cannot be looked up";
	for (size_t i = 0; i < a->n_rr && j->n_to < ADDRESSES_MAX; i++) {
		struct str ip = a->rr[i].data;
		const char *why = reach_refused(f.reach, (const unsigned char *)ip.p, ip.n);
		if (why) {
			j->refused = why;
			continue;
		}
		j->to[j->n_to].n = (unsigned char)ip.n;
		memcpy(j->to[j->n_to++].ip, ip.p, ip.n);
	}
	if (--j->open)
		return;
	if (j->n_to && transfer_new(j->domain, j->to, j->n_to, on_transfer, j))
		return;
	char why[100];
	if (j->n_to)
		end_and_next(j, STS_WIRE_BUSY, STR("out of memory"));
	else if (j->refused) {
		snprintf(why, sizeof why, "its server has an address that is not connected to (%s)", j->refused);
		end_and_next(j, STS_WIRE_FAILED, str_from(why));
	} else
		end_and_next(j, STS_WIRE_FAILED, str_from(j->unanswered ? j->unanswered : "its server has no address"));
}

/* 0, or -1: the job is to be ended. Nothing calls back from in here. */
static int begin(struct job *j)
{
	static const enum dns_type types[] = { DNS_AAAA, DNS_A };
	char name[DNS_NAME_MAX + 16];
	TAILQ_REMOVE(&f.waiting, j, link);
	f.n_waiting--;
	TAILQ_INSERT_TAIL(&f.running, j, link);
	f.n_running++;
	j->begun = true;
	snprintf(name, sizeof name, "mta-sts.%s", j->domain);
	if (!(j->dns = net_dns_group_new(f.dns, RESOLVE_US, 0)))
		return -1;
	for (size_t i = 0; i < 2; i++)
		if (net_dns_query(j->dns, str_from(name), types[i], on_address, j))
			j->open++;
	return j->open ? 0 : -1;
}

static void start_waiting(void)
{
	struct job *j;
	while (f.n_running < f.at_once && (j = TAILQ_FIRST(&f.waiting)))
		if (clock_mono_us() - j->since_us > WAIT_US)
			end_job(j, STS_WIRE_BUSY, STR("too many domains are being asked"));
		else if (begin(j))
			end_job(j, STS_WIRE_BUSY, STR("out of memory"));
}

/* -- questions */

static struct job *job_of(const char *domain)
{
	struct jobs *const lists[] = { &f.running, &f.waiting };
	struct job *j;
	for (size_t i = 0; i < 2; i++)
		TAILQ_FOREACH(j, lists[i], link)
			if (strcmp(j->domain, domain) == 0)
				return j;
	return NULL;
}

static struct job *new_job(const char *domain)
{
	struct job *j = f.n_waiting < f.waiting_max ? calloc(1, sizeof *j) : NULL;
	if (!j)
		return NULL;
	TAILQ_INIT(&j->askers);
	snprintf(j->domain, sizeof j->domain, "%s", domain);
	j->since_us = clock_mono_us();
	TAILQ_INSERT_TAIL(&f.waiting, j, link);
	f.n_waiting++;
	return j;
}

static void ask(void *arg, struct desk_asker *at, const unsigned char *p, size_t n)
{
	char domain[DNS_NAME_MAX + 1];
	bool fresh;
	(void)arg;
	if (sts_wire_request_get(str_n((const char *)p, n), domain, &fresh)) {
		f.bad++;
		desk_drop(at);
		return;
	}
	f.asked++;
	const struct failure *x = fresh ? NULL : failure_of(domain);
	if (x && clock_mono_us() - x->at_us < FAILURE_US) {
		tell(at, x->class, str_from(x->why));
		return;
	}
	struct asker *a = calloc(1, sizeof *a);
	struct job *j = a ? job_of(domain) : NULL;
	if (a && !j)
		j = new_job(domain);
	if (!j) {
		free(a);
		f.busy++;
		tell(at, STS_WIRE_BUSY, STR("too many domains are being asked"));
		return;
	}
	a->at = at;
	a->job = j;
	desk_set(at, a);
	TAILQ_INSERT_TAIL(&j->askers, a, link);
	start_waiting();
}

/* The fetch goes on: who comes next profits, and where it would stop is not worth knowing. */
static void gone(void *arg, struct desk_asker *at)
{
	struct asker *a = desk_get(at);
	(void)arg;
	TAILQ_REMOVE(&a->job->askers, a, link);
	free(a);
}

/* -- life */

static void tell_counts(void)
{
	static uint64_t told;
	uint64_t all = f.asked + f.bad + desk_refused(f.desk);
	if (told == all)
		return;
	told = all;
	log_info(NULL, "event=fetch-counts asked=%llu fetched=%llu failed=%llu webpki=%llu busy=%llu refused=%llu running=%u waiting=%u", (unsigned long long)f.asked,
	    (unsigned long long)f.fetched, (unsigned long long)f.failed, (unsigned long long)f.webpki, (unsigned long long)f.busy,
	    (unsigned long long)(f.bad + desk_refused(f.desk)), f.n_running, f.n_waiting);
}

static int set_up(const struct config *c)
{
	struct transfer_conf t = { .port = (unsigned)config_int(c, "pepsi-mta-sts", "PORT"), .timeout_s = (unsigned)config_int(c, "pepsi-mta-sts", "FETCH_TIMEOUT") };
	f.at_once = (unsigned)config_int(c, "pepsi-mta-sts", "FETCHES");
	f.waiting_max = (unsigned)config_int(c, "pepsi-mta-sts", "WAITING");
	t.ca_file = config_path(c, "pepsi-mta-sts", "CA_FILE");
	if (t.ca_file && !*t.ca_file) {
		free(t.ca_file);
		t.ca_file = NULL;
	}
	if (!(f.reach = reach_new(config_str(c, "pepsi-mta-sts", "ALLOW_NETWORKS"))) || !(f.dns = net_dns_new(f.base, f.params->dns)))
		return -1;
	return transfer_start(f.base, f.reach, &t);
}

int fetch_main(const struct fetch_params *p)
{
	struct config *c = config_thaw(p->blob);
	struct desk_conf desk = { .accounts = p->clients, .n_accounts = p->n_clients, .connections = CONNECTIONS_MAX, .idle_s = IDLE_S,
		.question_max = STS_WIRE_REQUEST_MAX, .ask = ask, .gone = gone };
	const char *why = "";
	f.params = p;
	TAILQ_INIT(&f.running);
	TAILQ_INIT(&f.waiting);
	signal(SIGPIPE, SIG_IGN);
	int fd = c ? desk_bind(p->state_dir, STS_WIRE_SOCKET, &why) : -1;
	if (c && fd < 0)
		log_error(NULL, "event=fetch-socket path=%s/" STS_WIRE_SOCKET " reason=%s", p->state_dir, log_qz(why));
	if (fd < 0 || p->become(p->arg))
		return 1;
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (!(f.base = event_base_new()) || set_up(c))
		return 1;
	config_free(c);
	log_info(NULL, "event=fetch-ready");
	int rc = desk_serve(f.base, fd, &desk, &f.desk, tell_counts);
	return rc ? 1 : 0;
}
