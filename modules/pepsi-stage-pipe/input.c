/* See input.h. Mail data is never made acceptable here: it fits or it is left out. */
#include "input.h"

#include "base/buf.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	VARS_MAX = 16,
	VALUE_MAX = 32 * 1024,           /* octets of one value; the kernel takes 128 KiB (MAX_ARG_STRLEN) */
	HEAD_MAX = 32 * 1024 * 1024,     /* of the JSON line: a state and 100,000 recipients */
};

static int put(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t k = write(fd, p, n);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return -1;
		p += k;
		n -= (size_t)k;
	}
	return 0;
}

static int head(int fd, const struct pepsi_host *h, struct pepsi_msg *m, const char *stage)
{
	struct json_object *o = json_object_new_object(), *to = json_object_new_array(), *state;
	struct pepsi_str from = h->mail_from(m);
	size_t n = h->n_rcpt(m);
	int rc = -1;
	for (size_t i = 0; i < n; i++) {
		struct pepsi_str s = h->rcpt(m, i);
		json_object_array_add(to, json_object_new_string_len(s.p, (int)s.n));
	}
	json_object_object_add(o, "id", json_object_new_int64(h->id(m)));
	json_object_object_add(o, "stage", json_object_new_string(stage));
	json_object_object_add(o, "received_at", json_object_new_int64(h->received_at(m) / 1000000));
	json_object_object_add(o, "mail_from", json_object_new_string_len(from.p ? from.p : "", (int)from.n));
	json_object_object_add(o, "rcpt_to", to);
	state = json_tokener_parse(h->state(m).p); /* NUL-terminated, and checked when it was written */
	json_object_object_add(o, "state", state ? state : json_object_new_object());
	size_t len = 0;
	const char *text = json_object_to_json_string_length(o, JSON_C_TO_STRING_PLAIN, &len);
	if (!text || len > HEAD_MAX)
		errno = ENOMEM;
	else
		rc = put(fd, text, len) || put(fd, "\n", 1) ? -1 : 0;
	json_object_put(o);
	return rc;
}

int input_open(const struct pepsi_host *h, struct pepsi_msg *m, const char *stage, bool json)
{
	struct pepsi_str headers, body;
	if (h->headers(m, &headers) != PEPSI_OK || h->body(m, &body) != PEPSI_OK) {
		errno = EINVAL;
		return -1;
	}
	int fd = memfd_create("message", MFD_CLOEXEC);
	if (fd < 0)
		return -1;
	if ((json && head(fd, h, m, stage)) || put(fd, headers.p, headers.n) || put(fd, "\r\n", 2) || put(fd, body.p, body.n) ||
	    lseek(fd, 0, SEEK_SET)) {
		int err = errno;
		close(fd);
		errno = err;
		return -1;
	}
	return fd;
}

/* --- the environment */

struct env {
	struct arena *a;
	char **v;
	size_t n;
	bool incomplete, failed;
};

static void add(struct env *e, const char *name, struct str value)
{
	for (size_t i = 0; i < value.n; i++)
		if (value.p[i] < 0x21 || value.p[i] > 0x7e) {
			e->incomplete = true;
			return;
		}
	if (value.n > VALUE_MAX) {
		e->incomplete = true;
		return;
	}
	struct buf b = BUF_INIT(VALUE_MAX + 64);
	buf_addf(&b, "%s=", name);
	buf_adds(&b, value);
	e->v[e->n] = b.failed ? NULL : arena_strz(e->a, buf_str(&b));
	buf_free(&b);
	if (!e->v[e->n++])
		e->failed = true;
}

static void add_number(struct env *e, const char *name, int64_t n)
{
	char text[32];
	snprintf(text, sizeof text, "%" PRId64, n);
	add(e, name, str_from(text));
}

static void add_state(struct env *e, const char *name, const struct pepsi_host *h, struct pepsi_msg *m, const char *path)
{
	struct pepsi_str s;
	if (h->state_get(m, path, &s) == PEPSI_OK)
		add(e, name, str_n(s.p, s.n));
}

/* All of them separated by blanks, or none: half a list would be a lie. Addresses with blanks in quotes are why blanks are not
 * allowed in a value. */
static void add_recipients(struct env *e, const struct pepsi_host *h, struct pepsi_msg *m)
{
	static const char name[] = "PEPSI_RECIPIENTS=";
	struct buf b = BUF_INIT(VALUE_MAX);
	size_t n = h->n_rcpt(m);
	bool good = true;
	buf_addz(&b, name);
	for (size_t i = 0; i < n && good; i++) {
		struct pepsi_str s = h->rcpt(m, i);
		for (size_t k = 0; k < s.n; k++)
			good = good && s.p[k] >= 0x21 && s.p[k] <= 0x7e;
		if (i)
			buf_addc(&b, ' ');
		good = good && !buf_add(&b, s.p, s.n);
	}
	if (!good)
		e->incomplete = true;
	else if (!(e->v[e->n++] = arena_strz(e->a, buf_str(&b))))
		e->failed = true;
	buf_free(&b);
}

char **input_environment(struct arena *a, const struct pepsi_host *h, struct pepsi_msg *m, const char *stage, const char *hostname)
{
	struct env e = { .a = a, .v = arena_calloc(a, VARS_MAX, sizeof(char *)) };
	struct pepsi_str from = h->mail_from(m);
	if (!e.v)
		return NULL;
	add(&e, "PATH", STR("/usr/local/bin:/usr/bin:/bin"));
	add(&e, "LC_ALL", STR("C"));
	add(&e, "PEPSI_STAGE", str_from(stage));
	add(&e, "PEPSI_HOSTNAME", str_from(hostname ? hostname : ""));
	add_number(&e, "PEPSI_ID", h->id(m));
	add_number(&e, "PEPSI_RECEIVED_AT", h->received_at(m) / 1000000);
	add(&e, "PEPSI_SENDER", str_n(from.n ? from.p : "", from.n));
	add_number(&e, "PEPSI_RECIPIENT_COUNT", (int64_t)h->n_rcpt(m));
	add_recipients(&e, h, m);
	add_state(&e, "PEPSI_CLIENT_IP", h, m, "origin.ip");
	add_state(&e, "PEPSI_HELO", h, m, "origin.helo");
	add_state(&e, "PEPSI_ACCOUNT", h, m, "origin.account");
	add(&e, "PEPSI_ENVELOPE", str_from(e.incomplete ? "incomplete" : "complete"));
	return e.failed ? NULL : e.v;
}
