/* The PROXY header, whole and in pieces of a size the first octet chooses: the same outcome, the same octets taken; what a header
 * says is text without surprises, and its TLVs lie inside it. */
#include "proto/proxy/header.h"

#include <stdlib.h>

static int run(struct str in, size_t piece, struct proxy_parser *p, size_t *ret_taken)
{
	size_t taken = 0;
	*p = PROXY_PARSER_INIT;
	while (in.n) {
		size_t n = in.n < piece ? in.n : piece, used = 0;
		int r = proxy_feed(p, in.p, n, &used);
		if (r < 0) {
			*ret_taken = 0;
			return r;
		}
		if (used > n || (!r && used != n))
			abort();
		taken += used;
		in = str_skip(in, used);
		if (r) {
			*ret_taken = taken;
			return r;
		}
	}
	*ret_taken = taken;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct proxy_parser whole, cut;
	struct proxy_header h;
	struct proxy_ssl ssl;
	size_t taken = 0, taken_cut = 0;
	unsigned type;
	struct str value;
	if (size < 2)
		return 0;
	struct str in = str_n((const char *)data + 1, size - 1);
	int r = run(in, SIZE_MAX, &whole, &taken);
	if (r != run(in, data[0] % 40u + 1, &cut, &taken_cut) || taken != taken_cut || taken > PROXY_HEADER_MAX)
		abort();
	if (r <= 0) {
		if (proxy_header(&whole, &h) == 0)
			abort();
		return 0;
	}
	if (proxy_header(&whole, &h))
		return 0;
	if ((h.family == PROXY_UNSPEC) != !(h.src[0] || h.family == PROXY_UNIX_STREAM || h.family == PROXY_UNIX_DGRAM))
		abort();
	while ((r = proxy_tlv(&h.tlvs, &type, &value)) > 0) {
		if (type > 255 || value.n > PROXY_HEADER_MAX)
			abort();
		if (type == PROXY_TLV_SSL && !proxy_ssl(value, &ssl) && ssl.version.n + ssl.cipher.n + ssl.common_name.n > value.n)
			abort();
	}
	if (r < 0) /* malformed ones are not handed out */
		abort();
	return 0;
}
