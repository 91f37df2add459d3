/* Who lives here: may a recipient of a local domain be refused with 550 at RCPT? Sources by configuration (RECIPIENTS of [pepsi] and
 * of [domain-NAME]): any (everybody, the default), table (pepsi.recipient), aliases (pepsi.alias_map), system (accounts of this
 * machine), file:/PATH, stage:NAME (a stage is asked: before.h; the caller does that, and comes here when it is silent). One source that knows the address is enough; a source that cannot be asked makes "no" a "cannot tell",
 * never a 550. postmaster lives everywhere (RFC 5321 §4.5.1).
 *
 * Told: recipients_ask() folds the address, looks into files at once, and, where the database or the accounts are to be asked,
 * into a cache; what that does not know becomes a question, which waits with all others of this turn of the event loop and goes out
 * in one statement. Whoever asks the same meanwhile waits for the same answer. Answers live RECIPIENT_CACHE_TIME, and not beyond
 * a notification of the database that something changed. Nothing blocks; no callback comes from inside a call. */
#ifndef INGRESS_RECIPIENTS_H
#define INGRESS_RECIPIENTS_H

#include "config/config.h"
#include "store/recipient.h"

#include <event2/event.h>

#define RECIPIENTS_STAGE "stage:" /* in front of its name */

struct recipients;
struct recipient_ask;

enum recipient_answer { RECIPIENT_YES, RECIPIENT_NO, RECIPIENT_AWAY, RECIPIENT_WAIT };

/* Who is asked; tests put scripts here. */
struct recipient_backend {
	void *ctx;
	bool (*up)(void *ctx); /* the database */
	void (*lookup)(void *ctx, const struct str *names, size_t n, const struct str *aliases, size_t n_aliases, store_recipient_row_fn row,
	    store_recipient_done_fn done, void *arg);
	/* The accounts of this machine: the answer comes by recipients_account(). 0, or -1: cannot be asked now. */
	int (*account)(void *ctx, uint64_t id, struct str name);
};

struct recipients_settings {
	unsigned cached;       /* answers kept at most */
	int64_t cache_us;
};

struct recipients *recipients_new(struct event_base *base, const struct recipient_backend *be); /* NULL: no memory */
void recipients_free(struct recipients *r); /* accepts NULL. Late answers find nobody */
/* Sources of all domains, as c has them; files are read. 0 or -1 (memory; a fault was added, the old ones go on). */
int recipients_configure(struct recipients *r, const struct config *c, const struct recipients_settings *set, struct config_faults *faults);
/* The stage that is to be asked about addresses of the domain, before anybody else; NULL: none. Lives until the next recipients_configure(). */
const char *recipients_stage(const struct recipients *r, struct str domain);
/* Is anything but "any" configured? */
bool recipients_wanted(const struct recipients *r);

/* The callback comes once, later, with YES, NO or AWAY and the source that said so (a constant or the file's path; "" for NO). */
typedef void (*recipient_fn)(void *arg, enum recipient_answer a, const char *source);
/* WAIT: *ret is the question, to be cancelled or answered; else the answer, and *ret_source. */
enum recipient_answer recipients_ask(struct recipients *r, struct str local, struct str domain, recipient_fn fn, void *arg,
    struct recipient_ask **ret, const char **ret_source);
void recipients_cancel(struct recipient_ask *a); /* accepts NULL */

/* The database says that something has changed, or came back: what is known of it is forgotten. */
void recipients_changed(struct recipients *r);
/* An answer about an account. */
void recipients_account(struct recipients *r, uint64_t id, enum recipient_answer a);
/* Whoever is asked about accounts is gone. */
void recipients_accounts_away(struct recipients *r); /* accepts NULL */
/* Once a second: files that changed, questions nobody answered. */
void recipients_tick(struct recipients *r, int64_t now_us);

void recipients_metrics(const struct recipients *r, struct buf *out);
void recipients_status(const struct recipients *r, struct buf *out_json);

#endif
