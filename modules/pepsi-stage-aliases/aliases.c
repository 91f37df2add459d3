/* pepsi-stage-aliases: replaces recipients by what they stand for, by a text file or the table pepsi.alias_map. The sender
 * stays; an address nobody knows stays; a recipient's DSN wishes go along to what it became (RFC 3461 §5.2.7). */
#include "aliases.h"
#include "count.h"
#include "say.h"

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

/* dsn for the new recipients: each takes the wishes of the one it came from; ORCPT tells the address the sender wrote. */
static void add_dsn(struct json_object *o, struct json_object *state, const struct alias_expansion *e)
{
	struct json_object *dsn, *old, *copy = NULL, *list;
	if (!json_object_object_get_ex(state, "dsn", &dsn) || !json_object_object_get_ex(dsn, "rcpt", &old) || !json_object_is_type(old, json_type_array) ||
	    json_object_deep_copy(dsn, &copy, NULL))
		return;
	list = json_object_new_array();
	for (size_t i = 0; i < e->n; i++) {
		struct json_object *was = json_object_array_get_idx(old, e->r[i].origin);
		json_object_array_add(list, json_object_is_type(was, json_type_object) ? json_object_get(was) : json_object_new_object());
	}
	json_object_object_add(copy, "rcpt", list);
	json_object_object_add(o, "dsn", copy);
}

static bool listed(struct json_object *list, struct str address)
{
	for (size_t i = 0; json_object_is_type(list, json_type_array) && i < json_object_array_length(list); i++) {
		struct json_object *one = json_object_array_get_idx(list, i);
		if (json_object_is_type(one, json_type_string) && str_ieq(str_n(json_object_get_string(one), (size_t)json_object_get_string_len(one)), address))
			return true;
	}
	return false;
}

/* forwarded: who outside gets it now that it was not sent to, with what earlier such stages found. pepsi-stage-srs asks. */
static void add_forwarded(struct json_object *o, struct json_object *state, const char *local, const struct str *rcpts, const struct alias_expansion *e)
{
	struct json_object *old = NULL, *list = json_object_new_array();
	json_object_object_get_ex(state, "forwarded", &old);
	for (size_t i = 0; i < e->n; i++) {
		struct str now = e->r[i].address, was = rcpts[e->r[i].origin];
		if ((!str_ieq(now, was) || listed(old, was)) && !alias_local(local, str_behind(now, '@')))
			json_object_array_add(list, json_object_new_string_len(now.p, (int)now.n));
	}
	if (json_object_array_length(list) || old)
		json_object_object_add(o, "forwarded", json_object_get(list));
	json_object_put(list);
}

/* What changes of the state: {}, where nothing does. Text from malloc, or NULL: memory, or a state that is none. */
static char *new_state(const struct pepsi_host *h, struct pepsi_msg *m, const char *local, const struct str *rcpts, const struct alias_expansion *e)
{
	struct pepsi_str text = h->state(m);
	struct json_tokener *tok = json_tokener_new_ex(32);
	struct json_object *state = tok && text.n < INT32_MAX ? json_tokener_parse_ex(tok, text.p, (int)text.n) : NULL, *o = json_object_new_object();
	char *ret = NULL;
	if (json_object_is_type(state, json_type_object) && o) {
		add_dsn(o, state, e);
		add_forwarded(o, state, local, rcpts, e);
		ret = str_dupz(str_from(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)));
	}
	if (tok)
		json_tokener_free(tok);
	json_object_put(state);
	json_object_put(o);
	return ret;
}

static int32_t rewrite(const struct worker *w, const struct pepsi_host *h, struct pepsi_msg *m, const struct str *rcpts, const struct alias_expansion *e)
{
	const char **list = arena_calloc(w->a, e->n, sizeof *list);
	for (size_t i = 0; list && i < e->n; i++)
		if (!(list[i] = arena_strz(w->a, e->r[i].address)))
			list = NULL;
	char *state = list ? new_state(h, m, w->domains, rcpts, e) : NULL;
	int32_t r = state ? h->rewrite_recipients(m, list, e->n, strcmp(state, "{}") ? state : NULL) : PEPSI_RETRY;
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
