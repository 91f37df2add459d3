/* Gate 2 of the stage ABI: a library whose debug information holds every public type, for abidiff to compare with what was recorded
 * (pepsi-stage-1.abi). Unlike the offsets it sees the types of functions, too. Never loaded. */
#include <pepsi/stage.h>

PEPSI_EXPORT extern const struct pepsi_stage *probe_stage;
PEPSI_EXPORT extern const struct pepsi_host *probe_host;
PEPSI_EXPORT extern const struct pepsi_option *probe_option;
PEPSI_EXPORT extern const struct pepsi_clone *probe_clone;
PEPSI_EXPORT extern const struct pepsi_dns *probe_dns;
const struct pepsi_stage *probe_stage;
const struct pepsi_host *probe_host;
const struct pepsi_option *probe_option;
const struct pepsi_clone *probe_clone;
const struct pepsi_dns *probe_dns;
