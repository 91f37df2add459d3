/* The accounts of pepsi.mail_account, over a connection of role pepsi-config: the admin child's calls. Names are given in the form
 * of wire_signin_name(), which is not looked at again here. Strings handed in are copied; those of a callback live during it.
 * Digests are secrets: parameters of calls are wiped by nobody but freed with them, so this is for the admin child alone. */
#ifndef PEPSI_STORE_ACCOUNT_H
#define PEPSI_STORE_ACCOUNT_H

#include "store/conn.h"

enum { STORE_ACCOUNT_SENDERS_MAX = 64, STORE_ACCOUNT_CERTIFICATES_MAX = 16, STORE_ACCOUNT_PAGE = 1000 };

enum store_account_cap { STORE_CAP_MESSAGES_HOUR, STORE_CAP_MESSAGES_DAY, STORE_CAP_RECIPIENTS_HOUR, STORE_CAP_RECIPIENTS_DAY, STORE_CAPS };

struct store_account {
	struct str name;
	struct str password, scram; /* .p NULL: none. Not filled in by store_account_list(), which says has_password */
	bool has_password;
	bool enabled;
	struct str senders[STORE_ACCOUNT_SENDERS_MAX];
	size_t n_senders;
	struct str certificates[STORE_ACCOUNT_CERTIFICATES_MAX]; /* SHA-256, 64 hexadecimal digits in lower case */
	size_t n_certificates;
	int32_t caps[STORE_CAPS];   /* -1: what the configuration says; 0: none */
	int64_t created_at, changed_at, signed_in_at; /* microseconds; signed_in_at 0: never */
};

/* a NULL with STORE_OK: there is no such account. err: one line. */
typedef void (*store_account_fn)(void *arg, enum store_rc rc, const struct store_account *a, const char *err);
void store_account_get(struct store_conn *c, struct str name, store_account_fn fn, void *arg);
/* The one that has this certificate; when several have, the first by name. */
void store_account_by_certificate(struct store_conn *c, struct str digest, store_account_fn fn, void *arg);

/* Accounts with names above after, in order, at most STORE_ACCOUNT_PAGE: row() each, then done() with how many. */
typedef void (*store_account_row_fn)(void *arg, const struct store_account *a);
typedef void (*store_account_done_fn)(void *arg, enum store_rc rc, unsigned n, const char *err);
void store_account_list(struct store_conn *c, struct str after, unsigned limit, store_account_row_fn row, store_account_done_fn done,
    void *arg);

/* n is 1 when it was done, 0: there is one already (add), or none (others). The times of `a` are not looked at. */
void store_account_add(struct store_conn *c, const struct store_account *a, store_account_done_fn done, void *arg);
/* Changes what is given: password and scram where .p is set; enabled where set_enabled; senders where set_senders, certificates likewise; a cap where it
 * is not STORE_CAP_KEEP. */
#define STORE_CAP_KEEP INT32_MIN
struct store_account_change {
	struct str name, password, scram;
	bool set_enabled, enabled, set_senders;
	const struct str *senders;
	size_t n_senders;
	bool set_certificates;
	const struct str *certificates;
	size_t n_certificates;
	int32_t caps[STORE_CAPS];
};
void store_account_change(struct store_conn *c, const struct store_account_change *ch, store_account_done_fn done, void *arg);
void store_account_remove(struct store_conn *c, struct str name, store_account_done_fn done, void *arg);
/* Notes a sign-in. Nobody waits for it; an error is forgotten. */
void store_account_seen(struct store_conn *c, struct str name);

#endif
