/* state.forwarded (pepsi.state(7)): addresses outside that aliases led to. For modules that have json-c at hand. */
#ifndef SUPPORT_FORWARDED_H
#define SUPPORT_FORWARDED_H

#include "base/str.h"

#include <json-c/json.h>

/* Does the list name the address, without case? False as well for what is no list, or NULL. */
static inline bool forwarded_has(struct json_object *list, struct str address)
{
	for (size_t i = 0; json_object_is_type(list, json_type_array) && i < json_object_array_length(list); i++) {
		struct json_object *o = json_object_array_get_idx(list, i);
		if (json_object_is_type(o, json_type_string) && str_ieq(str_n(json_object_get_string(o), (size_t)json_object_get_string_len(o)), address))
			return true;
	}
	return false;
}

#endif
