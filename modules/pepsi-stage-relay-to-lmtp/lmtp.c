/* pepsi-stage-relay-to-lmtp: hands messages to a mail store by LMTP (RFC 2033), with an answer per recipient. What it
 * does is in modules/common; here are its options and its descriptor. */
#include "relay.h"

static const struct pepsi_option options[] = {
	{ "SOCKET", PEPSI_OPT_PATH, 0, NULL, 0, 0, NULL, "path of the store's Unix socket; or" },
	{ "HOST", PEPSI_OPT_STRING, 0, NULL, 0, 0, NULL, "its host: a name, or an IPv4 or IPv6 address" },
	{ "PORT", PEPSI_OPT_INT, 0, "24", 1, 65535, NULL, "its port, with HOST" },
	{ "TLS", PEPSI_OPT_CHOICE, PEPSI_OPTF_FILE_ONLY, "none", 0, 0, "none may require",
	    "STARTTLS, with HOST: never, where offered, or always with a checked certificate" },
	RELAY_OPTIONS,
};

static int32_t validate(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report)
{
	return relay_validate(host, conf, report, true);
}

static int32_t start(const struct pepsi_host *host, const struct pepsi_conf *conf, void **ret_worker)
{
	return relay_open(host, conf, true, ret_worker);
}

PEPSI_STAGE(.name = "pepsi-stage-relay-to-lmtp", .version = "1.0", .license = "Apache-2.0",
    .summary = "hands messages to a mail store by LMTP", .load_class = PEPSI_LOAD_FULL,
    .caps = PEPSI_CAP_DELIVER | PEPSI_CAP_NET, PEPSI_OPTIONS(options), .validate = validate, .open = start,
    .process = relay_process, .close = relay_close);
