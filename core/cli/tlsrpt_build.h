/* From the database's rows to a TLS report, and to the message that carries it. */
#ifndef CLI_TLSRPT_BUILD_H
#define CLI_TLSRPT_BUILD_H

#include "cli_internal.h"
#include "proto/report/tlsrpt.h"

/* [pepsi-tlsrpt], as a report needs it. */
struct tlsrpt_sender {
	char host[256], org[256], contact[321], from[321], stage[128];
	size_t max_size;
	int64_t max_rows;
};
/* 0, or -1 after a message. to_send: FROM must be there. */
int tlsrpt_sender_read(struct tlsrpt_sender *s, const struct config *conf, bool to_send);

struct tlsrpt_built {
	struct arena *arena;
	struct tlsrpt report;
	char id[33], full_id[300]; /* full_id: as report and Subject have it */
	struct buf json, packed;
};
/* o: of tlsrpt_begin or tlsrpt_list; rows: of tlsrpt_rows; id: 32 hexadecimal digits. 0, or -1 after a message; tlsrpt_built_done() in both cases. */
int tlsrpt_build(struct tlsrpt_built *b, const struct tlsrpt_sender *s, struct json_object *o, struct json_object *rows, const char *id);
void tlsrpt_built_done(struct tlsrpt_built *b);
/* The message to one address; nth from 1. 0, or -1 after a message. */
int tlsrpt_mail(const struct tlsrpt_built *b, const struct tlsrpt_sender *s, struct str domain, const char *to, unsigned nth, struct buf *headers, struct buf *body);

#endif
