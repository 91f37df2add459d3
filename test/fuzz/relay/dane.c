/* Fuzz: TLSA records and certificates. First octet: how many records; each: usage, selector, matching type, length in two octets, data. What
 * is behind them are certificates in DER, one behind the other. */
#include "proto/relay/dane.h"

#include "base/check.h"

#include <openssl/err.h>
#include <openssl/x509.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RECORDS = 12 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dns_rr rr[RECORDS];
	struct str rest = str_n((const char *)data, size);
	STACK_OF(X509) *chain = sk_X509_new_null();
	size_t n = 0, most = size ? data[0] % (RECORDS + 1u) : 0;
	if (size > 65536 || !chain) {
		sk_X509_free(chain);
		return 0;
	}
	rest = str_skip(rest, 1);
	for (; n < most && rest.n >= 5; n++) {
		const unsigned char *o = (const unsigned char *)rest.p;
		size_t length = (size_t)o[3] << 8 | o[4];
		rest = str_skip(rest, 5);
		rr[n] = (struct dns_rr){ .usage = o[0], .selector = o[1], .matching = o[2], .data = str_n(rest.p, length < rest.n ? length : rest.n) };
		rest = str_skip(rest, length);
	}
	const unsigned char *p = (const unsigned char *)rest.p, *end = p ? p + rest.n : NULL;
	for (int i = 0; i < 30 && p && p < end; i++) {
		X509 *x = d2i_X509(NULL, &p, end - p);
		if (!x)
			break;
		sk_X509_push(chain, x);
	}
	ERR_clear_error();
	struct dane_check c = { .rr = rr, .n_rr = n, .chain = chain, .name = { "m.example" }, .n_names = 1, .now = 1796000000 };
	bool ok = dane_check(&c), any = false;
	must(ok == (c.verdict == DANE_MATCHED) && ok == (c.error == 0) && c.reason && ERR_peek_error() == 0);
	must(c.depth >= -1 && (!ok || c.depth >= 0));
	for (size_t i = 0; i < n; i++) {
		any |= dane_record_counts(rr, n, i);
		if (dane_record_usable(&rr[i]))
			must(rr[i].usage == DANE_TA || rr[i].usage == DANE_EE);
	}
	must(any || !ok);
	sk_X509_pop_free(chain, X509_free);
	return 0;
}
