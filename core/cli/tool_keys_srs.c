/* pepsi keys srs: the two keys that pepsi-stage-srs and pepsi-stage-verp make and check return addresses with (proto/srs/ring.h). Needs no running pepsid; the stage looks at
 * the file whenever it needs a key. No key is ever printed. */
#include "key_dir.h"
#include "proto/srs/ring.h"
#include "tool_keys.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM "pepsi-stage-srs or pepsi-stage-verp"
enum { AGE_DEFAULT = 21 * 86400, TWO_DAYS = 2 * 86400 };

struct keyring {
	struct key_dir dir;
	struct srs_ring ring;
	int64_t needed_s; /* how long a retired key is of use: MAX_AGE and a bit */
};

static void done(struct keyring *k)
{
	srs_ring_wipe(&k->ring);
	if (k->dir.fd >= 0)
		close(k->dir.fd);
	free(k->dir.path);
}

static int load(struct cli *c, const struct config *conf, bool create, struct keyring *k)
{
	struct buf text = BUF_INIT(SRS_RING_TEXT_MAX + 2);
	const char *why = NULL;
	unsigned line;
	int64_t age = 0;
	int rc = key_dir_open(c, conf, PROGRAM, create, "pepsi-keys srs add", &k->dir);
	const struct config_value *v = rc ? NULL : config_get(conf, k->dir.section, "MAX_AGE");
	if (rc)
		return rc;
	k->needed_s = (v && !config_parse_duration(str_from(v->value), &age) && age > 0 ? age : AGE_DEFAULT) + TWO_DAYS;
	if (flock(k->dir.fd, LOCK_EX | LOCK_NB))
		return cli_fail("another pepsi-keys is at work on %s", k->dir.path);
	if (key_dir_read(k->dir.fd, SRS_RING_FILE, SRS_RING_TEXT_MAX, &text)) {
		if (errno != ENOENT)
			rc = cli_fail("%s/" SRS_RING_FILE ": %s", k->dir.path, strerror(errno));
		else if (!create)
			rc = cli_fail("%s has no keys (pepsi-keys srs add makes one)", k->dir.path);
	} else if (srs_ring_parse(buf_str(&text), &k->ring, &why, &line)) {
		rc = cli_fail("%s/" SRS_RING_FILE ":%u: %s", k->dir.path, line, why);
	}
	buf_free_secret(&text);
	return rc;
}

static int save(const struct keyring *k)
{
	struct buf text = BUF_INIT(SRS_RING_TEXT_MAX);
	int rc = !buf_room(&text, SRS_RING_TEXT_MAX - 1) || srs_ring_write(&k->ring, &text) ? cli_fail("out of memory") :
											      key_dir_put(k->dir.fd, k->dir.path, SRS_RING_FILE, buf_str(&text), 0600);
	buf_free_secret(&text);
	return rc;
}

/* "k20261130", and a number behind it where that is taken. */
static void id_of_day(const struct srs_ring *r, char out[SRS_RING_ID_MAX + 1])
{
	time_t now = time(NULL);
	struct tm tm;
	char day[16];
	gmtime_r(&now, &tm);
	strftime(day, sizeof day, "%Y%m%d", &tm);
	for (unsigned i = 1; i <= SRS_RING_MAX + 1; i++) {
		snprintf(out, SRS_RING_ID_MAX + 1, i > 1 ? "k%s-%u" : "k%s", day, i);
		if (!srs_ring_find(r, str_from(out)))
			return;
	}
}

/* A new active key. */
static int make(struct cli *c, struct keyring *k)
{
	unsigned char key[SRS_RING_KEY];
	char id[SRS_RING_ID_MAX + 1];
	const char *want = c->args.n_pos > 1 ? c->args.pos[1] : NULL;
	if (want && !srs_ring_id_ok(str_from(want)))
		return cli_usage(c, "\"%s\" is no name of a key: lower case letters, digits and hyphens, at most %d", want, SRS_RING_ID_MAX);
	if (want)
		snprintf(id, sizeof id, "%s", want);
	else
		id_of_day(&k->ring, id);
	if (getrandom(key, sizeof key, 0) != (ssize_t)sizeof key)
		return cli_fail("no random numbers: %s", strerror(errno));
	int rc = srs_ring_rotate(&k->ring, str_from(id), key, time(NULL)) ? cli_fail("there is a key %s already", id) : save(k);
	explicit_bzero(key, sizeof key);
	return rc;
}

static struct json_object *json_of(const struct keyring *k, const struct srs_ring_key *key)
{
	struct json_object *o = json_object_new_object();
	json_object_object_add(o, "key", json_object_new_string(key->id));
	json_object_object_add(o, "state", json_object_new_string(key->retired ? "retired" : "active"));
	json_object_object_add(o, "since", json_object_new_int64(key->since));
	if (key->retired)
		json_object_object_add(o, "needed_until", json_object_new_int64(key->since + k->needed_s));
	return o;
}

static int show(struct cli *c, const struct keyring *k)
{
	struct cli_table t = { .heads = { "KEY", "STATE", "FOR", "NEEDED FOR" }, .n = 4 };
	struct json_object *list = json_object_new_array();
	for (size_t i = 0; i < k->ring.n; i++) {
		const struct srs_ring_key *key = &k->ring.key[i];
		int64_t age = time(NULL) - key->since, left = k->needed_s - age;
		char span[64], needed[64] = "";
		json_object_array_add(list, json_of(k, key));
		cli_text_duration(span, sizeof span, age > 0 ? age : 0);
		if (key->retired && left > 0)
			cli_text_duration(needed, sizeof needed, left);
		cli_table_cell(&t, str_from(key->id));
		cli_table_cell(&t, str_from(key->retired ? "retired" : "active"));
		cli_table_cell(&t, str_from(span));
		cli_table_cell(&t, str_from(!key->retired ? "as long as it makes addresses" : left > 0 ? needed : "no more: remove it"));
	}
	if (c->json)
		cli_json_print(list);
	else
		cli_table_print(&t, stdout);
	if (c->json)
		buf_free(&t.cells);
	json_object_put(list);
	return CLI_DONE;
}

static int add(struct cli *c, struct keyring *k)
{
	if (srs_ring_active(&k->ring))
		return cli_fail("there is a key already: pepsi-keys srs rotate makes a new one");
	int rc = make(c, k);
	if (!rc && !c->json)
		printf("%s makes return addresses from now on\n", srs_ring_active(&k->ring)->id);
	return rc || !c->json ? rc : show(c, k);
}

static int rotate(struct cli *c, struct keyring *k)
{
	const struct srs_ring_key *old = srs_ring_retired(&k->ring);
	int64_t left = old ? old->since + k->needed_s - time(NULL) : 0;
	char span[64];
	if (!srs_ring_active(&k->ring))
		return cli_fail("there is no active key: pepsi-keys srs add");
	if (left > 0) {
		cli_text_duration(span, sizeof span, left);
		return cli_fail("%s is retired, and bounces to its addresses may come for another %s; a third key has no place: wait, or remove %s, and they are refused",
		    old->id, span, old->id);
	}
	int rc = make(c, k);
	if (!rc && !c->json) {
		cli_text_duration(span, sizeof span, k->needed_s);
		printf("%s makes return addresses from now on; what %s made is taken for another %s\n", srs_ring_active(&k->ring)->id, srs_ring_retired(&k->ring)->id, span);
	}
	return rc || !c->json ? rc : show(c, k);
}

static int list(struct cli *c, struct keyring *k)
{
	return show(c, k);
}

static int remove_key(struct cli *c, struct keyring *k)
{
	const char *id = c->args.pos[1];
	const struct srs_ring_key *key = srs_ring_find(&k->ring, str_from(id));
	if (!key)
		return cli_fail("there is no key %s", id);
	if (!key->retired)
		return cli_fail("%s makes the return addresses: pepsi-keys srs rotate first", key->id);
	srs_ring_remove(&k->ring, str_from(id));
	int rc = save(k);
	if (!rc && !c->json)
		printf("%s is gone: bounces to its addresses are refused\n", id);
	return rc || !c->json ? rc : show(c, k);
}

int tool_keys_srs(struct cli *c)
{
	static const struct keys_verb verbs[] = { { "add", 1, 2, true, "at most a name" }, { "list", 1, 1, false, "nothing" }, { "rotate", 1, 2, false, "at most a name" },
		{ "remove", 2, 2, false, "the name of a key" } };
	static int (*const run[])(struct cli *, struct keyring *) = { add, list, rotate, remove_key };
	size_t at;
	int rc = keys_verb(c, "srs", verbs, sizeof verbs / sizeof *verbs, &at);
	if (rc)
		return rc;
	struct config *conf = cli_config_need(c);
	struct keyring k = { .dir.fd = -1 };
	rc = conf ? load(c, conf, verbs[at].create, &k) : CLI_FAILED;
	if (!rc)
		rc = run[at](c, &k);
	done(&k);
	config_free(conf);
	return rc;
}
