/* What the tools that send reports share, pepsi dmarc and pepsi tlsrpt: who sends them, ids, look-ups, who is muted. */
#ifndef CLI_TOOL_REPORTS_H
#define CLI_TOOL_REPORTS_H

#include "net/dns.h"
#include "tool_db.h"

/* Where the parts of a sender go; sizes in octets. */
struct tool_sender {
	char *host;
	size_t host_size;
	char *org;
	size_t org_size;
	char *contact;
	size_t contact_size;
	char *from;
	size_t from_size;
	char *stage;
	size_t stage_size;
};
/* HOSTNAME, and ORG_NAME, CONTACT, FROM, STAGE of the section, with their defaults. 0, or -1 after a message. to_send: FROM must be there. */
int tool_sender_read(const struct tool_sender *s, const struct config *conf, const char *section, bool to_send);

/* 32 hexadecimal digits by chance. 0, or -1. */
int tool_new_id(char out[33]);
/* Is the address, or URI, in the list of objects with "address"? list may be NULL. */
bool tool_is_muted(struct json_object *list, const char *address);
/* Looks up what an evaluator wants, within so many seconds and queries; waits. 0, or -1: it cannot be asked. */
int tool_db_resolve(struct tool_db *db, struct net_dns *dns, unsigned seconds, unsigned queries, dns_evaluate_fn eval, void *arg);

#endif
