/* The message of `pepsi auth-check` as the client once sent it: stored ones have fields on top that we put there, and lines that end
 * otherwise. What is known of the envelope is taken from there, too, unless the command line says it. */
#include "auth_check.h"

#include "proto/auth/authres.h"
#include "proto/mail/header.h"
#include "proto/mail/received.h"
#include "proto/mail/split.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

/* --- octets */

static int read_stream(struct auth_check *k, FILE *f)
{
	char piece[65536];
	size_t n;
	while ((n = fread(piece, 1, sizeof piece, f)))
		if (buf_add(&k->raw, piece, n))
			return cli_fail("%s: more than %d MiB", k->file, AUTH_MESSAGE_MAX >> 20);
	return ferror(f) ? cli_fail("%s: %s", k->file, strerror(errno)) : 0;
}

static int read_file(struct auth_check *k)
{
	bool std = !strcmp(k->file, "-");
	FILE *f = std ? stdin : fopen(k->file, "re");
	if (!f)
		return cli_fail("%s: %s", k->file, strerror(errno));
	int rc = read_stream(k, f);
	if (!std)
		fclose(f);
	return rc;
}

static struct json_object *one_id(int64_t id)
{
	struct json_object *args = json_object_new_object(), *ids = json_object_new_array();
	json_object_array_add(ids, json_object_new_int64(id));
	json_object_object_add(args, "ids", ids);
	return args;
}

static int read_ip(struct auth_check *k, struct str text, const char *by)
{
	char z[sizeof k->ip_text];
	if (!text.n || text.n >= sizeof z)
		return -1;
	memcpy(z, text.p, text.n);
	z[text.n] = 0;
	size_t n = inet_pton(AF_INET, z, k->ip) == 1 ? 4 : inet_pton(AF_INET6, z, k->ip) == 1 ? 16 : 0;
	if (!n)
		return -1;
	k->ip_n = n;
	k->ip_by = by;
	inet_ntop(n == 4 ? AF_INET : AF_INET6, k->ip, k->ip_text, sizeof k->ip_text);
	return 0;
}

static void set_text(char **to, const char **to_by, struct str s, const char *by)
{
	if (*to || !s.p)
		return;
	*to = str_dupz(s);
	*to_by = by;
}

/* A message of the queue: its state tells who sent it, and to which listener. */
static int read_queued(struct auth_check *k, const char *id_text)
{
	struct json_object *state = NULL, *origin = NULL;
	int64_t id = cli_number(k->c, "--id", id_text, 1, INT64_MAX - 1);
	char *octets = NULL;
	size_t n = 0;
	if (id < 0)
		return CLI_USAGE;
	struct json_object *row = cli_ask(k->c, "queue.show", one_id(id), CLI_ANSWER_MS, false);
	if (!row)
		return CLI_FAILED;
	FILE *f = open_memstream(&octets, &n);
	int rc = f ? cli_ask_raw(k->c, "queue.cat", one_id(id), f) : cli_fail("out of memory");
	if (f)
		fclose(f);
	if (!rc && buf_add(&k->raw, octets, n))
		rc = cli_fail("message %lld: more than %d MiB", (long long)id, AUTH_MESSAGE_MAX >> 20);
	free(octets);
	set_text(&k->from, &k->from_by, cli_json_text(row, "mail_from"), "queue");
	if (json_object_object_get_ex(row, "state", &state) && json_object_object_get_ex(state, "origin", &origin)) {
		if (!k->ip_n)
			read_ip(k, cli_json_text(origin, "ip"), "queue");
		set_text(&k->helo, &k->helo_by, cli_json_text(origin, "helo"), "queue");
		struct str listener = cli_json_text(origin, "listener");
		if (listener.n)
			k->listener_by = str_dupz(listener);
	}
	json_object_put(row);
	return rc;
}

/* --- line ends */

static int add_crlf(struct auth_check *k)
{
	struct str s = buf_str(&k->raw);
	k->text = BUF_INIT(2 * (size_t)AUTH_MESSAGE_MAX);
	while (s.n) {
		const char *end = memchr(s.p, '\n', s.n);
		size_t n = end ? (size_t)(end - s.p) : s.n;
		bool cr = end && n && s.p[n - 1] == '\r';
		buf_adds(&k->text, str_n(s.p, n - cr));
		if (end)
			buf_addz(&k->text, "\r\n");
		k->line_ends += end && !cr;
		s = str_skip(s, n + (end != NULL));
	}
	return k->text.failed ? cli_fail("out of memory") : 0;
}

/* --- what we put on top */

static bool is_name(const struct mail_field *f, const char *name)
{
	return str_ieq(f->name, str_from(name));
}

/* Our Received field among those on top: where the headers go on behind it, or SIZE_MAX. Only what delivery writes may stand above. */
static size_t own_top(struct auth_check *k, struct str headers)
{
	static const char *const above[] = { "Return-Path", "Delivered-To", "X-Original-To", "Envelope-To" };
	struct str rest = headers;
	struct mail_field f;
	int r;
	while ((r = mail_field_next(&rest, &f)) == 1) {
		bool known = false;
		for (size_t i = 0; i < sizeof above / sizeof *above; i++)
			known |= is_name(&f, above[i]);
		if (known) {
			struct str v = str_trim(f.value);
			if (is_name(&f, "Return-Path") && v.n >= 2 && v.p[0] == '<' && v.p[v.n - 1] == '>')
				set_text(&k->from, &k->from_by, str_n(v.p + 1, v.n - 2), "Return-Path");
			continue;
		}
		if (!is_name(&f, "Received"))
			break;
		struct buf value = BUF_INIT(1 << 20);
		struct mail_received got;
		bool ours = !mail_field_unfold(&value, f.value) && !mail_received_read(buf_str(&value), &got) &&
			    str_ieq(got.hostname, str_from(k->hostname));
		if (ours) {
			if (!k->ip_n)
				read_ip(k, got.ip, "Received");
			set_text(&k->helo, &k->helo_by, got.helo.n ? got.helo : STR_NULL, "Received");
		}
		buf_free(&value);
		if (ours)
			return headers.n - rest.n;
	}
	return SIZE_MAX;
}

/* Our fields below the Received: those that authentication adds. */
static size_t own_results(const struct auth_check *k, struct str headers)
{
	struct str rest = headers;
	struct mail_field f;
	size_t at = 0;
	while (mail_field_next(&rest, &f) == 1) {
		bool ours = is_name(&f, "Authentication-Results") ? authres_claims(f.value, str_from(k->hostname)) :
								    is_name(&f, "Received-SPF") && at;
		if (!ours)
			break;
		at = headers.n - rest.n;
	}
	return at;
}

static size_t count_fields(struct str headers)
{
	struct mail_field f;
	size_t n = 0;
	while (mail_field_next(&headers, &f))
		n++;
	return n;
}

static void take_off(struct auth_check *k)
{
	struct mail_split cut;
	mail_split(buf_str(&k->text), &cut);
	size_t at = own_top(k, cut.headers);
	k->headers = cut.headers;
	k->body = cut.body;
	if (at == SIZE_MAX || k->c->args.set & CLI_BIT(CLI_AS_IS))
		return;
	at += own_results(k, str_skip(cut.headers, at));
	k->taken_off = count_fields(str_n(cut.headers.p, at));
	k->headers = str_skip(cut.headers, at);
}

int auth_message_read(struct auth_check *k)
{
	const struct cli_args *a = &k->c->args;
	const char *id = a->value[CLI_ID], *from = a->value[CLI_FROM], *ip = a->value[CLI_IP];
	if (ip && read_ip(k, str_from(ip), "given"))
		return cli_usage(k->c, "--ip: \"%s\" is no IP address", ip);
	if (a->value[CLI_HELO])
		set_text(&k->helo, &k->helo_by, str_from(a->value[CLI_HELO]), "given");
	if (from) {
		struct str s = str_from(from);
		bool angles = s.n >= 2 && s.p[0] == '<' && s.p[s.n - 1] == '>';
		set_text(&k->from, &k->from_by, angles ? str_n(s.p + 1, s.n - 2) : s, "given");
	}
	k->raw = BUF_INIT(AUTH_MESSAGE_MAX);
	int rc = id ? read_queued(k, id) : read_file(k);
	if (rc || (rc = add_crlf(k)))
		return rc;
	if (!k->text.n)
		return cli_fail("%s: is empty", k->file);
	take_off(k);
	if (!k->ip_n)
		return cli_usage(k->c, "who sent it? --ip ADDRESS (there is no Received field of %s on top to take it from)", k->hostname);
	if (!k->from)
		return cli_usage(k->c, "what was its MAIL FROM? --from ADDRESS, --from '<>' for the null sender");
	set_text(&k->helo, &k->helo_by, STR(""), "not known");
	return 0;
}
