/* Shared by the files of `pepsi auth-check`: the message and its envelope (auth_message.c), the evaluation (auth_run.c), what is printed of it
 * (auth_print.c, auth_json.c). tool_auth_check.c has the command line. */
#ifndef CLI_AUTH_CHECK_H
#define CLI_AUTH_CHECK_H

#include "cli_internal.h"
#include "ingress/vet_decide.h"
#include "net/dns.h"
#include "proto/dns/iprev.h"

enum {
	AUTH_MESSAGE_MAX = 256 << 20, /* octets that are read */
	AUTH_REFUSED = 3,             /* exit statuses beside CLI_DONE, CLI_FAILED, CLI_USAGE */
	AUTH_QUARANTINED = 4,
	AUTH_UNKNOWN = 5,
};

struct auth_check {
	struct cli *c;
	struct config *conf;
	/* the listener whose terms count */
	char *section;               /* "listener-mx"; NULL: there is none, everything is recorded */
	struct vet_terms terms;
	char *hostname;
	bool exempt;                 /* it would not look at this client's mail */
	/* auth_message.c */
	const char *file;            /* "-", a path, "message 42" */
	struct buf raw, text;        /* as read; as it came in: lines with CRLF, without what we put on top */
	struct str headers, body;    /* of text */
	size_t taken_off, line_ends; /* fields, lines that did not end with CRLF */
	/* envelope; where each is from is a constant: "given", "Received" … */
	unsigned char ip[16];
	size_t ip_n;
	char ip_text[64];
	char *helo, *from;
	const char *ip_by, *helo_by, *from_by;
	char *listener_by;           /* name of the listener that took the message, of the queue */
	/* auth_run.c */
	struct net_dns_settings dns;
	struct verify *v;
	struct iprev iprev;
	bool has_iprev;
	struct json_object *steps;   /* [{"method","kind":"answer"|"says"|"decides","text"|"answer"}], in order */
	unsigned queries;
	struct vet_decision decision;
	struct buf field;            /* the Authentication-Results */
};

/* Reads FILE, standard input or the message of --id, and what is known of its envelope there. 0, or an exit status after a message. */
int auth_message_read(struct auth_check *k);
/* Runs all methods. 0, or an exit status after a message. */
int auth_run(struct auth_check *k);
void auth_print(const struct auth_check *k);
void auth_print_json(const struct auth_check *k);

/* "accept", "quarantine", "refuse", "put off". */
const char *auth_action(enum vet_action a);
const char *auth_mode(enum vet_mode m);

#endif
