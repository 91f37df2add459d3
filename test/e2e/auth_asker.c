/* The engines of sender authentication on the asynchronous resolver, without a daemon around them: one question per line of standard
 * input, each in a group of its own, all at once; one line of JSON for each answer, and at the end how late the loop's own clock was
 * beside them. For the laboratory of hostile DNS (hostile_dns.py). May not judge anything itself.
 *
 *     auth_asker SERVER TIMEOUT_MS LOOKUP_MS MESSAGE_MS QUERIES
 *     NAME spf IP HELO SENDER | NAME dkim FILE | NAME dmarc HEADERS-FILE | NAME iprev IP | NAME dns NAME TYPE
 *     NAME verify IP HELO SENDER FILE          all of a message                                                      tabs between */
#include "base/clock.h"
#include "net/dns.h"
#include "proto/auth/dmarc.h"
#include "proto/auth/spf.h"
#include "proto/auth/verify.h"
#include "proto/dkim/dkim.h"
#include "proto/dns/iprev.h"
#include "proto/mail/split.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { FIELDS_MAX = 7, LATE_MAX = 1 << 20, TICK_MS = 2 };

struct asker {
	struct event_base *base;
	struct net_dns *dns;
	unsigned open;
	struct event *tick;
	int64_t ticked_us;
	uint32_t *late_us;
	size_t n_late;
};

struct one {
	struct asker *a;
	struct net_dns_group *g;
	char *line, *name, *file;
	size_t file_n;
	int64_t began_us, cpu_us, worst_us;
	unsigned runs;
	unsigned char ip[16];
	dns_evaluate_fn fn;
	void *arg;
	struct spf_check spf;
	struct iprev iprev;
	struct dmarc_author author;
	struct dmarc_check dmarc;
	struct dkim *dkim;
	struct verify *verify;
};

static int64_t cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * US_PER_S + t.tv_nsec / 1000;
}

/* How long the loop would be held by each run of the engine. */
static int measured(void *arg, struct dns_answers *set)
{
	struct one *o = arg;
	int64_t began = cpu();
	int rc = o->fn(o->arg, set);
	int64_t took = cpu() - began;
	o->cpu_us += took;
	o->worst_us = took > o->worst_us ? took : o->worst_us;
	o->runs++;
	return rc;
}

static void head(struct one *o, const char *result, const char *why)
{
	printf("{\"name\":\"%s\",\"result\":\"%s\",\"why\":\"%s\",\"queries\":%u,\"ms\":%lld,\"runs\":%u,\"cpu_us\":%lld,\"worst_us\":%lld", o->name, result,
	    why ? why : "", net_dns_group_queries(o->g), (long long)((clock_mono_us() - o->began_us) / 1000), o->runs, (long long)o->cpu_us,
	    (long long)o->worst_us);
}

static void end(struct one *o)
{
	puts("}");
	net_dns_group_free(o->g);
	if (!--o->a->open)
		event_base_loopbreak(o->a->base);
	dkim_release(o->dkim);
	verify_free(o->verify);
	free(o->file);
	free(o->line);
	free(o);
}

static void done(void *arg, int rc, const struct dns_answers *set)
{
	struct one *o = arg;
	(void)set;
	if (rc != DNS_DONE) {
		head(o, "broken", "the evaluator gave up");
	} else if (o->verify) {
		const struct verify_verdict *r = verify_verdict(o->verify);
		head(o, dmarc_result_name(r->dmarc->result), r->dmarc->reason);
		printf(",\"done\":%s,\"spf\":\"%s\",\"helo\":\"%s\",\"dkim\":\"%s\",\"arc\":\"%s\",\"disposition\":\"%s\",\"temporary\":%s",
		    verify_done(o->verify) ? "true" : "false", spf_result_name(r->spf->result), r->spf_helo ? spf_result_name(r->spf_helo->result) : "",
		    dkim_result_name(verify_dkim_result(r)), r->arc ? dkim_result_name(r->arc->result) : "", dmarc_policy_name(r->disposition),
		    verify_temporary(r) ? "true" : "false");
	} else if (o->dkim) {
		const struct arc_result *arc = dkim_arc(o->dkim);
		head(o, dkim_n(o->dkim) ? dkim_result_name(dkim_signature(o->dkim, 0)->result) : "none", dkim_n(o->dkim) ? dkim_signature(o->dkim, 0)->reason : "");
		printf(",\"signatures\":%zu,\"ignored\":%zu,\"done\":%s,\"arc\":\"%s\",\"arc_why\":\"%s\",\"arc_temporary\":%s,\"all\":[", dkim_n(o->dkim),
		    dkim_n_ignored(o->dkim), dkim_done(o->dkim) ? "true" : "false", dkim_result_name(arc->result), arc->reason, arc->temporary ? "true" : "false");
		for (size_t i = 0; i < dkim_n(o->dkim); i++)
			printf("%s\"%s\"", i ? "," : "", dkim_result_name(dkim_signature(o->dkim, i)->result));
		putchar(']');
	} else if (o->arg == &o->spf) {
		head(o, spf_result_name(o->spf.result), o->spf.reason);
		printf(",\"terms\":%u,\"voids\":%u", o->spf.n_terms, o->spf.n_voids);
	} else if (o->arg == &o->iprev) {
		head(o, iprev_result_name(o->iprev.result), "");
		printf(",\"verified\":\"%s\"", o->iprev.result == IPREV_PASS ? o->iprev.name : "");
	} else {
		head(o, dmarc_result_name(o->dmarc.result), o->dmarc.reason);
		printf(",\"policy_domain\":\"%s\",\"disposition\":\"%s\"", o->dmarc.walk.policy_domain, dmarc_policy_name(o->dmarc.disposition));
	}
	end(o);
}

static void answered(void *arg, const struct dns_answer *a)
{
	struct one *o = arg;
	head(o, dns_status_name(a->status), a->why);
	printf(",\"records\":%zu,\"ttl\":%u", a->n_rr, a->ttl);
	end(o);
}

static size_t address(const char *text, unsigned char *ip)
{
	return inet_pton(AF_INET, text, ip) == 1 ? 4 : inet_pton(AF_INET6, text, ip) == 1 ? 16 : 0;
}

static int load(struct one *o, const char *path)
{
	FILE *f = fopen(path, "rb");
	size_t room = 8 << 20;
	if (!f || !(o->file = malloc(room)))
		return -1;
	o->file_n = fread(o->file, 1, room, f);
	fclose(f);
	return 0;
}

static int set_up(struct one *o, char *const *v, size_t n)
{
	struct mail_split cut = { 0 };
	o->fn = NULL;
	if (strcmp(v[1], "spf") == 0 && n == 5) {
		o->spf = (struct spf_check){ .ip = o->ip, .ip_n = address(v[2], o->ip), .identity = SPF_MAILFROM, .helo = str_from(v[3]),
			.sender = str_from(v[4]), .receiver = STR("mx.example.test"), .explain = true };
		o->fn = spf_evaluate;
		o->arg = &o->spf;
		return o->spf.ip_n ? 0 : -1;
	}
	if (strcmp(v[1], "iprev") == 0 && n == 3) {
		o->iprev = (struct iprev){ .ip = o->ip, .ip_n = address(v[2], o->ip) };
		o->fn = iprev_evaluate;
		o->arg = &o->iprev;
		return o->iprev.ip_n ? 0 : -1;
	}
	bool all = strcmp(v[1], "verify") == 0;
	if (n != (all ? 6 : 3) || load(o, v[n - 1]))
		return -1;
	mail_split(str_n(o->file, o->file_n), &cut);
	if (all) {
		struct verify_envelope e = { .helo = str_from(v[3]), .mail_from = str_from(v[4]), .receiver = STR("mx.example.test") };
		int64_t began = cpu();
		e.ip_n = address(v[2], e.ip);
		o->verify = verify_new(&(struct verify_policy){ .spf = true, .dkim = true, .arc = true, .dmarc = true });
		if (!e.ip_n || !o->verify || verify_envelope(o->verify, &e) || verify_headers(o->verify, cut.headers))
			return -1;
		verify_body(o->verify, cut.body.p, cut.body.n);
		verify_body_end(o->verify);
		o->cpu_us = o->worst_us = cpu() - began;
		o->fn = verify_evaluate;
		o->arg = o->verify;
		return 0;
	}
	if (strcmp(v[1], "dkim") == 0) {
		int64_t began = cpu();
		if (!(o->dkim = dkim_new(&(struct dkim_policy){ .arc = true })) || dkim_headers(o->dkim, cut.headers))
			return -1;
		dkim_body_feed(o->dkim, cut.body.p, cut.body.n);
		dkim_body_end(o->dkim);
		o->cpu_us = o->worst_us = cpu() - began;
		o->fn = dkim_evaluate;
		o->arg = o->dkim;
		return 0;
	}
	dmarc_author(cut.headers, &o->author);
	o->dmarc = (struct dmarc_check){ .author = &o->author };
	o->fn = dmarc_evaluate;
	o->arg = &o->dmarc;
	return strcmp(v[1], "dmarc");
}

static int begin(struct asker *a, const char *line)
{
	struct one *o = calloc(1, sizeof *o);
	char *v[FIELDS_MAX], *rest;
	size_t n = 0;
	enum dns_type type;
	if (!o || !(o->line = strdup(line)) || !(o->g = net_dns_group_new(a->dns, 0, 0)))
		return -1;
	rest = o->line;
	rest[strcspn(rest, "\n")] = 0;
	while (n < FIELDS_MAX && rest)
		v[n++] = strsep(&rest, "\t");
	if (n < 3)
		return -1;
	o->a = a;
	o->name = v[0];
	o->began_us = clock_mono_us();
	a->open++;
	if (strcmp(v[1], "dns") == 0)
		return n == 4 && !dns_type_parse(str_from(v[3]), &type) && net_dns_query(o->g, str_from(v[2]), type, answered, o) ? 0 : -1;
	return set_up(o, v, n) || !net_dns_evaluate(o->g, measured, o, done, o) ? -1 : 0;
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct asker *a = arg;
	struct timeval tv = { .tv_usec = TICK_MS * 1000 };
	int64_t now = clock_mono_us();
	(void)fd;
	(void)what;
	if (a->ticked_us && a->n_late < LATE_MAX)
		a->late_us[a->n_late++] = (uint32_t)(now - a->ticked_us > TICK_MS * 1000 ? now - a->ticked_us - TICK_MS * 1000 : 0);
	a->ticked_us = now;
	event_add(a->tick, &tv);
}

static int by_size(const void *x, const void *y)
{
	uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
	return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
	static char line[1 << 20];
	struct asker a = { .late_us = calloc(LATE_MAX, sizeof *a.late_us) };
	struct net_dns_settings s = { .attempts = 2, .max_in_flight = 1000, .cache_octets = 32 << 20, .cache_entries = 50000, .max_ttl = 86400,
		.max_negative_ttl = 3600 };
	if (argc != 6 || net_dns_server_parse(str_from(argv[1]), &s.server[0]) || !a.late_us) {
		fputs("usage: auth_asker SERVER TIMEOUT_MS LOOKUP_MS MESSAGE_MS QUERIES\n", stderr);
		return 2;
	}
	s.n_servers = 1;
	s.timeout_us = strtol(argv[2], NULL, 10) * 1000;
	s.lookup_us = strtol(argv[3], NULL, 10) * 1000;
	s.message_us = strtol(argv[4], NULL, 10) * 1000;
	s.max_queries = (unsigned)strtoul(argv[5], NULL, 10);
	if (!(a.base = event_base_new()) || !(a.dns = net_dns_new(a.base, &s)) || !(a.tick = evtimer_new(a.base, on_tick, &a)))
		return 1;
	while (fgets(line, sizeof line, stdin))
		if (begin(&a, line)) {
			fprintf(stderr, "auth_asker: not a question: %.200s", line);
			return 2;
		}
	on_tick(-1, 0, &a);
	if (a.open)
		event_base_dispatch(a.base);
	qsort(a.late_us, a.n_late, sizeof *a.late_us, by_size);
	printf("{\"name\":\"loop\",\"ticks\":%zu,\"p50_us\":%u,\"p99_us\":%u,\"max_us\":%u}\n", a.n_late, a.n_late ? a.late_us[a.n_late / 2] : 0,
	    a.n_late ? a.late_us[a.n_late * 99 / 100] : 0, a.n_late ? a.late_us[a.n_late - 1] : 0);
	event_free(a.tick);
	net_dns_free(a.dns);
	event_base_free(a.base);
	free(a.late_us);
	return 0;
}
