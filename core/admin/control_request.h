/* One request line of the control protocol, checked: known command, known arguments of the right type and range. Pure:
 * text in, struct out; so that it can be tested and fuzzed without a socket. */
#ifndef ADMIN_CONTROL_REQUEST_H
#define ADMIN_CONTROL_REQUEST_H

#include "base/str.h"

enum {
	CONTROL_LINE_MAX = 64 * 1024, /* a request with its line end */
	CONTROL_IDS_MAX = 1000,       /* ids in one request */
	CONTROL_TEXT_MAX = 1000,      /* octets of a text argument */
	CONTROL_LIMIT_MAX = 1000000,  /* rows */
	CONTROL_FOR_MAX = 366 * 86400, /* seconds that a rule is in force; longer is without end */
};

enum control_cmd {
	CONTROL_PING,
	CONTROL_STATUS,
	CONTROL_QUEUE_LIST,
	CONTROL_QUEUE_SHOW,
	CONTROL_QUEUE_CAT,
	CONTROL_QUEUE_DELETE,
	CONTROL_QUEUE_RETRY,
	CONTROL_QUEUE_SET_STAGE,
	CONTROL_QUEUE_HOLD,
	CONTROL_QUEUE_RELEASE,
	CONTROL_RULE_ADD,
	CONTROL_RULE_LIST,
	CONTROL_RULE_REMOVE,
	CONTROL_CONFIG_SHOW,
	CONTROL_DNS,
	CONTROL_RELOAD,
	CONTROL_STOP,
	CONTROL_RECIPIENT_TEST,
	CONTROL_REPORTS,
};

#define CONTROL_OPEN 1u      /* anybody who can connect may ask */
#define CONTROL_CHANGES 2u   /* changes something: logged */
#define CONTROL_DATABASE 4u
#define CONTROL_SELECTS 8u   /* works on the rows that ids or filters name; needs one of them, or all */

struct control_request {
	enum control_cmd cmd;
	const char *name;   /* static */
	unsigned flags;     /* CONTROL_* */
	/* arguments; NULL, 0 or false when absent */
	char *stage, *status, *sender, *recipient, *to, *name_asked, *type, *action, *client, *reason;
	int64_t *ids;
	size_t n_ids;
	int64_t after_id;
	unsigned limit;
	unsigned for_s;     /* a rule ends so many seconds from now; 0: never */
	bool all, dry_run;
};

/* Returns 0, or -1 with a sentence in err that names what is wrong (and a hint, perhaps ""). ret is to be given to
 * control_request_done() in both cases. */
int control_request_parse(struct str line, struct control_request *ret, char *err, size_t err_size, char *hint,
    size_t hint_size);
void control_request_done(struct control_request *r);
/* "ids=17,18 stage=\"init\"": what it selects, for the log. */
void control_request_describe(const struct control_request *r, char *out, size_t size);

#endif
