/* Host functions of a concurrent module that take a message: guarded, because it can hold on to a message that is complete. Its memory is still
 * there (concurrent.h), so the mistake is told and harms nobody. */
#include "concurrent.h"

static struct pepsi_host below;
static const struct pepsi_str EMPTY = { "", 0 };

static bool usable(const struct pepsi_msg *m, const char *what)
{
	if (concurrent_alive(m))
		return true;
	concurrent_misuse("%s() for a message that is complete", what);
	return false;
}

#define GUARD(type, name, otherwise, parameters, arguments)                                                            \
	static type g_##name parameters                                                                                  \
	{                                                                                                                \
		return usable(m, #name) ? below.name arguments : (otherwise);                                            \
	}

GUARD(int64_t, id, 0, (struct pepsi_msg *m), (m))
GUARD(int64_t, received_at, 0, (struct pepsi_msg *m), (m))
GUARD(struct pepsi_str, mail_from, EMPTY, (struct pepsi_msg *m), (m))
GUARD(size_t, n_rcpt, 0, (struct pepsi_msg *m), (m))
GUARD(struct pepsi_str, rcpt, EMPTY, (struct pepsi_msg *m, size_t i), (m, i))
GUARD(struct pepsi_str, state, EMPTY, (struct pepsi_msg *m), (m))
GUARD(int32_t, state_get, PEPSI_MISUSE, (struct pepsi_msg *m, const char *path, struct pepsi_str *ret), (m, path, ret))
GUARD(const char *, next_stage, NULL, (struct pepsi_msg *m), (m))
GUARD(const char *, bounce_stage, NULL, (struct pepsi_msg *m), (m))
GUARD(int64_t, lifetime_left, 0, (struct pepsi_msg *m), (m))
GUARD(int64_t, runtime_left_ms, 0, (struct pepsi_msg *m), (m))
GUARD(int32_t, headers, PEPSI_MISUSE, (struct pepsi_msg *m, struct pepsi_str *ret), (m, ret))
GUARD(int32_t, body, PEPSI_MISUSE, (struct pepsi_msg *m, struct pepsi_str *ret), (m, ret))
GUARD(int32_t, set_headers, PEPSI_MISUSE, (struct pepsi_msg *m, struct pepsi_str s), (m, s))
GUARD(int32_t, set_body, PEPSI_MISUSE, (struct pepsi_msg *m, struct pepsi_str s), (m, s))
GUARD(int32_t, set_mail_from, PEPSI_MISUSE, (struct pepsi_msg *m, struct pepsi_str s), (m, s))
GUARD(int32_t, set_rcpt_to, PEPSI_MISUSE, (struct pepsi_msg *m, const struct pepsi_str *r, size_t n), (m, r, n))
GUARD(int32_t, merge_state, PEPSI_MISUSE, (struct pepsi_msg *m, const char *json), (m, json))
GUARD(int32_t, clear_state, PEPSI_MISUSE, (struct pepsi_msg *m), (m))
GUARD(int32_t, advance, PEPSI_MISUSE, (struct pepsi_msg *m), (m))
GUARD(int32_t, advance_to, PEPSI_MISUSE, (struct pepsi_msg *m, const char *stage), (m, stage))
GUARD(int32_t, reroute, PEPSI_MISUSE, (struct pepsi_msg *m, const char *stage, const char *state), (m, stage, state))
GUARD(int32_t, pause, PEPSI_MISUSE, (struct pepsi_msg *m, const char *state, uint32_t secs), (m, state, secs))
GUARD(int32_t, pause_with, PEPSI_MISUSE, (struct pepsi_msg *m, const char *merge, uint32_t secs, const uint32_t *keep, size_t n_keep,
    const struct pepsi_clone *clones, size_t n_clones), (m, merge, secs, keep, n_keep, clones, n_clones))
GUARD(int32_t, fail, PEPSI_MISUSE, (struct pepsi_msg *m, const char *state), (m, state))
GUARD(int32_t, finish, PEPSI_MISUSE, (struct pepsi_msg *m), (m))
GUARD(int32_t, finish_with, PEPSI_MISUSE, (struct pepsi_msg *m, const struct pepsi_clone *clones, size_t n), (m, clones, n))
GUARD(int32_t, advance_or_finish, PEPSI_MISUSE, (struct pepsi_msg *m), (m))
GUARD(int32_t, complete_success, PEPSI_MISUSE, (struct pepsi_msg *m, const uint32_t *indices, size_t n, uint32_t dsn_here), (m,
    indices, n, dsn_here))
GUARD(int32_t, tell_success, PEPSI_MISUSE, (struct pepsi_msg *m, const uint32_t *indices, size_t n, uint32_t what, uint8_t *ret_told), (m,
    indices, n, what, ret_told))
GUARD(int32_t, rewrite_recipients, PEPSI_MISUSE, (struct pepsi_msg *m, const char *const *rcpts, size_t n, const char *state), (m,
    rcpts, n, state))
GUARD(int32_t, split_off_recipients, PEPSI_MISUSE, (struct pepsi_msg *m, const uint32_t *indices, size_t n, const char *stage), (m,
    indices, n, stage))
GUARD(int32_t, split_to_one_per_row, PEPSI_MISUSE, (struct pepsi_msg *m), (m))
GUARD(int32_t, fan_out, PEPSI_MISUSE, (struct pepsi_msg *m, const struct pepsi_clone *groups, size_t n_groups, const uint32_t *keep,
    size_t n_keep), (m, groups, n_groups, keep, n_keep))
GUARD(int32_t, enqueue_new, PEPSI_MISUSE, (struct pepsi_msg *m, const char *stage, struct pepsi_str from, const char *const *rcpts,
    size_t n, struct pepsi_str headers, struct pepsi_str body, const char *state), (m, stage, from, rcpts, n, headers, body, state))
GUARD(int32_t, more_waiting, 0, (struct pepsi_msg *m), (m))

static void g_log(struct pepsi_msg *m, int32_t level, const char *text)
{
	below.log(!m || usable(m, "log") ? m : NULL, level, text);
}

static const struct pepsi_dns *g_resolve(struct pepsi_msg *m, const char *name, uint32_t type)
{
	(void)name;
	(void)type;
	if (usable(m, "resolve"))
		pass_misuse(m, "resolve() waits, and all messages of this worker with it: a concurrent module asks with ask()");
	return NULL;
}

void concurrent_host(struct pepsi_host *h)
{
	below = *h;
	h->id = g_id;
	h->received_at = g_received_at;
	h->mail_from = g_mail_from;
	h->n_rcpt = g_n_rcpt;
	h->rcpt = g_rcpt;
	h->state = g_state;
	h->state_get = g_state_get;
	h->next_stage = g_next_stage;
	h->bounce_stage = g_bounce_stage;
	h->lifetime_left = g_lifetime_left;
	h->runtime_left_ms = g_runtime_left_ms;
	h->headers = g_headers;
	h->body = g_body;
	h->set_headers = g_set_headers;
	h->set_body = g_set_body;
	h->set_mail_from = g_set_mail_from;
	h->set_rcpt_to = g_set_rcpt_to;
	h->merge_state = g_merge_state;
	h->clear_state = g_clear_state;
	h->advance = g_advance;
	h->advance_to = g_advance_to;
	h->reroute = g_reroute;
	h->pause = g_pause;
	h->pause_with = g_pause_with;
	h->fail = g_fail;
	h->finish = g_finish;
	h->finish_with = g_finish_with;
	h->advance_or_finish = g_advance_or_finish;
	h->complete_success = g_complete_success;
	h->tell_success = g_tell_success;
	h->rewrite_recipients = g_rewrite_recipients;
	h->split_off_recipients = g_split_off_recipients;
	h->split_to_one_per_row = g_split_to_one_per_row;
	h->fan_out = g_fan_out;
	h->enqueue_new = g_enqueue_new;
	h->more_waiting = g_more_waiting;
	h->log = g_log;
	h->resolve = g_resolve;
}
