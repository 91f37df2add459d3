/* The common parts of tool_reports.h. */
#include "tool_reports.h"

#include <event2/event.h>
#include <sys/random.h>
#include <unistd.h>

int tool_sender_read(const struct tool_sender *s, const struct config *conf, const char *section, bool to_send)
{
	const char *host = config_str(conf, "pepsi", "HOSTNAME"), *org = config_str(conf, section, "ORG_NAME"), *contact = config_str(conf, section, "CONTACT");
	const char *from = config_str(conf, section, "FROM"), *stage = config_str(conf, section, "STAGE");
	if (to_send && (!from || !*from)) {
		cli_fail("[%s] FROM is not set: reports need a sender", section);
		return -1;
	}
	if (host && *host)
		snprintf(s->host, s->host_size, "%s", host);
	else if (gethostname(s->host, s->host_size - 1))
		snprintf(s->host, s->host_size, "localhost");
	snprintf(s->org, s->org_size, "%s", org && *org ? org : s->host);
	snprintf(s->from, s->from_size, "%s", from ? from : "");
	snprintf(s->stage, s->stage_size, "%s", stage && *stage ? stage : "init");
	const char *at = strrchr(s->from, '@');
	if (contact && *contact)
		snprintf(s->contact, s->contact_size, "%s", contact);
	else
		snprintf(s->contact, s->contact_size, "postmaster@%s", at ? at + 1 : s->host);
	return 0;
}

int tool_new_id(char out[33])
{
	unsigned char r[16];
	if (getrandom(r, sizeof r, 0) != sizeof r)
		return -1;
	for (size_t i = 0; i < sizeof r; i++)
		snprintf(out + 2 * i, 3, "%02x", r[i]);
	return 0;
}

bool tool_is_muted(struct json_object *list, const char *address)
{
	for (size_t i = 0; list && i < json_object_array_length(list); i++)
		if (str_ieq(cli_json_text(json_object_array_get_idx(list, i), "address"), str_from(address)))
			return true;
	return false;
}

struct looking {
	struct event_base *base;
	bool done;
	int rc;
};

static void looked(void *arg, int rc, const struct dns_answers *set)
{
	struct looking *k = arg;
	(void)set;
	k->done = true;
	k->rc = rc;
	event_base_loopbreak(k->base);
}

int tool_db_resolve(struct tool_db *db, struct net_dns *dns, unsigned seconds, unsigned queries, dns_evaluate_fn eval, void *arg)
{
	struct looking k = { .base = db->base };
	struct net_dns_group *g = net_dns_group_new(dns, seconds * INT64_C(1000000), queries);
	if (!g || !net_dns_evaluate(g, eval, arg, looked, &k)) {
		net_dns_group_free(g);
		return -1;
	}
	while (!k.done)
		if (event_base_dispatch(db->base))
			break;
	net_dns_group_free(g);
	return k.done && k.rc == DNS_DONE ? 0 : -1;
}
