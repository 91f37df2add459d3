/* pepsi-stage-aliases: replaces recipients by what they stand for, by a text file or the table pepsi.alias_map. The sender
 * stays; an address nobody knows stays; a recipient's DSN wishes go along to what it became (RFC 3461 §5.2.7). */
#include "aliases.h"
#include "forwarded.h"
#include "count.h"
#include "say.h"

#include "proto/dsn/dsn.h"
#include "proto/smtp/xtext.h"

#include <json-c/json.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK_EVERY_US = 1000 * 1000, ARENA_MAX = 64 * 1024 * 1024, READ_SIZE = 65536 };

struct worker {
	const struct pepsi_conf *conf;
	bool database;
	const char *path, *domains, *delimiters;
	struct alias_file *file;
	struct timespec mtime;
	ino_t ino;
	off_t size;
	int64_t looked_us;
	bool complained;
	struct arena *a;
	struct pepsi_metric *seen;
};

static const struct pepsi_option options[] = {
	{ .name = "MAP", .type = PEPSI_OPT_CHOICE, .def = "file", .choices = "file database",
	    .help = "where the aliases are: FILE, or the table pepsi.alias_map" },
	{ .name = "FILE", .type = PEPSI_OPT_PATH, .def = "/etc/aliases",
	    .help = "lines NAME: TARGET, TARGET; read again when it changes; at most 32 MiB" },
	{ .name = "DOMAINS", .type = PEPSI_OPT_LIST,
	    .help = "domains at which a bare NAME is an alias; default: LOCAL_DOMAINS of [pepsi]" },
	{ .name = "RECIPIENT_DELIMITER", .type = PEPSI_OPT_STRING,
	    .help = "octets such as +: alice+lists, when it is no alias itself, is looked up as alice; default: that of [pepsi]" },
};

struct told {
	const struct pepsi_host *h;
	const char *path;
	unsigned n;
};

static void tell_line(void *arg, unsigned line, const char *text)
{
	struct told *t = arg;
	if (++t->n <= 20)
		say(t->h, NULL, PEPSI_LOG_WARN, "%s:%u: %s", t->path, line, text);
}

/* Reads the file into w->file. 0, or -1 with the reason; the old map stays then. */
static int read_file(struct worker *w, const struct pepsi_host *h, struct buf *why)
{
	struct buf text = BUF_INIT(ALIAS_FILE_MAX + READ_SIZE);
	struct told t = { h, w->path, 0 };
	struct stat st;
	int fd = open(w->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), r = -1;
	if (fd < 0 || fstat(fd, &st)) {
		buf_addf(why, "%s: %s", w->path, strerror(errno));
	} else if (!S_ISREG(st.st_mode) || st.st_size > ALIAS_FILE_MAX) {
		buf_addf(why, "%s: %s", w->path, S_ISREG(st.st_mode) ? "larger than 32 MiB" : "not a regular file");
	} else {
		ssize_t k = 0;
		char *room;
		while ((room = buf_room(&text, READ_SIZE)) && (k = read(fd, room, READ_SIZE)) > 0)
			text.n += (size_t)k;
		struct alias_file *f = k < 0 || !room ? NULL : alias_file_parse(buf_str(&text), tell_line, &t);
		if (k < 0 || !room) {
			buf_addf(why, "%s: %s", w->path, k < 0 ? strerror(errno) : "out of memory, or it grows while it is read");
		} else if (!f) {
			buf_addf(why, "%s: out of memory", w->path);
		} else {
			alias_file_free(w->file);
			w->file = f;
			w->mtime = st.st_mtim;
			w->ino = st.st_ino;
			w->size = st.st_size;
			if (t.n > 20)
				say(h, NULL, PEPSI_LOG_WARN, "%s: %u more lines like these", w->path, t.n - 20);
			say(h, NULL, PEPSI_LOG_DEBUG, "%s: %zu names", w->path, alias_file_names(f));
			r = 0;
		}
	}
	if (fd >= 0)
		close(fd);
	buf_free(&text);
	return r;
}

/* Has the file changed? Asked once a second at most. A map that cannot be read any more goes on as it was. */
static void look_again(struct worker *w, const struct pepsi_host *h)
{
	struct stat st;
	struct buf why = BUF_INIT(512);
	int64_t now = h->now_us();
	if (now - w->looked_us < LOOK_EVERY_US && now >= w->looked_us)
		return;
	w->looked_us = now;
	bool same = !stat(w->path, &st) && st.st_mtim.tv_sec == w->mtime.tv_sec && st.st_mtim.tv_nsec == w->mtime.tv_nsec &&
	    st.st_ino == w->ino && st.st_size == w->size;
	if (same) {
		w->complained = false;
	} else if (read_file(w, h, &why)) {
		if (!w->complained)
			say(h, NULL, PEPSI_LOG_WARN, "%s; the aliases read before stay in use", buf_z(&why));
		w->complained = true;
	}
	buf_free(&why);
}

static void close_worker(void *worker)
{
	struct worker *w = worker;
	if (!w)
		return;
	alias_file_free(w->file);
	arena_free(w->a);
	free(w);
}

static int32_t validate(const struct pepsi_host *h, const struct pepsi_conf *c, struct pepsi_report *r)
{
	const char *map = h->conf_str(c, "MAP"), *file = h->conf_str(c, "FILE");
	if ((!map || strcmp(map, "database") != 0) && (!file || file[0] != '/'))
		h->report(r, "FILE", "must be an absolute path");
	if (!h->conf_str(c, "NEXT_STAGE"))
		h->report(r, NULL, "NEXT_STAGE must be set: the stage that delivers");
	return PEPSI_OK;
}

static int32_t open_worker(const struct pepsi_host *h, const struct pepsi_conf *c, void **ret)
{
	struct worker *w = calloc(1, sizeof *w);
	struct buf why = BUF_INIT(512);
	const char *map = h->conf_str(c, "MAP");
	if (!w || !(w->a = arena_new(ARENA_MAX))) {
		free(w);
		return PEPSI_RETRY;
	}
	w->conf = c;
	w->database = map && !strcmp(map, "database");
	w->path = h->conf_str(c, "FILE");
	w->domains = h->conf_str(c, "DOMAINS");
	if (!w->domains)
		w->domains = h->conf_global(c, "pepsi", "LOCAL_DOMAINS");
	w->delimiters = h->conf_str(c, "RECIPIENT_DELIMITER");
	if (!w->delimiters)
		w->delimiters = h->conf_global(c, "pepsi", "RECIPIENT_DELIMITER");
	w->seen = count_new(h, c, PEPSI_METRIC_COUNTER, "aliases", "result", "same expanded nobody looped too_many away",
	    "Messages: without an alias, expanded, to nobody, to aliases of each other, to too many; or aliases not to be asked.");
	w->looked_us = h->now_us();
	if (!w->database && (!w->path || read_file(w, h, &why))) {
		say(h, NULL, PEPSI_LOG_ERROR, "%s", why.n ? buf_z(&why) : "FILE is not set");
		buf_free(&why);
		close_worker(w);
		return PEPSI_RETRY;
	}
	*ret = w;
	return PEPSI_OK;
}

/* ORCPT for an address that its sender wrote, and that became another one; empty: it cannot be said (RFC 3461 §4.2, RFC 6533 §3). */
static void orcpt_of(struct buf *out, struct str address)
{
	buf_reset(out);
	if (str_chr(address, ' ') >= 0)
		return;
	buf_addz(out, str_is_ascii(address) ? "rfc822;" : "utf-8;");
	int bad = str_is_ascii(address) ? smtp_xtext_encode(address, out) : dsn_utf8_address(out, address, false, SMTP_ORCPT_MAX);
	if (bad || out->failed || out->n >= SMTP_ORCPT_MAX)
		buf_reset(out);
}

static void put_text(struct json_object *o, const char *key, struct str s)
{
	json_object_object_add(o, key, json_object_new_string_len(s.p, (int)s.n));
}

/* What the new recipient of that result asks for: the wishes of the one it came from. */
static struct json_object *wishes(struct json_object *old, const struct alias_result *r, struct str was, bool told)
{
	struct json_object *from = json_object_array_get_idx(old, r->origin), *o = NULL, *v;
	struct buf b = BUF_INIT(1024);
	if (!json_object_is_type(from, json_type_object) || json_object_deep_copy(from, &o, NULL))
		o = json_object_new_object();
	if (!str_ieq(r->address, was) && !json_object_object_get_ex(o, "orcpt", &v)) {
		orcpt_of(&b, was);
		if (b.n)
			put_text(o, "orcpt", buf_str(&b));
	}
	if (!str_ieq(r->address, was) && !json_object_object_get_ex(o, "alias", &v))
		put_text(o, "alias", was);
	if (told) { /* its success was told as that of the alias (RFC 3461 §5.2.7.3) */
		struct str notify = STR_NULL;
		if (json_object_object_get_ex(o, "notify", &v) && json_object_is_type(v, json_type_string))
			notify = str_n(json_object_get_string(v), (size_t)json_object_get_string_len(v));
		put_text(o, "notify", str_from(dsn_notify_text(dsn_notify_onward(dsn_notify(notify), DSN_EXPANDED))));
	}
	buf_free(&b);
	return o;
}

/* dsn for the new recipients: each takes the wishes of the one it came from; ORCPT tells the address the sender wrote. told: of each old recipient,
 * whether it is reported as expanded. */
static void add_dsn(struct json_object *o, struct json_object *state, const struct str *rcpts, const struct alias_expansion *e, const uint8_t *told)
{
	struct json_object *dsn = NULL, *old = NULL, *copy = NULL, *none = json_object_new_array(), *list = json_object_new_array();
	if (!json_object_object_get_ex(state, "dsn", &dsn) || !json_object_is_type(dsn, json_type_object) || json_object_deep_copy(dsn, &copy, NULL))
		copy = json_object_new_object();
	if (!json_object_object_get_ex(copy, "rcpt", &old) || !json_object_is_type(old, json_type_array))
		old = none;
	for (size_t i = 0; i < e->n; i++)
		json_object_array_add(list, wishes(old, &e->r[i], rcpts[e->r[i].origin], told[e->r[i].origin]));
	json_object_object_add(copy, "rcpt", list);
	json_object_object_add(o, "dsn", copy);
	json_object_put(none);
}

/* forwarded: who outside gets it now that it was not sent to, with what earlier such stages found. pepsi-stage-srs asks. */
static void add_forwarded(struct json_object *o, struct json_object *state, const char *local, const struct str *rcpts, const struct alias_expansion *e)
{
	struct json_object *old = NULL, *list = json_object_new_array();
	json_object_object_get_ex(state, "forwarded", &old);
	for (size_t i = 0; i < e->n; i++) {
		struct str now = e->r[i].address, was = rcpts[e->r[i].origin];
		if ((!str_ieq(now, was) || forwarded_has(old, was)) && !alias_local(local, str_behind(now, '@')))
			json_object_array_add(list, json_object_new_string_len(now.p, (int)now.n));
	}
	if (json_object_array_length(list) || old)
		json_object_object_add(o, "forwarded", json_object_get(list));
	json_object_put(list);
}

/* What changes of the state: {}, where nothing does. Text from malloc, or NULL: memory, or a state that is none. */
static char *new_state(const struct pepsi_host *h, struct pepsi_msg *m, const char *local, const struct str *rcpts, const struct alias_expansion *e,
    const uint8_t *told)
{
	struct pepsi_str text = h->state(m);
	struct json_tokener *tok = json_tokener_new_ex(32);
	struct json_object *state = tok && text.n < INT32_MAX ? json_tokener_parse_ex(tok, text.p, (int)text.n) : NULL, *o = json_object_new_object();
	char *ret = NULL;
	if (json_object_is_type(state, json_type_object) && o) {
		add_dsn(o, state, rcpts, e, told);
		add_forwarded(o, state, local, rcpts, e);
		ret = str_dupz(str_from(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)));
	}
	if (tok)
		json_tokener_free(tok);
	json_object_put(state);
	json_object_put(o);
	return ret;
}

/* Aliases of several whose sender wants to hear of success are told of here; told[i] of each recipient. */
static int32_t tell(const struct pepsi_host *h, struct pepsi_msg *m, struct arena *a, const struct alias_expansion *e, uint8_t *told)
{
	size_t n = h->n_rcpt(m), n_idx = 0;
	uint32_t *idx = arena_calloc(a, n + 1, sizeof *idx);
	uint8_t *some = arena_calloc(a, n + 1, 1);
	if (!idx || !some)
		return PEPSI_RETRY;
	for (size_t i = 1; i < e->n; i++) /* in the order of the recipients they came from */
		if (e->r[i].origin == e->r[i - 1].origin && (!n_idx || idx[n_idx - 1] != e->r[i].origin))
			idx[n_idx++] = (uint32_t)e->r[i].origin;
	if (!n_idx || !PEPSI_HAS(h, tell_success))
		return PEPSI_OK;
	int32_t r = h->tell_success(m, idx, n_idx, PEPSI_DSN_EXPANDED, some);
	for (size_t i = 0; r == PEPSI_OK && i < n_idx; i++)
		told[idx[i]] = some[i];
	return r;
}

static int32_t rewrite(const struct worker *w, const struct pepsi_host *h, struct pepsi_msg *m, const struct str *rcpts, const struct alias_expansion *e)
{
	const char **list = arena_calloc(w->a, e->n, sizeof *list);
	uint8_t *told = arena_calloc(w->a, h->n_rcpt(m) + 1, 1);
	for (size_t i = 0; list && i < e->n; i++)
		if (!(list[i] = arena_strz(w->a, e->r[i].address)))
			list = NULL;
	if (!list || !told)
		return PEPSI_RETRY;
	int32_t r = tell(h, m, w->a, e, told);
	if (r != PEPSI_OK)
		return r;
	char *state = new_state(h, m, w->domains, rcpts, e, told);
	r = state ? h->rewrite_recipients(m, list, e->n, state) : PEPSI_RETRY;
	free(state);
	return r;
}

static int32_t process(void *worker, const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct worker *w = worker;
	struct alias_table table = { NULL };
	struct alias_source src = { w->file, alias_file_find };
	struct alias_expansion e;
	struct buf why = BUF_INIT(512);
	size_t n = h->n_rcpt(m);
	if (w->database) {
		table.db = h->database(w->conf);
		src = (struct alias_source){ &table, alias_table_find };
	} else {
		look_again(w, h);
		src.arg = w->file;
	}
	arena_reset(w->a);
	struct str *rcpts = arena_calloc(w->a, n + 1, sizeof *rcpts);
	for (size_t i = 0; rcpts && i < n; i++)
		rcpts[i] = from_host(h->rcpt(m, i));
	if (!rcpts || alias_expand(&src, w->a, rcpts, n, w->domains, w->delimiters, &e, &why)) {
		say(h, m, PEPSI_LOG_WARN, "aliases cannot be looked up: %s", why.n ? buf_z(&why) : "out of memory");
		buf_free(&why);
		count_add(h, w->seen, "away", 1);
		return PEPSI_RETRY;
	}
	buf_free(&why);
	count_add(h, w->seen, e.too_many ? "too_many" : e.looped ? "looped" : !e.n ? "nobody" : e.changed ? "expanded" : "same", 1);
	if (e.too_many) {
		say(h, m, PEPSI_LOG_ERROR, "the aliases of this message have more than %d addresses", ALIAS_TARGETS_MAX);
		return PEPSI_PERMANENT;
	}
	if (e.looped)
		say(h, m, PEPSI_LOG_WARN, "%zu recipients have aliases that lead only to each other; they stay as they are", e.looped);
	if (!e.n) {
		h->log(m, PEPSI_LOG_INFO, "all recipients are aliases of nobody");
		return h->finish(m);
	}
	return e.changed ? rewrite(w, h, m, rcpts, &e) : h->advance(m);
}

PEPSI_STAGE(.name = "pepsi-stage-aliases", .version = "0.1", .license = "Apache-2.0",
    .summary = "replaces recipients by what they stand for", .load_class = PEPSI_LOAD_METADATA,
    .caps = PEPSI_CAP_DB | PEPSI_CAP_FILES, PEPSI_OPTIONS(options), .validate = validate, .open = open_worker,
    .process = process, .close = close_worker);
