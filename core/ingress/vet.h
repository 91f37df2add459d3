/* Who a message from outside is from: SPF, DKIM, ARC and DMARC (proto/auth/verify.h) beside the dialogue, and what a listener makes of the
 * verdict (vet_decide.h): a refusal, a place in quarantine, Authentication-Results, state.auth. Never blocks; nobody but the message itself waits.
 *
 * One message, told: with its first accepted recipient SPF begins (vet_begin); with the end of its headers keys and policies are asked
 * for, and its body is hashed as it comes (vet_content); at its end (vet_message) all is known, most often, else it waits, at most for
 * AUTHENTICATION_TIMEOUT: what the DNS has not said by then is "temperror".
 *
 * All of it runs in the reactor's thread. Measured (OpenSSL 3.0 on an AMD EPYC with SHA extensions, beside other load; contrib/bench --auth): a message
 * of 4 KiB with one signature of RSA-2048 takes 55 µs where its answers are cached, 65 where each is asked anew; 20 of them are the arithmetic. Larger
 * keys than 4096 bits are refused unseen. Ten signatures and fifty ARC sets are looked at; what is done for all of them together is bounded
 * (DKIM_HASHED_MAX, DKIM_TRIES_MAX): the worst header block there can be, of a mebibyte (ten h= of endless names), costs 22 ms, the worst body a
 * second for 100 MiB, and the worst keys, 128 tries of 2048 bits, 5 ms, once each; unit/dkim_cost prints them. */
#ifndef INGRESS_VET_H
#define INGRESS_VET_H

#include "vet_decide.h"

struct session;
struct ingress;
struct message;
struct buf;
struct vet;

/* A recipient was accepted. Does nothing when it was one before, for clients of ours, and where nothing is to be looked at. */
void vet_begin(struct session *s, struct str mail_from);
/* The next octets of the message; message.spool has them already. */
void vet_content(struct session *s, struct str chunk);
/* The message is whole and taken (message_take). */
enum vet_says {
	VET_PASS,    /* headers and state are as they are to be; go on */
	VET_WAIT,    /* it goes on by itself later: policy_vetted(), or with a refusal */
	VET_REFUSED, /* the client has its answer, and the message is gone */
};
enum vet_says vet_message(struct session *s);
/* Does the session wait for the verdict? */
bool vet_waits(const struct session *s);
/* The message is gone. */
void vet_free(struct session *s);

/* What all listeners counted. */
struct vet_counts;
struct vet_counts *vet_counts_new(void); /* NULL: memory */
void vet_counts_free(struct vet_counts *n);
/* Its sender was told 250, or 5xx: it counts for reports (once). */
void vet_settled(struct ingress *in, struct message *m);
/* The line of a committed message, unless it was not looked at. */
void vet_log(const struct message *m);
void vet_metrics(const struct ingress *in, struct buf *out);
/* {"messages","passed","refused","deferred","quarantined","overridden","temporary","forged","queries","waiting_ms","cpu_us"} */
void vet_status(const struct ingress *in, struct buf *out);

#endif
