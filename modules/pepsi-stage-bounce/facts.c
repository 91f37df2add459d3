/* Reads state.bounce as relays and the host write it, or makes up for its absence: an operator, or the failure bouncer, may
 * have sent the message here. Every value is checked for its type; nothing here is fatal but memory. */
#include "facts.h"

#include <json-c/json.h>
#include <stdlib.h>

enum { STATE_DEPTH = 32, SEARCH_MAX = 1000, HOP_MAX = 300 };

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

/* A time in seconds since 1970 as microseconds; 0: none that can be. */
static int64_t moment(struct json_object *o, const char *key)
{
	struct json_object *v = member(o, key, json_type_int);
	int64_t s = v ? json_object_get_int64(v) : 0;
	return s > 0 && s < INT32_MAX * INT64_C(100) ? s * 1000000 : 0;
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

static enum dsn_kind action(struct str name, enum dsn_kind otherwise)
{
	if (str_eq(name, STR("delivered")))
		return DSN_DELIVERED;
	if (str_eq(name, STR("expanded")))
		return DSN_EXPANDED;
	return str_eq(name, STR("relayed")) ? DSN_RELAYED : otherwise;
}

static void reply(struct dsn_rcpt *r, struct json_object *o)
{
	struct json_object *code = member(o, "smtp_code", json_type_int);
	int64_t c = code ? json_object_get_int64(code) : 0;
	r->code = c >= 200 && c <= 599 ? (unsigned)c : 0;
	r->reply = text(o, "reply_text");
	r->remote_mta = text(o, "remote_mta");
	r->phase = text(o, "phase");
}

/* Tells the recipient as the alias it came by, if that is wanted. True: one of the same alias with the same end is told already. */
static bool hide(struct facts *f, struct dsn_rcpt *r, struct str alias)
{
	if (!f->hides || !alias.n || str_ieq(alias, r->address))
		return false;
	r->address = alias;
	r->hidden = true;
	f->hidden++;
	for (size_t i = 0; i < f->n && i < SEARCH_MAX; i++)
		if (f->rcpts[i].hidden && str_ieq(f->rcpts[i].address, alias) && f->rcpts[i].action == r->action)
			return true;
	return false;
}

/* o: what is said of this recipient; NULL: nothing is. */
static void add(struct facts *f, const struct pepsi_host *host, struct pepsi_msg *msg, struct json_object *o, struct str address,
    size_t guess)
{
	struct json_object *dsn = parameters(f, host, msg, address, guess);
	struct str notify = text(o, "notify");
	if (!notify.n)
		notify = text(dsn, "notify");
	struct dsn_rcpt r = { .address = address, .orcpt = text(o, "orcpt"), .status = text(o, "enhanced_status"),
		.diagnostic = text(o, "diagnostic"), .action = action(text(o, "action"), f->kind), .cause = f->cause };
	reply(&r, o);
	if (!dsn_owed(dsn_notify(notify), f->kind >= DSN_DELIVERED ? r.action : f->kind, false, false)) {
		f->muted++;
		return;
	}
	if (!r.orcpt.n)
		r.orcpt = text(dsn, "orcpt");
	/* given up without an attempt of its own: what the last one met, where it was about this recipient */
	struct json_object *last = member(f->root, "last_reply", json_type_object);
	if (!r.code && last && f->kind == DSN_FAILED && (f->cause || str_eq(r.phase, STR("queue"))) &&
	    str_eq(text(last, "failed_recipient"), address))
		reply(&r, last);
	if (!r.status.n && f->cause)
		r.status = STR("5.3.0"); /* RFC 3463 §3.4: other mail system status */
	if (!hide(f, &r, text(dsn, "alias")))
		f->rcpts[f->n++] = r;
}

static void kind(struct facts *f, struct json_object *bounce)
{
	struct str k = text(bounce, "kind");
	f->kind = DSN_FAILED;
	if (str_eq(k, STR("delay")))
		f->kind = DSN_DELAYED;
	else if (str_eq(k, STR("success")))
		f->kind = action(text(bounce, "action"), DSN_RELAYED);
}

/* Why it is here, when nobody who sent it says so: the dispatcher gave up, the failure bouncer brought it, an operator did. What exactly a
 * program said when it failed (last_error) is the operator's business. */
static enum dsn_cause cause(struct json_object *root, const char *here)
{
	struct json_object *died = member(root, "dispatch_error", json_type_object);
	struct str how = text(died, "kind");
	if (!text(root, "failed_stage").n && str_ieq(text(member(root, "moved", json_type_object), "to"), str_from(here)))
		return DSN_CAUSE_OPERATOR;
	if (str_eq(how, STR("overrun")))
		return DSN_CAUSE_SLOW;
	return str_eq(how, STR("crash")) ? DSN_CAUSE_CRASH : DSN_CAUSE_STAGE;
}

/* state.maybe_delivered: a failure or a delay is told to somebody whose message may have arrived. */
static void maybe(struct facts *f)
{
	struct json_object *o = member(f->root, "maybe_delivered", json_type_object);
	struct str hop = text(o, "hop");
	f->maybe = o != NULL;
	f->maybe_us = moment(o, "at");
	f->maybe_hop = hop.n <= HOP_MAX ? hop : STR_NULL;
}

int32_t facts_read(struct facts *f, const struct pepsi_host *host, struct pepsi_msg *msg, const char *here, bool hides)
{
	struct pepsi_str state = host->state(msg);
	struct json_tokener *tok = json_tokener_new_ex(STATE_DEPTH);
	*f = (struct facts){ .hides = hides };
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
		maybe(f);
	f->retry_until_us = f->kind == DSN_DELAYED ? moment(bounce, "retry_until") : 0;
	if (!bounce)
		f->cause = cause(f->root, here);
	/* with a bounce object: it was on its way here, or to another try, when it failed; what the stage before had to say stays the reason */
	if (f->kind == DSN_FAILED)
		f->stage = text(f->root, "failed_stage");
	f->rcpts = calloc((n > n_row ? n : n_row) + 1, sizeof *f->rcpts);
	if (!f->rcpts)
		return PEPSI_RETRY;
	for (size_t i = 0; i < n; i++) {
		struct json_object *o = json_object_array_get_idx(list, i);
		if (text(o, "failed_recipient").n)
			add(f, host, msg, o, text(o, "failed_recipient"), i);
	}
	if (!f->n && !f->muted && text(bounce, "failed_recipient").n)
		add(f, host, msg, bounce, text(bounce, "failed_recipient"), 0);
	else if (!f->n && !f->muted)
		for (size_t i = 0; i < n_row; i++) {
			struct pepsi_str a = host->rcpt(msg, i);
			add(f, host, msg, bounce, str_n(a.p, a.n), i);
		}
	if (f->hidden) /* the next hop's name would tell, too */
		f->maybe_hop = STR_NULL;
	return PEPSI_OK;
}

void facts_done(struct facts *f)
{
	json_object_put(f->root);
	free(f->rcpts);
	*f = (struct facts){ 0 };
}
