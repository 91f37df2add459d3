/* Delivery into Maildirs: where a recipient's mail goes (where.c), and putting one message there (write.c). */
#ifndef STAGE_MAILDIR_H
#define STAGE_MAILDIR_H

#include "base/buf.h"
#include "base/str.h"

#include <sys/stat.h>

enum { MAILDIR_PATH_MAX = 1024, MAILDIR_NAME_MAX = 200 };

/* A parsed MAILDIR pattern. */
struct maildir_pattern {
	char fixed[MAILDIR_PATH_MAX]; /* the folders before the first variable: the operator's, followed as they are */
	char rest[MAILDIR_PATH_MAX];  /* below it; made of recipients, so never trusted */
};

/* 0, or -1 with the reason: not absolute, an unknown variable, no variable, "..", too long. */
int maildir_pattern_parse(const char *text, struct maildir_pattern *ret, struct buf *why);
/* The folder below p->fixed for this recipient. 0; or -1: the address cannot name a folder (*why, static text). Values with
 * '/', NUL or control octets, beginning with '.', empty, or too long are refused, never repaired. */
int maildir_where(const struct maildir_pattern *p, struct str rcpt, char *out, size_t size, const char **why);

/* Where the detail of an address begins: "+lists@x.test" of "alice+lists@x.test", given "+". An empty string at the end of rcpt:
 * it has none. What is quoted has none, nor what begins with a delimiter. */
struct str maildir_detail(struct str rcpt, const char *delimiters);

/* How a try ended. */
enum maildir_result {
	MAILDIR_OK,
	MAILDIR_LATER,      /* disk full, quota, read-only, I/O, permissions: the environment's fault */
	MAILDIR_NO_MAILBOX, /* it does not exist, and CREATE is off */
	MAILDIR_UNSAFE,     /* a link, a file, somebody else's folder in the way: never followed, for the operator to see to */
};

struct maildir_message {
	struct str trace;   /* our own header lines */
	struct str headers, body;
	bool lf;            /* CRLF becomes LF */
};
/* Delivers. fixed is opened as it is; every folder below it is entered without following links. counter, host: for the unique
 * name. err: one line. */
enum maildir_result maildir_write(const char *fixed, const char *below, bool create, const struct maildir_message *m,
    unsigned counter, const char *host, char *err, size_t err_size);

#endif
