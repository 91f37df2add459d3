/* See failures.h. One list of what waits, one of what is on its way; a small table of organisations in the order of use, which keeps a flood of
 * forged mail in one name from costing more than a comparison. */
#include "failures.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "proto/dns/answers.h"
#include "proto/mail/header.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#define DAY_US (INT64_C(86400) * US_PER_S)

struct item {
	struct item *next;
	int64_t at_us;
	size_t domain_n, org_n, data_n, headers_n;
	char text[];  /* domain, org, data, headers */
};

struct org {
	char name[DNS_NAME_MAX + 1];
	int64_t begun_us, used_us;
	int32_t n;
};

struct pending {
	struct failures *f; /* NULL: gone meanwhile */
};

struct failures {
	struct failures_backend be;
	struct failures_settings set;
	struct arf_redaction how;
	char source[64];
	struct org org[FAILURES_ORGS];
	unsigned n_orgs;
	struct item *now, *sent;
	unsigned n_now;
	struct pending *pending;
	int64_t seq, flushed_us;
	uint64_t kept, refused, lost, failed;
};

struct failures *failures_new(const struct failures_backend *be, const char *source)
{
	struct failures *f = calloc(1, sizeof *f);
	if (!f)
		return NULL;
	f->be = *be;
	snprintf(f->source, sizeof f->source, "%s", source);
	if (getrandom(f->how.key, sizeof f->how.key, 0) == sizeof f->how.key)
		return f;
	free(f);
	return NULL;
}

static void list_free(struct item **list)
{
	while (*list) {
		struct item *i = *list;
		*list = i->next;
		free(i);
	}
}

void failures_free(struct failures *f)
{
	if (!f)
		return;
	if (f->pending)
		f->pending->f = NULL;
	list_free(&f->now);
	list_free(&f->sent);
	explicit_bzero(f->how.key, sizeof f->how.key);
	free(f);
}

void failures_configure(struct failures *f, const struct failures_settings *s)
{
	f->set = *s;
	f->how.local = s->local;
}

/* ---- organisations */

static struct org *find(const struct failures *f, struct str name)
{
	for (unsigned i = 0; i < f->n_orgs; i++)
		if (str_ieq(str_from(f->org[i].name), name))
			return (struct org *)&f->org[i];
	return NULL;
}

bool failures_wanted(const struct failures *f, struct str org, int64_t mono_us)
{
	if (!f->set.on || !org.n || org.n > DNS_NAME_MAX || f->n_now >= FAILURES_WAITING)
		return false;
	const struct org *o = find(f, org);
	return !o || mono_us - o->begun_us >= DAY_US || o->n < f->set.most_org;
}

static void count(struct failures *f, struct str name, int64_t mono_us)
{
	struct org *o = find(f, name);
	if (!o && f->n_orgs < FAILURES_ORGS)
		o = &f->org[f->n_orgs++];
	else if (!o)
		for (unsigned i = 0; i < FAILURES_ORGS; i++)
			if (!o || f->org[i].used_us < o->used_us)
				o = &f->org[i];
	if (!str_ieq(str_from(o->name), name) || mono_us - o->begun_us >= DAY_US) {
		*o = (struct org){ .begun_us = mono_us };
		snprintf(o->name, sizeof o->name, "%.*s", STR_ARG(name));
	}
	o->n++;
	o->used_us = mono_us;
}

/* ---- what is kept */

static bool by_machine(struct str headers)
{
	struct mail_field f;
	if (mail_field_find(headers, STR("Auto-Submitted"), 0, &f) == 0 && !str_istarts(str_trim(f.value), STR("no")))
		return true;
	return mail_field_find(headers, STR("Content-Type"), 0, &f) == 0 && str_istarts(str_trim(f.value), STR("multipart/report"));
}

static bool to_report_address(const struct failures *f, const struct failure_message *m)
{
	for (size_t i = 0; i < m->n_rcpts; i++)
		if (f->set.address[0] && str_ieq(m->rcpts[i], str_from(f->set.address)))
			return true;
	return false;
}

static void member(struct buf *out, const char *key, struct str s, size_t most)
{
	if (s.n && s.n <= most)
		json_put_member(out, key, s);
}

static void write_data(const struct failures *f, const struct failure_message *m, struct buf *out)
{
	struct buf text = BUF_INIT(12 * 1024);
	buf_addc(out, '{');
	json_put_member(out, "ip", m->ip);
	json_put_member(out, "failure", str_from(m->failure));
	json_put_member(out, "result", str_from(m->result));
	json_put_member(out, "alignment", str_from(m->alignment));
	if (arf_redact_address(m->mail_from, &f->how, &text) == 0)
		member(out, "mail_from", buf_str(&text), 330);
	buf_reset(&text);
	if (m->auth_results.n <= 4000 && arf_redact_text(m->auth_results, &f->how, &text) == 0)
		member(out, "auth_results", buf_str(&text), 4000);
	member(out, "dkim_domain", m->dkim_domain, DNS_NAME_MAX);
	member(out, "dkim_selector", m->dkim_selector, DNS_NAME_MAX);
	member(out, "spf_domain", m->spf_domain, DNS_NAME_MAX);
	buf_addc(out, '}');
	buf_free(&text);
}

/* Time, domain, organisation and data, each ended by NUL, then headers. */
void failures_write(const struct failures *f, const struct failure_message *m, int64_t now_us, struct buf *slip)
{
	char domain[DNS_NAME_MAX + 1], org[DNS_NAME_MAX + 1];
	struct buf data = BUF_INIT(14 * 1024), told = BUF_INIT(ARF_TOLD_MAX);
	if (!f->set.on || !m->mail_from.n || !m->ip.n || dns_name_fold(m->domain, domain) <= 0 || dns_name_fold(m->org, org) <= 0 || by_machine(m->headers) ||
	    to_report_address(f, m))
		return;
	write_data(f, m, &data);
	if (!data.failed && arf_redact(m->headers, &f->how, &told) == 0) {
		buf_addf(slip, "%lld", (long long)now_us);
		buf_addc(slip, 0);
		buf_add(slip, domain, strlen(domain) + 1);
		buf_add(slip, org, strlen(org) + 1);
		buf_add(slip, buf_z(&data), data.n + 1);
		buf_adds(slip, buf_str(&told));
	}
	if (slip->failed)
		buf_reset(slip);
	buf_free(&data);
	buf_free(&told);
}

void failures_keep(struct failures *f, struct str slip, int64_t mono_us)
{
	if (!slip.n)
		return;
	uint64_t at = 0;
	bool bad = str_u64(str_next_z(&slip), INT64_MAX, &at) != 0;
	struct str domain = str_next_z(&slip), org = str_next_z(&slip), data = str_next_z(&slip);
	size_t n = domain.n + org.n + data.n + slip.n;
	struct item *i = bad || !failures_wanted(f, org, mono_us) ? NULL : malloc(sizeof *i + n);
	if (!i) {
		f->refused++;
		return;
	}
	*i = (struct item){ .next = f->now, .at_us = (int64_t)at, .domain_n = domain.n, .org_n = org.n, .data_n = data.n, .headers_n = slip.n };
	char *to = i->text;
	const struct str parts[] = { domain, org, data, slip };
	for (size_t k = 0; k < 4; k++) {
		if (parts[k].n)
			memcpy(to, parts[k].p, parts[k].n);
		to += parts[k].n;
	}
	f->now = i;
	f->n_now++;
	f->kept++;
	count(f, org, mono_us);
}

/* ---- to the database */

static void answered(void *arg, enum store_rc rc, int64_t lost, const char *err)
{
	struct pending *p = arg;
	struct failures *f = p->f;
	free(p);
	if (!f)
		return;
	f->pending = NULL;
	if (rc == STORE_OK)
		f->lost += (uint64_t)lost;
	else
		f->failed++;
	if (rc == STORE_REFUSED)
		log_error(NULL, "event=dmarc-failures-refused error=%s", log_qz(err ? err : ""));
	if (rc == STORE_OK || rc == STORE_REFUSED) /* refused once is refused again */
		list_free(&f->sent);
}

void failures_flush(struct failures *f, int64_t mono_us, bool now)
{
	static struct store_dmarc_failure one[FAILURES_WAITING];
	if (f->pending || !f->be.up(f->be.ctx) || (!now && mono_us - f->flushed_us < FAILURES_FLUSH_S * US_PER_S))
		return;
	f->flushed_us = mono_us;
	if (!f->sent && !f->now)
		return;
	struct pending *p = calloc(1, sizeof *p);
	if (!p)
		return;
	if (!f->sent) {
		f->sent = f->now;
		f->now = NULL;
		f->n_now = 0;
		f->seq++;
	}
	size_t n = 0;
	for (const struct item *i = f->sent; i && n < FAILURES_WAITING; i = i->next, n++) {
		const char *t = i->text;
		one[n] = (struct store_dmarc_failure){ i->at_us, str_n(t, i->domain_n), str_n(t + i->domain_n, i->org_n), str_n(t + i->domain_n + i->org_n, i->data_n),
			str_n(t + i->domain_n + i->org_n + i->data_n, i->headers_n) };
	}
	const struct store_dmarc_failures how = { f->source, f->seq, f->set.most_org, f->set.most };
	p->f = f;
	f->pending = p;
	f->be.put(f->be.ctx, &how, one, n, answered, p);
}

bool failures_drain(struct failures *f, int64_t mono_us)
{
	failures_flush(f, mono_us, true);
	return (f->pending || f->sent || f->now) && f->be.up(f->be.ctx);
}

/* ---- shown */

void failures_metrics(const struct failures *f, struct buf *out)
{
	const struct {
		const char *name, *help;
		uint64_t v;
	} counters[] = {
		{ "pepsi_dmarc_failures_total", "Messages kept for DMARC failure reports", f->kept },
		{ "pepsi_dmarc_failures_refused_total", "Messages that were not, because there were too many of their organisation, or waiting", f->refused },
		{ "pepsi_dmarc_failures_lost_total", "Kept ones that the database did not take, because there were too many within a day", f->lost },
		{ "pepsi_dmarc_failures_batch_failures_total", "Batches that were not committed, and are sent again", f->failed },
	};
	for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
		buf_addf(out, "# HELP %s %s\n# TYPE %s counter\n%s %llu\n", counters[i].name, counters[i].help, counters[i].name, counters[i].name,
		    (unsigned long long)counters[i].v);
}

void failures_status(const struct failures *f, struct buf *out)
{
	buf_addf(out, "{\"on\":%s,\"kept\":%llu,\"refused\":%llu,\"lost\":%llu,\"waiting\":%u}", f->set.on ? "true" : "false", (unsigned long long)f->kept,
	    (unsigned long long)f->refused, (unsigned long long)f->lost, f->n_now);
}
