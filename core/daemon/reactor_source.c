/* What the admin interface asks of the reactor: its state, its metrics, and the few things an operator may have it do. Only passes on to the
 * parts; what is allowed to whom is decided in core/admin. */
#include "reactor_internal.h"

#include "token/token.h"

#include <stdio.h>
#include <unistd.h>

static void src_status(void *arg, struct buf *json)
{
	struct reactor *r = arg;
	dispatch_status(r->dispatch, json);
	buf_addz(json, ",\"ingress\":");
	ingress_status(r->ingress, json);
	buf_addz(json, ",\"dns\":");
	net_dns_status(r->dns, json);
	buf_addz(json, ",\"tokens\":");
	token_status(r->config, json);
	buf_addz(json, ",\"connections\":{");
	for (int i = 0; i < DB_COUNT; i++)
		buf_addf(json, "%s\"%s\":%s", i ? "," : "", reactor_db_name[i], r->db_up[i] ? "true" : "false");
	buf_addf(json, "},\"memory\":{\"resident\":%zu,\"in_use\":%zu,\"returned\":%llu", r->memory.resident, r->memory.in_use,
	    (unsigned long long)r->memory.returned);
	buf_addf(json, "},\"processes\":{\"spawner\":%d,\"reactor\":%d}", (int)getppid(), (int)getpid());
}

static void src_metrics(void *arg, struct buf *text)
{
	struct reactor *r = arg;
	reactor_tell_retries(r);
	ingress_metrics(r->ingress, text);
	dispatch_metrics(r->dispatch, text);
	net_dns_metrics(r->dns, text);
	token_metrics(r->config, text);
	memory_metrics(&r->memory, text);
	buf_addz(text, "# HELP pepsi_database_connection_up Is the connection to the database there?\n"
		       "# TYPE pepsi_database_connection_up gauge\n");
	for (int i = 0; i < DB_COUNT; i++)
		buf_addf(text, "pepsi_database_connection_up{connection=\"%s\"} %d\n", reactor_db_name[i], r->db_up[i]);
}

static bool src_healthy(void *arg, char *reason, size_t size)
{
	struct reactor *r = arg;
	if (r->stopping)
		snprintf(reason, size, "stopping");
	else if (!r->db_up[DB_ADMISSION])
		snprintf(reason, size, "the database is away: mail is answered 451");
	else if (!r->db_up[DB_DISPATCH])
		snprintf(reason, size, "the dispatcher's database connection is away");
	else if (!dispatch_ready(r->dispatch))
		snprintf(reason, size, "the dispatcher has not begun (does another pepsid use this database?)");
	else
		return true;
	return false;
}

static void src_wake(void *arg)
{
	struct reactor *r = arg;
	dispatch_wake(r->dispatch, NULL);
}

static void src_stop(void *arg)
{
	struct channel_msg m = { .op = CH_STOP_ASKED };
	reactor_tell_spawner(arg, &m);
}

static void src_recipient(void *arg, struct str address, void (*done)(void *ctx, const char *answer, const char *source, const char *why), void *ctx)
{
	struct reactor *r = arg;
	ingress_test_recipient(r->ingress, address, done, ctx);
}

static void src_reports(void *arg, const char *stage, struct buf *json)
{
	struct reactor *r = arg;
	dispatch_reports(r->dispatch, stage, json);
}

static const struct config *src_config(void *arg)
{
	struct reactor *r = arg;
	return r->config;
}

static struct net_dns *src_dns(void *arg)
{
	struct reactor *r = arg;
	return r->dns;
}

struct admin_source reactor_source(struct reactor *r)
{
	return (struct admin_source){ r, src_status, src_metrics, src_healthy, src_wake, reactor_reload_asked, src_stop, src_config, src_dns,
		src_recipient, src_reports };
}
