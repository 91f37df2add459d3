/* The attribute lists and names that SCRAM and OAUTHBEARER share (RFC 5801 §4, RFC 5802 §7). */
#include "server_internal.h"

static struct str up_to_comma(struct str *rest, bool *ret_more)
{
	ptrdiff_t at = str_chr(*rest, ',');
	struct str ret = at < 0 ? *rest : str_n(rest->p, (size_t)at);
	*ret_more = at >= 0;
	*rest = str_skip(*rest, at < 0 ? rest->n : (size_t)at + 1);
	return ret;
}

/* cb-name of RFC 5801: letters, digits, period and hyphen. */
static bool binding_name(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (!ascii_is_alnum(c) && c != '.' && c != '-')
			return false;
	}
	return s.n > 0;
}

int sasl_gs2_take(struct str *rest, struct sasl_gs2 *ret)
{
	struct str all = *rest, at = *rest, flag, authzid;
	bool more;
	*ret = (struct sasl_gs2){ 0 };
	flag = up_to_comma(&at, &more);
	if (!more || !flag.n)
		return -1;
	ret->flag = flag.p[0];
	if (ret->flag == 'p') {
		if (!str_starts(flag, STR("p=")) || !binding_name(str_skip(flag, 2)))
			return -1;
		ret->binding = str_skip(flag, 2);
	} else if (flag.n != 1 || (ret->flag != 'n' && ret->flag != 'y')) {
		return -1; /* also "F", the nonstandard flag: there is no such thing in TLS */
	}
	authzid = up_to_comma(&at, &more);
	if (!more || (authzid.n && (!str_starts(authzid, STR("a=")) || authzid.n == 2)))
		return -1;
	ret->authzid = str_skip(authzid, 2);
	ret->whole = str_n(all.p, (size_t)(at.p - all.p));
	*rest = at;
	return 0;
}

int sasl_name_unescape(struct str in, struct buf *out)
{
	for (size_t i = 0; i < in.n; i++) {
		char c = in.p[i];
		if (c == '=') {
			struct str code = str_n(in.p + i, in.n - i < 3 ? in.n - i : 3);
			if (!str_eq(code, STR("=2C")) && !str_eq(code, STR("=3D")))
				return -1;
			c = code.p[2] == 'C' ? ',' : '=';
			i += 2;
		}
		if (!c || buf_addc(out, c))
			return -1;
	}
	return 0;
}

int sasl_name_escape(struct str in, struct buf *out)
{
	for (size_t i = 0; i < in.n; i++) {
		if (in.p[i] == ',')
			buf_addz(out, "=2C");
		else if (in.p[i] == '=')
			buf_addz(out, "=3D");
		else
			buf_addc(out, in.p[i]);
	}
	return out->failed ? -1 : 0;
}

int sasl_attribute_take(struct str *rest, char k, struct str *ret)
{
	struct str at = *rest, a;
	bool more;
	a = up_to_comma(&at, &more);
	if (a.n < 2 || a.p[0] != k || a.p[1] != '=')
		return -1;
	*ret = str_skip(a, 2);
	*rest = at;
	return 0;
}
