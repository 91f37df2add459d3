/* The content of one message while it comes in: header lines and body apart (raw = headers CRLF body), bounded,
 * judged on the way. The header lines stay in memory, and so does a small body; a larger one goes to a memfd, which a
 * worker is given without another copy; above the threshold, or when large bodies hold half of the budget, to an
 * unlinked file on disk. So the whole of what messages hold in memory stays under one budget, and small mail finds
 * room in it. Knows neither SMTP nor the database. */
#ifndef INGRESS_SPOOL_H
#define INGRESS_SPOOL_H

#include "base/buf.h"

enum {
	SPOOL_HEADER_OCTETS = 1024 * 1024, /* header bombs: refused here, not at delivery (CVE-2024-23184 and kin) */
	SPOOL_HEADER_LINES = 10000,
	SPOOL_HEAP = 64 * 1024,            /* larger bodies get a descriptor; what a worker is sent inline is no larger */
};

/* Shared by all sessions. */
struct spool_house {
	char *dir;          /* for the files; exists */
	size_t threshold;   /* octets of a body kept in memory */
	size_t max, used;   /* octets of memory for all messages, and taken now */
};

enum spool_fault {
	SPOOL_OK,
	SPOOL_FULL,         /* the budget is used up: 452 */
	SPOOL_DISK,         /* the file cannot be written (disk full, …): 452; spool_errno says why */
	SPOOL_HEADERS_LONG, /* above SPOOL_HEADER_OCTETS: 554 */
	SPOOL_HEADERS_MANY, /* above SPOOL_HEADER_LINES: 554 */
};

struct spool {
	struct spool_house *house;
	struct buf head;     /* header lines with CRLF, without the empty line */
	struct buf body;     /* all of the body; with a descriptor: what is not written yet */
	int fd;              /* -1: neither memfd nor file */
	bool on_disk;        /* fd is a file: its octets are not charged */
	uint64_t file_size;
	uint64_t size;       /* octets of the message as sent */
	size_t line_n;       /* octets of the header line that is not complete yet */
	unsigned lines;
	bool in_body;
	size_t charged;      /* of the budget */
	enum spool_fault fault;
	int spool_errno;
};

/* An empty message; allocates nothing. Every spool ends with spool_done(). */
void spool_init(struct spool *s, struct spool_house *house);
/* Takes the next octets. After a fault everything is let go at once, and further octets are counted and dropped. */
enum spool_fault spool_add(struct spool *s, struct str chunk);
/* The message is whole: settles where headers end and body begins, writes out what is left. */
enum spool_fault spool_finish(struct spool *s);
/* Gives back memory, budget and file. May be called twice. */
void spool_done(struct spool *s);

/* Changes of a finished message: all header lines, or the whole body, anew. Nothing has changed where they fail. */
enum spool_fault spool_set_head(struct spool *s, struct str head);
enum spool_fault spool_set_body(struct spool *s, struct str body);
/* The body is what the sealed memfd fd holds (size octets); taken, also when it fails. */
enum spool_fault spool_set_body_fd(struct spool *s, int fd, uint64_t size);

uint64_t spool_body_size(const struct spool *s);
/* The body as memory: 0, or -1 (errno) when a file cannot be mapped. spool_unmap() with the same value afterwards. */
int spool_map(const struct spool *s, struct str *ret);
void spool_unmap(const struct spool *s, struct str body);
/* A read-only descriptor of the whole finished body at offset 0, the caller's, whose content nobody can change;
 * -1 (errno). */
int spool_body_fd(const struct spool *s);

#endif
