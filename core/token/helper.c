/* pepsi-helper-token-refresh: keeps the access tokens of [token-NAME] fresh. A daemon that the spawner starts, or one order of `pepsi token`. It
 * runs under the account that owns STATE/tokens, never as root where there is such an account; secrets come on standard input, and leave in HTTPS
 * requests and files alone. */
#include "base/log.h"
#include "token.h"

#include <curl/curl.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
	LOOK_S = 20,             /* the daemon looks at the files so often */
	RETRY_MIN_S = 60, RETRY_MAX_S = 3600,
	REFUSED_RETRY_S = 6 * 3600,
	SPACING_S = 30,          /* never sooner again, however short an access token lives */
	ALARM_EVERY_S = 86400,
	NAMES_MAX = 64,
};

static struct {
	struct config *c;
	char *state_dir;
} g;

static int64_t now_s(void)
{
	return (int64_t)time(NULL);
}

/* What to ask for: a refresh token (NULL: the one that is kept), or a code and what belongs to it. */
struct order {
	struct str refresh, code, verifier, redirect;
};

static int build(struct buf *form, const struct token_settings *s, const struct order *o, struct str refresh)
{
	buf_room(form, form->max); /* secrets: no copies left behind by growing */
	token_form_add(form, "grant_type", o->code.n ? STR("authorization_code") : STR("refresh_token"));
	token_form_add(form, "client_id", str_from(s->client_id));
	if (s->client_secret)
		token_form_add(form, "client_secret", str_from(s->client_secret));
	if (o->code.n) {
		token_form_add(form, "code", o->code);
		token_form_add(form, "code_verifier", o->verifier);
		token_form_add(form, "redirect_uri", o->redirect);
	} else {
		token_form_add(form, "refresh_token", refresh);
	}
	if (s->scope && *s->scope && !o->code.n)
		token_form_add(form, "scope", str_from(s->scope));
	return form->failed ? -1 : 0;
}

static int write_access(const struct token_dir *d, const char *name, const struct token_answer *a, int64_t expires)
{
	struct buf b = BUF_INIT(TOKEN_MAX + 200);
	buf_room(&b, TOKEN_MAX + 200);
	buf_addz(&b, "access_token ");
	buf_adds(&b, buf_str(&a->access));
	buf_addf(&b, "\nexpires_at %lld\n", (long long)expires);
	int r = b.failed ? -1 : token_file_write(d, name, "access", 0640, buf_str(&b));
	buf_free_secret(&b);
	return r;
}

/* The tokens of an answer to disk: the one that cannot be had again first. */
static int keep(const struct token_dir *d, const struct token_settings *s, const struct order *o, const struct token_answer *a, struct token_state *st,
    char why[TOKEN_ERROR_MAX + 1])
{
	struct str refresh = a->refresh.n ? buf_str(&a->refresh) : o->refresh;
	int64_t now = now_s(), life = a->refresh_life_s ? a->refresh_life_s : s->refresh_life_s;
	if (o->code.n && !refresh.n) {
		snprintf(why, TOKEN_ERROR_MAX + 1, "the provider gave no refresh token: does SCOPE ask for one (offline_access)?");
		return -1;
	}
	if (refresh.n) {
		if (token_file_write(d, s->name, "refresh", 0600, refresh)) {
			snprintf(why, TOKEN_ERROR_MAX + 1, "the refresh token cannot be written: %s", strerror(errno));
			return -1;
		}
		st->refresh_obtained = now;
		st->refresh_expires = life ? now + life : 0;
	} else if (a->refresh_life_s) {
		st->refresh_expires = now + a->refresh_life_s;
	}
	if (write_access(d, s->name, a, now + a->life_s)) {
		snprintf(why, TOKEN_ERROR_MAX + 1, "the access token cannot be written: %s", strerror(errno));
		return -1;
	}
	st->access_expires = now + a->life_s;
	st->refreshed_at = now;
	st->error_at = st->failures = 0;
	st->refused = false;
	st->error[0] = 0;
	return 0;
}

/* Asks and keeps. 0; or -1: why. The lock is held. */
static int exchange(const struct token_dir *d, const struct token_settings *s, const struct order *o, struct token_state *st, char why[TOKEN_ERROR_MAX + 1])
{
	struct buf kept = BUF_INIT(TOKEN_MAX + 2), form = BUF_INIT(8 * TOKEN_MAX), body = BUF_INIT(TOKEN_ANSWER_MAX);
	struct token_answer a = { .life_s = 0 };
	long status = 0;
	int r = -1;
	if (!o->code.n && !o->refresh.n) {
		buf_room(&kept, TOKEN_MAX + 2);
		if (token_file_read(d, s->name, "refresh", &kept)) {
			snprintf(why, TOKEN_ERROR_MAX + 1, "there is no refresh token yet: pepsi token sign-in %s", s->name);
			goto out;
		}
	}
	struct str refresh = o->refresh.n ? o->refresh : str_trim(buf_str(&kept));
	if (!o->code.n && !token_ok(refresh)) {
		snprintf(why, TOKEN_ERROR_MAX + 1, "the refresh token is none: printable ASCII without blanks, at most %d octets", TOKEN_MAX);
		goto out;
	}
	buf_room(&body, TOKEN_ANSWER_MAX - 1);
	if (build(&form, s, o, refresh)) {
		snprintf(why, TOKEN_ERROR_MAX + 1, "what is to be sent is too long");
	} else if (token_request(s, buf_str(&form), &body, &status, why) == 0) {
		if (token_answer_parse(buf_str(&body), status, &a)) {
			st->refused = a.refused && !o->code.n;
			snprintf(why, TOKEN_ERROR_MAX + 1, "%s", a.error);
		} else {
			r = keep(d, s, o, &a, st, why);
		}
	}
out:
	token_answer_done(&a);
	buf_free_secret(&kept);
	buf_free_secret(&form);
	buf_free_secret(&body);
	return r;
}

/* One refresh with its state. order NULL: the kept token. 0, 1: somebody else is at it (wait false), -1: why. */
static int refresh(const char *name, const struct order *order, bool wait, char why[TOKEN_ERROR_MAX + 1])
{
	static const struct order with_kept = { .code = STR_INIT("") };
	struct token_settings s;
	struct token_state st;
	struct token_dir d = { -1, -1 };
	const char *bad;
	int r = token_settings_read(&s, g.c, name, &bad);
	if (r)
		snprintf(why, TOKEN_ERROR_MAX + 1, "[token-%s]: %s", name, bad);
	else if ((r = token_dir_open(&d, g.state_dir, name, wait)) < 0)
		snprintf(why, TOKEN_ERROR_MAX + 1, "%s/tokens: %s", g.state_dir, strerror(errno));
	if (r == 0) {
		(void)token_state_read(g.state_dir, name, &st);
		r = exchange(&d, &s, order ? order : &with_kept, &st, why);
		if (r && !order) {
			st.error_at = now_s();
			st.failures++;
			snprintf(st.error, sizeof st.error, "%s", why);
		}
		if (r == 0 || !order) /* an order that failed changes nothing */
			if (token_state_write(&d, name, &st))
				log_error(NULL, "event=token-state name=%s reason=%s", name, log_qz(strerror(errno)));
	}
	token_dir_close(&d);
	token_settings_done(&s);
	return r;
}

/* -- the daemon */

static int64_t due(const char *name, int64_t renew_before)
{
	struct token_state st;
	if (token_state_read(g.state_dir, name, &st))
		return 0; /* there may be a token all the same; the refresh says so */
	if (st.error_at) {
		int64_t wait = RETRY_MIN_S;
		for (int64_t i = 1; i < st.failures && wait < RETRY_MAX_S; i++)
			wait *= 2;
		return st.error_at + (st.refused ? REFUSED_RETRY_S : wait > RETRY_MAX_S ? RETRY_MAX_S : wait);
	}
	int64_t life = st.access_expires - st.refreshed_at;
	/* a short life is not all early warning */
	int64_t at = st.access_expires - (renew_before < life / 2 ? renew_before : life / 2);
	return at < st.refreshed_at + SPACING_S ? st.refreshed_at + SPACING_S : at;
}

static bool has_token(const char *name)
{
	char path[4400];
	snprintf(path, sizeof path, "%s/tokens/%s.refresh", g.state_dir, name);
	return access(path, F_OK) == 0;
}

static void look(const char *name, int64_t *alarmed)
{
	char why[TOKEN_ERROR_MAX + 1];
	struct token_settings s;
	struct token_state st;
	const char *bad;
	int64_t now = now_s();
	int r = token_settings_read(&s, g.c, name, &bad);
	int64_t before = s.renew_before_s;
	token_settings_done(&s);
	if (r || !has_token(name))
		return;
	if (due(name, before) <= now) {
		r = refresh(name, NULL, false, why);
		if (r < 0)
			log_warn(NULL, "event=token-refresh-failed name=%s reason=%s", name, log_qz(why));
		else if (r == 0)
			log_info(NULL, "event=token-refreshed name=%s", name);
	}
	if (token_state_read(g.state_dir, name, &st) == 0 && (bad = token_alarm(&st, now_s())) && now - *alarmed >= ALARM_EVERY_S) {
		*alarmed = now;
		log_error(NULL, "event=token-alarm name=%s reason=%s refresh_expires_in=%lldd error=%s", name, log_qz(bad),
		    (long long)(st.refresh_expires ? (st.refresh_expires - now) / 86400 : -1), log_qz(st.error));
	} else if (r == 0 && !bad) {
		*alarmed = 0;
	}
}

static int run(void)
{
	static int64_t alarmed[NAMES_MAX];
	struct timespec tick = { .tv_sec = LOOK_S };
	sigset_t end;
	sigemptyset(&end);
	sigaddset(&end, SIGTERM);
	sigaddset(&end, SIGINT);
	sigprocmask(SIG_BLOCK, &end, NULL); /* not between an answer and the disk */
	log_info(NULL, "event=token-ready");
	do {
		const char *name;
		for (size_t i = 0; i < NAMES_MAX && (name = token_name(g.c, i)); i++)
			if (token_name_ok(name))
				look(name, &alarmed[i]);
	} while (sigtimedwait(&end, NULL, &tick) < 0);
	return 0;
}

/* -- orders */

static int say(int r, const char *why)
{
	if (r)
		fprintf(stderr, "pepsi: %s\n", why);
	return r ? 1 : 0;
}

/* Standard input, at most max octets, wiped by the caller. */
static int slurp(struct buf *b)
{
	ssize_t n = 0;
	if (!buf_room(b, b->max))
		return -1;
	while (b->n < b->max && (n = read(STDIN_FILENO, b->p + b->n, b->max - b->n)) != 0) {
		if (n < 0 && errno != EINTR)
			return -1;
		b->n += n > 0 ? (size_t)n : 0;
	}
	return b->n < b->max ? 0 : -1;
}

/* --put: the refresh token; --exchange: code, verifier and redirect URI, a line each. */
static int from_stdin(const char *name, bool code)
{
	char why[TOKEN_ERROR_MAX + 1] = "what came on standard input is too long, or none";
	struct buf b = BUF_INIT(2 * TOKEN_MAX);
	struct order o = { .refresh = STR_NULL };
	int r = slurp(&b);
	struct str rest = buf_str(&b);
	if (r == 0 && code)
		r = str_word(&rest, "\r\n", &o.code) && str_word(&rest, "\r\n", &o.verifier) && str_word(&rest, "\r\n", &o.redirect) ? 0 : -1;
	else if (r == 0)
		r = token_ok(o.refresh = str_trim(rest)) ? 0 : -1;
	if (r == 0)
		r = refresh(name, &o, true, why);
	buf_free_secret(&b);
	return say(r, why);
}

static int forget(const char *name)
{
	static const char *const kinds[] = { "refresh", "access", "state" };
	struct token_dir d;
	int r = token_dir_open(&d, g.state_dir, name, true), gone = 0;
	for (size_t i = 0; r == 0 && i < sizeof kinds / sizeof *kinds; i++)
		gone += token_file_remove(&d, name, kinds[i]) == 0;
	token_dir_close(&d);
	return say(r || !gone, r ? strerror(errno) : "there is no such token");
}

static int usage(FILE *f)
{
	fprintf(f, "usage: pepsi-helper-token-refresh -c FILE [--state DIR] [-L LEVEL] [--refresh NAME | --put NAME | --exchange NAME | --forget NAME]\n"
		   "Keeps the access tokens of [token-NAME] fresh; see pepsi-token(1), whose orders these are. Tokens and codes come on standard input.\n");
	return f == stdout ? 0 : 2;
}

static int load(const char *path, const char *state)
{
	struct config_faults *faults = config_faults_new();
	g.c = faults ? config_load(path, faults) : NULL;
	if (g.c)
		config_load_secrets(g.c, faults);
	for (size_t i = 0; faults && i < config_faults_n(faults, false); i++) {
		struct buf b = BUF_INIT(4096);
		config_fault_print(config_faults_at(faults, i), &b);
		fputs(buf_z(&b), stderr);
		buf_free(&b);
	}
	bool ok = g.c && !config_faults_n(faults, false) && (!state || config_set(g.c, "pepsi", "STATE_DIR", state) == 0);
	config_faults_free(faults);
	g.state_dir = ok ? config_path(g.c, "pepsi", "STATE_DIR") : NULL;
	return g.state_dir ? 0 : -1;
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "config", required_argument, NULL, 'c' }, { "state", required_argument, NULL, 's' },
		{ "log", required_argument, NULL, 'L' }, { "refresh", required_argument, NULL, 'r' }, { "put", required_argument, NULL, 'p' },
		{ "exchange", required_argument, NULL, 'x' }, { "forget", required_argument, NULL, 'f' }, { "help", no_argument, NULL, 'h' }, { 0 } };
	const char *path = NULL, *state = NULL, *name = NULL;
	char why[TOKEN_ERROR_MAX + 1];
	enum log_level level = LOG_LV_INFO;
	int o, what = 0;
	while ((o = getopt_long(argc, argv, "c:L:h", options, NULL)) >= 0) {
		if (o == 'c')
			path = optarg;
		else if (o == 's')
			state = optarg;
		else if (o == 'L' && log_level_parse(str_from(optarg), &level))
			return usage(stderr);
		else if (strchr("rpxf", o) && !what)
			what = o, name = optarg;
		else if (o == 'h')
			return usage(stdout);
		else if (o != 'L')
			return usage(stderr);
	}
	if (optind != argc || !path || (name && !token_name_ok(name)))
		return usage(stderr);
	log_setup(level, "token");
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* no core, no look into it */
	if (load(path, state) || curl_global_init(CURL_GLOBAL_DEFAULT))
		return 1;
	switch (what) {
	case 'r':
		o = say(refresh(name, NULL, true, why), why);
		break;
	case 'p':
	case 'x':
		o = from_stdin(name, what == 'x');
		break;
	case 'f':
		o = forget(name);
		break;
	default:
		o = run();
	}
	curl_global_cleanup();
	free(g.state_dir);
	config_free(g.c);
	return o;
}
