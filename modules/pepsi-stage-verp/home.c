/* What comes to DOMAIN: bounces to genuine return addresses are read, learnt from, and go home; anything else is refused, at RCPT where the ingress asks. Only
 * what an address itself says of a recipient is believed of a bounce: the rest of it anybody may have written. */
#include "homeward.h"
#include "list.h"
#include "ours.h"
#include "say.h"
#include "base/log.h"
#include "verp_stage.h"
#include "proto/dsn/read.h"
#include "proto/srs/verp.h"

#include <json-c/json.h>
#include <stdlib.h>

enum { ADDRESS_MAX = 1024, READ_MAX = 256 * 1024 /* octets of a bounce that are read: what they say stands in front */ };

/* One recipient of the message. */
struct place {
	bool ours;                    /* at DOMAIN */
	int result;                   /* of verp_read() */
	struct verp v;
	char *home;
};

/* What is told to strangers: not which part was wrong. */
static const char *text_of(const struct pass *p, const struct place *at)
{
	if (p->h->mail_from(p->m).n)
		return "This is a return address: it takes delivery reports alone, those of the null sender";
	return at->result == SRS_EXPIRED ? "This return address has expired: the mail it belongs to is too old" : "No such return address: it was not made here, or changed on its way";
}

static bool bad(const struct pass *p, const struct place *at)
{
	return at->ours && (at->result != SRS_OK || p->h->mail_from(p->m).n);
}

/* Those that lead nowhere are given back, the others come to this stage again without them. */
static int32_t refuse(const struct pass *p, const struct place *at)
{
	const struct pepsi_host *h = p->h;
	const char *bounce_stage = h->bounce_stage(p->m);
	uint32_t *out = calloc(p->n, 2 * sizeof *out), *good = out ? out + p->n : NULL;
	size_t n_bad = 0, n_good = 0;
	struct json_object *state = json_object_new_object(), *bounce = json_object_new_object(), *list = json_object_new_array();
	const char *status = h->mail_from(p->m).n ? "5.7.1" : "5.1.1", *text = NULL;
	int32_t r = PEPSI_RETRY;
	for (size_t i = 0; out && i < p->n; i++) {
		struct str to = from_host(h->rcpt(p->m, i));
		if (!bad(p, &at[i])) {
			good[n_good++] = (uint32_t)i;
			continue;
		}
		struct json_object *o = json_object_new_object();
		text = text_of(p, &at[i]);
		json_object_object_add(o, "failed_recipient", json_object_new_string_len(to.p, (int)to.n));
		json_object_object_add(o, "diagnostic", json_object_new_string(text));
		json_object_object_add(o, "enhanced_status", json_object_new_string(status));
		json_object_object_add(o, "phase", json_object_new_string("verp"));
		json_object_array_add(list, o);
		out[n_bad++] = (uint32_t)i;
		if (!p->question)
			say(h, p->m, PEPSI_LOG_WARN, "verp refused to=%s from=%s reason=\"%s\"", log_address(to), log_address(from_host(h->mail_from(p->m))), text);
	}
	tally(p, "refused", n_bad);
	json_object_object_add(bounce, "kind", json_object_new_string("permanent"));
	json_object_object_add(bounce, "diagnostic", json_object_new_string(text ? text : ""));
	json_object_object_add(bounce, "enhanced_status", json_object_new_string(status));
	json_object_object_add(bounce, "rcpts", json_object_get(list));
	json_object_object_add(state, "bounce", json_object_get(bounce));
	json_object_object_add(state, "last_error", json_object_new_string(text ? text : ""));
	const char *json = json_object_to_json_string_ext(state, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	if (out && !n_good) {
		r = bounce_stage ? h->reroute(p->m, bounce_stage, json) : h->fail(p->m, json);
	} else if (out) {
		struct pepsi_clone c = { .abi = PEPSI_ABI_OF(struct pepsi_clone), .stage = bounce_stage ? bounce_stage : p->w->stage,
			.status = bounce_stage ? PEPSI_CLONE_PENDING : PEPSI_CLONE_FAILED, .indices = out, .n = n_bad, .state = json };
		r = h->fan_out(p->m, &c, 1, good, n_good);
		if (r == PEPSI_OK)
			r = h->advance_to(p->m, p->w->stage);
	}
	json_object_put(state);
	json_object_put(bounce);
	json_object_put(list);
	free(out);
	return r;
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
	if (!who.n || verp_recipient(&p->w->srs, who, &r))
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
	if (n && list_learn(p->h->database(p->w->conf), l, n, p->h->id(p->m), p->w->keep_s, p->w->most, &made, &why)) {
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
	bool any_bad = false;
	size_t n = 0;
	int32_t r = at && list ? ready(p) : PEPSI_RETRY;
	for (size_t i = 0; r == PEPSI_OK && i < p->n; i++) {
		struct buf b = BUF_INIT(ADDRESS_MAX);
		struct str to = from_host(p->h->rcpt(p->m, i));
		at[i].ours = at_domain(p->w, to);
		at[i].result = at[i].ours ? verp_read(&p->w->srs, to, p->h->now_us() / 1000000, &b, &at[i].v) : SRS_NOT_SRS;
		if (at[i].result == SRS_MEMORY || (at[i].result == SRS_OK && !(at[i].home = str_dupz(buf_str(&b)))))
			r = PEPSI_RETRY;
		any_bad |= bad(p, &at[i]);
		list[i] = at[i].home;
		n += list[i] != NULL;
		buf_free(&b);
	}
	if (r == PEPSI_OK && any_bad)
		r = refuse(p, at);
	else if (r == PEPSI_OK && p->w->learn && !p->question && !ours_sent(p->h, p->m, NULL)) /* our own reports: what a server said was learnt before them */
		r = learn(p, at);
	if (r == PEPSI_OK && !any_bad) {
		tally(p, "home", n);
		r = homeward(p->h, p->m, list);
	}
	for (size_t i = 0; at && i < p->n; i++)
		free(at[i].home);
	free(at);
	free(list);
	return r;
}
