/* Tokens (OAUTHBEARER, XOAUTH2): against a key set in a file or behind a URL, or asked about at an introspection endpoint; which, the
 * configuration says. The checking is done in jobs; here are the key set's life and the questions. */
#include "internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "jwt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	REFRESH_S = 3600,       /* of a fetched key set */
	AGAIN_S = 60,           /* between two fetches, whatever tokens come */
	RETRY_S = 10,           /* while there is none */
};

struct oauth {
	struct signin *s;
	char *url, *ca, *id, *secret, *keys_from; /* url: introspection; keys_from: a file or URL */
	struct str issuer, audiences, scope, name_claim, algorithms;
	bool unstated;
	struct buf keys;
	bool fetching, said;
	int64_t next, fetched;  /* monotonic */
};

static void set_keys(struct oauth *o, struct str text)
{
	const char *bad = jwt_key_set_fault(text);
	if (bad) {
		log_error(NULL, "event=oauth-keys from=%s reason=%s", log_qz(o->keys_from), log_qz(bad));
		return; /* the old ones stay */
	}
	buf_reset(&o->keys);
	buf_adds(&o->keys, text);
	if (!o->said)
		log_info(NULL, "event=oauth-keys from=%s octets=%zu", log_qz(o->keys_from), text.n);
	o->said = true;
}

static void on_fetched(void *arg, const struct job_msg *answer)
{
	struct oauth *o = arg;
	int64_t now = clock_mono_us();
	o->fetching = false;
	o->fetched = now;
	if (answer && answer->what == JOB_YES && answer->n) {
		set_keys(o, answer->f[0]);
	} else {
		struct str why = answer && answer->n ? answer->f[0] : STR("the process that asks died, or took too long");
		log_warn(NULL, "event=oauth-keys from=%s reason=%s", log_qz(o->keys_from), log_q(why));
	}
	o->next = now + (o->keys.n ? REFRESH_S : RETRY_S) * US_PER_S;
}

static void fetch(struct oauth *o)
{
	struct job_msg m = { .what = JOB_FETCH, .n = 2, .f = { str_from(o->keys_from), str_from(o->ca) } };
	if (o->fetching)
		return;
	o->fetching = keeper_run(o->s->hash, &m, on_fetched, o) != 0;
	o->next = clock_mono_us() + RETRY_S * US_PER_S;
}

static void read_keys(struct oauth *o)
{
	struct buf text = BUF_INIT(JWT_KEYS_MAX);
	int fd = open(o->keys_from, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = 0;
	char *at;
	while (fd >= 0 && (at = buf_room(&text, 4096)) && (n = read(fd, at, 4096)) > 0)
		text.n += (size_t)n;
	if (fd < 0 || n < 0)
		log_error(NULL, "event=oauth-keys from=%s reason=%s", log_qz(o->keys_from), log_qz(strerror(errno)));
	else if (text.failed)
		log_error(NULL, "event=oauth-keys from=%s reason=\"longer than %d octets\"", log_qz(o->keys_from), JWT_KEYS_MAX);
	else
		set_keys(o, buf_str(&text));
	if (fd >= 0)
		close(fd);
	buf_free(&text);
}

static bool by_url(const struct oauth *o)
{
	return strstr(o->keys_from, "://") != NULL;
}

static char *text_of(const struct config *c, const char *option)
{
	const char *v = config_str(c, "pepsi-signin", option);
	return strdup(v ? v : "");
}

struct oauth *oauth_new(struct signin *s)
{
	struct oauth *o = calloc(1, sizeof *o);
	if (!o)
		return NULL;
	o->s = s;
	o->keys = BUF_INIT(JWT_KEYS_MAX);
	o->url = text_of(s->config, "OAUTH_INTROSPECTION_URL");
	o->id = text_of(s->config, "OAUTH_CLIENT_ID");
	o->secret = text_of(s->config, "OAUTH_CLIENT_SECRET");
	o->keys_from = text_of(s->config, "OAUTH_KEYS");
	o->ca = config_path(s->config, "pepsi-signin", "OAUTH_CA");
	if (!o->ca)
		o->ca = strdup("");
	o->issuer = str_from(config_str(s->config, "pepsi-signin", "OAUTH_ISSUER"));
	o->audiences = str_from(config_str(s->config, "pepsi-signin", "OAUTH_AUDIENCE"));
	o->scope = str_from(config_str(s->config, "pepsi-signin", "OAUTH_SCOPE"));
	o->name_claim = str_from(config_str(s->config, "pepsi-signin", "OAUTH_NAME_CLAIM"));
	o->unstated = config_int(s->config, "pepsi-signin", "OAUTH_EMAIL_UNSTATED");
	o->algorithms = str_from(config_str(s->config, "pepsi-signin", "OAUTH_ALGORITHMS"));
	if (!o->url || !o->id || !o->secret || !o->keys_from || !o->ca) {
		oauth_free(o);
		return NULL;
	}
	return o;
}

void oauth_free(struct oauth *o)
{
	if (!o)
		return;
	if (o->secret)
		explicit_bzero(o->secret, strlen(o->secret));
	free(o->url);
	free(o->ca);
	free(o->id);
	free(o->secret);
	free(o->keys_from);
	buf_free(&o->keys);
	free(o);
}

void oauth_start(struct oauth *o)
{
	if (!o->keys_from[0])
		return;
	if (by_url(o))
		fetch(o);
	else
		read_keys(o);
}

void oauth_tick(struct oauth *o, int64_t now)
{
	if (o->keys_from[0] && by_url(o) && now >= o->next)
		fetch(o);
}

bool oauth_up(const struct oauth *o)
{
	return o && (o->url[0] || o->keys.n);
}

static void on_checked(void *arg, const struct job_msg *answer)
{
	struct exchange *x = arg;
	struct oauth *o = x->s->oauth;
	struct str text = answer && answer->n ? answer->f[0] : STR_NULL;
	char why[200], name[WIRE_SIGNIN_NAME_MAX + 1];
	x->ticket = 0;
	x->s->counts_changed = true;
	snprintf(why, sizeof why, "%.*s", (int)(text.n < sizeof why ? text.n : sizeof why - 1), text.p ? text.p : "");
	if (!answer || answer->what == JOB_DIED) {
		exchange_verdict(x, VERDICT_AWAY, true, STR_NULL, "the process that checks tokens died, or took too long");
	} else if (answer->what == JOB_AWAY) {
		exchange_verdict(x, VERDICT_AWAY, true, STR_NULL, why);
	} else if (answer->what != JOB_YES) {
		/* signed with a key we have not seen: perhaps the server has a new one; whoever comes next finds it */
		if (answer->number == 1 && o->keys_from[0] && by_url(o) && clock_mono_us() - o->fetched > AGAIN_S * US_PER_S)
			fetch(o);
		exchange_verdict(x, VERDICT_NO, true, STR_NULL, why);
	} else if (wire_signin_name(text, name) < 0) {
		exchange_verdict(x, VERDICT_NO, true, STR_NULL, "the token's name is none that an account can have");
	} else if (sasl_server_name(x->sasl).n && strcmp(name, x->account) != 0) {
		/* the client must not be somebody else than its token says (RFC 7628 §3.1, "a=") */
		exchange_verdict(x, VERDICT_DENIED, true, STR_NULL, "the token is another account's");
	} else {
		exchange_verdict(x, VERDICT_YES, true, str_from(name), "");
	}
}

void oauth_check(struct oauth *o, struct exchange *x)
{
	struct str token = sasl_server_token(x->sasl);
	struct job_msg m;
	if (token.n > JWT_TOKEN_MAX) {
		exchange_verdict(x, VERDICT_NO, true, STR_NULL, "the token is too long");
		return;
	}
	if (o->keys_from[0] && !o->keys.n) {
		exchange_verdict(x, VERDICT_AWAY, true, STR_NULL, "there are no keys to check tokens with yet");
		return;
	}
	if (o->keys_from[0])
		m = (struct job_msg){ .what = JOB_JWT, .n = 7, .f = { token, buf_str(&o->keys), o->issuer, o->audiences, o->scope, o->name_claim,
			o->algorithms } };
	else
		m = (struct job_msg){ .what = JOB_INTROSPECT, .n = 9, .f = { str_from(o->url), str_from(o->id), str_from(o->secret),
			str_from(o->ca), token, o->issuer, o->audiences, o->scope, o->name_claim } };
	m.number = o->unstated;
	x->keeper = x->s->hash;
	if (!(x->ticket = keeper_run(x->keeper, &m, on_checked, x)))
		exchange_verdict(x, VERDICT_BUSY, true, STR_NULL, "too many checks are waiting");
}
