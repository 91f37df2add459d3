/* Fuzz: any message for any next hop. The first octet says what the hop lacks. What comes out is fit, says the same, and is left alone the next time. */
#include "../../unit/proto/mail/downgrade_check.h"
#include "proto/mail/split.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mail_split s;
	if (!size)
		return 0;
	mail_split(str_n((const char *)data + 1, size - 1), &s);
	if (!s.unterminated)
		downgrade_check(s.headers, s.body, data[0] & 7);
	return 0;
}
