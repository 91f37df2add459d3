/* When a policy of MTA-STS that is known is used, fetched again, forgotten; see sts.h. */
#include "proto/relay/sts.h"

#include <stdio.h>

int64_t sts_expires(const struct sts_cached *c)
{
	return c->known ? c->fetched + (int64_t)c->max_age : 0;
}

static int64_t pause(const struct sts_cached *c)
{
	int64_t s = STS_RETRY_FIRST;
	for (unsigned i = 1; i < c->failures && s < STS_RETRY_MOST; i++)
		s *= 2;
	return s < STS_RETRY_MOST ? s : STS_RETRY_MOST;
}

static bool may_fetch(const struct sts_cached *c, int64_t now)
{
	/* a clock that was set back does not stop fetching */
	return !c->failures || now < c->failed || now >= c->failed + pause(c);
}

static int64_t fresh_for(const struct sts_cached *c)
{
	int64_t half = (int64_t)c->max_age / 2;
	return half < STS_REFRESH ? half : STS_REFRESH;
}

static bool is_old(const struct sts_cached *c, int64_t now)
{
	return now - c->fetched >= fresh_for(c);
}

int64_t sts_due(const struct sts_cached *c)
{
	int64_t due = c->known ? c->fetched + fresh_for(c) : 0, may = c->failures ? c->failed + pause(c) : 0;
	return due > may ? due : may;
}

void sts_plan(const struct sts_cached *c, const struct sts_lookup *txt, int64_t now, struct sts_plan *ret)
{
	bool holds = c->known && now < sts_expires(c), may = may_fetch(c, now);
	struct sts_plan p = { .use = holds };
	if (txt->state != STS_TXT_FOUND) {
		/* §3.1, §5.1: that the record is gone, or blocked, ends nothing that still holds */
		p.forget = c->known && !holds && txt->state == STS_TXT_NONE;
		p.reason = holds ? "its policy still holds, whatever its record" : "it has no policy";
	} else if (!holds) {
		p.fetch = p.wait = may;
		p.reason = may ? "its policy is to be fetched" : "its policy could not be fetched lately";
	} else if (strcmp(c->id, txt->id) != 0) {
		p.fetch = p.wait = may;
		p.reason = may ? "its policy has changed" : "its policy has changed and could not be fetched lately: the old one holds";
	} else {
		p.fetch = may && is_old(c, now);
		p.reason = "its policy holds";
	}
	*ret = p;
}

void sts_fetched(struct sts_cached *c, const char *id, const struct sts_policy *p, int64_t now)
{
	*c = (struct sts_cached){ .known = true, .fetched = now, .max_age = p->max_age };
	snprintf(c->id, sizeof c->id, "%s", id);
}

void sts_failed(struct sts_cached *c, int64_t now)
{
	c->failed = now;
	if (c->failures < 1000)
		c->failures++;
}
