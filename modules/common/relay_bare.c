/* The terminal of a message when memory has run out behind its delivery: poorer in words than relay_outcome.c, but nobody gets the message twice. Allocates
 * nothing. */
#include "relay.h"

int32_t relay_decide_bare(const struct relay_policy *p, const struct pepsi_host *host, struct pepsi_msg *msg, const struct smtp_client_msg *m,
    uint32_t dsn_here, uint32_t *room)
{
	uint32_t *ok = room, *rest = room + m->n_rcpts;
	size_t n_ok = 0, n_rest = 0;
	for (size_t i = 0; i < m->n_rcpts; i++) {
		if (relay_judge(&m->rcpts[i].result) == RELAY_OK)
			ok[n_ok++] = (uint32_t)i;
		else /* also who was refused: he is refused again, and returned then */
			rest[n_rest++] = (uint32_t)i;
	}
	uint32_t secs = relay_backoff(p, 0, host->lifetime_left(msg), (uint64_t)host->now_us());
	if (!n_rest)
		return host->complete_success(msg, NULL, 0, dsn_here);
	if (!n_ok)
		return host->pause(msg, NULL, secs);
	if (!host->next_stage(msg))
		return host->pause_with(msg, NULL, secs, rest, n_rest, NULL, 0);
	struct pepsi_clone c = { .abi = PEPSI_ABI_OF(struct pepsi_clone), .stage = p->stage, .status = PEPSI_CLONE_RETRY, .retry_s = secs, .indices = rest,
		.n = n_rest };
	int32_t r = host->fan_out(msg, &c, 1, ok, n_ok);
	return r == PEPSI_OK ? host->complete_success(msg, NULL, 0, dsn_here) : r;
}
