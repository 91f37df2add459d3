/* Any octets become a JSON text that a strict parser takes, without NUL, and ASCII comes back as it was. */
#include "base/json.h"

#include <json-c/json.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in = str_n((const char *)data, size);
	struct buf b = BUF_INIT(8 * size + 16);
	struct json_tokener *t = json_tokener_new();
	json_tokener_set_flags(t, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	json_put_str(&b, in);
	struct json_object *o = json_tokener_parse_ex(t, b.p, (int)b.n + 1);
	if (b.failed || !o || !str_is_utf8(buf_str(&b)) ||
	    memchr(json_object_get_string(o), 0, (size_t)json_object_get_string_len(o)))
		abort();
	if (str_is_ascii(in) && !memchr(data, 0, size) &&
	    !str_eq(in, str_n(json_object_get_string(o), (size_t)json_object_get_string_len(o))))
		abort();
	json_object_put(o);
	json_tokener_free(t);
	buf_free(&b);
	return 0;
}
