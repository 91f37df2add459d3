/* pepsi-stage-suppression: keeps mail from recipients that a receiving server has called unknown, that complained, or that an operator listed.
 * One module at two places of the pipeline: before relays it looks recipients up, and who is on the list is returned at once; as
 * their BOUNCE_STAGE, in front of the bounce stage, it learns from what servers said. Which of the two it is, the message says: one that is to
 * be returned has state.bounce. A stage of its own and no option of relays: it serves every way that mail leaves, also modules of others,
 * and it can stand where the operator knows which mail it is for (marketing, not invoices). */
#include "list.h"
#include "base/log.h"
#include "count.h"
#include "pattern.h"
#include "proto/dsn/read.h"
#include "say.h"

#include <json-c/json.h>
#include <stdlib.h>

enum { STATE_DEPTH = 32, EXEMPT_MAX = 1000 };

struct worker {
	const struct pepsi_conf *conf;
	const char *stage;
	int64_t keep_s, most;
	bool learn;
	struct pattern *exempt;
	size_t n_exempt;
	struct pepsi_metric *suppressed, *learnt, *away;
};

static const struct pepsi_option options[] = {
	{ .name = "LEARN", .type = PEPSI_OPT_BOOL, .def = "YES",
	    .help = "as the BOUNCE_STAGE of relays: remember recipients that a server called unknown (5.1.1 and the like; never what is policy)" },
	{ .name = "KEEP", .type = PEPSI_OPT_DURATION, .def = "30 d", .min = 60, .max = 31622400, .help = "how long what was learnt counts" },
	{ .name = "MOST", .type = PEPSI_OPT_INT, .def = "1000000", .min = 1, .max = 100000000, .help = "recipients on the list; at this number nothing more is learnt" },
	{ .name = "EXEMPT", .type = PEPSI_OPT_LIST, .help = "senders whose mail goes to everybody: local@domain, domain, *.domain" },
};

/* Patterns of EXEMPT, told to `each`; the first that is none goes to wrong(). */
static int exempt(const struct pepsi_host *h, const struct pepsi_conf *c, struct worker *w, struct pepsi_report *r)
{
	struct str rest = str_from(h->conf_str(c, "EXEMPT")), word;
	struct pattern p;
	size_t n = 0;
	while (str_word(&rest, " \t,", &word)) {
		bool bad = pattern_parse(word, &p) != 0;
		if (bad && r)
			fault(h, r, "EXEMPT", "\"%.*s\" is no pattern of addresses", STR_ARG(word));
		if (!r && !bad && n < EXEMPT_MAX)
			w->exempt[w->n_exempt++] = p;
		n++;
	}
	if (n > EXEMPT_MAX && r)
		fault(h, r, "EXEMPT", "more than %d patterns", EXEMPT_MAX);
	return 0;
}

static int32_t validate(const struct pepsi_host *h, const struct pepsi_conf *c, struct pepsi_report *r)
{
	exempt(h, c, NULL, r);
	if (!h->conf_str(c, "NEXT_STAGE"))
		h->report(r, NULL, "NEXT_STAGE must be set: the relay behind it, or the bounce stage where it is the BOUNCE_STAGE of relays");
	return PEPSI_OK;
}

static void close_worker(void *worker)
{
	struct worker *w = worker;
	if (w)
		free(w->exempt);
	free(w);
}

static int32_t open_worker(const struct pepsi_host *h, const struct pepsi_conf *c, void **ret)
{
	struct worker *w = calloc(1, sizeof *w);
	if (!w || !(w->exempt = calloc(EXEMPT_MAX, sizeof *w->exempt))) {
		free(w);
		return PEPSI_RETRY;
	}
	w->conf = c;
	w->stage = h->conf_stage_name(c);
	w->learn = h->conf_int(c, "LEARN");
	w->keep_s = h->conf_int(c, "KEEP");
	w->most = h->conf_int(c, "MOST");
	exempt(h, c, w, NULL);
	w->suppressed = count_new(h, c, PEPSI_METRIC_COUNTER, "suppressed", "class", "hard complaint manual", "Recipients that were on the list, and got nothing.");
	w->learnt = count_new(h, c, PEPSI_METRIC_COUNTER, "suppression_learnt", NULL, NULL, "Recipients that came onto the list since a server called them unknown.");
	w->away = count_new(h, c, PEPSI_METRIC_COUNTER, "suppression_unasked", NULL, NULL, "Messages that wait since the list could not be asked, or told.");
	*ret = w;
	return PEPSI_OK;
}

/* --- learning */

static struct str text(struct json_object *o, const char *key)
{
	struct json_object *v = NULL;
	if (!json_object_object_get_ex(o, key, &v) || !json_object_is_type(v, json_type_string))
		return STR_NULL;
	return str_n(json_object_get_string(v), (size_t)json_object_get_string_len(v));
}

static struct str lower(struct str s, char *out, size_t size)
{
	size_t n = s.n < size ? s.n : size;
	for (size_t i = 0; i < n; i++)
		out[i] = ascii_lower(s.p[i]);
	return str_n(out, n);
}

/* Did a server say of this very recipient that there is none? Never by what we think ourselves, nor by what is policy (5.7.x), nor by the
 * reply to a whole message. */
static bool unknown(struct json_object *o)
{
	struct json_object *v = NULL;
	int64_t code = json_object_object_get_ex(o, "smtp_code", &v) && json_object_is_type(v, json_type_int) ? json_object_get_int64(v) : 0;
	struct str status = text(o, "enhanced_status"), to = text(o, "failed_recipient");
	return code >= 500 && code <= 599 && text(o, "remote_mta").n && str_eq(text(o, "phase"), STR("rcpt")) && to.n && to.n <= 320 &&
	    !str_starts(status, STR("5.7.")) && dsn_reason_of(text(o, "reply_text"), status, (unsigned)code) == DSN_REASON_UNKNOWN_USER;
}

static int32_t learn(struct worker *w, const struct pepsi_host *h, struct pepsi_msg *m, struct json_object *bounce)
{
	struct json_object *list = NULL;
	struct buf why = BUF_INIT(512);
	size_t n_all = json_object_object_get_ex(bounce, "rcpts", &list) && json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0, n = 0;
	struct list_lesson *l = calloc(n_all + 1, sizeof *l);
	char(*names)[320] = calloc(n_all + 1, sizeof *names);
	int made = 0;
	int32_t ret = PEPSI_OK;
	if (!l || !names) {
		ret = PEPSI_RETRY;
		goto out;
	}
	for (size_t i = 0; i < n_all || (!n_all && !i); i++) { /* the list, or the one that stands in bounce itself */
		struct json_object *o = n_all ? json_object_array_get_idx(list, i) : bounce;
		if (!json_object_is_type(o, json_type_object) || !unknown(o))
			continue;
		l[n] = (struct list_lesson){ lower(text(o, "failed_recipient"), names[n], sizeof names[n]), text(o, "enhanced_status"), text(o, "reply_text") };
		n++;
	}
	if (n && list_learn(h->database(w->conf), l, n, h->id(m), w->keep_s, w->most, &made, &why)) {
		say(h, m, PEPSI_LOG_WARN, "what was said of %zu recipients cannot be kept: %s", n, buf_z(&why));
		count_add(h, w->away, NULL, 1);
		ret = PEPSI_RETRY;
	} else if (n) {
		count_add(h, w->learnt, NULL, made);
		say(h, m, PEPSI_LOG_INFO, "suppression learnt recipients=%zu new=%d first=%s", n, made, log_address(l[0].recipient));
	}
out:
	free(l);
	free(names);
	buf_free(&why);
	return ret;
}

/* --- looking up */

static bool is_exempt(const struct worker *w, const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct pattern_address a;
	struct pepsi_str off;
	bool yes = h->state_get(m, "suppression", &off) == PEPSI_OK && str_eq(from_host(off), STR("off"));
	if (!yes && w->n_exempt && !pattern_address(from_host(h->mail_from(m)), &a))
		yes = pattern_match_any(w->exempt, w->n_exempt, &a);
	return yes;
}

static struct json_object *told(const struct list_hit *hit, struct str rcpt)
{
	struct json_object *o = json_object_new_object();
	struct buf b = BUF_INIT(1024);
	buf_addf(&b, "not sent: mail to this address has been stopped since %.10s", hit->since);
	if (!strcmp(hit->class, "hard"))
		buf_addz(&b, ", when its server said that there is no such mailbox");
	else if (!strcmp(hit->class, "complaint"))
		buf_addz(&b, ", for its owner complained about mail");
	if (hit->reply[0])
		buf_addf(&b, ": %s", hit->reply);
	json_object_object_add(o, "failed_recipient", json_object_new_string_len(rcpt.p, (int)rcpt.n));
	json_object_object_add(o, "diagnostic", json_object_new_string(buf_z(&b)));
	/* RFC 3463 §3.2: of the address. What the server said, or no more than that */
	json_object_object_add(o, "enhanced_status", json_object_new_string(str_starts(str_from(hit->status), STR("5.1.")) ? hit->status : "5.1.0"));
	json_object_object_add(o, "phase", json_object_new_string("suppression"));
	buf_free(&b);
	return o;
}

static int32_t part(const struct worker *w, const struct pepsi_host *h, struct pepsi_msg *m, const struct list_hit *hits, size_t n)
{
	uint32_t *idx = calloc(n, 2 * sizeof *idx), *keep = idx ? idx + n : NULL;
	size_t n_idx = 0, n_keep = 0;
	const char *bounce_stage = h->bounce_stage(m);
	struct json_object *state = json_object_new_object(), *bounce = json_object_new_object(), *list = json_object_new_array(), *first = NULL;
	int32_t r = PEPSI_RETRY;
	for (size_t i = 0; idx && i < n; i++) {
		if (!hits[i].found) {
			keep[n_keep++] = (uint32_t)i;
			continue;
		}
		struct json_object *o = told(&hits[i], from_host(h->rcpt(m, i)));
		say(h, m, PEPSI_LOG_INFO, "suppressed to=%s class=%s since=%s", log_address(from_host(h->rcpt(m, i))), hits[i].class, hits[i].since);
		count_add(h, w->suppressed, hits[i].class, 1);
		first = first ? first : o;
		json_object_array_add(list, o);
		idx[n_idx++] = (uint32_t)i;
	}
	if (!n_idx)
		goto out;
	json_object_object_add(bounce, "kind", json_object_new_string("permanent"));
	json_object_object_add(bounce, "diagnostic", json_object_new_string(text(first, "diagnostic").p));
	json_object_object_add(bounce, "rcpts", json_object_get(list));
	json_object_object_add(state, "bounce", json_object_get(bounce));
	const char *json = json_object_to_json_string_ext(state, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	if (!n_keep) {
		r = bounce_stage ? h->reroute(m, bounce_stage, json) : h->fail(m, json);
		goto out;
	}
	struct pepsi_clone c = { .abi = PEPSI_ABI_OF(struct pepsi_clone), .stage = bounce_stage ? bounce_stage : w->stage,
		.status = bounce_stage ? PEPSI_CLONE_PENDING : PEPSI_CLONE_FAILED, .indices = idx, .n = n_idx, .state = json };
	r = h->fan_out(m, &c, 1, keep, n_keep);
	if (r == PEPSI_OK)
		r = h->advance(m);
out:
	json_object_put(state);
	json_object_put(bounce);
	json_object_put(list);
	free(idx);
	return r;
}

static int32_t check(struct worker *w, const struct pepsi_host *h, struct pepsi_msg *m)
{
	size_t n = h->n_rcpt(m), found = 0;
	struct buf why = BUF_INIT(512);
	if (!n || is_exempt(w, h, m))
		return h->advance(m);
	struct str *rcpts = calloc(n, sizeof *rcpts);
	char(*names)[320] = calloc(n, sizeof *names);
	struct list_hit *hits = calloc(n, sizeof *hits);
	int32_t r = PEPSI_RETRY;
	for (size_t i = 0; rcpts && names && i < n; i++)
		rcpts[i] = lower(from_host(h->rcpt(m, i)), names[i], sizeof names[i]);
	if (!rcpts || !names || !hits || list_lookup(h->database(w->conf), rcpts, n, hits, &why)) {
		say(h, m, PEPSI_LOG_WARN, "suppressed recipients cannot be looked up: %s", why.n ? buf_z(&why) : "out of memory");
		count_add(h, w->away, NULL, 1);
	} else {
		for (size_t i = 0; i < n; i++)
			found += hits[i].found;
		r = found ? part(w, h, m, hits, n) : h->advance(m);
	}
	free(rcpts);
	free(names);
	free(hits);
	buf_free(&why);
	return r;
}

static int32_t process(void *worker, const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct worker *w = worker;
	struct pepsi_str s;
	if (h->state_get(m, "bounce", &s) != PEPSI_OK)
		return check(w, h, m);
	int32_t r = PEPSI_OK;
	struct json_tokener *tok = w->learn ? json_tokener_new_ex(STATE_DEPTH) : NULL;
	struct json_object *bounce = tok && s.n < INT32_MAX ? json_tokener_parse_ex(tok, s.p, (int)s.n) : NULL;
	if (json_object_is_type(bounce, json_type_object) && str_eq(text(bounce, "kind"), STR("permanent")))
		r = learn(w, h, m, bounce);
	json_object_put(bounce);
	if (tok)
		json_tokener_free(tok);
	return r == PEPSI_OK ? h->advance(m) : r;
}

PEPSI_STAGE(.name = "pepsi-stage-suppression", .version = "0.1", .license = "Apache-2.0",
    .summary = "returns mail to recipients known not to exist, and learns who they are", .load_class = PEPSI_LOAD_METADATA,
    .caps = PEPSI_CAP_DB, PEPSI_OPTIONS(options), .validate = validate, .open = open_worker, .process = process, .close = close_worker);
