/* A folder of secrets that one stage alone may read (its KEY_DIR), as pepsi-keys works on it: made for the account of the stage, opened as that account
 * (root becomes it for good), files read in one piece and replaced whole. What is in the files is the business of dkim_dir.c and tool_keys_srs.c. */
#ifndef CLI_KEY_DIR_H
#define CLI_KEY_DIR_H

#include "cli_internal.h"

#include <sys/types.h>

struct key_dir {
	int fd;              /* -1: not open */
	char *path;          /* free() it */
	const char *section; /* of the stage; lives as long as the configuration */
};

/* Of the stage that runs `program` ("pepsi-stage-srs", or several with " or " between) and that --stage names, or of the only one. create: make it where it is not there; maker: the command that does, for
 * the message when it is not. 0, or an exit status after a message; fd and path are to be given back in both cases. */
int key_dir_open(const struct cli *c, const struct config *conf, const char *program, bool create, const char *maker, struct key_dir *ret);
/* A file of at most `most` octets below the folder `at`, appended to out, which must be able to hold most + 1. 0, or -1 and errno (EFBIG: it is larger). */
int key_dir_read(int at, const char *name, size_t most, struct buf *out);
/* Writes one, whole or not at all, and there after a power cut. The caller holds a lock on the folder. where: for the message. 0, or CLI_FAILED after one. */
int key_dir_put(int at, const char *where, const char *name, struct str text, mode_t mode);

#endif
