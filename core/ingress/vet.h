/* Who a message from outside is from: SPF, DKIM, ARC and DMARC (proto/auth/verify.h) beside the dialogue, and what a listener makes of the
 * verdict: a refusal, a place in quarantine, Authentication-Results, state.auth. Never blocks; nobody but the message itself waits.
 *
 * One message, told: with its first accepted recipient SPF begins (vet_begin); with the end of its headers keys and policies are asked
 * for, and its body is hashed as it comes (vet_content); at its end (vet_message) all is known, most often, else it waits, at most for
 * AUTHENTICATION_TIMEOUT: what the DNS has not said by then is "temperror".
 *
 * Of that, signatures cost time of the reactor's thread. Measured here (OpenSSL 3.0, one core at 2 GHz): a verification takes about 30 µs with
 * RSA of 1024 bits, 50 µs with 2048, 130 µs with 4096, 150 µs with Ed25519; larger keys are refused unseen. Ten signatures and forty
 * questions are the most a message gets, so the worst one takes some milliseconds, once it is whole; a mebibyte of body takes 3 ms with
 * each of at most twelve different hashes, in the pieces in which it comes. */
#ifndef INGRESS_VET_H
#define INGRESS_VET_H

#include "base/str.h"
#include "config/config.h"

struct session;
struct ingress;
struct message;
struct buf;
struct vet;

enum vet_mode { VET_OFF, VET_RECORD, VET_ENFORCE };

/* Of a listener. */
struct vet_terms {
	enum vet_mode spf, dkim, arc, dmarc;
	struct config_networks *exempt; /* AUTHENTICATION_EXEMPT; NULL: RELAY_NETWORKS */
	bool tempfail;                  /* what cannot be looked up now, where it is to be enforced: 451; else as if nothing was found */
	int64_t timeout_us;
	char *sealer_text;              /* what sealers point to */
	struct str *sealers;
	size_t n_sealers;
	char *quarantine;               /* the stage; NULL: none, state.auth alone tells it */
	bool received_spf;
};
/* smtp: PROTOCOL is smtp: methods that are not set are recorded, else off. 0, or -1: memory. */
int vet_terms_read(struct vet_terms *t, const struct config *c, const char *section, bool smtp);
void vet_terms_done(struct vet_terms *t);

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
/* The line of a committed message, unless it was not looked at. */
void vet_log(const struct message *m);
void vet_metrics(const struct ingress *in, struct buf *out);
/* {"messages","passed","refused","deferred","quarantined","overridden","temporary","forged","queries","waiting_ms","cpu_us"} */
void vet_status(const struct ingress *in, struct buf *out);

#endif
