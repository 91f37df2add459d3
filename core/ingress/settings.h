/* What the configuration says to the ingress, read once: the terms of each listener (immutable and counted, so that a
 * session keeps those it began under over a reload) and what all listeners share. */
#ifndef INGRESS_SETTINGS_H
#define INGRESS_SETTINGS_H

#include "abuse.h"
#include "auth.h"
#include "config/config.h"
#include "net/tls.h"
#include "proto/smtp/server.h"
#include "supply.h"
#include "failures.h"
#include "tally.h"
#include "vet.h"

/* BEFORE_ACCEPT_FAILURE. */
enum before_policy { BEFORE_ACCEPTS, BEFORE_TEMPFAILS, BEFORE_REJECTS };
enum protocol { PROTOCOL_SMTP, PROTOCOL_SUBMISSION, PROTOCOL_SUBMISSIONS, PROTOCOL_LMTP, PROTOCOL_LOCAL };

struct terms {
	unsigned refs;
	char *name;            /* "mx" of [listener-mx] */
	char *section;
	struct smtp_server_conf smtp;
	char *hostname;
	struct config_domains *local;   /* accepted from anyone */
	struct config_networks *relay;  /* whose clients may send anywhere */
	char *postmaster;      /* "postmaster@…": where bare postmaster goes */
	bool has_local;        /* some domain is local */
	int64_t command_us, session_us; /* total time for one command, for a session; 0: no limit */
	uint64_t data_rate;    /* octets a second that lengthen a message's time */
	unsigned max_connections, max_per_address; /* 0: no limit */
	unsigned max_hops;
	bool reverse;          /* the name of a client's address is looked up */
	int64_t reverse_wait_us; /* so long the banner waits for it */
	struct abuse_terms abuse;
	struct vet_terms vet;
	enum protocol protocol;
	bool lmtp;
	bool user_known;       /* local: clients of a unix socket, whose user the kernel tells (local.c) */
	struct local_senders *senders; /* … who may name any sender; NULL: everybody */
	bool implicit_tls;     /* the connection begins with the handshake (RFC 8314) */
	bool need_auth;        /* submission, submissions: nobody sends without having signed in */
	bool own_envelope, own_header; /* SENDER_OWNERSHIP: whose addresses an account may use, checked in MAIL, in From and Sender */
	bool hide_client;      /* Received of users does not tell their address */
	bool remove_bcc;
	const char *auth;      /* mechanisms of AUTH, lower case, blank-separated; "": none. Offered inside TLS only, never outside */
	struct config_networks *proxy;   /* proxies: a PROXY header comes first, and says who the client is */
	struct config_networks *xclient; /* whose clients may use XCLIENT */
	char **before;         /* stages that see a message before it is accepted, in order */
	unsigned n_before;
	int64_t before_us;     /* time for all of them together */
	enum before_policy before_policy;
	bool before_spares;    /* not mail of those who signed in */
	struct net_tls *tls;   /* NULL: no TLS */
	char *auth_text;       /* what auth points to */
	char *backends;        /* BACKENDS of the listener; "": those of [pepsi-signin] */
};

struct shared_settings {
	char *spool_dir;
	size_t spool_threshold, message_memory;
	unsigned batch_rows;
	size_t batch_octets;
	int64_t wake_us;
	struct auth_settings auth;
	unsigned counted;  /* accounts in the books of caps; taken at the start */
	bool tell_owner, tell_postmaster; /* CAP_NOTICES */
	struct abuse_settings abuse;
	struct tally_settings tally;
	struct failures_settings failures;
	uint64_t min_free; /* of the spool file system; 0: not looked at */
};

/* The terms of [listener-…] `section`; what is wrong goes into faults. NULL: memory or TLS. files: where certificates
 * come from. tickets: keys of session tickets, or NULL. old: what they replace, or NULL; where certificates cannot be
 * had or used now, those of old go on. */
struct terms *terms_new(const struct config *c, const char *section, const struct ingress_supply *files,
    struct net_tickets *tickets, const struct terms *old, struct config_faults *faults);
/* Are the certificates, keys and authorities that [listener-…] `section` names there, and do they fit together? What is wrong with
 * them goes into faults; nothing is kept. */
void terms_check_tls(const struct config *c, const char *section, const struct ingress_supply *files, struct config_faults *faults);
struct terms *terms_ref(struct terms *t);
void terms_unref(struct terms *t); /* accepts NULL */
/* 0 or -1 (a fault was added). */
int shared_settings_read(struct shared_settings *ret, const struct config *c, struct config_faults *faults);
void shared_settings_done(struct shared_settings *s);

#endif
