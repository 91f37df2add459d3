/* Mail exchangers for the tests of relay-to-internet: forked processes on loopback addresses, one port for all, each follows a script. */
#ifndef PEER_H
#define PEER_H

#include <stdint.h>
#include <sys/types.h>

/* A script ends with NULL. Entries:
 *     "?text"   reads until exactly this has come        "!text"  sends
 *     "-"       closes and takes the next connection     "=."     reads until a line with a dot alone ends
 *     "*"       TLS as a server                          "~"      closes when the other side does
 *     "^"       makes a mark: peer_marks()
 *     "%"       a reset instead of an end, and the next connection
 * Before the first entry a connection is taken. */
struct peer {
	pid_t pid;
	char address[16];
};

/* The port that all use, free on the loopback addresses used. */
unsigned peer_port(void);
/* With a listening socket from when it returns. */
void peer_start(struct peer *p, const char *address, const char *const *script);
/* It must have come to the end of its script. */
void peer_end(struct peer *p);
/* Ends it wherever it is. */
void peer_kill(struct peer *p);
/* Marks made so far, by all since peer_done(). */
int peer_marks(void);
/* The certificate that all show, for mx1.example.org, in a file; and the SHA-256 of its key in figures, for "3 1 1". */
const char *peer_ca(void);
const char *peer_spki(void);
void peer_done(void);

#endif
