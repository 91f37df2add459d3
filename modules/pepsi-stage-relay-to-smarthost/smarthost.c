/* pepsi-stage-relay-to-smarthost: hands messages to one configured next hop by SMTP. What it does is in
 * modules/common; here are its options and its descriptor. */
#include "relay.h"

static const struct pepsi_option options[] = {
	{ "HOST", PEPSI_OPT_STRING, PEPSI_OPTF_REQUIRED, NULL, 0, 0, NULL, "the next hop: a name, or an IPv4 or IPv6 address" },
	{ "PORT", PEPSI_OPT_INT, 0, "25", 1, 65535, NULL, "its port" },
	{ "TLS", PEPSI_OPT_CHOICE, PEPSI_OPTF_FILE_ONLY, "may", 0, 0, "none may require dane",
	    "STARTTLS: never, where offered, or always with a checked certificate (dane: not available yet)" },
	RELAY_OPTIONS,
};

static int32_t validate(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report)
{
	return relay_validate(host, conf, report, false);
}

static int32_t start(const struct pepsi_host *host, const struct pepsi_conf *conf, void **ret_worker)
{
	return relay_open(host, conf, false, ret_worker);
}

PEPSI_STAGE(.name = "pepsi-stage-relay-to-smarthost", .version = "1.0", .license = "Apache-2.0",
    .summary = "hands messages to a next hop by SMTP", .load_class = PEPSI_LOAD_FULL,
    .caps = PEPSI_CAP_DELIVER | PEPSI_CAP_NET, PEPSI_OPTIONS(options), .validate = validate, .open = start,
    .process = relay_process, .close = relay_close);
