/* The counts of tally.h. A line is the text of everything but the number of messages; two lists, of domains and of lines, each behind a hash
 * with a seed of its own, since senders choose what is hashed. */
#include "tally.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/json.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

enum { BUCKETS = 4096 };
_Static_assert(TALLY_LINES_MAX + TALLY_DOMAINS_MAX <= STORE_DMARC_TALLY_MAX, "a batch is one call");

struct domain {
	struct domain *next_hash, *next;
	int64_t begin, end;    /* seconds */
	size_t lines;
	uint64_t overflow;
	size_t domain_n, policy_n, org_n;
	char text[];           /* domain, policy, org */
};

struct line {
	struct line *next_hash, *next;
	struct domain *d;
	uint64_t messages;
	size_t n;
	char data[];
};

/* What is counted now, or is on its way. */
struct book {
	struct domain *domains;
	struct line *lines;
	size_t n_domains, n_lines;
};

struct tally {
	struct tally_backend be;
	struct tally_settings set;
	char source[64];
	uint64_t seed;
	struct book now;
	struct domain *domain_at[BUCKETS];
	struct line *line_at[BUCKETS];
	struct book sent;      /* on its way, or to be sent again */
	bool waiting;          /* for the answer */
	int64_t seq, flushed_us;
	struct pending *pending; /* who the answer goes to */
	uint64_t counted, overflowed, lost, batches, failures;
	bool lost_said;
};

/* Outlives the tally, when an answer is still to come. */
struct pending {
	struct tally *t;
};

struct tally *tally_new(const struct tally_backend *be, const char *source)
{
	struct tally *t = calloc(1, sizeof *t);
	if (!t)
		return NULL;
	t->be = *be;
	snprintf(t->source, sizeof t->source, "%s", source);
	if (getrandom(&t->seed, sizeof t->seed, GRND_NONBLOCK) != sizeof t->seed)
		t->seed = (uint64_t)clock_mono_us() * UINT64_C(0x9e3779b97f4a7c15);
	return t;
}

static void book_free(struct book *b)
{
	while (b->lines) {
		struct line *l = b->lines;
		b->lines = l->next;
		free(l);
	}
	while (b->domains) {
		struct domain *d = b->domains;
		b->domains = d->next;
		free(d);
	}
	*b = (struct book){ 0 };
}

void tally_free(struct tally *t)
{
	if (!t)
		return;
	if (t->pending)
		t->pending->t = NULL;
	book_free(&t->now);
	book_free(&t->sent);
	free(t);
}

void tally_configure(struct tally *t, const struct tally_settings *s)
{
	t->set = *s;
	if (t->set.interval_s <= 0)
		t->set.interval_s = 86400;
}

static uint64_t hash(const struct tally *t, uint64_t h, const char *p, size_t n)
{
	h ^= t->seed;
	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)p[i]) * UINT64_C(0x100000001b3);
	h ^= h >> 32;
	h *= UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 29;
}

/* ---- what a line says */

static void write_policy(const struct tally_message *m, struct buf *out)
{
	buf_addf(out, "p=%s sp=%s np=%s adkim=%c aspf=%c fo=", dmarc_policy_name(m->p), dmarc_policy_name(m->sp), dmarc_policy_name(m->np),
	    m->adkim_strict ? 's' : 'r', m->aspf_strict ? 's' : 'r');
	static const struct {
		unsigned bit;
		char c;
	} fo[] = { { DMARC_FO_0, '0' }, { DMARC_FO_1, '1' }, { DMARC_FO_D, 'd' }, { DMARC_FO_S, 's' } };
	bool any = false;
	for (size_t i = 0; i < 4; i++)
		if (m->fo & fo[i].bit) {
			buf_addf(out, "%s%c", any ? ":" : "", fo[i].c);
			any = true;
		}
	buf_addf(out, "%s t=%c by=%s", any ? "" : "0", m->testing ? 'y' : 'n', m->psl ? "psl" : "treewalk");
}

/* "pass": it passed, and a policy would have been applied (RFC 9990 Appendix A). */
static const char *disposition(const struct tally_message *m)
{
	if (m->result == DMARC_RESULT_PASS && m->done == DMARC_NONE)
		return m->wanted == DMARC_NONE ? "none" : "pass";
	return dmarc_policy_name(m->done);
}

/* Why less was done than the policy says; NULL: it was not. */
static const char *reason(const struct tally_message *m)
{
	if (m->reason)
		return m->reason;
	if (m->result == DMARC_RESULT_PASS || m->done == m->wanted)
		return NULL;
	return m->result == DMARC_RESULT_FAIL ? "local_policy" : "other";
}

/* The domain of all recipients; empty where there are several. */
static struct str rcpt_domain(const struct tally_message *m)
{
	struct str d = m->n_rcpts ? str_behind(m->rcpts[0], '@') : STR_NULL;
	for (size_t i = 1; i < m->n_rcpts; i++)
		if (!str_ieq(str_behind(m->rcpts[i], '@'), d))
			return STR_NULL;
	return d;
}

static void put_lower(struct buf *out, const char *key, struct str s)
{
	char text[DNS_NAME_MAX + 1];
	if (!s.n)
		return;
	int n = dns_name_fold(s, text);
	json_put_member(out, key, n > 0 ? str_n(text, (size_t)n) : str_n(s.p, s.n > DNS_NAME_MAX ? DNS_NAME_MAX : s.n));
}

/* RFC 9990 §3.1.4: first those that count, then those that pass, then the others. */
static int rank(const struct tally_dkim *d)
{
	return d->aligned ? 0 : !strcmp(d->result, "pass") ? 1 : 2;
}

static void write_results(const struct tally_message *m, struct buf *out)
{
	bool first = true;
	json_put_key(out, "dkim");
	buf_addc(out, '[');
	for (int r = 0; r < 3; r++)
		for (size_t i = 0; i < m->n_dkim && i < TALLY_DKIM_MAX; i++) {
			const struct tally_dkim *d = &m->dkim[i];
			if (rank(d) != r)
				continue;
			buf_addz(out, first ? "{" : ",{");
			first = false;
			put_lower(out, "domain", d->domain);
			json_put_member(out, "selector", str_n(d->selector.p, d->selector.n > DNS_NAME_MAX ? DNS_NAME_MAX : d->selector.n));
			json_put_member(out, "result", str_from(d->result));
			buf_addc(out, '}');
		}
	buf_addc(out, ']');
	if (m->spf_result) {
		json_put_key(out, "spf");
		buf_addc(out, '{');
		put_lower(out, "domain", m->spf_domain);
		json_put_member(out, "result", str_from(m->spf_result));
		buf_addc(out, '}');
	}
}

static int write_data(const struct tally_message *m, struct buf *out)
{
	char ip[INET6_ADDRSTRLEN];
	static const unsigned char mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
	bool four = m->ip_n == 4 || !memcmp(m->ip, mapped, sizeof mapped);
	if (!inet_ntop(four ? AF_INET : AF_INET6, m->ip + (four && m->ip_n == 16 ? 12 : 0), ip, sizeof ip))
		return -1;
	buf_addc(out, '{');
	json_put_member(out, "ip", str_from(ip));
	json_put_member(out, "disposition", str_from(disposition(m)));
	json_put_bool(out, "dkim_aligned", m->dkim_aligned);
	json_put_bool(out, "spf_aligned", m->spf_aligned);
	if (reason(m)) {
		json_put_member(out, "reason", str_from(reason(m)));
		if (m->comment && *m->comment)
			json_put_member(out, "comment", str_from(m->comment));
	}
	put_lower(out, "header_from", m->header_from);
	put_lower(out, "envelope_from", m->envelope_from);
	put_lower(out, "envelope_to", rcpt_domain(m));
	write_results(m, out);
	buf_addc(out, '}');
	return out->failed ? -1 : 0;
}

/* ---- counting */

static bool same_text(const struct domain *d, struct str domain, struct str policy)
{
	return d->domain_n == domain.n && d->policy_n == policy.n && !memcmp(d->text, domain.p, domain.n) &&
	    !memcmp(d->text + domain.n, policy.p, policy.n);
}

static struct str org_of(const struct domain *d)
{
	return str_n(d->text + d->domain_n + d->policy_n, d->org_n);
}

static bool org_full(const struct tally *t, struct str org)
{
	unsigned n = 0;
	for (const struct domain *d = t->now.domains; d; d = d->next)
		n += str_eq(org_of(d), org);
	return n >= TALLY_DOMAINS_ORG;
}

static struct domain *domain_for(struct tally *t, struct str domain, struct str org, struct str policy, int64_t begin)
{
	struct domain **at = &t->domain_at[hash(t, hash(t, (uint64_t)begin, domain.p, domain.n), policy.p, policy.n) % BUCKETS], *d = *at;
	while (d && (d->begin != begin || !same_text(d, domain, policy)))
		d = d->next_hash;
	if (d || t->now.n_domains == TALLY_DOMAINS_MAX || org_full(t, org) || !(d = calloc(1, sizeof *d + domain.n + policy.n + org.n)))
		return d;
	d->begin = begin;
	d->end = begin + t->set.interval_s;
	d->domain_n = domain.n;
	d->policy_n = policy.n;
	d->org_n = org.n;
	memcpy(d->text, domain.p, domain.n);
	memcpy(d->text + domain.n, policy.p, policy.n);
	memcpy(d->text + domain.n + policy.n, org.p, org.n);
	d->next_hash = *at;
	*at = d;
	d->next = t->now.domains;
	t->now.domains = d;
	t->now.n_domains++;
	return d;
}

static struct line *line_for(struct tally *t, struct domain *d, struct str data)
{
	struct line **at = &t->line_at[hash(t, (uint64_t)(uintptr_t)d, data.p, data.n) % BUCKETS], *l = *at;
	while (l && (l->d != d || l->n != data.n || memcmp(l->data, data.p, data.n) != 0))
		l = l->next_hash;
	if (l || t->now.n_lines == TALLY_LINES_MAX || d->lines == TALLY_LINES_DOMAIN || !(l = calloc(1, sizeof *l + data.n)))
		return l;
	l->d = d;
	l->n = data.n;
	memcpy(l->data, data.p, data.n);
	l->next_hash = *at;
	*at = l;
	l->next = t->now.lines;
	t->now.lines = l;
	t->now.n_lines++;
	d->lines++;
	return l;
}

static bool to_report_address(const struct tally *t, const struct tally_message *m)
{
	if (!t->set.address[0] || !m->n_rcpts)
		return false;
	for (size_t i = 0; i < m->n_rcpts; i++)
		if (!str_ieq(m->rcpts[i], str_from(t->set.address)))
			return false;
	return true;
}

/* Domain, organisation, policy and data, each ended by NUL; without data where that is too long. */
void tally_write(const struct tally *t, const struct tally_message *m, struct buf *slip)
{
	char domain[DNS_NAME_MAX + 1], org[DNS_NAME_MAX + 1];
	int domain_n = dns_name_fold(m->domain, domain), org_n = dns_name_fold(m->org, org);
	if (!t->set.on || !m->asks || domain_n <= 0 || !m->header_from.n || (m->ip_n != 4 && m->ip_n != 16) || to_report_address(t, m))
		return;
	struct buf policy = BUF_INIT(200), data = BUF_INIT(TALLY_DATA_MAX);
	write_policy(m, &policy);
	buf_add(slip, domain, (size_t)domain_n + 1);
	buf_add(slip, org_n > 0 ? org : domain, org_n > 0 ? (size_t)org_n + 1 : (size_t)domain_n + 1);
	buf_add(slip, buf_z(&policy), policy.n + 1);
	bool whole = write_data(m, &data) == 0;
	buf_add(slip, whole ? buf_z(&data) : "", whole ? data.n + 1 : 1);
	buf_free(&policy);
	buf_free(&data);
}

void tally_count(struct tally *t, struct str slip, int64_t now_us)
{
	if (!slip.n)
		return;
	struct str domain = str_next_z(&slip), org = str_next_z(&slip), policy = str_next_z(&slip), data = str_next_z(&slip);
	int64_t now = now_us / US_PER_S;
	t->counted++;
	struct domain *d = policy.n ? domain_for(t, domain, org, policy, now - now % t->set.interval_s) : NULL;
	struct line *l = d && data.n ? line_for(t, d, data) : NULL;
	if (l) {
		l->messages++;
	} else if (d) {
		d->overflow++;
		t->overflowed++;
	} else {
		t->lost++;
	}
}

/* ---- to the database */

static void answered(void *arg, enum store_rc rc, int64_t lost, const char *err)
{
	struct pending *p = arg;
	struct tally *t = p->t;
	free(p);
	if (!t)
		return;
	t->pending = NULL;
	t->waiting = false;
	if (rc == STORE_OK || rc == STORE_REFUSED) {
		uint64_t gone = (uint64_t)lost;
		if (rc == STORE_REFUSED) { /* it would be refused again */
			for (const struct line *l = t->sent.lines; l; l = l->next)
				gone += l->messages;
			for (const struct domain *d = t->sent.domains; d; d = d->next)
				gone += d->overflow;
			log_error(NULL, "event=dmarc-counts-refused messages=%llu error=%s", (unsigned long long)gone, log_qz(err ? err : ""));
		} else if (gone && !t->lost_said) {
			log_warn(NULL, "event=dmarc-counts-lost messages=%llu reason=\"MAX_DOMAINS reports wait, or their report has gone\"",
			    (unsigned long long)gone);
		}
		t->lost_said = gone > 0;
		t->lost += gone;
		t->batches += rc == STORE_OK;
		book_free(&t->sent);
		return;
	}
	t->failures++; /* sent again, with the same number */
}

static void send_book(struct tally *t)
{
	struct pending *p = calloc(1, sizeof *p);
	size_t n = 0;
	struct store_dmarc_line *lines = calloc(STORE_DMARC_TALLY_MAX, sizeof *lines);
	if (!p || !lines) {
		free(p);
		free(lines);
		return;
	}
	for (const struct line *l = t->sent.lines; l; l = l->next)
		lines[n++] = (struct store_dmarc_line){ l->d->begin * US_PER_S, l->d->end * US_PER_S, str_n(l->d->text, l->d->domain_n), org_of(l->d),
			str_n(l->d->text + l->d->domain_n, l->d->policy_n), str_n(l->data, l->n), (int64_t)l->messages };
	for (const struct domain *d = t->sent.domains; d; d = d->next)
		if (d->overflow)
			lines[n++] = (struct store_dmarc_line){ d->begin * US_PER_S, d->end * US_PER_S, str_n(d->text, d->domain_n), org_of(d),
				str_n(d->text + d->domain_n, d->policy_n), STR(""), (int64_t)d->overflow };
	const struct store_dmarc_tally how = { t->source, t->seq, t->set.max_rows, t->set.max_periods };
	p->t = t;
	t->pending = p;
	t->waiting = true;
	t->be.put(t->be.ctx, &how, lines, n, answered, p);
	free(lines);
}

void tally_flush(struct tally *t, int64_t mono_us, bool now)
{
	if (t->waiting || !t->be.up(t->be.ctx) || (!now && mono_us - t->flushed_us < TALLY_FLUSH_S * US_PER_S))
		return;
	t->flushed_us = mono_us;
	if (!t->sent.domains) {
		if (!t->now.domains)
			return;
		t->sent = t->now;
		t->now = (struct book){ 0 };
		memset(t->domain_at, 0, sizeof t->domain_at);
		memset(t->line_at, 0, sizeof t->line_at);
		t->seq++;
	}
	send_book(t);
}

bool tally_idle(const struct tally *t)
{
	return !t->waiting && !t->sent.domains && !t->now.domains;
}

bool tally_drain(struct tally *t, int64_t mono_us)
{
	tally_flush(t, mono_us, true);
	return !tally_idle(t) && t->be.up(t->be.ctx);
}

/* ---- shown */

void tally_metrics(const struct tally *t, struct buf *out)
{
	static const struct {
		const char *name, *help;
		size_t at;
	} counters[] = {
		{ "pepsi_dmarc_counted_total", "Messages counted for DMARC reports", offsetof(struct tally, counted) },
		{ "pepsi_dmarc_overflow_total", "Of these, without a row of their own, because there were too many", offsetof(struct tally, overflowed) },
		{ "pepsi_dmarc_lost_total", "Of these, in no report", offsetof(struct tally, lost) },
		{ "pepsi_dmarc_batches_total", "Batches of counts committed", offsetof(struct tally, batches) },
		{ "pepsi_dmarc_batch_failures_total", "Batches that were not, and are sent again", offsetof(struct tally, failures) },
	};
	for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
		uint64_t v;
		memcpy(&v, (const char *)t + counters[i].at, sizeof v);
		buf_addf(out, "# HELP %s %s\n# TYPE %s counter\n%s %llu\n", counters[i].name, counters[i].help, counters[i].name, counters[i].name,
		    (unsigned long long)v);
	}
	buf_addf(out, "# HELP pepsi_dmarc_lines Lines of counts in memory\n# TYPE pepsi_dmarc_lines gauge\npepsi_dmarc_lines %zu\n",
	    t->now.n_lines + t->sent.n_lines);
}

void tally_status(const struct tally *t, struct buf *out)
{
	buf_addf(out, "{\"on\":%s,\"counted\":%llu,\"overflow\":%llu,\"lost\":%llu,\"lines\":%zu,\"failures\":%llu}", t->set.on ? "true" : "false",
	    (unsigned long long)t->counted, (unsigned long long)t->overflowed, (unsigned long long)t->lost, t->now.n_lines + t->sent.n_lines,
	    (unsigned long long)t->failures);
}
