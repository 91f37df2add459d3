/* pepsi keys dkim: the keys that pepsi-stage-dkim-sign signs with. Needs no running pepsid; the stage notices what changes. */
#include "tool_keys.h"
#include "base/clock.h"

#include <stdlib.h>
#include <time.h>

static const char kind_default[] = "rsa2048";

/* "p20261130r", and a number behind it where that is taken. */
static int selector_of_day(const struct dkim_domain *d, const char *kind, char out[DKIM_SELECTOR_MAX + 1])
{
	time_t now = time(NULL);
	struct tm tm;
	char day[16];
	gmtime_r(&now, &tm);
	strftime(day, sizeof day, "%Y%m%d", &tm);
	for (unsigned i = 1; i <= DKIM_RING_MAX + 1; i++) {
		snprintf(out, DKIM_SELECTOR_MAX + 1, i > 1 ? "p%s%c%u" : "p%s%c", day, kind[0], i);
		if (!dkim_ring_find((struct dkim_ring *)(uintptr_t)&d->ring, str_from(out)))
			return 0;
	}
	return -1;
}

int keys_make(const struct cli *c, struct dkim_domain *d, const char *selector, const char *kind, enum dkim_key_state state, const char *replaces,
    char ret_selector[DKIM_SELECTOR_MAX + 1])
{
	struct dkim_private *k = NULL;
	const char *why;
	if (selector && !dkim_selector_ok(str_from(selector)))
		return cli_usage(c, "--selector: \"%s\" is none: lower case letters, digits and hyphens, at most 63", selector);
	if (selector)
		snprintf(ret_selector, DKIM_SELECTOR_MAX + 1, "%s", selector);
	else if (selector_of_day(d, kind, ret_selector))
		return cli_fail("%s has too many keys", d->name);
	if (dkim_ring_find(&d->ring, str_from(ret_selector)))
		return cli_fail("%s has a selector %s already: a key must never change under its name, take another", d->name, ret_selector);
	if (dkim_private_make(kind, &k, &why))
		return cli_usage(c, "--algorithm: %s", why);
	int rc = dkim_ring_add(&d->ring, str_from(ret_selector), kind, state, time(NULL), str_from(replaces)) ? cli_fail("%s has too many keys", d->name) :
															dkim_domain_write_key(d, ret_selector, k);
	dkim_private_free(k);
	return rc;
}

int keys_print_record(struct dkim_domain *d, const struct dkim_ring_key *k)
{
	struct buf record = BUF_INIT(2048), strings = BUF_INIT(8192);
	int rc = dkim_domain_record(d, k, &record);
	if (!rc && !dkim_record_strings(buf_str(&record), &strings))
		printf("%s._domainkey.%s. IN TXT %s\n", k->selector, d->name, buf_z(&strings));
	buf_free(&record);
	buf_free(&strings);
	return rc;
}

struct json_object *keys_json(const struct dkim_domain *d, const struct dkim_ring_key *k)
{
	struct json_object *o = json_object_new_object();
	json_object_object_add(o, "domain", json_object_new_string(d->name));
	json_object_object_add(o, "selector", json_object_new_string(k->selector));
	json_object_object_add(o, "algorithm", json_object_new_string(k->kind));
	json_object_object_add(o, "state", json_object_new_string(dkim_key_state_name(k->state)));
	json_object_object_add(o, "since", json_object_new_int64(k->since));
	if (k->replaces[0])
		json_object_object_add(o, "replaces", json_object_new_string(k->replaces));
	return o;
}

static int add(struct cli *c, const struct config *conf, struct dkim_dir *dir)
{
	const char *kind = c->args.value[CLI_ALGORITHM] ? c->args.value[CLI_ALGORITHM] : kind_default;
	char selector[DKIM_SELECTOR_MAX + 1];
	struct dkim_domain d;
	(void)conf;
	int rc = dkim_domain_open(c, dir, c->args.pos[1], true, &d);
	if (rc)
		return rc;
	rc = keys_make(c, &d, c->args.value[CLI_SELECTOR], kind, DKIM_KEY_ACTIVE, "", selector);
	if (!rc)
		rc = dkim_domain_save(&d);
	const struct dkim_ring_key *k = rc ? NULL : dkim_ring_find(&d.ring, str_from(selector));
	if (k && c->json) {
		struct json_object *o = keys_json(&d, k);
		cli_json_print(o);
		json_object_put(o);
	} else if (k) {
		printf("%s: mail of it is signed with this key from now on. Publish its record now:\n", d.name);
		rc = keys_print_record(&d, k);
	}
	dkim_domain_close(&d);
	return rc;
}

/* Runs fn for the named domain, or for all. */
static int each(struct cli *c, struct dkim_dir *dir, int (*fn)(struct cli *, struct dkim_domain *, void *), void *arg)
{
	char **list = NULL;
	size_t n = 0;
	int worst = 0;
	if (c->args.n_pos < 2 && dkim_dir_domains(dir, &list, &n))
		return CLI_FAILED;
	for (size_t i = 0; i < (c->args.n_pos < 2 ? n : 1); i++) {
		struct dkim_domain d;
		int rc = dkim_domain_open(c, dir, list ? list[i] : c->args.pos[1], false, &d);
		if (!rc) {
			rc = fn(c, &d, arg);
			dkim_domain_close(&d);
		}
		worst = rc > worst ? rc : worst;
	}
	for (size_t i = 0; i < n; i++)
		free(list[i]);
	free(list);
	return worst;
}

struct listing {
	struct cli_table table;
	struct json_object *list;
};

static int list_one(struct cli *c, struct dkim_domain *d, void *arg)
{
	struct listing *l = arg;
	(void)c;
	for (size_t i = 0; i < d->ring.n; i++) {
		const struct dkim_ring_key *k = &d->ring.key[i];
		char span[64];
		json_object_array_add(l->list, keys_json(d, k));
		cli_table_cell(&l->table, str_from(d->name));
		cli_table_cell(&l->table, str_from(k->selector));
		cli_table_cell(&l->table, str_from(k->kind));
		cli_table_cell(&l->table, str_from(dkim_key_state_name(k->state)));
		cli_text_duration(span, sizeof span, time(NULL) - k->since > 0 ? time(NULL) - k->since : 0);
		cli_table_cell(&l->table, str_from(span));
	}
	return 0;
}

static int list(struct cli *c, const struct config *conf, struct dkim_dir *dir)
{
	struct listing l = { .table = { .heads = { "DOMAIN", "SELECTOR", "ALGORITHM", "STATE", "FOR" }, .n = 5 }, .list = json_object_new_array() };
	(void)conf;
	int rc = each(c, dir, list_one, &l);
	if (c->json)
		cli_json_print(l.list);
	else
		cli_table_print(&l.table, stdout);
	if (c->json)
		buf_free(&l.table.cells);
	json_object_put(l.list);
	return rc;
}

struct publishing {
	struct dkim_asker *asker;
	struct json_object *list;
};

static int dns_one(struct cli *c, struct dkim_domain *d, void *arg)
{
	struct publishing *p = arg;
	int worst = 0;
	for (size_t i = 0; i < d->ring.n; i++) {
		const struct dkim_ring_key *k = &d->ring.key[i];
		struct buf record = BUF_INIT(2048), why = BUF_INIT(4000);
		int rc = dkim_domain_record(d, k, &record);
		enum dkim_told told = rc ? DKIM_TOLD_UNKNOWN : dkim_ask(p->asker, d->name, k->selector, buf_str(&record), &why);
		if (!rc && c->json) {
			struct json_object *o = keys_json(d, k);
			char name[400];
			snprintf(name, sizeof name, "%s._domainkey.%s", k->selector, d->name);
			json_object_object_add(o, "name", json_object_new_string(name));
			json_object_object_add(o, "record", json_object_new_string(buf_z(&record)));
			json_object_object_add(o, "dns", json_object_new_string(dkim_told_name(told)));
			if (why.n)
				json_object_object_add(o, "why", json_object_new_string(buf_z(&why)));
			json_object_array_add(p->list, o);
		} else if (!rc) {
			rc = keys_print_record(d, k);
			printf("; %s, %s%s", dkim_key_state_name(k->state), dkim_told_name(told), why.n ? ": " : "");
			cli_text_print(stdout, buf_str(&why));
			putchar('\n');
		}
		buf_free(&record);
		buf_free(&why);
		worst = rc > worst ? rc : worst;
	}
	return worst;
}

static int dns(struct cli *c, const struct config *conf, struct dkim_dir *dir)
{
	struct dkim_asker a;
	struct publishing p = { .asker = &a, .list = json_object_new_array() };
	int rc = dkim_ask_open(c, conf, &a);
	if (!rc)
		rc = each(c, dir, dns_one, &p);
	if (!rc && c->json)
		cli_json_print(p.list);
	json_object_put(p.list);
	dkim_ask_close(&a);
	return rc;
}

static int remove_key(struct cli *c, const struct config *conf, struct dkim_dir *dir)
{
	const char *selector = c->args.value[CLI_SELECTOR];
	struct dkim_domain d;
	(void)conf;
	int rc = dkim_domain_open(c, dir, c->args.pos[1], false, &d);
	if (rc)
		return rc;
	if (!selector && d.ring.n == 1)
		selector = d.ring.key[0].selector;
	if (!selector)
		rc = d.ring.n ? cli_usage(c, "%s has several keys: say which one with --selector", d.name) : cli_fail("%s has no keys", d.name);
	else if (!dkim_ring_find(&d.ring, str_from(selector)))
		rc = cli_fail("%s has no selector %s", d.name, selector);
	else {
		char gone[DKIM_SELECTOR_MAX + 1];
		snprintf(gone, sizeof gone, "%s", selector);
		dkim_ring_remove(&d.ring, str_from(gone));
		if (!(rc = dkim_domain_save(&d)))
			rc = dkim_domain_drop_key(&d, gone);
		if (!rc && !c->json)
			printf("%s: %s signs no more, its private half is gone. Mail is still under way: leave its record for some days, then set it to\n"
			       "%s._domainkey.%s. IN TXT \"v=DKIM1; p=\"\nand later take it away\n", d.name, gone, gone, d.name);
	}
	dkim_domain_close(&d);
	return rc;
}

int keys_verb(const struct cli *c, const char *what, const struct keys_verb *verbs, size_t n, size_t *ret)
{
	const char *names[KEYS_VERBS_MAX];
	struct buf list = BUF_INIT(300);
	for (size_t i = 0; i < n && i < KEYS_VERBS_MAX; i++) {
		const struct keys_verb *v = &verbs[i];
		names[i] = v->name;
		buf_addf(&list, "%s%s", i ? i + 1 < n ? ", " : " or " : "", v->name);
		if (strcmp(v->name, c->args.pos[0]) != 0)
			continue;
		*ret = i;
		buf_free(&list);
		return c->args.n_pos < v->min || c->args.n_pos > v->max ? cli_usage(c, "keys %s %s takes %s", what, v->name, v->takes) : 0;
	}
	const char *near = str_nearest(str_from(c->args.pos[0]), names, n);
	int rc = cli_usage(c, "keys %s: \"%s\" is not %s%s%s%s", what, c->args.pos[0], buf_z(&list), near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
	buf_free(&list);
	return rc;
}

int tool_keys_dkim(struct cli *c)
{
	static const struct keys_verb verbs[] = { { "add", 2, 2, true, "a domain" }, { "list", 1, 2, false, "at most a domain" }, { "dns", 2, 2, false, "a domain" },
		{ "remove", 2, 2, false, "a domain" }, { "rotate", 2, 2, false, "a domain" }, { "check", 1, 2, false, "at most a domain" } };
	static int (*const run[])(struct cli *, const struct config *, struct dkim_dir *) = { add, list, dns, remove_key, keys_rotate, keys_check };
	size_t at;
	int rc = keys_verb(c, "dkim", verbs, sizeof verbs / sizeof *verbs, &at);
	if (rc)
		return rc;
	struct config *conf = cli_config_need(c);
	struct dkim_dir dir = { .fd = -1 };
	rc = conf ? dkim_dir_open(c, conf, verbs[at].create, &dir) : CLI_FAILED;
	if (!rc)
		rc = run[at](c, conf, &dir);
	if (conf)
		dkim_dir_close(&dir);
	config_free(conf);
	return rc;
}
