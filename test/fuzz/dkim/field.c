/* One signature field of any octets, as DKIM-Signature, ARC-Message-Signature and ARC-Seal: what is read obeys what dkim.h promises. */
#include "proto/dkim/dkim_internal.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool clean(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < 32 || s.p[i] == 127)
			return false;
	return str_is_utf8(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct dkim_policy policies[] = { { 0 }, { .now = 1700000000 }, { .historic = true, .sha1 = true, .partial = true } };
	for (int kind = DKIM_SIGNATURE; kind <= DKIM_ARC_SEAL; kind++)
		for (size_t i = 0; i < 3; i++) {
			struct arena *a = arena_new(1 << 24);
			struct dkim_sig s;
			struct str value = str_n((const char *)data, size);
			if (!a || dkim_sig_parse(&s, (enum dkim_kind)kind, value, &policies[i], a))
				abort();
			if (!clean(s.pub.domain) || !clean(s.pub.selector) || !clean(s.pub.identity) || !clean(s.pub.b) || s.cut > s.cut_end || s.cut_end > size)
				abort();
			if (s.settled ? s.pub.result == DKIM_PASS || !s.pub.reason[0] || !clean(str_from(s.pub.reason)) :
					!s.pub.domain.n || !s.signature.n || !s.key_name.n)
				abort();
			arena_free(a);
		}
	return 0;
}
