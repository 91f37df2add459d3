/* The status object of `pepsi status`: names fixed by the interfaces page. Without a database the counts are null. */
#include "admin_internal.h"
#include "base/clock.h"
#include "json.h"

#include <inttypes.h>

static void number(struct buf *out, const char *name, const struct store_counts *counts, int64_t v)
{
	if (counts)
		buf_addf(out, "\"%s\":%" PRId64, name, v);
	else
		buf_addf(out, "\"%s\":null", name);
}

void admin_status_write(struct admin *a, const struct store_counts *counts, struct buf *out)
{
	static const struct store_counts none;
	const struct store_counts *n = counts ? counts : &none;
	char reason[256];
	bool healthy = admin_healthy(a, reason, sizeof reason);
	buf_addf(out, "{\"version\":\"%s\",\"uptime_s\":%" PRId64 ",\"healthy\":%s,", PEPSI_VERSION,
	    (clock_mono_us() - a->started) / US_PER_S, healthy ? "true" : "false");
	if (!healthy) {
		buf_addz(out, "\"reason\":");
		admin_json_stringz(out, reason);
		buf_addc(out, ',');
	}
	buf_addf(out, "\"database\":{\"up\":%s,\"embedded\":%s},\"queue\":{", counts ? "true" : "false",
	    a->embedded ? "true" : "false");
	const struct {
		const char *name;
		int64_t v;
	} queue[] = {
		{ "total", n->total }, { "pending", n->pending }, { "running", n->running }, { "paused", n->paused },
		{ "failed", n->failed }, { "timeout", n->timeout },
	}, ended[] = {
		{ "accepted", n->accepted }, { "received", n->received }, { "delivered", n->delivered },
		{ "bounced", n->bounced }, { "discarded", n->discarded },
	}, steering[] = {
		{ "held", n->held }, { "hold_rules", n->hold_rules }, { "reroute_rules", n->reroute_rules },
	};
	for (size_t i = 0; i < sizeof queue / sizeof *queue; i++) {
		if (i)
			buf_addc(out, ',');
		number(out, queue[i].name, counts, queue[i].v);
	}
	buf_addz(out, "},\"steering\":{");
	for (size_t i = 0; i < sizeof steering / sizeof *steering; i++) {
		if (i)
			buf_addc(out, ',');
		number(out, steering[i].name, counts, steering[i].v);
	}
	buf_addc(out, '}');
	for (size_t i = 0; i < sizeof ended / sizeof *ended; i++) {
		buf_addc(out, ',');
		number(out, ended[i].name, counts, ended[i].v);
	}
	const struct {
		const char *name;
		int64_t v;
	} known[] = {
		{ "sts_policies", n->sts_policies }, { "sts_enforced", n->sts_enforced }, { "sts_failing", n->sts_failing },
		{ "weaker", n->destinations_weaker }, { "addresses_failing", n->addresses_failing },
		{ "tlsrpt_waiting", n->tlsrpt_waiting }, { "tlsrpt_received", n->tlsrpt_received }, { "tlsrpt_failures", n->tlsrpt_failures },
	};
	buf_addz(out, ",\"destinations\":{");
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		if (i)
			buf_addc(out, ',');
		number(out, known[i].name, counts, known[i].v);
	}
	buf_addc(out, '}');
	buf_addc(out, ',');
	size_t before = out->n;
	if (a->source.status)
		a->source.status(a->source.arg, out);
	if (out->n == before)
		buf_addz(out, "\"stages\":[]");
	buf_addc(out, '}');
}
