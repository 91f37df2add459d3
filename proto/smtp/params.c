/* The parameter lists of params.h. */
#include "params.h"

#include "datetime.h"
#include "xtext.h"

/* esmtp-keyword = (ALPHA / DIGIT) *(ALPHA / DIGIT / "-"); esmtp-value = 1*(33-60 / 62-126 / UTF8-non-ascii) */
int smtp_param_next(struct str *rest, struct smtp_param *ret)
{
	struct smtp_param p = { 0 };
	struct str word;
	size_t i = 0;
	if (!str_word(rest, " ", &word))
		return 0;
	while (i < word.n && (ascii_is_alnum(word.p[i]) || (i && word.p[i] == '-')))
		i++;
	p.name = str_n(word.p, i);
	p.has_value = i < word.n && word.p[i] == '=';
	p.value = str_skip(word, p.has_value ? i + 1 : i);
	*ret = p;
	if (!i || (p.has_value ? !p.value.n : i < word.n))
		return -1;
	for (i = 0; i < p.value.n; i++) {
		unsigned char c = (unsigned char)p.value.p[i];
		if (c < 33 || c == '=' || c == 127)
			return -1;
	}
	return 1;
}

struct smtp_param_case { /* what a setter may look at and fill */
	struct str value;
	unsigned extensions;
	bool utf8;
	struct smtp_mail_params *mail;
	struct smtp_rcpt_params *rcpt;
};

static bool set_size(struct smtp_param_case *c)
{
	if (c->value.n > 20) /* size-value = 1*20DIGIT */
		return false;
	for (size_t i = 0; i < c->value.n; i++)
		if (c->value.p[i] < '0' || c->value.p[i] > '9')
			return false;
	if (str_u64(c->value, UINT64_MAX, &c->mail->size))
		c->mail->size = UINT64_MAX;
	return true;
}

static bool set_body(struct smtp_param_case *c)
{
	if (str_ieq(c->value, STR("8BITMIME")))
		c->mail->body = SMTP_BODY_8BITMIME;
	else if (str_ieq(c->value, STR("BINARYMIME")) && c->extensions & SMTP_EXT_BINARYMIME)
		c->mail->body = SMTP_BODY_BINARYMIME;
	else if (str_ieq(c->value, STR("7BIT")))
		c->mail->body = SMTP_BODY_7BIT;
	else
		return false;
	return true;
}

static bool set_smtputf8(struct smtp_param_case *c)
{
	c->mail->smtputf8 = true;
	return true;
}

static bool set_ret(struct smtp_param_case *c)
{
	if (str_ieq(c->value, STR("FULL")))
		c->mail->ret = 'F';
	else if (str_ieq(c->value, STR("HDRS")))
		c->mail->ret = 'H';
	else
		return false;
	return true;
}

static bool set_envid(struct smtp_param_case *c)
{
	c->mail->envid = c->value;
	return c->value.n <= SMTP_ENVID_MAX && !smtp_xtext_decode(c->value, NULL);
}

/* NEVER alone, or a list of the others (RFC 3461 §4.1) */
static bool set_notify(struct smtp_param_case *c)
{
	static const struct {
		struct str name;
		unsigned bit;
	} words[] = {
		{ STR_INIT("NEVER"), SMTP_NOTIFY_NEVER },
		{ STR_INIT("SUCCESS"), SMTP_NOTIFY_SUCCESS },
		{ STR_INIT("FAILURE"), SMTP_NOTIFY_FAILURE },
		{ STR_INIT("DELAY"), SMTP_NOTIFY_DELAY },
	};
	struct str rest = c->value;
	unsigned bits = 0;
	for (;;) {
		ptrdiff_t comma = str_chr(rest, ',');
		struct str word = comma < 0 ? rest : str_n(rest.p, (size_t)comma);
		unsigned bit = 0;
		for (size_t i = 0; i < sizeof words / sizeof *words; i++)
			if (str_ieq(word, words[i].name))
				bit = words[i].bit;
		if (!bit)
			return false;
		bits |= bit;
		if (comma < 0)
			break;
		rest = str_skip(rest, (size_t)comma + 1);
	}
	c->rcpt->notify = bits;
	return bits == SMTP_NOTIFY_NEVER || !(bits & SMTP_NOTIFY_NEVER);
}

static bool set_orcpt(struct smtp_param_case *c)
{
	c->rcpt->orcpt = c->value;
	return c->value.n <= SMTP_ORCPT_MAX && !smtp_orcpt_decode(c->value, c->utf8, NULL, NULL);
}

/* 1*9DIGIT, the first one no zero unless `zero`. */
static bool nine_digits(struct str s, bool zero, unsigned *ret)
{
	uint64_t n;
	if (!s.n || s.n > 9 || (!zero && s.p[0] == '0') || s.p[0] < '0' || s.p[0] > '9' || str_u64(s, 999999999, &n))
		return false;
	*ret = (unsigned)n;
	return true;
}

/* RFC 4865: one of the two, never both */
static bool set_holdfor(struct smtp_param_case *c)
{
	return !c->mail->hold_until && nine_digits(c->value, false, &c->mail->hold_for);
}

static bool set_holduntil(struct smtp_param_case *c)
{
	return !c->mail->hold_for && !smtp_datetime_parse(c->value, &c->mail->hold_until) && c->mail->hold_until;
}

/* by-value = by-time ";" by-mode [by-trace] (RFC 2852 §4); what is to be returned when late must have a time left */
static bool set_by(struct smtp_param_case *c)
{
	struct str s = c->value;
	ptrdiff_t semicolon = str_chr(s, ';');
	unsigned seconds;
	if (semicolon < 1)
		return false;
	struct str time = str_n(s.p, (size_t)semicolon), mode = str_skip(s, (size_t)semicolon + 1);
	bool negative = time.p[0] == '-';
	if (negative || time.p[0] == '+')
		time = str_skip(time, 1);
	if (!nine_digits(time, true, &seconds) || !mode.n || mode.n > 2 || (mode.n == 2 && (mode.p[1] | 0x20) != 't'))
		return false;
	char m = (char)(mode.p[0] & ~0x20);
	if ((m != 'N' && m != 'R') || (m == 'R' && (negative || !seconds)))
		return false;
	c->mail->deliver_mode = m;
	c->mail->deliver_by = negative ? -(int)seconds : (int)seconds;
	c->mail->deliver_trace = mode.n == 2;
	return true;
}

/* priority-value = (["-"] NZDIGIT) / "0" (RFC 6710) */
static bool set_priority(struct smtp_param_case *c)
{
	struct str s = c->value;
	bool negative = s.n == 2 && s.p[0] == '-';
	if (negative)
		s = str_skip(s, 1);
	if (s.n != 1 || s.p[0] < (negative ? '1' : '0') || s.p[0] > '9')
		return false;
	c->mail->priority = negative ? -(s.p[0] - '0') : s.p[0] - '0';
	c->mail->has_priority = true;
	return true;
}

static bool set_requiretls(struct smtp_param_case *c)
{
	c->mail->require_tls = true;
	return true;
}

static bool set_prdr(struct smtp_param_case *c)
{
	c->mail->prdr = true;
	return true;
}

/* xtext of a mailbox, or <> (RFC 4954 §5); what it says of the sender is the caller's to believe or not */
static bool set_auth(struct smtp_param_case *c)
{
	c->mail->auth = c->value;
	return str_eq(c->value, STR("<>")) || (c->value.n <= SMTP_AUTH_PARAM_MAX && !smtp_xtext_decode(c->value, NULL));
}

/* SMTP_ONCE_LEN lower-case hexadecimal digits */
static bool set_xonce(struct smtp_param_case *c)
{
	for (size_t i = 0; i < c->value.n; i++)
		if (!((c->value.p[i] >= '0' && c->value.p[i] <= '9') || (c->value.p[i] >= 'a' && c->value.p[i] <= 'f')))
			return false;
	c->mail->once = c->value;
	return c->value.n == SMTP_ONCE_LEN;
}

enum {
	ONCE_SIZE = 1u << 0,
	ONCE_BODY = 1u << 1,
	ONCE_SMTPUTF8 = 1u << 2,
	ONCE_RET = 1u << 3,
	ONCE_ENVID = 1u << 4,
	ONCE_NOTIFY = 1u << 5,
	ONCE_ORCPT = 1u << 6,
	ONCE_REQUIRETLS = 1u << 7,
	ONCE_BY = 1u << 8,
	ONCE_HOLDFOR = 1u << 9,
	ONCE_HOLDUNTIL = 1u << 10,
	ONCE_PRIORITY = 1u << 11,
	ONCE_PRDR = 1u << 12,
	ONCE_AUTH = 1u << 13,
	ONCE_XONCE = 1u << 14,
};

#define MAIL(NAME, VALUE, ONCE, SET) { STR_INIT(NAME), SMTP_PARAM_MAIL, VALUE, ONCE, SET }
#define RCPT(NAME, VALUE, ONCE, SET) { STR_INIT(NAME), SMTP_PARAM_RCPT, VALUE, ONCE, SET }
#define END { .name = { NULL, 0 } }

const struct smtp_param_def smtp_params_size[] = { MAIL("SIZE", true, ONCE_SIZE, set_size), END };
const struct smtp_param_def smtp_params_body[] = { MAIL("BODY", true, ONCE_BODY, set_body), END };
const struct smtp_param_def smtp_params_smtputf8[] = { MAIL("SMTPUTF8", false, ONCE_SMTPUTF8, set_smtputf8), END };
const struct smtp_param_def smtp_params_dsn[] = {
	MAIL("RET", true, ONCE_RET, set_ret),
	MAIL("ENVID", true, ONCE_ENVID, set_envid),
	RCPT("NOTIFY", true, ONCE_NOTIFY, set_notify),
	RCPT("ORCPT", true, ONCE_ORCPT, set_orcpt),
	END,
};
const struct smtp_param_def smtp_params_requiretls[] = { MAIL("REQUIRETLS", false, ONCE_REQUIRETLS, set_requiretls), END };
const struct smtp_param_def smtp_params_deliverby[] = { MAIL("BY", true, ONCE_BY, set_by), END };
const struct smtp_param_def smtp_params_futurerelease[] = {
	MAIL("HOLDFOR", true, ONCE_HOLDFOR, set_holdfor),
	MAIL("HOLDUNTIL", true, ONCE_HOLDUNTIL, set_holduntil),
	END,
};
const struct smtp_param_def smtp_params_priority[] = { MAIL("MT-PRIORITY", true, ONCE_PRIORITY, set_priority), END };
const struct smtp_param_def smtp_params_prdr[] = { MAIL("PRDR", false, ONCE_PRDR, set_prdr), END };
const struct smtp_param_def smtp_params_auth[] = { MAIL("AUTH", true, ONCE_AUTH, set_auth), END };
const struct smtp_param_def smtp_params_xonce[] = { MAIL("XONCE", true, ONCE_XONCE, set_xonce), END };

/* Of the extensions in force, or NULL. */
static const struct smtp_param_def *find(struct str name, unsigned extensions, int command)
{
	for (size_t i = 0; i < smtp_extensions_n; i++) {
		const struct smtp_param_def *d = extensions & smtp_extensions[i].bit ? smtp_extensions[i].params : NULL;
		for (; d && d->name.n; d++)
			if ((int)d->command == command && str_ieq(name, d->name))
				return d;
	}
	return NULL;
}

static enum smtp_param_fault parse(struct str text, int command, struct smtp_param_case *c, struct smtp_param *ret_at)
{
	unsigned seen = 0;
	for (;;) {
		int r = smtp_param_next(&text, ret_at);
		if (r <= 0)
			return r ? SMTP_PARAM_SYNTAX : SMTP_PARAM_OK;
		const struct smtp_param_def *d = find(ret_at->name, c->extensions, command);
		if (!d)
			return SMTP_PARAM_UNKNOWN;
		if (seen & d->once)
			return SMTP_PARAM_DUPLICATE;
		seen |= d->once;
		c->value = ret_at->value;
		if (ret_at->has_value != d->wants_value || !d->set(c))
			return SMTP_PARAM_VALUE;
	}
}

enum smtp_param_fault smtp_mail_params_parse(struct str text, unsigned extensions, struct smtp_mail_params *ret,
    struct smtp_param *ret_at)
{
	struct smtp_mail_params p = { 0 };
	struct smtp_param_case c = { .mail = &p, .extensions = extensions };
	enum smtp_param_fault f = parse(text, SMTP_PARAM_MAIL, &c, ret_at);
	if (!f)
		*ret = p;
	return f;
}

enum smtp_param_fault smtp_rcpt_params_parse(struct str text, unsigned extensions, bool utf8, struct smtp_rcpt_params *ret,
    struct smtp_param *ret_at)
{
	struct smtp_rcpt_params p = { 0 };
	struct smtp_param_case c = { .rcpt = &p, .extensions = extensions, .utf8 = utf8 };
	enum smtp_param_fault f = parse(text, SMTP_PARAM_RCPT, &c, ret_at);
	if (!f)
		*ret = p;
	return f;
}
