/* What json_object_fault() lets pass, a strict parser takes as an object: whole, no deeper than the workers read, without NUL and with
 * finite numbers. (It may refuse more than that parser: what only PostgreSQL refuses.) */
#include "base/json.h"

#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(json_object *o)
{
	if (json_object_is_type(o, json_type_string) && strlen(json_object_get_string(o)) != (size_t)json_object_get_string_len(o))
		abort();
	if (json_object_is_type(o, json_type_double) && !isfinite(json_object_get_double(o)))
		abort();
	if (json_object_is_type(o, json_type_array))
		for (size_t i = 0; i < json_object_array_length(o); i++)
			look(json_object_array_get_idx(o, i));
	if (json_object_is_type(o, json_type_object)) {
		json_object_object_foreach(o, k, v)
		{
			(void)k;
			look(v);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (json_object_fault(str_n((const char *)data, size)))
		return 0;
	struct json_tokener *t = json_tokener_new_ex(JSON_DEPTH_MAX + 1);
	json_tokener_set_flags(t, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	struct json_object *o = json_tokener_parse_ex(t, (const char *)data, (int)size);
	if (!json_object_is_type(o, json_type_object))
		abort();
	look(o);
	json_object_put(o);
	json_tokener_free(t);
	return 0;
}
