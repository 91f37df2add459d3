/* Stands in for the connections of pepsi-failure-bouncer and pepsi-dmarc where no test uses them: there is no memory for one. */
#include "store/bounce.h"
#include "store/dmarc.h"

struct store_conn *store_conn_open(struct event_base *base, const struct store_params *params, store_state_fn state, void *arg)
{
	(void)base;
	(void)params;
	(void)state;
	(void)arg;
	return NULL;
}

void store_conn_close(struct store_conn *c)
{
	(void)c;
}

int store_conn_listen(struct store_conn *c, const char *const *channels, size_t n, store_notify_fn fn, void *arg)
{
	(void)c;
	(void)channels;
	(void)n;
	(void)fn;
	(void)arg;
	return -1;
}

void store_failure_bounce(struct store_conn *c, const struct store_bounce_rule *rule, int64_t after, unsigned limit,
    store_bounce_row_fn row, store_bounce_done_fn done, void *arg)
{
	(void)c;
	(void)rule;
	(void)after;
	(void)limit;
	(void)row;
	done(arg, STORE_AWAY, 0, 0, "no database");
}

void store_failure_wait(struct store_conn *c, const struct store_bounce_rule *rule, store_bounce_wait_fn fn, void *arg)
{
	(void)c;
	(void)rule;
	fn(arg, STORE_AWAY, 0, 0, "no database");
}

void store_dmarc_ask(struct store_conn *c, enum store_dmarc_question q, const char *args, store_dmarc_json_fn fn, void *arg)
{
	(void)c;
	(void)q;
	(void)args;
	fn(arg, STORE_AWAY, STR_NULL, "no database");
}

void store_dmarc_enqueue(struct store_conn *c, const struct store_dmarc_report *r, store_dmarc_sent_fn fn, void *arg)
{
	(void)c;
	(void)r;
	fn(arg, STORE_AWAY, 0, "no database");
}
