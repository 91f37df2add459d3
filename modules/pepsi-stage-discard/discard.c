/* pepsi-stage-discard: every message that comes here is dropped, and counted as discarded. Nobody is told; a stage before it
 * (if, route) decides what comes here. */
#include <pepsi/stage.h>

static int32_t process(void *worker, const struct pepsi_host *h, struct pepsi_msg *m)
{
	(void)worker;
	return h->finish(m);
}

PEPSI_STAGE(.name = "pepsi-stage-discard", .version = "0.1", .license = "Apache-2.0", .summary = "drops every message",
    .load_class = PEPSI_LOAD_METADATA, .process = process);
