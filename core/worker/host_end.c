/* The terminals. Each checks first and acts last: a refused terminal leaves the pass as it was, with the broken rule
 * recorded. */
#include "pass.h"
#include "state.h"

#include "proto/dsn/notify.h"

#include <json-c/json.h>

enum { CONTENT = STORE_SET_HEADERS | STORE_SET_BODY | STORE_SET_MAIL_FROM | STORE_SET_RCPT_TO | STORE_STATE_REPLACE };

/* Terminals whose stored function takes no content. */
static int32_t no_content(struct pepsi_msg *m, const char *what)
{
	if (m->touched & CONTENT)
		return pass_misuse(m, "%s(): content was changed before, which %s() would silently drop", what, what);
	return PEPSI_OK;
}

static int32_t move(struct pepsi_msg *m, const char *what, const char *stage, const char *state)
{
	int32_t r = pass_open(m, what);
	if (r != PEPSI_OK)
		return r;
	const char *to = pass_stage(m, what, stage);
	if (!to)
		return PEPSI_MISUSE;
	if (m->n_gone && m->n_gone == m->n_rcpts0 && !(m->touched & STORE_SET_RCPT_TO))
		return pass_misuse(m, "%s(): all recipients were split off, only finish() is left", what);
	if (state && (r = pass_merge(m, what, state)) != PEPSI_OK)
		return r;
	m->end = END_MOVE;
	m->end_stage = to;
	return PEPSI_OK;
}

int32_t host_advance(struct pepsi_msg *m)
{
	if (!m->env->next)
		return pass_misuse(m, "advance(): [stage-%s] has no NEXT_STAGE", m->env->stage);
	return move(m, "advance", m->env->next, NULL);
}

int32_t host_advance_to(struct pepsi_msg *m, const char *stage)
{
	return move(m, "advance_to", stage, NULL);
}

int32_t host_reroute(struct pepsi_msg *m, const char *stage, const char *state)
{
	return move(m, "reroute", stage, state);
}

int32_t host_pause(struct pepsi_msg *m, const char *state, uint32_t secs)
{
	return host_pause_with(m, state, secs, NULL, 0, NULL, 0);
}

int32_t host_pause_with(struct pepsi_msg *m, const char *merge, uint32_t secs, const uint32_t *keep, size_t n_keep,
    const struct pepsi_clone *clones, size_t n_clones)
{
	bool bad = false;
	int32_t r = pass_open(m, "pause");
	if (r != PEPSI_OK || (r = no_content(m, "pause")) != PEPSI_OK)
		return r;
	const uint32_t *kept = keep ? pass_indices(m, "pause_with", keep, n_keep, false, &bad) : NULL;
	if (bad)
		return PEPSI_MISUSE;
	if (keep ? !n_keep : m->n_rcpts0 && m->n_gone == m->n_rcpts0)
		return pass_misuse(m, "pause_with(): keeps no recipient; finish_with() ends the message");
	if ((r = pass_clones(m, "pause_with", clones, n_clones, true)) != PEPSI_OK)
		return r;
	if (merge && (r = pass_merge(m, "pause", merge)) != PEPSI_OK)
		return r;
	m->end = END_PAUSE;
	m->end_secs = secs;
	m->end_keep = kept;
	m->end_n_keep = n_keep;
	return PEPSI_OK;
}

/* The domain of an address, as it is written; what has none cannot be put off by it. */
static struct str domain_of(struct str address)
{
	size_t at = address.n;
	while (at && address.p[at - 1] != '@')
		at--;
	return at ? str_skip(address, at) : STR_NULL;
}

int32_t host_pause_others(struct pepsi_msg *m, uint32_t first_s, uint32_t each_ms, const char *why)
{
	int32_t r = pass_open(m, "pause_others");
	if (r != PEPSI_OK)
		return r;
	if (!why || !*why)
		return pass_misuse(m, "pause_others(): says no reason");
	struct str domain = m->n_rcpts0 ? domain_of(m->rcpts0[0]) : STR_NULL;
	for (size_t i = 0; i < m->n_rcpts0 && domain.n; i++)
		if (!str_ieq(domain_of(m->rcpts0[i]), domain))
			domain.n = 0;
	struct store_put_off *o = domain.n ? arena_calloc(m->a, 1, sizeof *o) : NULL;
	if (!o)
		return PEPSI_NONE;
	const char *text = pass_text(m, str_from(why));
	*o = (struct store_put_off){ .stage = m->env->stage, .domain = arena_str(m->a, domain), .first_s = first_s, .each_ms = each_ms ? each_ms : 1,
		.error = text, .life_s = m->env->lifetime_s };
	if (!o->domain.p || !text)
		return PEPSI_NONE;
	m->put_off = o;
	return PEPSI_OK;
}

int32_t host_fail(struct pepsi_msg *m, const char *state)
{
	int32_t r = pass_open(m, "fail");
	if (r != PEPSI_OK || (state && (r = pass_merge(m, "fail", state)) != PEPSI_OK))
		return r;
	m->end = END_FAIL;
	return PEPSI_OK;
}

int32_t host_finish(struct pepsi_msg *m)
{
	return host_finish_with(m, NULL, 0);
}

int32_t host_finish_with(struct pepsi_msg *m, const struct pepsi_clone *clones, size_t n_clones)
{
	int32_t r = pass_open(m, "finish");
	if (r != PEPSI_OK)
		return r;
	if ((n_clones || m->fanned) && (r = no_content(m, "finish_with")) != PEPSI_OK)
		return r;
	if ((r = pass_clones(m, "finish_with", clones, n_clones, true)) != PEPSI_OK)
		return r;
	m->end = END_FINISH;
	return PEPSI_OK;
}

int32_t host_advance_or_finish(struct pepsi_msg *m)
{
	return m->env->next ? host_advance(m) : host_finish(m);
}

/* The success report as a clone for the bounce stage: what state.bounce holds is in pepsi.state(7). */
static int32_t success_clone(struct pepsi_msg *m, const char *what, const uint32_t *idx, size_t n, enum dsn_kind action)
{
	static const char *const reports[] = {
		[DSN_DELIVERED] = "{\"bounce\":{\"kind\":\"success\",\"action\":\"delivered\",\"enhanced_status\":\"2.1.5\",\"phase\":\"delivery\","
				  "\"diagnostic\":\"delivered\"}}",
		[DSN_RELAYED] = "{\"bounce\":{\"kind\":\"success\",\"action\":\"relayed\",\"enhanced_status\":\"2.0.0\",\"phase\":\"delivery\","
				"\"diagnostic\":\"relayed to a system that sends no such reports\"}}",
		[DSN_EXPANDED] = "{\"bounce\":{\"kind\":\"success\",\"action\":\"expanded\",\"enhanced_status\":\"2.0.0\",\"phase\":\"delivery\","
				 "\"diagnostic\":\"passed on to the addresses that this one stands for\"}}",
	};
	const char *why, *stage = pass_stage(m, what, m->env->bounce);
	if (!stage)
		return PEPSI_MISUSE;
	struct json_object *o = state_parse(str_from(reports[action]), &why);
	if (!o)
		return pass_misuse(m, "%s(): %s", what, why);
	struct json_object *bounce = state_at(o, "bounce");
	char *rcpt = n == 1 ? arena_strz(m->a, m->rcpts0[idx[0]]) : NULL;
	if (rcpt)
		json_object_object_add(bounce, "failed_recipient", json_object_new_string(rcpt));
	int32_t r = pass_clone_add(m, stage, idx, n, o);
	json_object_put(o);
	return r;
}

/* Those of idx whose sender is owed a report of such a success. NULL: something is wrong (recorded). */
static uint32_t *owed(struct pepsi_msg *m, const char *what, const uint32_t *idx, size_t n, enum dsn_kind action, size_t *ret_n)
{
	uint32_t *ask = arena_calloc(m->a, n + 1, sizeof *ask);
	*ret_n = 0;
	if (!ask) {
		pass_misuse(m, "%s(): out of memory", what);
		return NULL;
	}
	/* a state that does not hold the word is not parsed for it */
	if (!m->env->success_dsn || !m->env->bounce || !(m->state || memmem(m->state0.p, m->state0.n, "\"dsn\"", 5)))
		return ask;
	if (!pass_state(m))
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (dsn_owed(state_notify(m->state, idx[i]), action, false, !m->mail_from0.n))
			ask[(*ret_n)++] = idx[i];
	return ask;
}

int32_t host_complete_success(struct pepsi_msg *m, const uint32_t *indices, size_t n, uint32_t dsn_here)
{
	bool bad = false;
	size_t n_left, n_ask = 0;
	int32_t r = pass_open(m, "complete_success");
	if (r != PEPSI_OK)
		return r;
	const uint32_t *left = pass_left(m, &n_left), *done = left;
	if (indices) {
		done = pass_indices(m, "complete_success", indices, n, false, &bad);
		if (bad)
			return PEPSI_MISUSE;
		if (n != n_left)
			return pass_misuse(m, "complete_success(): %zu of %zu recipients; split the others off first, or they are lost",
			    n, n_left);
	} else {
		n = n_left;
	}
	if (!left)
		return pass_misuse(m, "complete_success(): out of memory");
	enum dsn_kind action = dsn_here == PEPSI_DSN_DELIVERED ? DSN_DELIVERED : DSN_RELAYED;
	uint32_t *ask = dsn_here ? owed(m, "complete_success", done, n, action, &n_ask) : NULL;
	if (dsn_here && !ask)
		return PEPSI_MISUSE;
	if (n_ask && ((r = no_content(m, "complete_success")) != PEPSI_OK || (r = success_clone(m, "complete_success", ask, n_ask, action)) != PEPSI_OK))
		return r;
	return host_advance_or_finish(m);
}

int32_t host_tell_success(struct pepsi_msg *m, const uint32_t *indices, size_t n, uint32_t what, uint8_t *ret_told)
{
	bool bad;
	size_t n_ask;
	int32_t r = pass_open(m, "tell_success");
	if (r != PEPSI_OK)
		return r;
	if (what != PEPSI_DSN_EXPANDED || !ret_told)
		return pass_misuse(m, "tell_success(): %s", ret_told ? "PEPSI_DSN_EXPANDED is all that it tells" : "nowhere to say who is told of");
	if (m->touched || m->merge || m->fanned || m->n_clones)
		return pass_misuse(m, "tell_success(): once, and before content or state is changed; the report is made of the row as it is stored");
	const uint32_t *idx = pass_indices(m, "tell_success", indices, n, false, &bad);
	uint32_t *ask = bad ? NULL : owed(m, "tell_success", idx, n, DSN_EXPANDED, &n_ask);
	if (!ask)
		return PEPSI_MISUSE;
	for (size_t i = 0, k = 0; i < n; i++) {
		ret_told[i] = k < n_ask && ask[k] == idx[i];
		k += ret_told[i];
	}
	return n_ask ? success_clone(m, "tell_success", ask, n_ask, DSN_EXPANDED) : PEPSI_OK;
}

int32_t host_rewrite_recipients(struct pepsi_msg *m, const char *const *rcpts, size_t n, const char *state)
{
	int32_t r = pass_open(m, "rewrite_recipients");
	if (r != PEPSI_OK)
		return r;
	if (m->fanned)
		return pass_misuse(m, "rewrite_recipients(): not together with fan-out");
	if (!n || !rcpts || n > WIRE_RCPTS_MAX)
		return pass_misuse(m, "rewrite_recipients(): %zu recipients; a row has 1 to %d", n, WIRE_RCPTS_MAX);
	struct pepsi_str *list = arena_calloc(m->a, n, sizeof *list);
	if (!list)
		return pass_misuse(m, "rewrite_recipients(): out of memory");
	for (size_t i = 0; i < n; i++)
		list[i] = host_str(str_from(rcpts[i]));
	/* dsn.rcpt follows the addresses; a `state` that knows better (which new address came of which old one) wins */
	if ((r = host_set_rcpt_to(m, list, n)) != PEPSI_OK || (state && (r = pass_merge(m, "rewrite_recipients", state)) != PEPSI_OK))
		return r;
	struct json_object *l = state_at(pass_state(m), "dsn.rcpt");
	if (json_object_is_type(l, json_type_array) && json_object_array_length(l) != n)
		return pass_misuse(m, "rewrite_recipients(): the new dsn.rcpt has %zu entries for %zu recipients",
		    json_object_array_length(l), n);
	return host_advance(m);
}
