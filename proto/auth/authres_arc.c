/* What we found on arrival, as the first field of an ARC set has it (RFC 8617 §4.1.1): our Authentication-Results, all in one. */
#include "proto/auth/authres.h"
#include "proto/auth/authres_scan.h"

#include "proto/dns/answers.h"
#include "proto/mail/header.h"

enum { FIELDS_MAX = 20, OCTETS_MAX = 16 << 10 };

static bool is_id(struct str a, struct str b)
{
	char x[DNS_NAME_MAX + 1], y[DNS_NAME_MAX + 1];
	return str_ieq(a, b) || (dns_name_fold(a, x) > 0 && dns_name_fold(b, y) > 0 && !strcmp(x, y));
}

/* The results of a field that is ours and by the grammar, as they stand there: behind the id and its semicolon. False: there are none. */
static bool results_of(struct str value, struct str id, struct str *ret, bool *none, bool *memory)
{
	struct authres a;
	if (authres_parse(&a, value)) {
		*memory = true;
		return false;
	}
	bool ours = !a.bad && is_id(a.id, id) && (a.n || a.none);
	*none = a.none;
	authres_free(&a);
	if (!ours)
		return false;
	struct buf scratch = BUF_INIT(value.n + 1);
	authres_skip_cfws(&value);
	if (value.n && value.p[0] == '"')
		authres_take_quoted(&value, &scratch);
	while (value.n && value.p[0] != ';') { /* the id, a version; comments may have semicolons in them */
		if (value.p[0] == '(')
			authres_skip_cfws(&value);
		else
			value = str_skip(value, 1);
	}
	buf_free(&scratch);
	*ret = str_trim(str_skip(value, value.n > 0));
	while (ret->n && (ret->p[ret->n - 1] == ';' || ret->p[ret->n - 1] == '\r' || ret->p[ret->n - 1] == '\n'))
		*ret = str_trim(str_n(ret->p, ret->n - 1));
	return ret->n > 0;
}

int authres_arc(struct buf *out, unsigned instance, struct str id, struct str headers, size_t *ret_n)
{
	struct mail_field f;
	size_t before = out->n, n = 0, octets = 0;
	bool memory = false;
	buf_addf(out, "ARC-Authentication-Results: i=%u; %.*s", instance, STR_ARG(id));
	for (int r; (r = mail_field_next(&headers, &f)) != 0 && n < FIELDS_MAX;) {
		struct str results = STR_NULL;
		bool none = false;
		if (r < 0 || !str_ieq(f.name, STR("Authentication-Results")) || f.value.n > OCTETS_MAX || !results_of(f.value, id, &results, &none, &memory))
			continue;
		if (none || octets + results.n > OCTETS_MAX)
			continue;
		buf_addz(out, ";\r\n\t");
		buf_adds(out, results);
		octets += results.n;
		n++;
	}
	buf_addz(out, n ? "\r\n" : "; none\r\n");
	*ret_n = n;
	if (!memory && !out->failed && mail_headers_sendable(str_n(out->p + before, out->n - before)))
		return 0;
	out->n = before;
	return -1;
}
