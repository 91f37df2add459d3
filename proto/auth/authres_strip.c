/* Taking out Authentication-Results fields that someone else wrote in our name (RFC 8601 §5; the class of CVE-2020-12272). */
#include "proto/auth/authres.h"
#include "proto/auth/authres_scan.h"

#include "proto/dns/answers.h"
#include "proto/mail/encoded.h"
#include "proto/mail/header.h"

static struct str no_final_dots(struct str s)
{
	while (s.n && s.p[s.n - 1] == '.')
		s.n--;
	return s;
}

static bool same_id(struct str a, struct str b)
{
	char fold_a[DNS_NAME_MAX + 1], fold_b[DNS_NAME_MAX + 1];
	a = no_final_dots(str_trim(a));
	b = no_final_dots(str_trim(b));
	if (str_ieq(a, b))
		return true;
	return a.n && b.n && dns_name_fold(a, fold_a) >= 0 && dns_name_fold(b, fold_b) >= 0 && !strcmp(fold_a, fold_b);
}

static bool contains(struct str s, struct str part)
{
	for (size_t i = 0; part.n && i + part.n <= s.n; i++)
		if (str_ieq(str_n(s.p + i, part.n), part))
			return true;
	return false;
}

bool authres_claims(struct str value, struct str id)
{
	struct str rest = value;
	struct buf first = BUF_INIT(value.n + 1), decoded = BUF_INIT(value.n * 4 + 16);
	bool clean = authres_skip_cfws(&rest), claims;
	if (rest.n && rest.p[0] == '"')
		clean &= authres_take_quoted(&rest, &first);
	else {
		size_t n = 0; /* an id may have had to be quoted and was not: it ends at a blank, a comment or a semicolon */
		while (n < rest.n && !memchr(" \t\r\n;(", rest.p[n], 6))
			n++;
		buf_add(&first, rest.p, n);
		rest = str_skip(rest, n);
	}
	struct str word = buf_str(&first);
	mail_encoded_decode(word, &decoded);
	claims = same_id(word, id) || (decoded.n && same_id(buf_str(&decoded), id));
	/* "id/1", "id=…", "=id": other readers cut elsewhere, and may find it anywhere. */
	clean &= authres_skip_cfws(&rest);
	while (rest.n && rest.p[0] >= '0' && rest.p[0] <= '9')
		rest = str_skip(rest, 1);
	clean &= authres_skip_cfws(&rest) && (!rest.n || rest.p[0] == ';');
	for (size_t i = 0; i < word.n; i++)
		clean &= authres_is_token(word.p[i]);
	struct str bare = no_final_dots(id).n ? no_final_dots(id) : id;
	if (!claims && !clean)
		claims = contains(value, bare) || contains(buf_str(&first), bare);
	claims |= first.failed || decoded.failed; /* not read: better one field too few */
	buf_free(&first);
	buf_free(&decoded);
	return claims;
}

int authres_strip(struct buf *out, struct str headers, const struct str *ids, size_t n, size_t *ret_removed)
{
	struct mail_field f;
	size_t removed = 0;
	int r;
	while ((r = mail_field_next(&headers, &f))) {
		bool forged = false;
		if (r > 0 && str_ieq(f.name, STR("Authentication-Results")))
			for (size_t i = 0; i < n && !forged; i++)
				forged = authres_claims(f.value, ids[i]);
		removed += forged;
		if (!forged && buf_adds(out, f.all))
			return -1;
	}
	if (ret_removed)
		*ret_removed = removed;
	return 0;
}
