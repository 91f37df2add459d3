/* MAX_LIFETIME in every state: a worker ends the message that it has, but nobody has those that are paused without a time, or pending at a
 * stage without a worker. The database looks for them (workqueue_expire in db/procedures.sql); here is when, and with what knowledge. What an
 * operator's rules have left behind is swept on the same way. Decides nothing about single messages. */
#include "dispatch_internal.h"

#include "base/clock.h"

enum {
	EXPIRE_STAGES_MAX = 256,
	EXPIRE_ROWS = 500,              /* at once: a transaction that a claim may have to wait for */
	EXPIRE_DEFAULT_S = 5 * 86400,   /* at a stage that is configured no more: the default of MAX_LIFETIME */
	EXPIRE_MOST_S = 60,             /* between two looks; a quarter of the shortest lifetime where that is less */
	DOWN_S = 600,                   /* a stage that had no worker for so long, or for a lifetime, has none */
};

static void swept(void *arg, enum store_rc rc, unsigned n)
{
	struct dispatch *d = arg;
	if (rc == STORE_OK && n) {
		log_info(NULL, "event=released rows=%u hint=\"the rule that held them is gone\"", n);
		dispatch_wake(d, NULL);
	}
}

static void expired(void *arg, enum store_rc rc, const struct store_expired *rows, size_t n)
{
	struct dispatch *d = arg;
	d->expiring = false;
	if (rc != STORE_OK) {
		if (rc != STORE_AWAY)
			log_error(NULL, "event=expire-failed rc=%d", rc);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		bool bounces = rows[i].to.n > 0;
		log_warn(NULL, "id=%lld stage=%s event=expired to=%s reason=%s", (long long)rows[i].id, log_q(rows[i].stage),
		    bounces ? log_q(rows[i].to) : "failed", log_q(rows[i].error));
		d->expired_total++;
		if (!bounces) {
			d->failed_total++;
			d->d_failed++;
		}
	}
	if (n)
		dispatch_wake(d, NULL);
	if (n >= EXPIRE_ROWS) /* there are more */
		d->last_expire = 0;
	dispatch_due_soon(d); /* some may be due earlier now */
}

void expire_tick(struct dispatch *d, int64_t now)
{
	struct store_expire_stage ask[EXPIRE_STAGES_MAX];
	struct stage *st;
	size_t n = 0;
	int64_t every = EXPIRE_MOST_S * US_PER_S;
	TAILQ_FOREACH(st, &d->stages, link)
		if (!st->removed && st->life_s * US_PER_S / 4 < every)
			every = st->life_s * US_PER_S / 4;
	if (every < US_PER_S)
		every = US_PER_S;
	if (!d->db_up || !d->recovered || d->stopping || d->expiring || now - d->last_expire < every)
		return;
	d->last_expire = now;
	TAILQ_FOREACH(st, &d->stages, link) {
		if (st->removed)
			continue;
		if (n == EXPIRE_STAGES_MAX)
			return; /* what is not told would count as gone */
		int64_t down = st->down_since ? now - st->down_since : 0;
		ask[n++] = (struct store_expire_stage){ .stage = st->name, .bounce = st->bounce, .life_s = st->life_s,
			.down = down > DOWN_S * US_PER_S || (down && down > st->life_s * US_PER_S) };
	}
	d->expiring = true;
	store_expire(d->db, ask, n, EXPIRE_DEFAULT_S, EXPIRE_ROWS, expired, d);
	store_rule_sweep(d->db, swept, d);
}
