/* Fuzz: any text is a key ring or none; one that is comes out of its own writing the same, and takes a rotation. */
#include "base/check.h"
#include "proto/srs/ring.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct srs_ring r, again;
	struct buf b = BUF_INIT(SRS_RING_TEXT_MAX);
	const char *why;
	unsigned line;
	memset(&r, 0, sizeof r);
	memset(&again, 0, sizeof again);
	if (srs_ring_parse(str_n((const char *)data, size), &r, &why, &line)) {
		must(why && !r.n);
		return 0;
	}
	must(r.n <= SRS_RING_MAX && !why);
	must(!srs_ring_write(&r, &b) && !srs_ring_parse(buf_str(&b), &again, &why, &line) && again.n == r.n);
	for (size_t i = 0; i < r.n; i++)
		must(!strcmp(r.key[i].id, again.key[i].id) && !memcmp(r.key[i].key, again.key[i].key, SRS_RING_KEY) && r.key[i].since == again.key[i].since);
	unsigned char key[SRS_RING_KEY] = { 1 };
	if (!srs_ring_rotate(&again, STR("fresh"), key, 1))
		must(!strcmp(srs_ring_active(&again)->id, "fresh") && (again.n == 2 || !r.n));
	buf_free_secret(&b);
	return 0;
}
