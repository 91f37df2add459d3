/* Topic smtp-data. Reading goes through the whole server engine, so that "never two messages" is seen where it matters; writing
 * through the DATA writer that everything that leaves uses. */
#include "vectors.h"

#include "proto/smtp/data.h"
#include "proto/smtp/server.h"

struct session {
	unsigned messages, refused; /* SMTP_EV_MESSAGE, and SMTP_EV_ABORT */
	bool closed;
	struct buf first; /* text of the first message */
};

/* Feeds the octets behind DATA, accepts everything, and counts what comes of it. */
static void converse(struct str wire, struct session *r)
{
	static const struct smtp_server_conf conf = {
		.hostname = STR_INIT("mx.example.test"),
		.extensions = SMTP_EXT_ALL_PLAIN,
		.max_recipients = 100,
	};
	static const char hello[] = "EHLO c.example\r\n", envelope[] = "MAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\nDATA\r\n";
	const struct str parts[] = { { hello, sizeof hello - 1 }, { envelope, sizeof envelope - 1 }, wire };
	struct smtp_server *s = smtp_server_new(&conf);
	struct smtp_event ev;
	for (size_t i = 0; s && i < 3; i++) {
		if (smtp_server_feed(s, parts[i].p, parts[i].n))
			break;
		if (i == 2)
			smtp_server_eof(s);
		while (smtp_server_next(s, &ev)) {
			if (ev.kind == SMTP_EV_CHUNK && !r->messages)
				buf_adds(&r->first, ev.chunk);
			r->messages += ev.kind == SMTP_EV_MESSAGE;
			r->refused += ev.kind == SMTP_EV_ABORT;
			r->closed = r->closed || ev.kind == SMTP_EV_CLOSE;
			smtp_server_accept(s, NULL); /* ignored where nothing was asked */
		}
	}
	smtp_server_free(s);
}

static bool has_bare_lf(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == '\n' && (!i || s.p[i - 1] != '\r'))
			return true;
	return false;
}

static void judge_read(struct json_object *one, struct verdict *v)
{
	struct str wire = vectors_str(one, "wire"), message = vectors_str(one, "message");
	struct session r = { .first = BUF_INIT(1 << 20) };
	bool accept = false;
	vectors_bool(one, "accept", &accept);
	/* The suite's own server lets a bare LF through that is not next to a dot; ours refuses it everywhere, which is right,
	 * too (ORIGIN.md). */
	if (accept && has_bare_lf(wire))
		accept = false;
	converse(wire, &r);
	bool got = r.messages == 1;
	v->ok = got == accept && (!accept || str_eq(buf_str(&r.first), message));
	buf_addz(&v->expected, accept ? "message " : "refusal");
	if (accept)
		vectors_escape(message, &v->expected);
	buf_addf(&v->got, "%u messages, %u refused ", r.messages, r.refused);
	vectors_escape(buf_str(&r.first), &v->got);
	buf_free(&r.first);
}

static int write_all(struct str message, struct buf *out)
{
	struct smtp_data_out d = { 0 };
	return smtp_data_write(&d, message.p, message.n, out) || smtp_data_finish(&d, out) ? -1 : 0;
}

static void judge_write(struct json_object *one, struct verdict *v)
{
	struct str message = vectors_str(one, "message"), wire = vectors_str(one, "wire");
	struct buf out = BUF_INIT(1 << 20), completed = BUF_INIT(1 << 20);
	bool accept = false;
	vectors_bool(one, "accept", &accept);
	int r = write_all(message, &out);
	if (accept) {
		v->ok = !r && str_eq(buf_str(&out), wire);
	} else {
		/* The suite's own writer refuses a message without a final CRLF; ours completes it (ORIGIN.md). */
		buf_adds(&completed, message);
		buf_addz(&completed, "\r\n");
		struct buf twin = BUF_INIT(1 << 20);
		v->ok = r || (!write_all(buf_str(&completed), &twin) && str_eq(buf_str(&out), buf_str(&twin)));
		buf_free(&twin);
	}
	vectors_escape(wire, &v->expected);
	if (!accept)
		buf_addz(&v->expected, "refusal");
	vectors_escape(buf_str(&out), &v->got);
	buf_free(&out);
	buf_free(&completed);
}

/* The look-alike of an end, then a second envelope as commands, then the true end: never may two messages come of it. And what
 * the writer is given with such octets in it does not leave. */
static void judge_smuggling(struct json_object *one, struct verdict *v)
{
	static const char second[] = "MAIL FROM:<x@y.example>\r\nRCPT TO:<z@d.example>\r\nDATA\r\nsmuggled\r\n.\r\n";
	struct session r = { .first = BUF_INIT(1 << 20) };
	struct buf wire = BUF_INIT(1 << 16), octets = BUF_INIT(1 << 16), out = BUF_INIT(1 << 16);
	bool readable = !vectors_unhex(vectors_str(one, "hex"), &octets);
	buf_addz(&wire, "text");
	buf_adds(&wire, buf_str(&octets));
	int written = write_all(buf_str(&wire), &out);
	buf_addz(&wire, second);
	converse(buf_str(&wire), &r);
	/* either the first message is refused, or it is sound and what follows it ends the session (nul-suffix) */
	v->ok = readable && octets.n && written && r.messages + r.refused == 1;
	buf_addz(&v->expected, "one message or one refusal, not written");
	buf_addf(&v->got, "%u messages, %u refused, %s", r.messages, r.refused, written ? "not written" : "written");
	buf_free(&r.first);
	buf_free(&wire);
	buf_free(&octets);
	buf_free(&out);
}

void topic_smtp_data(const char *file, struct json_object *one, struct verdict *v)
{
	(void)file;
	if (vectors_str(one, "hex").p)
		judge_smuggling(one, v);
	else if (str_starts(vectors_str(one, "id"), STR("write/")))
		judge_write(one, v);
	else
		judge_read(one, v);
}
