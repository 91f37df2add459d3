/* pepsi-stage-relay-to-smarthost: hands messages to a server of the operator's choice by SMTP, signed in where it wants that. What it does is in
 * modules/common; here are its options and its descriptor. pepsi-stage-relay-to-smarthost(7) is its manual. */
#include "relay.h"

static const struct pepsi_option options[] = {
	{ "HOST", PEPSI_OPT_STRING, PEPSI_OPTF_FILE_ONLY, NULL, 0, 0, NULL, "the next hop: a name, or an IPv4 or IPv6 address; or" },
	{ "HOST_*", PEPSI_OPT_MULTI, PEPSI_OPTF_FILE_ONLY, NULL, 0, 0, NULL,
	    "HOST_1 = NAME:PORT weight=N, HOST_2 = …: several, tried in the order of their numbers; port and weight may be left out" },
	{ "PORT", PEPSI_OPT_INT, PEPSI_OPTF_FILE_ONLY, NULL, 1, 65535, NULL, "its port; default: 587 with a sign-in, 465 with TLS = implicit, else 25" },
	{ "BALANCE", PEPSI_OPT_CHOICE, 0, "order", 0, 0, "order weight", "of several hosts: always the first that is well, or by chance and weight" },
	{ "MX_LOOKUP", PEPSI_OPT_BOOL, PEPSI_OPTF_FILE_ONLY, "NO", 0, 0, NULL, "HOST names a domain, whose mail exchangers (MX records) are the hosts" },
	{ "BACKOFF_MAX", PEPSI_OPT_DURATION, 0, "5 min", 1, 86400, NULL,
	    "of several hosts: a dead one is left alone for a second, doubling with each further failure up to this" },
	{ "LOOP_DETECT", PEPSI_OPT_CHOICE, 0, "far", 0, 0, "far yes no",
	    "a host that answers EHLO with HELO or HOSTNAME is ourselves, and gets nothing; far: unless it is on loopback" },
	{ "TLS", PEPSI_OPT_CHOICE, PEPSI_OPTF_FILE_ONLY, NULL, 0, 0, "none may require implicit dane",
	    "never; STARTTLS where it is offered; always, with a checked certificate; the same from the first octet (port 465); or by the host's TLSA "
	    "records. Default: implicit at port 465, require with a sign-in, else may" },
	{ "TLS_CERT", PEPSI_OPT_PATH, 0, NULL, 0, 0, NULL, "our certificate, PEM, for servers that know us by it (AUTH external)" },
	{ "TLS_KEY", PEPSI_OPT_PATH, 0, NULL, 0, 0, NULL, "its key, PEM; this stage's account must be able to read it" },
	{ "AUTH_USER", PEPSI_OPT_STRING, PEPSI_OPTF_FILE_ONLY, NULL, 0, 0, NULL, "sign in as this user" },
	{ "AUTH_PASSWORD", PEPSI_OPT_SECRET, 0, NULL, 0, 0, NULL, "with this password; better in a file of secrets.d" },
	{ "AUTH_TOKEN", PEPSI_OPT_STRING, PEPSI_OPTF_FILE_ONLY, NULL, 0, 0, NULL, "or with the OAuth2 token of [token-NAME], kept fresh by pepsi-token(1)" },
	{ "AUTH_TOKEN_FILE", PEPSI_OPT_PATH, 0, NULL, 0, 0, NULL, "or with an access token that another program keeps in this file" },
	{ "AUTH", PEPSI_OPT_LIST, PEPSI_OPTF_FILE_ONLY, NULL, 0, 0, NULL,
	    "mechanisms that may be used; default: the strongest on offer of scram-sha-256-plus, scram-sha-256, oauthbearer, xoauth2, plain, login; "
	    "external with TLS_CERT" },
	{ "AUTH_INSECURE", PEPSI_OPT_BOOL, PEPSI_OPTF_FILE_ONLY, "NO", 0, 0, NULL,
	    "sign in without TLS, or whoever shows whatever certificate: for a server on this host only" },
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

PEPSI_STAGE(.name = "pepsi-stage-relay-to-smarthost", .version = "1.1", .license = "Apache-2.0",
    .summary = "hands messages to a next hop by SMTP, signed in where it wants that", .load_class = PEPSI_LOAD_FULL,
    .caps = PEPSI_CAP_DELIVER | PEPSI_CAP_NET | PEPSI_CAP_FILES, PEPSI_OPTIONS(options), .validate = validate, .open = start,
    .process = relay_process, .close = relay_close);
