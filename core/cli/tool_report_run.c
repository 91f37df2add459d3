/* The frame of tool_report_run.h. */
#include "tool_report_run.h"

#include "base/log.h"
#include "worker/resolve.h"

enum { GRACE_S = 300 }; /* behind a period's end: the last counts come some seconds later */

bool tool_run_excluded(const struct tool_run *r, struct str domain)
{
	return r->exclude && config_domains_has(r->exclude, domain);
}

static int sweep(struct tool_run *r, const struct tool_run_kind *k, const struct config *conf)
{
	struct json_object *args = json_object_new_object();
	json_object_object_add(args, "keep", json_object_new_int64(config_int(conf, k->section, "KEEP")));
	json_object_object_add(args, "expire", json_object_new_int64(config_int(conf, k->section, "EXPIRE")));
	struct json_object *o = k->ask(&r->db, TOOL_RUN_SWEEP, args);
	if (o && cli_json_int(o, "expired"))
		log_warn(NULL, "event=%s-reports-expired n=%lld", k->name, (long long)cli_json_int(o, "expired"));
	json_object_put(o);
	return o ? CLI_DONE : CLI_FAILED;
}

static int prepare(struct tool_run *r, const struct tool_run_kind *k, const struct config *conf)
{
	struct net_dns_settings dns;
	char err[256];
	const char *exclude = config_str(conf, k->section, "EXCLUDE");
	if (resolve_settings(conf, &dns, err, sizeof err))
		return cli_fail("%s", err);
	if (exclude && *exclude && !(r->exclude = config_domains_new(exclude)))
		return cli_fail("out of memory");
	if (tool_db_open(&r->db, conf))
		return CLI_FAILED;
	if (!(r->dns = net_dns_new(r->db.base, &dns)))
		return cli_fail("out of memory");
	return r->dry ? CLI_DONE : sweep(r, k, conf);
}

int tool_run_due(struct tool_run *r, const struct tool_run_kind *k, const struct config *conf, int (*one)(void *arg, struct json_object *report), void *arg)
{
	struct json_object *args = json_object_new_object();
	int64_t most = config_int(conf, k->section, "MAX_REPORTS");
	int rc = 0;
	json_object_object_add(args, "grace", json_object_new_int(r->c->args.value[CLI_DAY] || r->dry ? 0 : GRACE_S));
	json_object_object_add(args, "limit", json_object_new_int64(most));
	tool_add_text(args, "day", r->c->args.value[CLI_DAY]);
	struct json_object *due = k->ask(&r->db, TOOL_RUN_DUE, args);
	if (!due)
		return -1;
	size_t n = cli_json_length(due);
	for (size_t i = 0; !rc && i < n; i++)
		rc = one(arg, json_object_array_get_idx(due, i));
	if ((int64_t)n == most)
		log_warn(NULL, "event=%s-run-full reports=%zu text=\"MAX_REPORTS: others wait for the next run\"", k->name, n);
	json_object_put(due);
	return rc;
}

static int send_all(struct tool_run *r, const struct tool_run_kind *k, const struct config *conf, void *arg)
{
	struct json_object *args = json_object_new_object(), *all;
	json_object_object_add(args, "limit", json_object_new_int(1));
	if (!(all = k->ask(&r->db, TOOL_RUN_LIST, args)))
		return CLI_FAILED;
	r->muted = cli_json_list(all, "muted");
	int rc = k->send(arg, conf) ? CLI_FAILED : CLI_DONE;
	json_object_put(all);
	r->muted = NULL;
	return rc;
}

static void report(const struct tool_run *r, const struct tool_run_kind *k)
{
	const struct {
		const char *name;
		uint64_t n;
	} counts[] = { { "sent", r->sent }, { "messages", r->messages }, { "posts", r->posts }, { "nowhere", r->nowhere }, { "later", r->later } };
	log_info(NULL, "event=%s-run sent=%llu messages=%llu posts=%llu nowhere=%llu later=%llu failed=%llu dry=%d", k->name, (unsigned long long)r->sent,
	    (unsigned long long)r->messages, (unsigned long long)r->posts, (unsigned long long)r->nowhere, (unsigned long long)r->later,
	    (unsigned long long)r->failed, r->dry);
	if (!r->out)
		return;
	struct json_object *o = json_object_new_object();
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
		if (k->posts || strcmp(counts[i].name, "posts") != 0)
			json_object_object_add(o, counts[i].name, json_object_new_int64((int64_t)counts[i].n));
	json_object_object_add(o, "reports", json_object_get(r->out));
	cli_json_print(o);
	json_object_put(o);
}

int tool_run(struct cli *c, struct tool_run *r, const struct tool_run_kind *k, void *arg)
{
	int rc = CLI_FAILED;
	if (!tool_day_ok(c, CLI_DAY))
		return CLI_USAGE;
	r->c = c;
	r->dry = c->args.set & CLI_BIT(CLI_DRY_RUN);
	r->out = c->json ? json_object_new_array() : NULL;
	struct config *conf = service_config(c);
	if (conf && !r->dry && !k->on(conf)) { /* the timer may be there all the same */
		log_info(NULL, "event=%s-run text=\"[%s] REPORTS = NO: nothing is sent\"", k->name, k->section);
		report(r, k);
		rc = CLI_DONE;
	} else if (conf && !k->prepare(arg, conf) && !prepare(r, k, conf)) {
		rc = send_all(r, k, conf, arg);
		report(r, k);
	}
	net_dns_free(r->dns);
	tool_db_close(&r->db);
	config_domains_free(r->exclude);
	json_object_put(r->out);
	config_free(conf);
	return rc;
}
