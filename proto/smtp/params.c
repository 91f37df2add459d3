/* The parameter tables of params.h. */
#include "params.h"

#include "xtext.h"

static bool is_alnum(char c)
{
	return ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c >= '0' && c <= '9');
}

/* esmtp-keyword = (ALPHA / DIGIT) *(ALPHA / DIGIT / "-"); esmtp-value = 1*(33-60 / 62-126 / UTF8-non-ascii) */
int smtp_param_next(struct str *rest, struct smtp_param *ret)
{
	struct smtp_param p = { 0 };
	struct str word;
	size_t i = 0;
	if (!str_word(rest, " ", &word))
		return 0;
	while (i < word.n && (is_alnum(word.p[i]) || (i && word.p[i] == '-')))
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

struct value_case { /* what a setter may look at and fill */
	struct str value;
	bool utf8;
	struct smtp_mail_params *mail;
	struct smtp_rcpt_params *rcpt;
};

static bool set_size(struct value_case *v)
{
	if (v->value.n > 20) /* size-value = 1*20DIGIT */
		return false;
	for (size_t i = 0; i < v->value.n; i++)
		if (v->value.p[i] < '0' || v->value.p[i] > '9')
			return false;
	if (str_u64(v->value, UINT64_MAX, &v->mail->size))
		v->mail->size = UINT64_MAX;
	return true;
}

static bool set_body(struct value_case *v)
{
	if (str_ieq(v->value, STR("8BITMIME")))
		v->mail->body = SMTP_BODY_8BITMIME;
	else if (str_ieq(v->value, STR("7BIT")))
		v->mail->body = SMTP_BODY_7BIT;
	else
		return false;
	return true;
}

static bool set_smtputf8(struct value_case *v)
{
	v->mail->smtputf8 = true;
	return true;
}

static bool set_ret(struct value_case *v)
{
	if (str_ieq(v->value, STR("FULL")))
		v->mail->ret = 'F';
	else if (str_ieq(v->value, STR("HDRS")))
		v->mail->ret = 'H';
	else
		return false;
	return true;
}

static bool set_envid(struct value_case *v)
{
	v->mail->envid = v->value;
	return v->value.n <= SMTP_ENVID_MAX && !smtp_xtext_decode(v->value, NULL);
}

/* NEVER alone, or a list of the others (RFC 3461 §4.1) */
static bool set_notify(struct value_case *v)
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
	struct str rest = v->value;
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
	v->rcpt->notify = bits;
	return bits == SMTP_NOTIFY_NEVER || !(bits & SMTP_NOTIFY_NEVER);
}

static bool set_orcpt(struct value_case *v)
{
	v->rcpt->orcpt = v->value;
	return v->value.n <= SMTP_ORCPT_MAX && !smtp_orcpt_decode(v->value, v->utf8, NULL, NULL);
}

struct param_def {
	struct str name;
	unsigned extension; /* offered by this one; several: by any of them */
	bool wants_value;
	bool (*set)(struct value_case *v);
};

static const struct param_def mail_defs[] = {
	{ STR_INIT("SIZE"), SMTP_EXT_SIZE, true, set_size },
	{ STR_INIT("BODY"), SMTP_EXT_8BITMIME, true, set_body },
	{ STR_INIT("SMTPUTF8"), SMTP_EXT_SMTPUTF8, false, set_smtputf8 },
	{ STR_INIT("RET"), SMTP_EXT_DSN, true, set_ret },
	{ STR_INIT("ENVID"), SMTP_EXT_DSN, true, set_envid },
};
static const struct param_def rcpt_defs[] = {
	{ STR_INIT("NOTIFY"), SMTP_EXT_DSN, true, set_notify },
	{ STR_INIT("ORCPT"), SMTP_EXT_DSN, true, set_orcpt },
};

static enum smtp_param_fault parse(struct str text, unsigned extensions, const struct param_def *defs, size_t n_defs,
    struct value_case *v, struct smtp_param *ret_at)
{
	unsigned seen = 0;
	for (;;) {
		size_t i = 0;
		int r = smtp_param_next(&text, ret_at);
		if (r <= 0)
			return r ? SMTP_PARAM_SYNTAX : SMTP_PARAM_OK;
		while (i < n_defs && !(str_ieq(ret_at->name, defs[i].name) && (extensions & defs[i].extension)))
			i++;
		if (i == n_defs)
			return SMTP_PARAM_UNKNOWN;
		if (seen & 1u << i)
			return SMTP_PARAM_DUPLICATE;
		seen |= 1u << i;
		v->value = ret_at->value;
		if (ret_at->has_value != defs[i].wants_value || !defs[i].set(v))
			return SMTP_PARAM_VALUE;
	}
}

enum smtp_param_fault smtp_mail_params_parse(struct str text, unsigned extensions, struct smtp_mail_params *ret,
    struct smtp_param *ret_at)
{
	struct smtp_mail_params p = { 0 };
	struct value_case v = { .mail = &p };
	enum smtp_param_fault f = parse(text, extensions, mail_defs, sizeof mail_defs / sizeof *mail_defs, &v, ret_at);
	if (!f)
		*ret = p;
	return f;
}

enum smtp_param_fault smtp_rcpt_params_parse(struct str text, unsigned extensions, bool utf8, struct smtp_rcpt_params *ret,
    struct smtp_param *ret_at)
{
	struct smtp_rcpt_params p = { 0 };
	struct value_case v = { .rcpt = &p, .utf8 = utf8 };
	enum smtp_param_fault f = parse(text, extensions, rcpt_defs, sizeof rcpt_defs / sizeof *rcpt_defs, &v, ret_at);
	if (!f)
		*ret = p;
	return f;
}
