/* Key records of any octets, for each algorithm, and DER of any octets. A key that is usable verifies no signature of garbage. */
#include "proto/dkim/dkim_internal.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct dkim_policy policies[] = { { 0 }, { .rsa_min = 8, .rsa_max = 16384, .historic = true, .sha1 = true } };
	static const unsigned char digest[32] = { 1 }, garbage[64] = { 2 };
	struct str modulus, exponent;
	for (int alg = DKIM_RSA_SHA1; alg <= DKIM_ED25519_SHA256; alg++)
		for (size_t i = 0; i < 2; i++) {
			struct dkim_key k;
			dkim_key_read(str_n((const char *)data, size), (enum dkim_method)alg, &policies[i], &k);
			if ((k.result == DKIM_PASS) != (k.pkey != NULL) || (k.result == DKIM_PASS) == (k.why != NULL))
				abort();
			if (k.pkey && dkim_key_verify(k.pkey, (enum dkim_method)alg, digest, alg == DKIM_RSA_SHA1 ? 20 : 32, garbage, sizeof garbage))
				abort();
			dkim_key_free(&k);
		}
	if (!dkim_key_rsa(data, size, &modulus, &exponent) && (!modulus.n || !exponent.n || modulus.n + exponent.n > size))
		abort();
	return 0;
}
