/* Fan-out: one row becomes several. The groups are only collected here; outcome.c hands them to the database together
 * with the terminal, so that no crash can leave a recipient on two rows or on none. */
#include "pass.h"
#include "state.h"

#include <json-c/json.h>

static int32_t may_fan(struct pepsi_msg *m, const char *what)
{
	int32_t r = pass_open(m, what);
	if (r != PEPSI_OK)
		return r;
	if (m->touched || m->merge)
		return pass_misuse(m, "%s(): content or state was changed before; the new rows are made of the row as it is stored",
		    what);
	if (!m->gone && !(m->gone = arena_calloc(m->a, m->n_rcpts0 + 1, sizeof *m->gone)))
		return pass_misuse(m, "%s(): out of memory", what);
	return PEPSI_OK;
}

static void leave(struct pepsi_msg *m, const uint32_t *idx, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!m->gone[idx[i]]) {
			m->gone[idx[i]] = true;
			m->n_gone++;
		}
	m->fanned = true;
}

int32_t host_split_off_recipients(struct pepsi_msg *m, const uint32_t *indices, size_t n, const char *stage)
{
	bool bad;
	int32_t r = may_fan(m, "split_off_recipients");
	if (r != PEPSI_OK)
		return r;
	const char *to = pass_stage(m, "split_off_recipients", stage);
	const uint32_t *idx = to ? pass_indices(m, "split_off_recipients", indices, n, false, &bad) : NULL;
	if (!to || bad)
		return PEPSI_MISUSE;
	if (!n || n + m->n_gone >= m->n_rcpts0)
		return pass_misuse(m, "split_off_recipients(): %s", n ? "nobody would be left; advance_to() moves the whole row"
								    : "no recipients given");
	if ((r = pass_clone_add(m, to, idx, n, NULL)) == PEPSI_OK)
		leave(m, idx, n);
	return r;
}

int32_t host_split_to_one_per_row(struct pepsi_msg *m)
{
	size_t n;
	int32_t r = may_fan(m, "split_to_one_per_row");
	if (r != PEPSI_OK)
		return r;
	const uint32_t *left = pass_left(m, &n);
	if (!left)
		return pass_misuse(m, "split_to_one_per_row(): out of memory");
	for (size_t i = 1; i < n && r == PEPSI_OK; i++)
		if ((r = pass_clone_add(m, m->env->stage, &left[i], 1, NULL)) == PEPSI_OK)
			leave(m, &left[i], 1);
	return r;
}

int32_t host_fan_out(struct pepsi_msg *m, const struct pepsi_clone *groups, size_t n_groups, const uint32_t *keep,
    size_t n_keep)
{
	bool bad = false;
	int32_t r = may_fan(m, "fan_out");
	if (r != PEPSI_OK)
		return r;
	const uint32_t *kept = keep ? pass_indices(m, "fan_out", keep, n_keep, false, &bad) : NULL;
	if (bad || (r = pass_clones(m, "fan_out", groups, n_groups, false)) != PEPSI_OK)
		return PEPSI_MISUSE;
	if (kept) {
		bool *stay = arena_calloc(m->a, m->n_rcpts0 + 1, sizeof *stay);
		if (!stay)
			return pass_misuse(m, "fan_out(): out of memory");
		for (size_t i = 0; i < n_keep; i++)
			stay[kept[i]] = true;
		for (uint32_t i = 0; i < m->n_rcpts0; i++)
			if (!stay[i])
				leave(m, &i, 1);
	}
	m->fanned = true;
	return PEPSI_OK;
}

int32_t host_enqueue_new(struct pepsi_msg *m, const char *stage, struct pepsi_str mail_from, const char *const *rcpts,
    size_t n, struct pepsi_str headers, struct pepsi_str body, const char *state)
{
	const char *why, *wrong;
	int32_t r = pass_open(m, "enqueue_new");
	if (r != PEPSI_OK)
		return r;
	const char *to = pass_stage(m, "enqueue_new", stage);
	if (!to)
		return PEPSI_MISUSE;
	if (!n || !rcpts || n > WIRE_RCPTS_MAX)
		return pass_misuse(m, "enqueue_new(): %zu recipients", n);
	if ((wrong = pass_address_wrong(str_n(mail_from.p, mail_from.n), true)))
		return pass_misuse(m, "enqueue_new(): the sender %s", wrong);
	if (pass_headers_wrong(str_n(headers.p, headers.n), &why) || pass_body_wrong(str_n(body.p, body.n), &why))
		return pass_misuse(m, "enqueue_new(): the message holds %s", why);
	struct str *list = arena_calloc(m->a, n, sizeof *list);
	if (m->n_injects == m->cap_injects) {
		size_t cap = m->cap_injects ? m->cap_injects * 2 : 4;
		struct store_op *more = arena_calloc(m->a, cap, sizeof *more);
		if (!more)
			return pass_misuse(m, "enqueue_new(): out of memory");
		if (m->n_injects)
			memcpy(more, m->injects, m->n_injects * sizeof *more);
		m->injects = more;
		m->cap_injects = cap;
	}
	for (size_t i = 0; i < n && list; i++) {
		if ((wrong = pass_address_wrong(str_from(rcpts[i]), false)))
			return pass_misuse(m, "enqueue_new(): recipient %zu %s", i, wrong);
		if (!(list[i] = arena_str(m->a, str_from(rcpts[i]))).p)
			list = NULL;
	}
	struct store_op op = { .kind = STORE_OP_INJECT, .id = m->id, .stage = to, .status = STORE_PENDING,
		.mail_from = arena_str(m->a, str_n(mail_from.p, mail_from.n)), .rcpts = list, .n_rcpts = n,
		.headers = arena_str(m->a, str_n(headers.p, headers.n)), .body = arena_str(m->a, str_n(body.p, body.n)) };
	if (state) {
		struct json_object *o = state_parse(str_trim(str_from(state)), &why);
		if (!o)
			return pass_misuse(m, "enqueue_new(): the state is no JSON object that can be stored: %s", why);
		op.state = state_text(m->a, o).p;
		json_object_put(o);
	}
	if (!list || !op.mail_from.p || !op.headers.p || !op.body.p || (state && !op.state))
		return pass_misuse(m, "enqueue_new(): out of memory");
	m->injects[m->n_injects++] = op;
	return PEPSI_OK;
}
