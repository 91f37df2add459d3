/* Topic autoreply: vacation.json: is there an answer; message files: are they automatic replies (RFC 3834), and get none. Files beside the cases that are
 * none have "non-" in their names. */
#include "vectors.h"

#include "proto/mail/autoreply.h"
#include "proto/mail/header.h"
#include "proto/mail/split.h"

#include <stdio.h>

/* CR LF line ends, without a line of mbox in front. */
static void lines(struct str raw, struct buf *out)
{
	if (str_starts(raw, STR("From "))) {
		ptrdiff_t nl = str_chr(raw, '\n');
		raw = str_skip(raw, (size_t)(nl + 1));
	}
	for (size_t i = 0; i < raw.n; i++) {
		if (raw.p[i] == '\n' && (!i || raw.p[i - 1] != '\r'))
			buf_addc(out, '\r');
		buf_addc(out, raw.p[i]);
	}
}

static void message_file(const char *file, const char *path, struct verdict *v)
{
	struct buf raw = BUF_INIT(16 << 20), text = BUF_INIT(32 << 20);
	char block[8192];
	size_t n;
	struct mail_split s;
	FILE *f = fopen(path, "rbe");
	while (f && (n = fread(block, 1, sizeof block, f)))
		buf_add(&raw, block, n);
	if (f)
		fclose(f);
	lines(buf_str(&raw), &text);
	mail_split(buf_str(&text), &s);
	bool want = !str_starts(str_from(file), STR("non-"));
	bool got = mail_autoreply_is(s.headers);
	struct str own = STR("me@home.example");
	struct buf headers = BUF_INIT(1 << 20);
	/* addressed to us and from a person, as far as the envelope goes: the header must be enough to say no; "not posted" is mail_autoreply_is() */
	buf_adds(&headers, s.headers);
	buf_addz(&headers, "To: me@home.example\r\n");
	struct mail_field rp;
	struct str from = STR("you@x.example");
	if (mail_field_find(s.headers, STR("Return-Path"), 0, &rp) == 0 && str_eq(str_trim(rp.value), STR("<>")))
		from = STR_NULL;
	struct mail_autoreply in = { .headers = buf_str(&headers), .mail_from = from, .own = &own, .n_own = 1 };
	enum mail_autoreply_why why = mail_autoreply_decide(&in);
	buf_addf(&v->expected, "%s, no answer", want ? "automatic reply" : "something else");
	buf_addf(&v->got, "%s, %s", got ? "automatic reply" : "something else", mail_autoreply_text(why));
	v->ok = raw.n && got == want && why != MAIL_AUTOREPLY_ANSWER;
	buf_free(&raw);
	buf_free(&text);
	buf_free(&headers);
}

/* The action's :addresses: one string, or several in brackets. */
static size_t addresses(struct str action, struct str *own, size_t most)
{
	size_t n = 0;
	const char *at = memmem(action.p, action.n, ":addresses", 10);
	if (!at)
		return 0;
	struct str rest = str_skip(action, (size_t)(at - action.p) + 10);
	rest = str_trim(rest);
	bool several = rest.n && rest.p[0] == '[';
	while (n < most) {
		ptrdiff_t a = str_chr(rest, '"'), b = a < 0 ? -1 : str_chr(str_skip(rest, (size_t)a + 1), '"'), end = several ? str_chr(rest, ']') : -1;
		if (b < 0 || (end >= 0 && end < a))
			break;
		own[n++] = str_n(rest.p + a + 1, (size_t)b);
		rest = str_skip(rest, (size_t)(a + b) + 2);
		if (!several)
			break;
	}
	return n;
}

static struct str bare(struct str s)
{
	return s.n >= 2 && s.p[0] == '<' ? str_n(s.p + 1, s.n - 2) : s;
}

void topic_autoreply(const char *file, struct json_object *one, struct verdict *v)
{
	struct str path = vectors_str(one, "path"), own[16];
	struct buf text = BUF_INIT(1 << 20);
	struct json_object *config = NULL;
	struct mail_split s;
	struct mail_field to;
	bool want = false;
	size_t n = 0;
	if (path.p) {
		message_file(file, path.p, v);
		return;
	}
	lines(vectors_str(one, "message"), &text);
	mail_split(buf_str(&text), &s);
	own[n++] = bare(vectors_str(one, "envelope_to"));
	if (json_object_object_get_ex(one, "config", &config) && vectors_str(config, "sieve_user_email").p)
		own[n++] = vectors_str(config, "sieve_user_email");
	/* the original recipient of that suite is the one in To: its script sets it before the case begins */
	if (config && vectors_str(config, "sieve_vacation_use_original_recipient").p && mail_field_find(s.headers, STR("To"), 0, &to) == 0)
		own[n++] = str_trim(to.value);
	n += addresses(vectors_str(one, "action"), own + n, 12);
	struct mail_autoreply in = { .headers = s.headers, .mail_from = bare(vectors_str(one, "envelope_from")), .own = own, .n_own = n };
	enum mail_autoreply_why why = mail_autoreply_decide(&in);
	vectors_bool(one, "reply_sent", &want);
	buf_addz(&v->expected, want ? "answer" : "none");
	buf_addz(&v->got, mail_autoreply_text(why));
	v->ok = want == (why == MAIL_AUTOREPLY_ANSWER);
	buf_free(&text);
}
