/* Which exchangers of a delivery may still be tried in this attempt; and one that cannot take the message as it is is left for another that may. No
 * sessions are begun or ended here: line.c does that. */
#include "internet.h"

#include "count.h"
#include "say.h"

#include <limits.h>

bool choice_open(const struct delivery *d, unsigned h)
{
	return h < d->n_hosts && !d->host[h].done && d->host[h].lacks == d->settled;
}

static bool among_next(const struct delivery *d)
{
	for (unsigned i = d->at; i < d->n_order; i++) {
		unsigned h = d->route.address[d->order[i]].host;
		if (choice_open(d, h) && d->host[h].need.usable)
			return true;
	}
	return false;
}

/* Is one left that is better than preference `than`? UINT_MAX: any. */
static bool was_left(const struct delivery *d, unsigned than)
{
	for (unsigned i = 0; i < d->n_hosts && !d->settled; i++)
		if (d->host[i].lacks && !d->host[i].done && d->route.host[i].preference < than)
			return true;
	return false;
}

bool choice_more(const struct delivery *d)
{
	return among_next(d) || was_left(d, UINT_MAX);
}

bool choice_settle(struct delivery *d)
{
	if (!was_left(d, UINT_MAX))
		return false;
	d->settled = true;
	d->at = 0;
	return true;
}

bool choice_leave(struct line *l)
{
	struct delivery *d = l->d;
	unsigned lacks = d->settled ? 0 : smtp_client_lacks(session_engine(l->s), &d->m);
	if (!lacks)
		return false;
	d->host[l->at_host].lacks = true;
	/* the last one: where none takes it as it is, the best has it, as if it were alone */
	bool other = among_next(d), better = was_left(d, d->route.host[l->at_host].preference);
	if ((!other && !better) || d->tries >= TRIES_MAX || d->grace) {
		d->settled = true;
		return false;
	}
	if (!other)
		return true;
	count_add(d->w->host, d->w->set.downgrade.count, "other_host", 1);
	say(d->w->host, d->msg, PEPSI_LOG_INFO, "event=lacks host=%s ip=%s lacks=%s domain=%s: another exchanger is asked first", l->host, l->ip_text, smtp_lacking(lacks), d->domain);
	return true;
}
