/* See stage_outcome.h. Nothing here decides anything: the operations of the pass are what a worker would commit. */
#include "cli_internal.h"
#include "diff.h"
#include "stage_outcome.h"

#include <inttypes.h>

enum { STATE_DEPTH = 200 };

static void add_str(struct json_object *o, const char *key, struct str s)
{
	json_object_object_add(o, key, json_object_new_string_len(s.p ? s.p : "", (int)(s.n < INT32_MAX ? s.n : INT32_MAX)));
}

static void add_z(struct json_object *o, const char *key, const char *z)
{
	if (z)
		add_str(o, key, str_from(z));
}

/* JSON of a module or of the host as a tree; it was checked when the module gave it. */
static void add_state(struct json_object *o, const char *key, const char *json)
{
	struct json_tokener *tok = json ? json_tokener_new_ex(STATE_DEPTH) : NULL;
	struct json_object *v = tok ? json_tokener_parse_ex(tok, json, -1) : NULL;
	if (tok)
		json_tokener_free(tok);
	if (v)
		json_object_object_add(o, key, v);
}

static struct json_object *addresses(const struct pepsi_msg *m, const struct str *fresh, const uint32_t *idx, size_t n)
{
	struct json_object *l = json_object_new_array();
	for (size_t i = 0; i < n; i++) {
		struct str s = fresh ? fresh[i] : idx[i] < m->n_rcpts0 ? m->rcpts0[idx[i]] : STR_NULL;
		json_object_array_add(l, json_object_new_string_len(s.p ? s.p : "", (int)s.n));
	}
	return l;
}

static void add_clones(struct json_object *l, const struct pepsi_msg *m, const struct store_op *op)
{
	static const char *const status[] = { "pending", "paused", "failed" };
	for (size_t i = 0; i < op->n_clones; i++) {
		const struct store_clone *c = &op->clones[i];
		struct json_object *o = json_object_new_object();
		add_z(o, "stage", c->stage);
		add_z(o, "status", c->status < 3 ? status[c->status] : "?");
		if (c->status == PEPSI_CLONE_RETRY)
			json_object_object_add(o, "retry_s", json_object_new_int64(c->retry_s));
		json_object_object_add(o, "recipients", addresses(m, c->fresh_rcpts ? c->rcpts : NULL, c->indices, c->n));
		if (c->mail_from)
			add_str(o, "mail_from", *c->mail_from);
		add_state(o, "state_merge", c->state);
		json_object_array_add(l, o);
	}
}

static void add_injected(struct json_object *l, const struct store_op *op)
{
	struct json_object *o = json_object_new_object(), *r = json_object_new_array();
	for (size_t i = 0; i < op->n_rcpts; i++)
		json_object_array_add(r, json_object_new_string_len(op->rcpts[i].p, (int)op->rcpts[i].n));
	add_z(o, "stage", op->stage);
	add_str(o, "mail_from", op->mail_from);
	json_object_object_add(o, "recipients", r);
	add_str(o, "headers", op->headers);
	json_object_object_add(o, "body_octets", json_object_new_int64((int64_t)op->body.n));
	add_state(o, "state", op->state);
	json_object_array_add(l, o);
}

static void add_line(void *arg, char kind, struct str text)
{
	struct buf line = BUF_INIT(1 << 20);
	if (kind != '@')
		buf_addc(&line, kind);
	buf_adds(&line, text);
	json_object_array_add(arg, json_object_new_string_len(buf_z(&line), (int)line.n));
	buf_free(&line);
}

static void add_content(struct json_object *o, const struct wire_item *was, const struct store_op *op)
{
	bool headers = op && op->touched & STORE_SET_HEADERS && !str_eq(op->headers, was->headers);
	bool body = op && op->touched & STORE_SET_BODY && !str_eq(op->body, was->body);
	struct json_object *l = json_object_new_array();
	if (headers && diff_unified(was->headers, op->headers, add_line, l))
		json_object_array_add(l, json_object_new_string("out of memory"));
	json_object_object_add(o, "headers_changed", json_object_new_boolean(headers));
	json_object_object_add(o, "headers_diff", l);
	json_object_object_add(o, "body_changed", json_object_new_boolean(body));
	json_object_object_add(o, "body_octets", json_object_new_int64((int64_t)(body ? op->body.n : was->body.n)));
}

static const char *outcome_of(const struct trial_pass *p, const struct store_op *last)
{
	if (p->fuse == TRIAL_DECLINES)
		return "declined";
	if (p->msg->misuse[0])
		return "misuse";
	if (p->rc == PEPSI_RETRY)
		return "retry";
	if (p->rc == PEPSI_PERMANENT)
		return "permanent";
	if (!last)
		return "none";
	if (last->kind == STORE_OP_PAUSE)
		return "pause";
	if (last->kind == STORE_OP_FINISH)
		return "finish";
	return last->status == STORE_FAILED ? "fail" : "move";
}

/* Where the message itself is afterwards, and who its recipients are. */
static void add_row(struct json_object *o, const struct pepsi_msg *m, const struct store_op *op, bool split)
{
	if (!op)
		return;
	if (op->kind == STORE_OP_FINISH) {
		add_z(o, "how", op->outcome);
		return;
	}
	add_z(o, "stage", op->kind == STORE_OP_PAUSE || !op->stage ? m->env->stage : op->stage);
	add_z(o, "status", op->kind == STORE_OP_PAUSE ? "paused" : op->status == STORE_FAILED ? "failed" : "pending");
	if (op->kind == STORE_OP_PAUSE)
		json_object_object_add(o, "pause_s", json_object_new_int64(op->pause_s));
	if (op->touched & STORE_SET_MAIL_FROM)
		add_str(o, "mail_from", op->mail_from);
	if (op->touched & STORE_SET_RCPT_TO)
		json_object_object_add(o, "recipients", addresses(m, op->rcpts, NULL, op->n_rcpts));
	else if (op->kind == STORE_OP_PAUSE && op->keep)
		json_object_object_add(o, "recipients", addresses(m, NULL, op->keep, op->n_keep));
	else if (!split)
		json_object_object_add(o, "recipients", addresses(m, m->rcpts0, NULL, m->n_rcpts0));
	json_object_object_add(o, "state_replaced", json_object_new_boolean(op->touched & STORE_STATE_REPLACE));
	add_state(o, "state_merge", op->state);
}

static void add_reason(struct json_object *o, const struct trial_pass *p)
{
	char text[sizeof p->msg->misuse + 40];
	if (p->fuse == TRIAL_DECLINES) {
		add_z(o, "reason", "can_fuse() does not take it: it comes through the queue");
	} else if (p->fuse == TRIAL_FUSE_BROKEN) {
		snprintf(text, sizeof text, "can_fuse() may only read: %s", p->msg->misuse);
		add_z(o, "reason", text);
	} else {
		json_object_object_add(o, "returned", json_object_new_int(p->rc));
		add_z(o, "reason", p->msg->misuse[0] ? p->msg->misuse : p->msg->reason);
	}
}

void stage_outcome_report(void *arg, const struct trial_pass *p, struct buf *out)
{
	const struct trial *t = arg;
	const struct pepsi_msg *m = p->msg;
	const struct store_op *last = m->pass.n_ops ? &m->pass.ops[m->pass.n_ops - 1] : NULL;
	struct json_object *o = json_object_new_object(), *clones = json_object_new_array(), *injected = json_object_new_array();
	bool split = false;
	add_z(o, "outcome", outcome_of(p, last));
	if (p->fuse == TRIAL_FUSES || p->fuse == TRIAL_DECLINES)
		json_object_object_add(o, "can_fuse", json_object_new_boolean(p->fuse == TRIAL_FUSES));
	if (p->terminal && p->rc == PEPSI_OK && !m->misuse[0])
		add_z(o, "terminal", p->terminal);
	add_reason(o, p);
	for (size_t i = 0; i < m->pass.n_ops; i++) {
		const struct store_op *op = &m->pass.ops[i];
		if (op->kind == STORE_OP_INJECT)
			add_injected(injected, op);
		else
			add_clones(clones, m, op);
		if (op->kind == STORE_OP_SPLIT && op->keep && op != last) {
			split = true;
			json_object_object_add(o, "recipients", addresses(m, NULL, op->keep, op->n_keep));
		}
	}
	add_row(o, m, last, split);
	json_object_object_add(o, "clones", clones);
	json_object_object_add(o, "injected", injected);
	add_content(o, &t->items[p->index], last && last->kind == STORE_OP_MOVE ? last : NULL);
	buf_addz(out, json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
	json_object_put(o);
}

/* --- in the tool */

struct json_object *stage_outcome_clean(struct json_object *o)
{
	struct json_object *n;
	struct buf b = BUF_INIT(256u * 1024 * 1024);
	if (json_object_is_type(o, json_type_array)) {
		n = json_object_new_array();
		for (size_t i = 0; i < json_object_array_length(o); i++)
			json_object_array_add(n, stage_outcome_clean(json_object_array_get_idx(o, i)));
		return n;
	}
	if (json_object_is_type(o, json_type_object)) {
		n = json_object_new_object();
		json_object_object_foreach(o, key, value)
			json_object_object_add(n, key, stage_outcome_clean(value));
		return n;
	}
	if (!json_object_is_type(o, json_type_string))
		return json_object_get(o);
	struct str s = str_n(json_object_get_string(o), (size_t)json_object_get_string_len(o));
	if (str_is_utf8(s))
		return json_object_get(o);
	for (size_t i = 0, w; i < s.n; i += w) {
		unsigned char c = (unsigned char)s.p[i];
		w = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
		if (i + w <= s.n && str_is_utf8(str_n(s.p + i, w))) {
			buf_add(&b, s.p + i, w);
		} else {
			buf_addf(&b, "\\x%02x", c);
			w = 1;
		}
	}
	n = json_object_new_string_len(buf_z(&b), (int)b.n);
	buf_free(&b);
	return n;
}

static void field(FILE *f, const char *head)
{
	fprintf(f, "%-11s", head);
}

static void print_list(FILE *f, struct json_object *l)
{
	for (size_t i = 0; i < json_object_array_length(l); i++) {
		struct json_object *s = json_object_array_get_idx(l, i);
		fputs(i ? ", " : "", f);
		cli_text_print(f, str_n(json_object_get_string(s), (size_t)json_object_get_string_len(s)));
	}
}

static void print_json(FILE *f, const char *head, struct json_object *o)
{
	if (!o)
		return;
	field(f, head);
	cli_text_print_json(f, json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
}

static void print_text(FILE *f, const char *head, struct str s)
{
	if (!s.p)
		return;
	field(f, head);
	cli_text_print(f, s);
	putc('\n', f);
}

static void print_clone(FILE *f, const char *head, struct json_object *o)
{
	struct json_object *l = json_object_object_get(o, "recipients");
	struct str from = cli_json_text(o, "mail_from"), status = cli_json_text(o, "status");
	field(f, head);
	cli_text_print(f, cli_json_text(o, "stage"));
	if (status.n)
		fprintf(f, " (%.*s", STR_ARG(status));
	if (json_object_object_get(o, "retry_s"))
		fprintf(f, " %" PRId64 " s", cli_json_int(o, "retry_s"));
	fputs(status.n ? "): " : ": ", f);
	print_list(f, l);
	if (from.p) {
		fputs(" from <", f);
		cli_text_print(f, from);
		putc('>', f);
	}
	putc('\n', f);
	print_json(f, "  state", json_object_object_get(o, "state_merge"));
	print_json(f, "  state", json_object_object_get(o, "state"));
	for (struct str h = cli_json_text(o, "headers"), line; str_word(&h, "\r\n", &line);)
		print_text(f, "", line);
}

static void print_outcome(struct json_object *o, FILE *f)
{
	struct str outcome = cli_json_text(o, "outcome"), terminal = cli_json_text(o, "terminal"), stage = cli_json_text(o, "stage");
	if (json_object_get_boolean(json_object_object_get(o, "can_fuse")))
		print_text(f, "can_fuse", STR("yes"));
	field(f, "outcome");
	cli_text_print(f, terminal.n ? terminal : outcome);
	if (terminal.n && !str_eq(terminal, outcome)) {
		fputs(": ", f);
		cli_text_print(f, outcome);
	}
	if (cli_json_text(o, "how").n)
		fprintf(f, ", counted as %.*s", STR_ARG(cli_json_text(o, "how")));
	if (stage.n) {
		fputs(str_eq(outcome, STR("move")) ? " to stage " : ", at stage ", f);
		cli_text_print(f, stage);
		fprintf(f, " (%.*s", STR_ARG(cli_json_text(o, "status")));
		if (json_object_object_get(o, "pause_s"))
			fprintf(f, " %" PRId64 " s", cli_json_int(o, "pause_s"));
		putc(')', f);
	}
	putc('\n', f);
}

void stage_outcome_print(struct json_object *o, FILE *f)
{
	struct json_object *l;
	print_outcome(o, f);
	print_text(f, "reason", cli_json_text(o, "reason"));
	if (cli_json_text(o, "mail_from").p) {
		field(f, "sender");
		putc('<', f);
		cli_text_print(f, cli_json_text(o, "mail_from"));
		fputs(">\n", f);
	}
	if ((l = json_object_object_get(o, "recipients"))) {
		field(f, "recipients");
		print_list(f, l);
		putc('\n', f);
	}
	l = json_object_object_get(o, "clones");
	for (size_t i = 0; l && i < json_object_array_length(l); i++)
		print_clone(f, "clone", json_object_array_get_idx(l, i));
	l = json_object_object_get(o, "injected");
	for (size_t i = 0; l && i < json_object_array_length(l); i++)
		print_clone(f, "injected", json_object_array_get_idx(l, i));
	print_json(f, json_object_get_boolean(json_object_object_get(o, "state_replaced")) ? "new state" : "state",
	    json_object_object_get(o, "state_merge"));
	l = json_object_object_get(o, "headers_diff");
	print_text(f, "headers", l && json_object_array_length(l) ? STR("changed:") : STR("unchanged"));
	if (l && json_object_array_length(l))
		fputs("--- before\n+++ after\n", f);
	for (size_t i = 0; l && i < json_object_array_length(l); i++) {
		struct json_object *s = json_object_array_get_idx(l, i);
		cli_text_print(f, str_n(json_object_get_string(s), (size_t)json_object_get_string_len(s)));
		putc('\n', f);
	}
	field(f, "body");
	bool changed = json_object_get_boolean(json_object_object_get(o, "body_changed"));
	fprintf(f, "%s, %" PRId64 " octets\n", changed ? "changed" : "unchanged", cli_json_int(o, "body_octets"));
}
