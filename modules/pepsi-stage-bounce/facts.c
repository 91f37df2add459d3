/* Reads state.bounce as relays and the host write it, or makes up for its absence: an operator, or the failure bouncer, may
 * have sent the message here. Every value is checked for its type; nothing here is fatal but memory. */
#include "facts.h"

#include "proto/mail/date.h"

#include <json-c/json.h>
#include <stdlib.h>

enum { STATE_DEPTH = 32, SEARCH_MAX = 1000, WORDS_MAX = 700 };

static struct json_object *member(struct json_object *o, const char *key, enum json_type type)
{
	struct json_object *v = NULL;
	if (!json_object_is_type(o, json_type_object) || !json_object_object_get_ex(o, key, &v) || !json_object_is_type(v, type))
		return NULL;
	return v;
}

static struct str text(struct json_object *o, const char *key)
{
	struct json_object *v = member(o, key, json_type_string);
	return v ? str_n(json_object_get_string(v), (size_t)json_object_get_string_len(v)) : STR_NULL;
}

static bool wanted(struct str notify, enum dsn_kind kind)
{
	struct str want = kind == DSN_FAILED ? STR("FAILURE") : kind == DSN_DELAYED ? STR("DELAY") : STR("SUCCESS"), word;
	if (!notify.n) /* RFC 3461 §4.1: failures, and delays if we like */
		return kind == DSN_FAILED || kind == DSN_DELAYED;
	while (str_word(&notify, ",", &word))
		if (str_ieq(word, want))
			return true;
	return false;
}

/* The row's dsn.rcpt entry for an address: the same place in most cases. */
static struct json_object *parameters(const struct facts *f, const struct pepsi_host *host, struct pepsi_msg *msg,
    struct str address, size_t guess)
{
	struct json_object *list = member(member(f->root, "dsn", json_type_object), "rcpt", json_type_array);
	size_t n = host->n_rcpt(msg), i = guess;
	if (!list)
		return NULL;
	struct pepsi_str a = host->rcpt(msg, guess);
	if (!str_eq(str_n(a.p, a.n), address))
		for (i = 0; i < n && i < SEARCH_MAX; i++) {
			a = host->rcpt(msg, i);
			if (str_eq(str_n(a.p, a.n), address))
				break;
		}
	if (!str_eq(str_n(a.p, a.n), address) || i >= json_object_array_length(list))
		return NULL;
	return json_object_array_get_idx(list, i);
}

static void add(struct facts *f, const struct pepsi_host *host, struct pepsi_msg *msg, struct json_object *o, struct str address,
    size_t guess)
{
	struct json_object *dsn = parameters(f, host, msg, address, guess), *code = member(o, "smtp_code", json_type_int);
	struct str notify = text(o, "notify");
	if (!notify.n)
		notify = text(dsn, "notify");
	if (!wanted(notify, f->kind)) {
		f->muted++;
		return;
	}
	struct dsn_rcpt *r = &f->rcpts[f->n++];
	*r = (struct dsn_rcpt){ .address = address, .orcpt = text(o, "orcpt"), .status = text(o, "enhanced_status"),
		.remote_mta = text(o, "remote_mta"), .reply = text(o, "reply_text"), .diagnostic = text(o, "diagnostic"),
		.phase = text(o, "phase") };
	if (!r->orcpt.n)
		r->orcpt = text(dsn, "orcpt");
	int64_t c = code ? json_object_get_int64(code) : 0;
	r->code = c >= 200 && c <= 599 ? (unsigned)c : 0;
	if (!r->diagnostic.n && f->words)
		r->diagnostic = str_from(f->words);
	if (!r->status.n && f->words)
		r->status = STR("5.3.0"); /* RFC 3463 §3.4: other mail system status */
}

static void kind(struct facts *f, struct json_object *bounce)
{
	struct str k = text(bounce, "kind");
	f->kind = DSN_FAILED;
	if (str_eq(k, STR("delay")))
		f->kind = DSN_DELAYED;
	else if (str_eq(k, STR("success")))
		f->kind = str_eq(text(bounce, "action"), STR("delivered")) ? DSN_DELIVERED : DSN_RELAYED;
}

/* "The message could not be processed (stage out): …" out of what the dispatcher and the stage left. */
static char *reason(struct json_object *root)
{
	struct buf b = BUF_INIT(WORDS_MAX);
	struct str stage = text(root, "failed_stage"), why = text(root, "last_error");
	struct json_object *died = member(root, "dispatch_error", json_type_object);
	if (!why.n && died) /* what exactly, is the operator's business */
		why = str_eq(text(died, "kind"), STR("overrun")) ? STR("it took too long") : STR("the program that had it ended without an answer");
	buf_addz(&b, "The message could not be processed");
	if (stage.n && stage.n <= 64) {
		buf_addz(&b, " at stage ");
		buf_adds(&b, stage);
	}
	if (why.n) {
		buf_addz(&b, ": ");
		buf_adds(&b, str_n(why.p, why.n > WORDS_MAX / 2 ? WORDS_MAX / 2 : why.n));
	}
	return b.failed ? NULL : b.p;
}

/* state.maybe_delivered in words: a failure or a delay is told to somebody whose message may have arrived. */
static char *maybe(struct json_object *root)
{
	struct json_object *o = member(root, "maybe_delivered", json_type_object), *at = member(o, "at", json_type_int);
	struct str hop = text(o, "hop");
	struct buf b = BUF_INIT(WORDS_MAX), date = BUF_INIT(64);
	if (!o)
		return NULL;
	int64_t s = at ? json_object_get_int64(at) : 0;
	buf_addz(&b, "It may have been delivered all the same: ");
	if (s > 0 && s < INT32_MAX * INT64_C(100) && mail_date_write(&date, s * 1000000, 0) == 0)
		buf_addf(&b, "on %s ", buf_z(&date));
	buf_addz(&b, "the connection");
	if (hop.n && hop.n <= 300) {
		buf_addz(&b, " to ");
		buf_adds(&b, hop);
	}
	buf_addz(&b, " was lost when all of the message had been sent and before its receipt was confirmed.");
	buf_free(&date);
	return b.failed ? NULL : b.p;
}

int32_t facts_read(struct facts *f, const struct pepsi_host *host, struct pepsi_msg *msg)
{
	struct pepsi_str state = host->state(msg);
	struct json_tokener *tok = json_tokener_new_ex(STATE_DEPTH);
	*f = (struct facts){ 0 };
	if (!tok)
		return PEPSI_RETRY;
	if (state.n && state.n < INT32_MAX)
		f->root = json_tokener_parse_ex(tok, state.p, (int)state.n);
	json_tokener_free(tok);
	struct json_object *bounce = member(f->root, "bounce", json_type_object), *dsn = member(f->root, "dsn", json_type_object);
	struct json_object *list = member(bounce, "rcpts", json_type_array), *origin = member(f->root, "origin", json_type_object);
	struct json_object *utf8 = member(origin, "smtputf8", json_type_boolean);
	size_t n = list ? json_object_array_length(list) : 0, n_row = host->n_rcpt(msg);
	kind(f, bounce);
	f->smtputf8 = utf8 && json_object_get_boolean(utf8);
	f->envid = text(bounce, "envid").n ? text(bounce, "envid") : text(dsn, "envid");
	struct str ret = text(bounce, "ret").n ? text(bounce, "ret") : text(dsn, "ret");
	struct json_object *tls = member(f->root, "require_tls", json_type_boolean);
	f->require_tls = tls && json_object_get_boolean(tls);
	f->ret = f->require_tls ? 'H' : str_ieq(ret, STR("FULL")) ? 'F' : str_ieq(ret, STR("HDRS")) ? 'H' : 0;
	if (f->kind == DSN_FAILED || f->kind == DSN_DELAYED)
		f->note = maybe(f->root);
	if (!bounce && !(f->words = reason(f->root)))
		return PEPSI_RETRY;
	/* it was on its way here, or to another try, when it failed; what the stage before had to say stays the reason */
	if (bounce && f->kind == DSN_FAILED)
		f->stage = text(f->root, "failed_stage");
	f->rcpts = calloc((n > n_row ? n : n_row) + 1, sizeof *f->rcpts);
	if (!f->rcpts)
		return PEPSI_RETRY;
	for (size_t i = 0; i < n; i++) {
		struct json_object *o = json_object_array_get_idx(list, i);
		if (text(o, "failed_recipient").n)
			add(f, host, msg, o, text(o, "failed_recipient"), i);
	}
	if (f->n || f->muted)
		return PEPSI_OK;
	if (text(bounce, "failed_recipient").n) {
		add(f, host, msg, bounce, text(bounce, "failed_recipient"), 0);
		return PEPSI_OK;
	}
	for (size_t i = 0; i < n_row; i++) {
		struct pepsi_str a = host->rcpt(msg, i);
		add(f, host, msg, bounce, str_n(a.p, a.n), i);
	}
	return PEPSI_OK;
}

void facts_done(struct facts *f)
{
	json_object_put(f->root);
	free(f->rcpts);
	free(f->words);
	free(f->note);
	*f = (struct facts){ 0 };
}
