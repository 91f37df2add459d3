/* pepsi keys dkim rotate, check: keys change in steps that wait for others: the record must be seen everywhere before the key signs, and stay until no
 * mail is under way that was signed with the old one. Each run takes every step that is due; what was cut off is gone on with by the next one. */
#include "tool_keys.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { POLL_S = 5, ALARM_MAX = 1000, ALARMS_MAX = 60 * 1024 };

/* What one look at a domain came to. */
struct look {
	unsigned waiting; /* keys whose record is not seen everywhere yet */
	unsigned alarms;
	struct buf text;          /* the alarms, a line each */
	struct json_object *list; /* of {domain, selector, state, event, text, alarm} */
};

static void tell(const struct cli *c, struct look *l, const struct dkim_domain *d, const struct dkim_ring_key *k, bool alarm, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 7, 8)));
static void tell(const struct cli *c, struct look *l, const struct dkim_domain *d, const struct dkim_ring_key *k, bool alarm, const char *event, const char *fmt, ...)
{
	struct buf text = BUF_INIT(6000);
	va_list ap;
	va_start(ap, fmt);
	buf_vaddf(&text, fmt, ap);
	va_end(ap);
	l->alarms += alarm;
	if (alarm && buf_str(&text).n < ALARM_MAX) /* one that does not fit is counted all the same */
		buf_addf(&l->text, "%s %s: %s\n", d->name, k->selector, buf_z(&text));
	struct json_object *o = keys_json(d, k);
	json_object_object_add(o, "event", json_object_new_string(event));
	json_object_object_add(o, "text", json_object_new_string(buf_z(&text)));
	json_object_object_add(o, "alarm", json_object_new_boolean(alarm));
	json_object_array_add(l->list, o);
	if (!c->json) {
		printf("%s%s %s: ", alarm ? "ALARM " : "", d->name, k->selector);
		cli_text_print(stdout, buf_str(&text));
		putchar('\n');
	}
	buf_free(&text);
}

/* A waiting key: switch, or say who lags. */
static int waiting(const struct cli *c, struct look *l, struct dkim_domain *d, struct dkim_ring_key *k, enum dkim_told told, const char *why)
{
	char old[DKIM_SELECTOR_MAX + 1];
	if (told != DKIM_TOLD_ALL) {
		l->waiting++;
		tell(c, l, d, k, time(NULL) - k->since > 7 * 86400, "waits", "waits until every name server tells its record: %s", *why ? why : dkim_told_name(told));
		return 0;
	}
	snprintf(old, sizeof old, "%s", k->replaces);
	dkim_ring_switch(&d->ring, str_from(k->selector), time(NULL));
	int rc = dkim_domain_save(d);
	if (!rc)
		tell(c, l, d, k, false, "switched", "every name server tells its record: it signs from now on%s%s", *old ? ", instead of " : "", old);
	return rc;
}

/* A retired key whose time is over: its private half goes. The ring first: a key that is named must be there. */
static int retired(const struct cli *c, struct look *l, struct dkim_domain *d, struct dkim_ring_key *k, const struct dkim_dir *dir)
{
	int64_t left = k->since + dir->retire_s - time(NULL);
	char span[64];
	if (left > 0) {
		cli_text_duration(span, sizeof span, left);
		tell(c, l, d, k, false, "retired", "signs no more; leave its record for another %s: mail is under way that it signed", span);
		return 0;
	}
	dkim_ring_expire(&d->ring, time(NULL), dir->retire_s);
	int rc = dkim_domain_save(d);
	if (!rc)
		rc = dkim_domain_drop_key(d, k->selector);
	if (!rc)
		tell(c, l, d, k, false, "revoked", "no mail is under way that it signed: its private half is gone. Set its record to \"v=DKIM1; p=\", or take it away");
	return rc;
}

static int look_at(const struct cli *c, struct look *l, struct dkim_domain *d, const struct dkim_dir *dir, struct dkim_asker *a)
{
	int rc = 0;
	bool gone[DKIM_RING_MAX] = { false };
	struct dkim_ring before = d->ring;
	for (size_t i = 0; !rc && i < before.n; i++) {
		struct dkim_ring_key *k = dkim_ring_find(&d->ring, str_from(before.key[i].selector));
		struct buf record = BUF_INIT(2048), why = BUF_INIT(4000);
		enum dkim_told told = DKIM_TOLD_UNKNOWN;
		if (before.key[i].state == DKIM_KEY_REVOKED)
			dkim_domain_drop_key(d, k->selector); /* where that was cut off */
		if (before.key[i].state != DKIM_KEY_RETIRED) {
			rc = dkim_domain_record(d, k, &record);
			told = rc ? told : dkim_ask(a, d->name, k->selector, buf_str(&record), &why);
		}
		if (!rc && before.key[i].state == DKIM_KEY_WAITING)
			rc = waiting(c, l, d, k, told, buf_z(&why));
		else if (!rc && before.key[i].state == DKIM_KEY_RETIRED)
			rc = retired(c, l, d, k, dir);
		else if (!rc && before.key[i].state == DKIM_KEY_REVOKED) {
			gone[i] = told == DKIM_TOLD_NONE || told == DKIM_TOLD_ALL;
			tell(c, l, d, k, false, gone[i] ? "gone" : "revoked", "%s", gone[i] ? "its record is taken back: forgotten" : "its record is still there: set it to \"v=DKIM1; p=\", or take it away");
		} else if (!rc && told != DKIM_TOLD_ALL)
			tell(c, l, d, k, told != DKIM_TOLD_UNKNOWN, "unseen", "signs, but %s", why.n ? buf_z(&why) : dkim_told_name(told));
		else if (!rc)
			tell(c, l, d, k, false, "active", "signs, and every name server tells its record");
		buf_free(&record);
		buf_free(&why);
	}
	bool any = false;
	for (size_t i = 0; !rc && i < before.n; i++)
		if (gone[i]) {
			dkim_ring_remove(&d->ring, str_from(before.key[i].selector));
			any = true;
		}
	return rc ? rc : any ? dkim_domain_save(d) : 0;
}

/* --wait: looks again until nothing waits. The lock is let go of meanwhile. */
static int look_until(struct cli *c, struct look *l, const struct dkim_dir *dir, struct dkim_asker *a, const char *domain)
{
	const char *wait = c->args.value[CLI_WAIT];
	int64_t secs = wait ? cli_number(c, "--wait", wait, 0, 86400) : 0, end = time(NULL) + secs;
	if (secs < 0)
		return CLI_USAGE;
	for (;;) {
		struct dkim_domain d;
		int rc = dkim_domain_open(c, dir, domain, false, &d);
		unsigned before = l->waiting;
		if (rc)
			return rc;
		rc = look_at(c, l, &d, dir, a);
		dkim_domain_close(&d);
		if (rc || l->waiting == before || time(NULL) >= end)
			return rc;
		l->waiting = before;
		sleep(end - time(NULL) < POLL_S ? 1 : POLL_S);
	}
}

static int finish(struct cli *c, struct look *l, int rc)
{
	if (c->json)
		cli_json_print(l->list);
	json_object_put(l->list);
	buf_free(&l->text);
	return rc ? rc : l->alarms ? CLI_FAILED : CLI_DONE;
}

int keys_check(struct cli *c, const struct config *conf, struct dkim_dir *dir)
{
	struct look l = { .text = BUF_INIT(ALARMS_MAX), .list = json_object_new_array() };
	struct dkim_asker a;
	char **list = NULL;
	size_t n = 0;
	bool list_all = c->args.n_pos < 2;
	int worst = dkim_ask_open(c, conf, &a);
	if (!worst && list_all && dkim_dir_domains(dir, &list, &n))
		worst = CLI_FAILED;
	for (size_t i = 0; !worst && i < (list ? n : c->args.n_pos - 1); i++) {
		int rc = look_until(c, &l, dir, &a, list ? list[i] : c->args.pos[1]);
		worst = rc > worst ? rc : worst;
	}
	for (size_t i = 0; i < n; i++)
		free(list[i]);
	free(list);
	dkim_ask_close(&a);
	if (list_all && !worst)
		worst = dkim_dir_write_alarms(dir, buf_str(&l.text));
	return finish(c, &l, worst);
}

/* New keys beside the active ones. A rotation that is under way already is gone on with. */
static int begin(struct cli *c, struct dkim_domain *d)
{
	const char *kind = c->args.value[CLI_ALGORITHM];
	struct dkim_ring before = d->ring;
	unsigned n = 0;
	int rc = 0;
	for (size_t i = 0; i < before.n; i++)
		if (before.key[i].state == DKIM_KEY_WAITING) {
			if (!c->json)
				printf("%s: a rotation to %s is under way already\n", d->name, before.key[i].selector);
			return 0;
		}
	for (size_t i = 0; i < before.n; i++)
		n += before.key[i].state == DKIM_KEY_ACTIVE;
	if (!n)
		return cli_fail("%s has no active key to change: pepsi-keys dkim add", d->name);
	if (n > 1 && (c->args.value[CLI_SELECTOR] || kind))
		return cli_usage(c, "%s has %u active keys: each gets one like it, --selector and --algorithm have no place", d->name, n);
	for (size_t i = 0; !rc && i < before.n; i++) {
		char selector[DKIM_SELECTOR_MAX + 1];
		const struct dkim_ring_key *k = &before.key[i];
		if (k->state != DKIM_KEY_ACTIVE)
			continue;
		rc = keys_make(c, d, c->args.value[CLI_SELECTOR], kind ? kind : strcmp(k->kind, "unknown") ? k->kind : "rsa2048", DKIM_KEY_WAITING, k->selector, selector);
	}
	return rc ? rc : dkim_domain_save(d);
}

int keys_rotate(struct cli *c, const struct config *conf, struct dkim_dir *dir)
{
	struct look l = { .text = BUF_INIT(ALARMS_MAX), .list = json_object_new_array() };
	struct dkim_domain d;
	struct dkim_asker a = { .base = NULL };
	int rc = dkim_domain_open(c, dir, c->args.pos[1], false, &d);
	if (!rc) {
		rc = begin(c, &d);
		if (!rc && !c->json)
			puts("Publish (the old records stay):");
		for (size_t i = 0; !rc && !c->json && i < d.ring.n; i++)
			if (d.ring.key[i].state == DKIM_KEY_WAITING)
				rc = keys_print_record(&d, &d.ring.key[i]);
		dkim_domain_close(&d);
	}
	if (!rc && !(rc = dkim_ask_open(c, conf, &a)))
		rc = look_until(c, &l, dir, &a, c->args.pos[1]);
	if (!rc && !c->json && l.waiting)
		puts("The old key signs until then. Run pepsi-keys dkim check when it is published (pepsi-keys.timer does, every hour).");
	dkim_ask_close(&a);
	return finish(c, &l, rc);
}
