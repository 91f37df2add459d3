/* Base64, SASLprep and the verifier's text: strict decoding has one form only, preparing twice changes nothing, what a
 * verifier was read from is what it is written as. */
#include "base/check.h"
#include "proto/sasl/base64.h"
#include "proto/sasl/prep.h"
#include "proto/sasl/scram.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void base64(struct str in)
{
	struct buf octets = BUF_INIT(2 * in.n + 8), text = BUF_INIT(2 * in.n + 8);
	if (!sasl_base64_decode(in, &octets)) {
		must(!sasl_base64_encode(buf_str(&octets), &text));
		must(str_eq(buf_str(&text), in));
	}
	buf_reset(&text);
	must(!sasl_base64_encode(in, &text) && text.n == SASL_BASE64_SIZE(in.n));
	buf_reset(&octets);
	must(!sasl_base64_decode(buf_str(&text), &octets) && str_eq(buf_str(&octets), in));
	buf_free(&octets);
	buf_free(&text);
}

static void prep(struct str in)
{
	struct buf once = BUF_INIT(64 * 1024), twice = BUF_INIT(64 * 1024);
	if (!sasl_prep(in, &once)) {
		must(once.n && str_is_utf8(buf_str(&once)));
		for (size_t i = 0; i < once.n; i++)
			must((unsigned char)once.p[i] >= 0x20 && once.p[i] != 0x7f);
		/* a second preparing may refuse, since NFKC can bring characters that are mapped away then, but never changes again what
		 * it takes twice */
		if (!sasl_prep(buf_str(&once), &twice)) {
			struct buf thrice = BUF_INIT(64 * 1024);
			must(!sasl_prep(buf_str(&twice), &thrice) && str_eq(buf_str(&twice), buf_str(&thrice)));
			buf_free(&thrice);
		}
	}
	buf_free(&once);
	buf_free(&twice);
}

static void verifier(struct str in)
{
	struct scram_verifier v, again;
	struct buf text = BUF_INIT(512);
	if (!scram_verifier_parse(in, &v)) {
		must(v.iterations >= SCRAM_ITERATIONS_MIN && v.iterations <= SCRAM_ITERATIONS_MAX && v.salt_n <= SCRAM_SALT_MAX);
		must(!scram_verifier_write(&v, &text) && !scram_verifier_parse(buf_str(&text), &again));
		must(!memcmp(v.stored_key, again.stored_key, SCRAM_KEY) && v.iterations == again.iterations);
	}
	buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in = str_n((const char *)data, size);
	if (size > 5000)
		return 0;
	base64(in);
	prep(in);
	verifier(in);
	return 0;
}
