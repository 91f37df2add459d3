/* A relay stage: rows to a next hop by SMTP or LMTP. The two modules differ in their option tables and in `lmtp`; all
 * else is here. */
#ifndef COMMON_RELAY_H
#define COMMON_RELAY_H

#include "downgrade.h"
#include "hops.h"
#include "relay_measure.h"

#include <pepsi/stage.h>

#define RELAY_CHUNKING_OPTION                                                                                        \
	{ "CHUNKING", PEPSI_OPT_CHOICE, 0, "binary", 0, 0, "binary always never",                                         \
	    "what goes by BDAT to a next hop that offers CHUNKING: binary content only; always: text, too; or never" }

/* The options both modules have, for their tables. */
#define RELAY_OPTIONS                                                                                                  \
	{ "HELO", PEPSI_OPT_STRING, 0, NULL, 0, 0, NULL, "our name towards the next hop; default: HOSTNAME of [pepsi]" },   \
	{ "TLS_VERIFY", PEPSI_OPT_BOOL, PEPSI_OPTF_FILE_ONLY, "YES", 0, 0, NULL,                                                             \
	    "with TLS = require and implicit: the certificate must be valid and name HOST" },                                          \
	{ "TLS_CA_FILE", PEPSI_OPT_PATH, 0, NULL, 0, 0, NULL, "trusted certificates (PEM); default: the system's" },        \
	{ "CONNECT_TIMEOUT", PEPSI_OPT_DURATION, 0, "30 s", 1, 3600, NULL, "for connecting, the banner, EHLO and TLS, each" }, \
	{ "COMMAND_TIMEOUT", PEPSI_OPT_DURATION, 0, "5 min", 1, 3600, NULL, "for each reply" },                            \
	{ "DATA_TIMEOUT", PEPSI_OPT_DURATION, 0, "10 min", 1, 7200, NULL, "for content without progress and for its reply" }, \
	{ "IDLE_TIMEOUT", PEPSI_OPT_DURATION, 0, "10 s", 0, 300, NULL,                                                     \
	    "a connection unused for longer is replaced when the next message comes" },                                    \
	RELAY_DOWNGRADE_OPTION,                                                                                          \
	RELAY_CHUNKING_OPTION,                                                                                           \
	RELAY_RETRY_OPTIONS("1 min", "1 h")

/* When a message comes again: of every stage that hands mail on. */
#define RELAY_RETRY_OPTIONS(min, max)                                                                                  \
	{ "RETRY_MIN", PEPSI_OPT_DURATION, 0, min, 1, 86400, NULL, "wait after the first failure; doubles each time" },     \
	{ "RETRY_MAX", PEPSI_OPT_DURATION, 0, max, 1, 604800, NULL, "longest wait between two attempts" },                 \
	{ "DELAY_WARNING", PEPSI_OPT_DURATION, 0, "4 h", 0, 2592000, NULL,                                                \
	    "tell the sender once when a message waits longer than this (through BOUNCE_STAGE); 0: never" }

int32_t relay_validate(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report, bool lmtp);
int32_t relay_open(const struct pepsi_host *host, const struct pepsi_conf *conf, bool lmtp, void **ret_worker);
int32_t relay_process(void *worker, const struct pepsi_host *host, struct pepsi_msg *msg);
void relay_close(void *worker);

/* -- inside, and for tests */

/* The far end of a result. */
struct relay_where {
	const char *hop;        /* for texts: "mx.example.net:25" */
	const char *remote_mta; /* for reports: "mx.example.net", "[192.0.2.1]", or NULL */
};

enum { RELAY_ROOM = 4 };
struct relay_policy {
	int64_t retry_min, retry_max; /* seconds */
	int64_t delay_warning;        /* seconds, 0: off */
	const char *stage;            /* our own */
	const char *hop;              /* for texts: "mx.example.net:25" */
	const char *remote_mta;       /* for reports: "mx.example.net", "[192.0.2.1]", or NULL */
	const struct relay_where *const *where; /* of each recipient, instead of these two; NULL: they are the same for all */
	const struct relay_measure *measure; /* NULL: nothing is counted */
	uint32_t wait_s;              /* seconds to the next attempt, within the lifetime; 0: by the rule of relay_backoff() */
	bool success_dsn;             /* ORIGINATE_SUCCESS_DSN: for recipients of one message that went to hosts with and without DSN */
	uint32_t *room;               /* RELAY_ROOM per recipient, made before anything was sent; NULL: made when it is needed */
};

struct relay {
	struct hops_conf conf;
	struct hop_auth auth;
	struct relay_downgrade downgrade;
	enum smtp_chunking chunking;
	struct relay_policy policy; /* hop and remote_mta: of the message in hand */
	struct hops *hops;
	struct relay_measure measure;
	char *strings[24 + HOPS_MAX]; /* copies of configuration texts, owned, wiped */
	size_t n_strings;
	bool out_of_memory;
};

/* An option that has a value. */
static inline bool relay_given(const char *s)
{
	return s && *s;
}
/* Can it be sent as our name: printable ASCII without blanks, 255 octets at most? */
bool relay_helo_ok(const char *s);
/* Reads the configuration into r (relay_config.c). Returns 0, or -1 with the reason appended to why. */
int relay_configure(struct relay *r, const struct pepsi_host *host, const struct pepsi_conf *conf, bool lmtp, struct buf *why);
void relay_unconfigure(struct relay *r);

enum relay_verdict { RELAY_OK, RELAY_RETRY, RELAY_BOUNCE };
/* What a result means for its recipient. What the peer says before MAIL is about us and it, not about the message, so a
 * 5xx there is retried; so is 530 (it wants TLS or a sign-in first: a fault of our configuration). */
enum relay_verdict relay_judge(const struct smtp_result *r);

/* The row as the engine wants it; m->rcpts has room for m->n_rcpts. Texts are the host's. PEPSI_OK, or what process() is to return. */
int32_t relay_load(const struct pepsi_host *host, struct pepsi_msg *msg, struct smtp_client_msg *m);
/* "Too many recipients" (RFC 5321 §4.5.3.1.10), in both spellings, told from a full mailbox, or more than the peer
 * takes at a time (LIMITS, code 0): another transaction may do. */
bool relay_too_many(const struct smtp_result *r);

/* Seconds to the next attempt: doubles from retry_min with every attempt before, up to retry_max, a quarter more or less
 * by chance (seed), but not past the end of the lifetime. */
uint32_t relay_backoff(const struct relay_policy *p, uint64_t attempts, int64_t lifetime_left, uint64_t seed);

/* What is said without another octet of memory, when there is none: whoever was delivered is done, the rest is tried again, without a state that
 * tells why. room as in the policy. */
int32_t relay_decide_bare(const struct relay_policy *p, const struct pepsi_host *host, struct pepsi_msg *msg, const struct smtp_client_msg *m,
    uint32_t dsn_here, uint32_t *room);

/* Of the stage; for the policy. */
enum smtp_chunking relay_chunking(const struct pepsi_host *host, const struct pepsi_conf *conf);
bool relay_success_dsn(const struct pepsi_host *host, const struct pepsi_conf *conf);
/* Turns the results of a message into its terminal. dsn_here: PEPSI_DSN_*, of those that were taken. counted: this was a real attempt; else those
 * that go on waiting are postponed in the metrics. Returns what process() returns. */
int32_t relay_decide(const struct relay_policy *p, const struct pepsi_host *host, struct pepsi_msg *msg,
    const struct smtp_client_msg *m, uint32_t dsn_here, bool counted);

#endif
