/* KEY_DIR of pepsi-stage-dkim-sign, as pepsi-keys changes it (pepsi-keys(1)): a folder for each domain, in it SELECTOR.pem and the text `keys`
 * (proto/dkim/ring.h). Every step leaves a state that can be gone on from: a key's file is there before `keys` names it, and gone only after `keys` names
 * it no more; files appear whole or not at all. Works as the account that owns the folder: root becomes that account for good. */
#ifndef CLI_DKIM_DIR_H
#define CLI_DKIM_DIR_H

#include "key_dir.h"
#include "proto/dkim/private.h"
#include "proto/dkim/ring.h"

struct dkim_dir {
	int fd;
	char *path;
	int64_t retire_s; /* how long a retired key's record must stay: the longest MAX_LIFETIME of a stage, and two days */
};

struct dkim_domain {
	int fd;             /* -1: not open; locked against other pepsi-keys */
	char name[256];
	struct dkim_ring ring;
};

/* Of the stage that --stage names, or of the only one there is. create: make it where it is not there. 0, or an exit status after a message. */
int dkim_dir_open(struct cli *c, const struct config *conf, bool create, struct dkim_dir *ret);
void dkim_dir_close(struct dkim_dir *d);

/* text: as typed. 0, or an exit status after a message: no domain, no folder of it (unless create), a `keys` that cannot be read. */
int dkim_domain_open(const struct cli *c, const struct dkim_dir *d, const char *text, bool create, struct dkim_domain *ret);
void dkim_domain_close(struct dkim_domain *d);
/* The domains there are, sorted; free() each and the list. -1 after a message. */
int dkim_dir_domains(const struct dkim_dir *d, char ***ret, size_t *ret_n);

/* Writes `keys`. 0, or CLI_FAILED after a message. */
int dkim_domain_save(struct dkim_domain *d);
/* A new key's file; does not touch the ring. Likewise. */
int dkim_domain_write_key(struct dkim_domain *d, const char *selector, const struct dkim_private *k);
/* Takes it away; nothing when it is not there. */
int dkim_domain_drop_key(struct dkim_domain *d, const char *selector);
/* The record that belongs to a key of the ring ("v=DKIM1; p=": revoked). Likewise. */
int dkim_domain_record(struct dkim_domain *d, const struct dkim_ring_key *k, struct buf *out);

/* What the last check of all domains found wanting attention, a line each; for `pepsi status`. 0, or CLI_FAILED after a message. */
int dkim_dir_write_alarms(const struct dkim_dir *d, struct str text);
/* Those of every stage that signs, as far as this account may read them, appended; *ret_when: the oldest such check (0: there was none). Says nothing. */
void dkim_alarms_read(const struct config *conf, struct buf *out, int64_t *ret_when);

#endif
