/* The keys of KEY_DIR as pepsi-keys srs writes them (proto/srs/ring.h), read anew when the file changes. They are in this process alone, in one
 * place, and wiped when they go. */
#ifndef COMMON_RETURN_KEYS_H
#define COMMON_RETURN_KEYS_H

#include "proto/srs/ring.h"
#include "proto/srs/srs.h"

#include <sys/types.h>
#include <time.h>

struct keys {
	const char *dir;
	struct srs_ring ring;
	bool good;       /* of what was seen last: the ring is that */
	struct {
		dev_t dev;
		ino_t ino;
		off_t size;
		struct timespec mtime, ctime;
	} seen;
};

/* dir: lives as long as k. */
void keys_init(struct keys *k, const char *dir);
void keys_done(struct keys *k);
/* Looks at the file. 0: s->keys point into k until the next keys_use() or keys_done(); -1: they cannot be used, why says more (no secret in it). */
int keys_use(struct keys *k, struct srs *s, struct buf *why);

/* A file with a secret, of the stage's account or root's, that nobody else may read: *ret_n octets into text, at most size. 0, or -1: why says more (no secret
 * in it), and text is wiped. */
int keys_file(const char *path, char *text, size_t size, size_t *ret_n, struct buf *why);

#endif
