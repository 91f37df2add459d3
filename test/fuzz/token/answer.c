/* Fuzz: what a token endpoint answers; the first octet chooses the HTTP status. Whatever it is: tokens are of their form, an error is printable and
 * holds no token. */
#include "base/check.h"
#include "token/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct token_answer a;
	if (!size)
		return 0;
	int r = token_answer_parse(str_n((const char *)data + 1, size - 1), data[0] & 1 ? 200 : 400 + data[0], &a);
	if (r == 0) {
		must(token_ok(buf_str(&a.access)) && (!a.refresh.n || token_ok(buf_str(&a.refresh))));
		must(a.life_s > 0 && a.life_s <= 366 * 86400 && a.refresh_life_s >= 0 && a.refresh_life_s <= 366 * 86400);
	} else {
		must(a.error[0]);
		for (const char *p = a.error; *p; p++)
			must(*p >= 32 && *p < 127);
	}
	token_answer_done(&a);
	return 0;
}
