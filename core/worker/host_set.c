/* Host functions that change content: kept in memory, checked at once, so that nothing which could not be stored or sent
 * ever reaches the commit. */
#include "pass.h"
#include "state.h"

#include <json-c/json.h>

/* Lines as RFC 5322 §2.1 has them: CR and LF only together. */
static const char *lines_wrong(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '\n' && (i == 0 || s.p[i - 1] != '\r'))
			return "a bare LF";
		if (s.p[i] == '\r' && (i + 1 == s.n || s.p[i + 1] != '\n'))
			return "a bare CR";
		if (!s.p[i])
			return "a NUL octet";
	}
	return NULL;
}

int pass_headers_wrong(struct str s, const char **why)
{
	if ((*why = lines_wrong(s)))
		return -1;
	if (s.n && (s.n < 2 || s.p[s.n - 1] != '\n'))
		*why = "a last line without CRLF";
	else if (s.n && (s.p[0] == '\r' || s.p[0] == ' ' || s.p[0] == '\t' || memmem(s.p, s.n, "\r\n\r\n", 4)))
		*why = "an empty line, or a continuation without a field";
	return *why ? -1 : 0;
}

int pass_body_wrong(struct str s, const char **why)
{
	return (*why = lines_wrong(s)) ? -1 : 0;
}

static int32_t store(struct pepsi_msg *m, const char *what, struct pepsi_str s, unsigned flag, struct str *ret)
{
	struct str copy = arena_str(m->a, str_n(s.p, s.n));
	if (!copy.p)
		return pass_misuse(m, "%s(): out of memory", what);
	*ret = copy;
	m->touched |= flag;
	return PEPSI_OK;
}

int32_t host_set_headers(struct pepsi_msg *m, struct pepsi_str s)
{
	const char *why;
	int32_t r = pass_open(m, "set_headers");
	if (r != PEPSI_OK)
		return r;
	if (pass_headers_wrong(str_n(s.p, s.n), &why))
		return pass_misuse(m, "set_headers(): the text holds %s", why);
	return store(m, "set_headers", s, STORE_SET_HEADERS, &m->headers);
}

int32_t host_set_body(struct pepsi_msg *m, struct pepsi_str s)
{
	const char *why;
	int32_t r = pass_open(m, "set_body");
	if (r != PEPSI_OK)
		return r;
	if (pass_body_wrong(str_n(s.p, s.n), &why))
		return pass_misuse(m, "set_body(): the text holds %s", why);
	return store(m, "set_body", s, STORE_SET_BODY, &m->body);
}

int32_t host_set_mail_from(struct pepsi_msg *m, struct pepsi_str s)
{
	const char *wrong = pass_address_wrong(str_n(s.p, s.n), true);
	int32_t r = pass_open(m, "set_mail_from");
	if (r != PEPSI_OK)
		return r;
	if (wrong)
		return pass_misuse(m, "set_mail_from(): the address %s", wrong);
	return store(m, "set_mail_from", s, STORE_SET_MAIL_FROM, &m->mail_from);
}

int32_t host_set_rcpt_to(struct pepsi_msg *m, const struct pepsi_str *in, size_t n)
{
	int32_t r = pass_open(m, "set_rcpt_to");
	if (r != PEPSI_OK)
		return r;
	if (!n || !in || n > WIRE_RCPTS_MAX)
		return pass_misuse(m, "set_rcpt_to(): %zu recipients; a row has 1 to %d (finish() ends a message)", n, WIRE_RCPTS_MAX);
	struct str *now = arena_calloc(m->a, n, sizeof *now);
	if (!now)
		return pass_misuse(m, "set_rcpt_to(): out of memory");
	for (size_t i = 0; i < n; i++) {
		const char *wrong = pass_address_wrong(str_n(in[i].p, in[i].n), false);
		if (wrong)
			return pass_misuse(m, "set_rcpt_to(): recipient %zu %s", i, wrong);
		now[i] = arena_str(m->a, str_n(in[i].p, in[i].n));
		if (!now[i].p)
			return pass_misuse(m, "set_rcpt_to(): out of memory");
	}
	struct json_object *state = pass_state(m);
	if (!state)
		return PEPSI_MISUSE;
	struct json_object *dsn = state_dsn_match(state, m->rcpts, m->n_rcpts, now, n);
	if (dsn && pass_merge_key(m, "dsn", dsn))
		return pass_misuse(m, "set_rcpt_to(): out of memory");
	m->rcpts = now;
	m->n_rcpts = n;
	m->touched |= STORE_SET_RCPT_TO;
	return PEPSI_OK;
}

int32_t host_merge_state(struct pepsi_msg *m, const char *json)
{
	int32_t r = pass_open(m, "merge_state");
	if (r != PEPSI_OK)
		return r;
	return pass_merge(m, "merge_state", json);
}

int32_t host_clear_state(struct pepsi_msg *m)
{
	int32_t r = pass_open(m, "clear_state");
	if (r != PEPSI_OK)
		return r;
	if (!(m->env->mod->stage.caps & PEPSI_CAP_BOUNCE))
		return pass_misuse(m, "clear_state(): only bounce stages may (declare PEPSI_CAP_BOUNCE)");
	if (m->fanned)
		return pass_misuse(m, "clear_state(): not together with fan-out");
	struct json_object *empty = json_object_new_object();
	if (!empty)
		return pass_misuse(m, "clear_state(): out of memory");
	json_object_put(m->state);
	json_object_put(m->merge);
	m->state = empty;
	m->merge = NULL;
	m->state_text = STR_NULL;
	m->state_cleared = true;
	m->touched |= STORE_STATE_REPLACE;
	return PEPSI_OK;
}
