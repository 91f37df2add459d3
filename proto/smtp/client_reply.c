/* Reads reply lines (RFC 5321 §4.2) and EHLO keywords. Remote text is hostile: bounded, and free of controls and
 * broken UTF-8 when it leaves this file. */
#include "client_internal.h"
#include "status.h"

/* An enhanced status (RFC 2034 §4) at the front of s: its length, or 0. The class must match the code. */
static size_t status_len(struct str s, unsigned code)
{
	struct smtp_status st;
	size_t used;
	return smtp_status_parse(s, &st, &used) == 0 && st.class == code / 100 ? used : 0;
}

int client_reply_line(struct client_reply *r, struct str line)
{
	if (line.n < 3 || line.p[0] < '2' || line.p[0] > '5' || !ascii_is_digit(line.p[1]) || !ascii_is_digit(line.p[2]))
		return -1;
	if (line.n > 3 && line.p[3] != ' ' && line.p[3] != '-')
		return -1;
	unsigned code = (unsigned)(line.p[0] - '0') * 100 + (unsigned)(line.p[1] - '0') * 10 + (unsigned)(line.p[2] - '0');
	r->torn = r->torn || (r->lines && code != r->code);
	if (r->torn || r->lines >= SMTP_CLIENT_LINES_MAX)
		return -1;
	r->code = code;
	r->lines++;
	struct str text = str_skip(line, 4);
	size_t n = status_len(text, code);
	if (n) {
		if (!r->status[0] && n < sizeof r->status)
			memcpy(r->status, text.p, n);
		text = str_skip(text, n);
	}
	text = str_trim(text);
	if (text.n && r->text_n && r->text_n < SMTP_CLIENT_TEXT_MAX)
		r->text[r->text_n++] = ' ';
	if (text.n > SMTP_CLIENT_TEXT_MAX - r->text_n)
		text.n = SMTP_CLIENT_TEXT_MAX - r->text_n;
	if (text.n)
		memcpy(r->text + r->text_n, text.p, text.n);
	r->text_n += text.n;
	return line.n <= 3 || line.p[3] == ' ';
}

void client_reply_seal(struct client_reply *r)
{
	/* a cut may have gone through a character */
	for (int i = 0; i < 3 && r->text_n == SMTP_CLIENT_TEXT_MAX && !str_is_utf8(str_n(r->text, r->text_n)); i++)
		if ((unsigned char)r->text[r->text_n - 1] > 127)
			r->text_n--;
	bool utf8 = str_is_utf8(str_n(r->text, r->text_n));
	for (size_t i = 0; i < r->text_n; i++) {
		unsigned char ch = (unsigned char)r->text[i];
		if (ch < 32 || ch == 127 || (ch > 127 && !utf8))
			r->text[i] = '?';
	}
	/* C1 controls (U+0080…U+009F) are controls too */
	for (size_t i = 0; utf8 && i + 1 < r->text_n; i++)
		if ((unsigned char)r->text[i] == 0xc2 && (unsigned char)r->text[i + 1] < 0xa0)
			r->text[i] = r->text[i + 1] = '?';
	r->text[r->text_n] = 0;
}

/* "AUTH PLAIN LOGIN", and "AUTH=PLAIN LOGIN" of servers older than RFC 2554. */
static void auth_line(struct client_offer *o, struct str rest)
{
	struct str word;
	enum sasl_mech m;
	o->caps |= SMTP_CAP_AUTH;
	while (str_word(&rest, " \t=", &word))
		if (sasl_mech_parse(word, &m) == 0)
			o->mechs |= 1u << m;
}

/* RFC 9422 §3: names we do not know, and numbers that are none, are passed over. */
static void limits_line(struct client_offer *o, struct str rest)
{
	struct {
		struct str name;
		uint32_t *value;
	} known[] = {
		{ STR_INIT("MAILMAX="), &o->limits.mail_max },
		{ STR_INIT("RCPTMAX="), &o->limits.rcpt_max },
		{ STR_INIT("RCPTDOMAINMAX="), &o->limits.rcpt_domain_max },
	};
	struct str word;
	uint64_t n;
	o->caps |= SMTP_CAP_LIMITS;
	while (str_word(&rest, " \t", &word))
		for (size_t i = 0; i < sizeof known / sizeof *known; i++)
			if (str_istarts(word, known[i].name) && str_u64(str_skip(word, known[i].name.n), 999999, &n) == 0 && n)
				*known[i].value = (uint32_t)n;
}

void client_offer_line(struct client_offer *o, struct str line)
{
	static const struct {
		struct str name;
		unsigned cap;
	} known[] = {
		{ STR_INIT("PIPELINING"), SMTP_CAP_PIPELINING },
		{ STR_INIT("SIZE"), SMTP_CAP_SIZE },
		{ STR_INIT("8BITMIME"), SMTP_CAP_8BITMIME },
		{ STR_INIT("SMTPUTF8"), SMTP_CAP_SMTPUTF8 },
		{ STR_INIT("DSN"), SMTP_CAP_DSN },
		{ STR_INIT("ENHANCEDSTATUSCODES"), SMTP_CAP_ENHANCEDSTATUSCODES },
		{ STR_INIT("STARTTLS"), SMTP_CAP_STARTTLS },
		{ STR_INIT("CHUNKING"), SMTP_CAP_CHUNKING },
		{ STR_INIT("XONCE"), SMTP_CAP_XONCE },
		{ STR_INIT("BINARYMIME"), SMTP_CAP_BINARYMIME },
		{ STR_INIT("REQUIRETLS"), SMTP_CAP_REQUIRETLS },
		{ STR_INIT("DELIVERBY"), SMTP_CAP_DELIVERBY },
		{ STR_INIT("MT-PRIORITY"), SMTP_CAP_MT_PRIORITY },
	};
	struct str word, arg;
	uint64_t n;
	if (str_istarts(line, STR("AUTH")) && (line.n == 4 || memchr(" \t=", line.p[4], 3)))
		auth_line(o, str_skip(line, 4));
	if (!str_word(&line, " \t", &word))
		return;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (str_ieq(word, known[i].name))
			o->caps |= known[i].cap;
	/* "SIZE", "SIZE 0": no limit (RFC 1870 §4); a number we cannot read counts as none */
	if (str_ieq(word, STR("SIZE")) && str_word(&line, " \t", &arg) && str_u64(arg, UINT64_MAX, &n) == 0)
		o->size_limit = n;
	/* RFC 2852 §3: the shortest time it promises anything for */
	if (str_ieq(word, STR("DELIVERBY")) && str_word(&line, " \t", &arg) && str_u64(arg, INT32_MAX, &n) == 0)
		o->deliver_by_min = n;
	if (str_ieq(word, STR("LIMITS")))
		limits_line(o, line);
}
