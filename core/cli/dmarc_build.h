/* From the database's rows to a report, and to the message that carries it. */
#ifndef CLI_DMARC_BUILD_H
#define CLI_DMARC_BUILD_H

#include "cli_internal.h"
#include "proto/report/dmarc.h"

/* [pepsi-dmarc], as a report needs it. */
struct dmarc_sender {
	char host[256], org[256], contact[321], info[512], from[321], stage[128];
	size_t max_size;
	int64_t max_rows;
};
/* 0, or -1 after a message. to_send: FROM must be there. */
int dmarc_sender_read(struct dmarc_sender *s, const struct config *conf, bool to_send);

struct dmarc_built {
	struct arena *arena;
	struct report report;
	char id[33];
	char error[512];         /* what the report says of itself */
	struct buf xml, packed;
	size_t left_out;         /* rows, because of MAX_SIZE */
};
/* period: of dmarc_due; rows: of dmarc_rows. 0, or -1 after a message; dmarc_built_done() in both cases. */
int dmarc_build(struct dmarc_built *b, const struct dmarc_sender *s, struct json_object *period, struct json_object *rows);
void dmarc_built_done(struct dmarc_built *b);
/* Octets of the message that carries it, about: base64, headers, text. */
size_t dmarc_mail_size(const struct dmarc_built *b);
/* The message to one address; nth from 1. 0, or -1 after a message. */
int dmarc_mail(const struct dmarc_built *b, const struct dmarc_sender *s, const char *to, unsigned nth, struct buf *headers, struct buf *body);

#endif
