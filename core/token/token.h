/* Access tokens for signing in elsewhere (OAuth 2.0, RFC 6749): what [token-NAME] says, the files below STATE/tokens, and what a token endpoint
 * answers. Used by the helper, which refreshes; by the daemon and the tools, which look at the state. */
#ifndef TOKEN_TOKEN_H
#define TOKEN_TOKEN_H

#include "base/buf.h"
#include "config/config.h"

#include <stdint.h>
#include <sys/types.h>

enum {
	TOKEN_NAME_MAX = 63,
	TOKEN_MAX = 6 * 1024,           /* octets of a token: what a SASL message can carry */
	TOKEN_ANSWER_MAX = 64 * 1024,   /* of an answer */
	TOKEN_ERROR_MAX = 255,
	TOKEN_ALARM_S = 14 * 86400,     /* how long before a refresh token dies it is told */
	TOKEN_URL_MAX = 2000,
	TOKEN_REPORT_MAX = 64,          /* tokens that are shown */
};

/* -- settings.c */

struct token_settings {           /* strings live as long as the configuration, or within */
	char name[TOKEN_NAME_MAX + 1];
	char token_url[TOKEN_URL_MAX], authorize_url[TOKEN_URL_MAX];
	const char *scope, *client_id, *client_secret; /* client_secret NULL: none */
	char *ca_file;                /* from malloc, or NULL */
	int64_t refresh_life_s;       /* how long a refresh token lives from when it was given; 0: not known */
	int64_t renew_before_s;
};
/* The i-th [token-NAME]: its name, or NULL behind the last. */
const char *token_name(const struct config *c, size_t i);
/* Letters, digits, '-', '_', '.', not a dot in front: it is a file's name. */
bool token_name_ok(const char *name);
/* 0; or -1, *why saying what is missing. token_settings_done() in either case. */
int token_settings_read(struct token_settings *s, const struct config *c, const char *name, const char **why);
void token_settings_done(struct token_settings *s);

/* -- files.c */

struct token_state {              /* seconds since 1970, 0: not known */
	int64_t access_expires, refreshed_at;
	int64_t refresh_obtained, refresh_expires;
	int64_t error_at;             /* of the last try; 0: it went well */
	int64_t failures;             /* in a row */
	bool refused;                 /* the provider takes the refresh token no longer: somebody must sign in anew */
	char error[TOKEN_ERROR_MAX + 1];
};
/* Makes STATE/tokens, for the account, when it is not there. 0, or -1 (errno). */
int token_dir_make(const char *state_dir, uid_t uid, gid_t gid);
/* 0; 1: there is none; -1: it cannot be read. */
int token_state_read(const char *state_dir, const char *name, struct token_state *ret);
/* Is it time to tell somebody: it is refused, or dies soon, or fails for longer than its access token lives? NULL, or words. */
const char *token_alarm(const struct token_state *s, int64_t now);

/* Where the helper is: libexec/pepsi beside the folder of this program. 0, or -1: it is not there. */
int token_helper_path(char *out, size_t size);

/* An open folder, as the helper has it. */
struct token_dir {
	int fd, lock;
};
/* Opens it and waits for the lock of the name; wait false: 1 when somebody has it. 0, or -1 with errno. */
int token_dir_open(struct token_dir *d, const char *state_dir, const char *name, bool wait);
void token_dir_close(struct token_dir *d);
/* kind: "refresh", "access", "state". Replaces the file at once, on disk when this returns. 0, or -1 with errno. */
int token_file_write(const struct token_dir *d, const char *name, const char *kind, mode_t mode, struct str text);
/* The content, wiped by the caller's buf_free_secret(). 0, or -1 with errno (ENOENT: there is none). */
int token_file_read(const struct token_dir *d, const char *name, const char *kind, struct buf *out);
int token_file_remove(const struct token_dir *d, const char *name, const char *kind);
int token_state_write(const struct token_dir *d, const char *name, const struct token_state *s);

/* -- report.c: [{"name","valid","access_expires",…,"alarm"}], for status (appended) and tools; and lines for Prometheus */

struct json_object *token_report(const struct config *c, int64_t now);
void token_status(const struct config *c, struct buf *json);
void token_metrics(const struct config *c, struct buf *text);

/* -- answer.c */

struct token_answer {
	struct buf access, refresh;   /* refresh empty: the old one stays */
	int64_t life_s, refresh_life_s; /* 0: not said */
	bool refused;                 /* the token or the client is not accepted: another try is no use (RFC 6749 §5.2) */
	char error[TOKEN_ERROR_MAX + 1]; /* for people: printable, no secrets */
};
/* What the endpoint answered with this HTTP status. 0: tokens are there; or -1: error is filled. token_answer_done() in either case. */
int token_answer_parse(struct str body, long status, struct token_answer *ret);
void token_answer_done(struct token_answer *a);
/* Printable ASCII without blanks, one octet to TOKEN_MAX. */
bool token_ok(struct str t);
/* Appends "&name=value" (or without the & at the front), percent-encoded. */
void token_form_add(struct buf *form, const char *name, struct str value);

/* -- request.c */

/* POSTs the form. 0: *ret_status and body are filled; -1: why. Never shows what was sent. */
int token_request(const struct token_settings *s, struct str form, struct buf *body, long *ret_status, char why[TOKEN_ERROR_MAX + 1]);

#endif
