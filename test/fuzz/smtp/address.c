/* Any octets as a mailbox, a path and a domain: what is accepted keeps the limits, lies within the input, and has a
 * canonical form that is accepted, too, and is its own canonical form. */
#include "fuzz.h"

#include "proto/address/address.h"

static void check_parts(struct str in, const struct smtp_address *a, bool utf8)
{
	must(a->address.p >= in.p && a->address.p + a->address.n <= in.p + in.n);
	must(a->local.n <= SMTP_LOCAL_MAX && a->domain.n <= SMTP_DOMAIN_MAX && a->address.n <= SMTP_MAILBOX_MAX);
	must(a->local.p == a->address.p && (!a->domain.n || a->local.n + 1 + a->domain.n == a->address.n));
	must(utf8 ? str_is_utf8(a->address) : str_is_ascii(a->address));
	must(a->utf8 == !str_is_ascii(a->address) || a->address.n < in.n); /* a route may have had it */
	for (size_t i = 0; i < a->address.n; i++)
		must((unsigned char)a->address.p[i] >= 32 && a->address.p[i] != 127);
}

static void check_canonical(const struct smtp_address *a)
{
	struct buf one = BUF_INIT(1000), two = BUF_INIT(1000), x = BUF_INIT(1000), y = BUF_INIT(1000);
	struct smtp_address b;
	must(!smtp_address_canonical(a, &one));
	must(!smtp_address_parse(buf_str(&one), true, &b));
	must(!smtp_address_canonical(&b, &two));
	must(str_eq(buf_str(&one), buf_str(&two)));
	must(!smtp_local_unquote(a->local, &x) && !smtp_local_unquote(b.local, &y));
	must(str_eq(buf_str(&x), buf_str(&y)));
	must(str_eq(a->domain, b.domain) && smtp_domain_equal(a->domain, b.domain));
	buf_free(&one);
	buf_free(&two);
	buf_free(&x);
	buf_free(&y);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct smtp_address a;
	size_t used;
	struct str in = fuzz_str(data, size);
	for (int utf8 = 0; utf8 < 2; utf8++) {
		if (!smtp_address_parse(in, utf8, &a)) {
			check_parts(in, &a, utf8);
			must(a.address.n == in.n);
			check_canonical(&a);
		}
		for (unsigned flags = 0; flags < 4; flags++)
			if (!smtp_path_parse(in, flags | (utf8 ? SMTP_PATH_UTF8 : 0), &a, &used)) {
				must(used <= in.n && used <= SMTP_PATH_MAX && in.p[used - 1] == '>');
				check_parts(in, &a, utf8);
				if (a.domain.n)
					check_canonical(&a);
			}
		if (!smtp_domain_check(in, utf8)) {
			struct buf ascii = BUF_INIT(1000);
			must(!smtp_domain_to_ascii(in, &ascii));
			must(!smtp_domain_check(buf_str(&ascii), false));
			must(smtp_domain_equal(in, buf_str(&ascii)) && smtp_domain_within(in, in));
			buf_free(&ascii);
		}
	}
	smtp_literal_check(in);
	return 0;
}
