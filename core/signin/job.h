/* Work that may take long, use much memory, or run code that is not ours (PAM), and so is done in a process of its own, one per
 * job: password digests, PAM, tokens, HTTPS. A job is a message in and a message out; job_run() is called in that process and
 * may block. Told: the admin child wants a password checked. It sends { JOB_VERIFY, "$argon2id$…", "secret" } to its keeper
 * (keeper.h), the keeper forks, the process computes for 43 ms, answers { JOB_YES } and exits. */
#ifndef SIGNIN_JOB_H
#define SIGNIN_JOB_H

#include "base/buf.h"

enum {
	JOB_DATAGRAM_MAX = 144 * 1024, /* below the default socket buffer */
	JOB_FIELDS = 12,
	JOB_FIELD_MAX = 128 * 1024,
};

enum job_kind {
	JOB_HASH = 1,   /* password → JOB_YES, PHC string, SCRAM verifier */
	JOB_VERIFY,     /* PHC string, password → JOB_YES or JOB_NO */
	JOB_PAM,        /* service, name, password, client address → JOB_YES with name, JOB_NO, JOB_DISABLED, JOB_AWAY */
	JOB_JWT,        /* token, key set (JSON), issuer, audiences, scope, name claim, algorithms; number: 1: jwt_policy.unstated →
	                   JOB_YES with name; number: expires at */
	JOB_INTROSPECT, /* URL, client id, client secret, CA file, token, issuer, audiences, scope, name claim → the same */
	JOB_FETCH,      /* URL, CA file → JOB_YES with the body, JOB_AWAY */
	JOB_SYSTEM,     /* name → JOB_YES, JOB_NO: is it an account of this machine? JOB_AWAY */
};
enum job_code {
	JOB_YES = 101,
	JOB_NO,         /* field 0 of this and the following: why, for the log */
	JOB_DISABLED,
	JOB_AWAY,
	JOB_DIED,       /* the process crashed or its time was up */
};

struct job_msg {
	uint64_t id;
	uint32_t what;      /* enum job_kind or job_code */
	uint64_t number;
	size_t n;
	struct str f[JOB_FIELDS];
};

/* Appends to an empty buffer. 0 or -1 (limits, memory). */
int job_put(struct buf *out, const struct job_msg *m);
/* 0 or -1 (malformed). Strings point into the datagram. */
int job_get(struct str datagram, struct job_msg *ret);

/* Seconds that a job of this kind may take. */
unsigned job_seconds(uint32_t kind);
/* Does it. The answer's strings are put into `text`, which the caller frees (it may hold secrets). id is not touched. */
void job_run(const struct job_msg *in, struct job_msg *out, struct buf *text);

/* A yes or no with one field. */
void job_answer(struct job_msg *out, struct buf *text, enum job_code code, struct str field);

/* job_pam.c, job_http.c: parts of job_run(). */
void job_pam(const struct job_msg *in, struct job_msg *out, struct buf *text);
void job_introspect(const struct job_msg *in, struct job_msg *out, struct buf *text);
void job_fetch(const struct job_msg *in, struct job_msg *out, struct buf *text);
/* Loads the libraries these need, before a keeper forks: "pam", "curl". NULL, or why it cannot be. Not built in: says so. */
const char *job_pam_load(void);
const char *job_http_load(void);
/* An http:// or https:// URL that may be asked: https anywhere, http only to loopback by number. */
bool job_url_ok(const char *url);

#endif
