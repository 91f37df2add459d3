/* A file of recipients (RECIPIENTS = file:/PATH): one address a line, "local@domain", "@domain" or a bare local part; what follows a
 * blank, and lines that begin with '#', do not count. Kept as 64-bit keyed hashes, 16 octets an address at most, so it may be of
 * any size. Read whole at the start; when it changes, a piece in each turn of the event loop, and the new content counts once it
 * is there as a whole. */
#ifndef INGRESS_RECIPIENT_FILE_H
#define INGRESS_RECIPIENT_FILE_H

#include "base/str.h"

#include <event2/event.h>

struct recipient_file;

/* Reads nothing yet. NULL: no memory. */
struct recipient_file *recipient_file_new(struct event_base *base, const char *path);
void recipient_file_free(struct recipient_file *f); /* accepts NULL */
const char *recipient_file_path(const struct recipient_file *f);
/* Looks whether it has changed; the first call, and `whole`, read it at once, others begin to. Once a second is enough. */
void recipient_file_look(struct recipient_file *f, bool whole);
/* Has it been read at all? Until then nobody can say who is not in it. */
bool recipient_file_ready(const struct recipient_file *f);
/* Is this name there? Lower case. */
bool recipient_file_has(const struct recipient_file *f, struct str name);
/* Addresses in it; how often it was read. */
size_t recipient_file_names(const struct recipient_file *f);
unsigned recipient_file_reads(const struct recipient_file *f);

#endif
