/* The client against challenges of any server: it ends, stays within bounds, and believes a success only from a SCRAM server
 * that has proved itself. First octet: mechanism; challenges are separated by 0xff 0xff. */
#include "base/check.h"
#include "proto/sasl/client.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	enum sasl_mech m = (enum sasl_mech)(data[0] % SASL_MECHS);
	struct sasl_client_conf conf = { .mech = m, .name = STR("user"), .password = STR("pencil"), .token = STR("tok"),
		.nonce = STR("rOprNGfwEbeRWgbNEkqO"), .binding = { STR("tls-exporter"), STR("x") } };
	struct sasl_client *c = sasl_client_make(&conf);
	must(c);
	struct buf out = BUF_INIT(64 * 1024);
	if (data[0] & 0x80)
		must(sasl_client_first(c, &out) >= 0);
	size_t at = 1;
	for (unsigned i = 0; i < 6 && at <= size; i++) {
		size_t end = at;
		while (end < size && !(data[end] == 0xff && end + 1 < size && data[end + 1] == 0xff))
			end++;
		buf_reset(&out);
		int r = sasl_client_answer(c, str_n((const char *)data + at, end - at), &out);
		must(r == 0 || r == -1);
		must(out.n <= 3 * SASL_BLOB_MAX);
		/* the proof is of a salt and nonce of the server's: only its signature makes it done */
		if ((m == SASL_SCRAM_SHA_256 || m == SASL_SCRAM_SHA_256_PLUS) && sasl_client_over(c))
			must(end - at > 2 && data[at] == 'v' && data[at + 1] == '=');
		if (r)
			break;
		at = end + 2;
	}
	buf_free(&out);
	sasl_client_free(c);
	return 0;
}
