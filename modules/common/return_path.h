/* What the stages share that make return addresses (pepsi-stage-srs, pepsi-stage-verp): DOMAIN and the keys of the configuration, lists of senders and domains,
 * recipients at DOMAIN that lead nowhere. How an address is made and read is proto/srs; how a bounce goes on, homeward.h; who gets an address is the
 * stage's to decide. */
#ifndef COMMON_RETURN_PATH_H
#define COMMON_RETURN_PATH_H

#include "pattern.h"
#include "return_keys.h"

#include <pepsi/stage.h>

enum {
	RETURN_DOMAIN_MAX = 259,       /* octets of DOMAIN as A-labels */
	RETURN_PATTERNS_MAX = 10000,   /* of one list */
	RETURN_ADDRESS_MAX = 1024,     /* octets of an address, made or taken back, and some to spare */
	RETURN_DAY_S = 86400,
	RETURN_AGE_MIN = 5 * RETURN_DAY_S,
	RETURN_AGE_MAX = 300 * RETURN_DAY_S,
};

/* Options of both. */
#define RETURN_KEY_DIR                                                                                                                        \
	{ .name = "KEY_DIR", .type = PEPSI_OPT_PATH, .flags = PEPSI_OPTF_REQUIRED,                                                              \
	    .help = "folder of the keys, as pepsi-keys srs makes it, readable by the stage's account alone" }
#define RETURN_MAX_AGE                                                                                                                        \
	{ .name = "MAX_AGE", .type = PEPSI_OPT_DURATION, .def = "21 d", .min = RETURN_AGE_MIN, .max = RETURN_AGE_MAX,                           \
	    .help = "how long a bounce may take to come; longer than anybody tries to deliver" }

/* Of a worker, from open() to close(). */
struct return_path {
	const char *name;              /* "srs": in the log, and as the phase of reports */
	const struct pepsi_host *host;
	const struct pepsi_conf *conf;
	const char *stage;             /* [stage-NAME] */
	char domain[RETURN_DOMAIN_MAX + 1]; /* DOMAIN as A-labels */
	struct keys keys;
	struct srs srs;                /* its keys are set by return_ready() alone; the separator is '=' */
	struct pepsi_metric *results;  /* NULL: nobody counts */
};
/* By the options DOMAIN, KEY_DIR and MAX_AGE. name: a constant. PEPSI_OK, or PEPSI_PERMANENT (logged). It must not move afterwards: r->srs points into it. */
int32_t return_open(struct return_path *r, const char *name, const struct pepsi_host *h, const struct pepsi_conf *c);
/* Wipes the keys. Takes one that is all zero, too. */
void return_close(struct return_path *r);
/* For validate(): DOMAIN is one of LOCAL_DOMAINS; NEXT_STAGE and BOUNCE_STAGE are set. */
void return_check(const struct pepsi_host *h, const struct pepsi_conf *c, struct pepsi_report *report);

/* The keys are there: PEPSI_OK; else PEPSI_RETRY, after a line in the log. To be called for each message that needs r->srs. */
int32_t return_ready(struct return_path *r, const struct pepsi_host *h, struct pepsi_msg *m);

/* Senders and domains. */
struct return_list {
	struct pattern *p;
	size_t n;
};
/* Where a list comes from. */
struct return_list_source {
	const char *option;            /* NULL: of [pepsi] alone */
	const char *fallback;          /* option of [pepsi] where `option` is not set; NULL: none */
	bool domains;                  /* whole addresses are not for it */
};
/* For validate(): each word that cannot stand there, and whether there are too many. */
void return_list_check(const struct pepsi_host *h, const struct pepsi_conf *c, const struct return_list_source *from, struct pepsi_report *report);
/* Those that can. 0, and the caller frees it; -1: out of memory. */
int return_list_read(const struct pepsi_host *h, const struct pepsi_conf *c, const struct return_list_source *from, struct return_list *ret);
void return_list_free(struct return_list *l);
bool return_list_has(const struct return_list *l, struct str address);

/* Why a recipient can never be delivered. Constants, nothing of the message in them, and no more than a stranger may know. */
struct return_refusal {
	const char *name, *status, *text; /* for counting; enhanced status code; diagnostic */
};
extern const struct return_refusal return_forged, return_expired;
/* why[i] not NULL: recipient i leads nowhere. Those are given back to the sender (at RCPT the client hears it), the others come to this stage again
 * without them. question: it is one, nothing is logged. PEPSI_NONE: there is none of them. Any other: as process() returns it. */
int32_t return_refuse(const struct return_path *r, const struct pepsi_host *h, struct pepsi_msg *m, bool question, const struct return_refusal *const *why);

#endif
