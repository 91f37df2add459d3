/* See loop.h. */
#include "loop.h"

#include <stddef.h>

struct event_base *net_loop_new(void)
{
	struct event_config *ec = event_config_new();
	struct event_base *base = NULL;
	if (ec) {
		event_config_set_flag(ec, EVENT_BASE_FLAG_NOLOCK);
		base = event_base_new_with_config(ec);
		event_config_free(ec);
	}
	return base;
}
