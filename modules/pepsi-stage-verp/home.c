/* What comes to DOMAIN: bounces to genuine return addresses are read, learnt from, and go home; anything else is refused, at RCPT where the ingress asks. Only
 * what an address itself says of a recipient is believed of a bounce: the rest of it anybody may have written. */
#include "homeward.h"
#include "list.h"
#include "ours.h"
#include "say.h"
#include "verp_stage.h"

#include "base/log.h"
#include "proto/dsn/read.h"
#include "proto/srs/verp.h"

#include <stdlib.h>

enum { READ_MAX = 256 * 1024 /* octets of a bounce that are read: what they say stands in front */ };

/* One recipient of the message. */
struct place {
	bool ours;                    /* at DOMAIN */
	int result;                   /* of verp_read() */
	struct verp v;
	char *home;
};

/* Why it leads nowhere; NULL: it does lead home, or is none of ours. */
static const struct return_refusal *refusal_of(const struct pass *p, const struct place *at)
{
	static const struct return_refusal not_theirs = { "sender", "5.7.1", "This is a return address: it takes delivery reports alone, those of the null sender" };
	if (!at->ours)
		return NULL;
	if (p->h->mail_from(p->m).n)
		return &not_theirs;
	return at->result == SRS_OK ? NULL : at->result == SRS_EXPIRED ? &return_expired : &return_forged;
}

static struct str lower(struct str s, char *out, size_t size)
{
	size_t n = s.n < size ? s.n : 0;
	for (size_t i = 0; i < n; i++)
		out[i] = s.p[i] >= 'A' && s.p[i] <= 'Z' ? (char)(s.p[i] + 32) : s.p[i];
	return str_n(out, n);
}

static bool made_for(const struct pass *p, const struct place *at, struct str who)
{
	struct verp_recipient r;
	if (!who.n || verp_recipient(&p->w->path.srs, who, &r))
		return false;
	for (size_t i = 0; i < p->n; i++)
		if (at[i].home && verp_is_for(&at[i].v, &r))
			return true;
	return false;
}

/* Which of the two names that the bounce has for a recipient is the one that an address here was made for? Empty: neither. */
static struct str proven(const struct pass *p, const struct place *at, const struct dsn_read_rcpt *r)
{
	return made_for(p, at, r->address) ? r->address : made_for(p, at, r->original) ? r->original : STR_NULL;
}

/* The database is away: PEPSI_RETRY. A bounce that cannot be read teaches nothing, and goes home all the same. */
static int32_t learn(const struct pass *p, const struct place *at)
{
	struct pepsi_str headers, body;
	struct buf raw = BUF_INIT(2 * READ_MAX), why = BUF_INIT(512);
	struct dsn_read r = { 0 };
	int32_t ret = PEPSI_OK;
	if (p->h->headers(p->m, &headers) != PEPSI_OK || p->h->body(p->m, &body) != PEPSI_OK)
		return PEPSI_RETRY;
	buf_adds(&raw, str_n(headers.p, headers.n < READ_MAX ? headers.n : READ_MAX));
	buf_addz(&raw, "\r\n");
	buf_adds(&raw, str_n(body.p, body.n < READ_MAX - 2 ? body.n : READ_MAX - 2));
	if (raw.failed || dsn_read(buf_str(&raw), false, &r)) {
		buf_free(&raw);
		return PEPSI_OK;
	}
	struct list_lesson *l = calloc(r.n + 1, sizeof *l);
	char(*names)[320] = calloc(r.n + 1, sizeof *names);
	size_t n = 0;
	int made = 0;
	for (size_t i = 0; l && names && i < r.n; i++) {
		const struct dsn_read_rcpt *one = &r.rcpt[i];
		struct str who = proven(p, at, one);
		say(p->h, p->m, PEPSI_LOG_INFO, "event=bounce-read to=%s proven=%s action=%d reason=%s hard=%s status=%.*s", log_address(one->address), who.n ? "yes" : "no",
		    (int)one->action, dsn_reason_text(one->reason), one->hard ? "yes" : "no", STR_ARG(one->status));
		tally(p, "unproven", !who.n);
		if (!who.n || !one->hard || (one->reason != DSN_REASON_UNKNOWN_USER && one->reason != DSN_REASON_MOVED))
			continue;
		l[n] = (struct list_lesson){ lower(who, names[n], sizeof names[n]), one->status, one->diagnostic };
		n += l[n].recipient.n > 0;
	}
	if (n && list_learn(p->h->database(p->w->path.conf), l, n, p->h->id(p->m), p->w->keep_s, p->w->most, &made, &why)) {
		say(p->h, p->m, PEPSI_LOG_WARN, "what a bounce says of %zu recipients cannot be kept: %s", n, buf_z(&why));
		ret = PEPSI_RETRY;
	} else if (n) {
		say(p->h, p->m, PEPSI_LOG_INFO, "suppression learnt recipients=%zu new=%d first=%s", n, made, log_address(l[0].recipient));
		tally(p, "learnt", n);
	}
	free(l);
	free(names);
	dsn_read_free(&r);
	buf_free(&raw);
	buf_free(&why);
	return ret;
}

int32_t home(const struct pass *p)
{
	struct place *at = calloc(p->n, sizeof *at);
	char **list = calloc(p->n, sizeof *list); /* what they have, once more */
	const struct return_refusal **why = calloc(p->n, sizeof *why);
	size_t n_bad = 0, n_home = 0;
	int32_t r = at && list && why ? return_ready(&p->w->path, p->h, p->m) : PEPSI_RETRY;
	for (size_t i = 0; r == PEPSI_OK && i < p->n; i++) {
		struct buf b = BUF_INIT(RETURN_ADDRESS_MAX);
		struct str to = from_host(p->h->rcpt(p->m, i));
		at[i].ours = at_domain(p->w, to);
		at[i].result = at[i].ours ? verp_read(&p->w->path.srs, to, p->h->now_us() / 1000000, &b, &at[i].v) : SRS_NOT_SRS;
		if (at[i].result == SRS_MEMORY || (at[i].result == SRS_OK && !(at[i].home = str_dupz(buf_str(&b)))))
			r = PEPSI_RETRY;
		why[i] = refusal_of(p, &at[i]);
		list[i] = at[i].home;
		n_bad += why[i] != NULL;
		n_home += list[i] != NULL;
		buf_free(&b);
	}
	if (r == PEPSI_OK && n_bad) {
		tally(p, "refused", n_bad);
		r = return_refuse(&p->w->path, p->h, p->m, p->question, why);
	} else if (r == PEPSI_OK) {
		/* our own reports: what a server said was learnt before them */
		if (p->w->learn && !p->question && !ours_sent(p->h, p->m, NULL))
			r = learn(p, at);
		if (r == PEPSI_OK) {
			tally(p, "home", n_home);
			r = homeward(p->h, p->m, list);
		}
	}
	for (size_t i = 0; at && i < p->n; i++)
		free(at[i].home);
	free(at);
	free(list);
	free(why);
	return r;
}
