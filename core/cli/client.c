/* The client's side of the control socket: one request, one answer, each within a deadline, nothing unbounded. */
#include "base/clock.h"
#include "cli_internal.h"

#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { ANSWER_MAX = 32 * 1024 * 1024, ANSWER_DEPTH = 16 * 1024, CHUNK = 64 * 1024 };

int cli_client_find(struct cli *c)
{
	char *from_config = NULL;
	const char *state = c->args.value[CLI_STATE];
	struct sockaddr_un sun;
	if (!state) {
		const char *file = cli_config_file(c);
		struct config_faults *faults = config_faults_new();
		struct config *conf = faults ? cli_config_load(c, faults) : NULL;
		/* any other fault is pepsid's business; without the file the default folder is meant only by default */
		if (conf && access(file, R_OK) && (c->args.set & CLI_BIT(CLI_CONFIG) || getenv("PEPSI_CONFIG")))
			cli_fail("cannot read %s: %s", file, strerror(errno));
		else if (conf && !(from_config = config_path(conf, "pepsi", "STATE_DIR")))
			cli_fail("%s: no STATE_DIR", file);
		config_free(conf);
		config_faults_free(faults);
		if (!from_config)
			return -1;
		state = from_config;
	}
	int n = snprintf(c->socket, sizeof c->socket, "%s/run/control.sock", state);
	free(from_config);
	if (n < 0 || (size_t)n >= sizeof sun.sun_path || (size_t)n >= sizeof c->socket) {
		cli_fail("the state folder's name is too long for a socket: %s", c->socket);
		return -1;
	}
	return 0;
}

void cli_client_close(struct cli *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	buf_free(&c->in);
}

/* The kernel says no: whom it would let, by name. */
static void not_for_us(const struct cli *c, int e)
{
	struct stat st;
	struct group *g = stat(c->socket, &st) == 0 && st.st_mode & S_IWGRP ? getgrgid(st.st_gid) : NULL;
	cli_fail("cannot reach pepsid at %s: %s (ask as root, as the account of pepsid%s%s)", c->socket, strerror(e),
	    g ? ", or as a member of the group " : "", g ? g->gr_name : "");
}

static int client_connect(struct cli *c, bool quiet)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	if (c->fd >= 0)
		return 0;
	if (!c->socket[0] && cli_client_find(c))
		return -1;
	snprintf(sun.sun_path, sizeof sun.sun_path, "%s", c->socket);
	c->in = BUF_INIT(ANSWER_MAX);
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd >= 0 && !connect(c->fd, (struct sockaddr *)&sun, sizeof sun))
		return 0;
	int e = errno;
	cli_client_close(c);
	if (quiet) {
		c->socket[0] = 0; /* whoever tries again looks again: pepsid may note another folder when it comes */
		return -1;
	}
	if (e == EACCES || e == EPERM)
		not_for_us(c, e);
	else
		cli_fail("cannot reach pepsid at %s: %s (is it running%s?)", c->socket, strerror(e),
		    c->args.set & (CLI_BIT(CLI_CONFIG) | CLI_BIT(CLI_STATE)) || getenv("PEPSI_CONFIG") ? "" : ", and with which -c FILE");
	return -1;
}

/* 1: ready. 0: the time is up. -1: error. */
static int wait_ready(int fd, short events, int64_t deadline)
{
	for (;;) {
		int64_t left = (deadline - clock_mono_us()) / 1000;
		struct pollfd p = { .fd = fd, .events = events };
		int rc = poll(&p, 1, left > 0 ? (int)(left < 60000 ? left : 60000) : 0);
		if (rc > 0)
			return 1;
		if (rc < 0 && errno != EINTR)
			return -1;
		if (left <= 0)
			return 0;
	}
}

static int send_all(struct cli *c, struct str s, int64_t deadline)
{
	while (s.n) {
		ssize_t n = send(c->fd, s.p, s.n, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -1;
		if (n > 0)
			s = str_skip(s, (size_t)n);
		else if (wait_ready(c->fd, POLLOUT, deadline) <= 0)
			return -1;
	}
	return 0;
}

/* More octets into c->in. 1, 0 at the end of the stream, -1 error or time up. */
static int receive(struct cli *c, int64_t deadline)
{
	for (;;) {
		if (wait_ready(c->fd, POLLIN, deadline) <= 0)
			return -1;
		char *at = buf_room(&c->in, CHUNK);
		ssize_t n = at ? recv(c->fd, at, CHUNK, MSG_DONTWAIT) : -1;
		if (n > 0) {
			c->in.n += (size_t)n;
			return 1;
		}
		if (n == 0 || !at || (errno != EAGAIN && errno != EINTR))
			return n == 0 ? 0 : -1;
	}
}

static struct json_object *parse(struct str line)
{
	/* a state may be nested as deep as the database takes it, and is to be seen just then */
	struct json_tokener *tok = json_tokener_new_ex(ANSWER_DEPTH);
	struct json_object *o = NULL;
	if (!tok)
		return NULL;
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	o = json_tokener_parse_ex(tok, line.p, (int)line.n);
	if (json_tokener_get_error(tok) != json_tokener_success) {
		json_object_put(o);
		o = NULL;
	}
	json_tokener_free(tok);
	return o;
}

static int send_request(struct cli *c, const char *cmd, struct json_object *args, int64_t deadline)
{
	struct json_object *request = json_object_new_object();
	struct buf line = BUF_INIT(1 << 20);
	json_object_object_add(request, "cmd", json_object_new_string(cmd));
	if (args)
		json_object_object_add(request, "args", args);
	buf_addz(&line, json_object_to_json_string_ext(request, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	buf_addc(&line, '\n');
	int rc = line.failed ? -1 : send_all(c, buf_str(&line), deadline);
	buf_free(&line);
	json_object_put(request);
	return rc;
}

/* The whole answer object of one request, its line taken off c->in; NULL after a message. */
static struct json_object *exchange(struct cli *c, const char *cmd, struct json_object *args, int timeout_ms, bool quiet)
{
	int64_t deadline = clock_mono_us() + (int64_t)timeout_ms * 1000;
	ptrdiff_t end = -1;
	if (client_connect(c, quiet)) {
		json_object_put(args);
		return NULL;
	}
	/* a refusal may be waiting even when the request could not be sent whole */
	int sent = send_request(c, cmd, args, deadline), got = 1;
	while ((end = str_chr(buf_str(&c->in), '\n')) < 0 && got > 0)
		got = receive(c, deadline);
	struct json_object *o = end >= 0 ? parse(str_n(c->in.p, (size_t)end)) : NULL;
	if (o && json_object_is_type(o, json_type_object)) {
		buf_consume(&c->in, (size_t)end + 1);
		return o;
	}
	json_object_put(o);
	cli_client_close(c);
	if (!quiet)
		cli_fail("pepsid at %s %s", c->socket,
		    end >= 0 ? "gave an answer that cannot be read" :
		    got == 0 || sent ? "closed the connection without an answer" : "does not answer");
	return NULL;
}

/* True when the answer says ok; else its error is told. */
static bool answer_ok(struct json_object *o, bool quiet)
{
	struct json_object *ok = NULL;
	if (json_object_object_get_ex(o, "ok", &ok) && json_object_get_boolean(ok))
		return true;
	struct str hint = cli_json_text(o, "hint"), error = cli_json_text(o, "error");
	if (!quiet)
		cli_fail("%.*s%s%.*s%s", STR_ARG(error), hint.n ? " (" : "", STR_ARG(hint), hint.n ? ")" : "");
	return false;
}

struct json_object *cli_ask(struct cli *c, const char *cmd, struct json_object *args, int timeout_ms, bool quiet)
{
	struct json_object *data = NULL, *o = exchange(c, cmd, args, timeout_ms, quiet);
	if (o && answer_ok(o, quiet)) {
		/* an answer without data is as good as an empty one */
		if (!json_object_object_get_ex(o, "data", &data) || !data)
			data = json_object_new_object();
		else
			json_object_get(data);
	}
	json_object_put(o);
	return data;
}

int cli_ask_raw(struct cli *c, const char *cmd, struct json_object *args, FILE *f)
{
	struct json_object *o = exchange(c, cmd, args, CLI_ANSWER_MS, false);
	bool ok = o && answer_ok(o, false);
	int64_t left = ok ? cli_json_int(o, "length") : 0;
	json_object_put(o);
	if (!ok)
		return CLI_FAILED;
	while (left > 0) {
		size_t n = c->in.n < (uint64_t)left ? c->in.n : (size_t)left;
		if (n && fwrite(c->in.p, 1, n, f) != n)
			return cli_fail("cannot write: %s", strerror(errno));
		left -= (int64_t)n;
		buf_consume(&c->in, n);
		/* each piece has its own time: a large message may take long, a dead pepsid not */
		if (left && receive(c, clock_mono_us() + (int64_t)CLI_ANSWER_MS * 1000) <= 0)
			return cli_fail("the message ended early, %" PRId64 " octets are missing: it went away meanwhile, "
					"or pepsid did", left);
	}
	return CLI_DONE;
}

struct str cli_json_text(struct json_object *o, const char *key)
{
	struct json_object *v = NULL;
	if (!json_object_is_type(o, json_type_object) || !json_object_object_get_ex(o, key, &v) ||
	    !json_object_is_type(v, json_type_string))
		return STR_NULL;
	return str_n(json_object_get_string(v), (size_t)json_object_get_string_len(v));
}

int64_t cli_json_int(struct json_object *o, const char *key)
{
	struct json_object *v = NULL;
	if (!json_object_is_type(o, json_type_object) || !json_object_object_get_ex(o, key, &v))
		return 0;
	return json_object_get_int64(v);
}

void cli_json_print(struct json_object *o)
{
	cli_text_print_json(stdout,
	    json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
}
