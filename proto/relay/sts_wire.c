/* The two datagrams of the fetching child; see sts_wire.h. */
#include "proto/relay/sts_wire.h"

#define HEAD "STS1 "

static const char *const classes[] = { "ok", "failed", "webpki", "busy" };
enum { CLASSES = sizeof classes / sizeof *classes };

const char *sts_wire_class_name(enum sts_wire_class c)
{
	return (unsigned)c < CLASSES ? classes[c] : "";
}

enum tlsrpt_result sts_wire_result(enum sts_wire_class c)
{
	return c == STS_WIRE_WEBPKI ? TLSRPT_STS_WEBPKI_INVALID : TLSRPT_STS_POLICY_FETCH_ERROR;
}

int sts_wire_request_put(struct buf *out, struct str domain, bool fresh)
{
	char url[DNS_NAME_MAX + 64], name[DNS_NAME_MAX + 1];
	if (sts_url(domain, url, sizeof url) || dns_name_fold(domain, name) < 0)
		return -1;
	return buf_addf(out, HEAD "%s%s\n", name, fresh ? " fresh" : "");
}

int sts_wire_request_get(struct str in, char *domain, bool *ret_fresh)
{
	char url[DNS_NAME_MAX + 64], name[DNS_NAME_MAX + 1];
	struct str word;
	if (in.n > STS_WIRE_REQUEST_MAX || !str_starts(in, STR(HEAD)) || in.p[in.n - 1] != '\n')
		return -1;
	in = str_skip(str_n(in.p, in.n - 1), sizeof HEAD - 1);
	ptrdiff_t blank = str_chr(in, ' ');
	word = str_n(in.p, blank < 0 ? in.n : (size_t)blank);
	if (blank >= 0 && !str_eq(str_skip(in, (size_t)blank), STR(" fresh")))
		return -1;
	/* only what our side would have written: the name as it is folded */
	if (sts_url(word, url, sizeof url) || dns_name_fold(word, name) < 0 || !str_eq(word, str_from(name)))
		return -1;
	memcpy(domain, name, word.n + 1);
	*ret_fresh = blank >= 0;
	return 0;
}

static bool printable(char c)
{
	return c >= ' ' && c <= '~';
}

int sts_wire_answer_put(struct buf *out, enum sts_wire_class c, struct str text)
{
	if (c == STS_WIRE_OK && text.n > STS_POLICY_MAX)
		return -1;
	buf_addf(out, "%s\n", sts_wire_class_name(c));
	if (c == STS_WIRE_OK)
		buf_adds(out, text);
	else
		for (size_t i = 0; i < text.n && i < STS_WIRE_WHY_MAX; i++)
			buf_addc(out, printable(text.p[i]) ? text.p[i] : '?');
	return out->failed ? -1 : 0;
}

int sts_wire_answer_get(struct str in, struct sts_wire_answer *ret)
{
	ptrdiff_t lf = in.n <= STS_WIRE_ANSWER_MAX ? str_chr(in, '\n') : -1;
	for (unsigned i = 0; lf > 0 && i < CLASSES; i++) {
		struct sts_wire_answer a = { (enum sts_wire_class)i, str_skip(in, (size_t)lf + 1) };
		if (!str_eq(str_n(in.p, (size_t)lf), str_from(classes[i])))
			continue;
		if (a.text.n > (i == STS_WIRE_OK ? STS_POLICY_MAX : STS_WIRE_WHY_MAX))
			return -1;
		for (size_t k = 0; i != STS_WIRE_OK && k < a.text.n; k++)
			if (!printable(a.text.p[k]))
				return -1;
		*ret = a;
		return 0;
	}
	return -1;
}
