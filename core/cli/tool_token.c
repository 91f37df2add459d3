/* pepsi token: OAuth2 tokens for signing in at other servers. Lists what is known of them; everything that touches a token is an order to
 * pepsi-helper-token-refresh, run under the account that owns them, with what is secret on its standard input. */
#include "tool_token.h"
#include "service.h"
#include "token/token.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { VERIFIER = 32, RANDOM_TEXT = 44 };

/* -- looking */

static void print_when(const char *what, int64_t at, int64_t now)
{
	char text[64];
	if (!at)
		return;
	cli_text_duration(text, sizeof text, at > now ? at - now : now - at);
	printf("%s %s%s%s", what, at > now ? "in " : "", text, at > now ? "" : " ago");
}

static void print_token(struct json_object *o, int64_t now, bool all)
{
	struct json_object *v = NULL;
	bool valid = json_object_object_get_ex(o, "valid", &v) && json_object_get_boolean(v);
	cli_text_print(stdout, cli_json_text(o, "name"));
	printf(": %s", valid ? "valid" : "not valid");
	print_when(valid ? ", expires" : ", expired", cli_json_int(o, "access_expires"), now);
	print_when("; refreshed", cli_json_int(o, "refreshed_at"), now);
	if (cli_json_int(o, "refresh_expires"))
		print_when("; the refresh token expires", cli_json_int(o, "refresh_expires"), now);
	putchar('\n');
	if (all)
		print_when("  signed in", cli_json_int(o, "refresh_obtained"), now);
	if (all && cli_json_int(o, "refresh_obtained"))
		putchar('\n');
	if (cli_json_text(o, "error").n) {
		print_when("  last error,", cli_json_int(o, "error_at"), now);
		fputs(": ", stdout);
		cli_text_print(stdout, cli_json_text(o, "error"));
		putchar('\n');
	}
	if (cli_json_text(o, "alarm").n) {
		fputs("  ALARM: ", stdout);
		cli_text_print(stdout, cli_json_text(o, "alarm"));
		putchar('\n');
	}
}

static int list(struct cli *c, const char *name)
{
	struct config *conf = cli_config_need(c);
	if (!conf)
		return CLI_FAILED;
	struct json_object *all = token_report(conf, (int64_t)time(NULL));
	int rc = name ? CLI_FAILED : CLI_DONE;
	if (!name && c->json)
		cli_json_print(all);
	for (size_t i = 0; i < json_object_array_length(all); i++) {
		struct json_object *o = json_object_array_get_idx(all, i);
		if (name && !str_ieq(cli_json_text(o, "name"), str_from(name)))
			continue;
		if (name && c->json)
			cli_json_print(o);
		else if (!c->json)
			print_token(o, (int64_t)time(NULL), name != NULL);
		rc = CLI_DONE;
	}
	if (rc)
		cli_fail("there is no section [token-%s]", name);
	else if (!c->json && !name && !json_object_array_length(all))
		puts("No [token-NAME] is configured.");
	json_object_put(all);
	config_free(conf);
	return rc;
}

int tool_token_list(struct cli *c)
{
	return list(c, NULL);
}

int tool_token_show(struct cli *c)
{
	return list(c, c->args.pos[0]);
}

/* -- orders */

/* The account of the helper: the spawner's choice. NULL: not root, or none is there. */
static const struct passwd *account(const struct config *conf)
{
	const char *named = config_str(conf, "pepsi-token", "USER"), *cluster = config_str(conf, "pepsi", "USER");
	const char *const names[] = { named ? named : "pepsi-token", named ? NULL : cluster, named ? NULL : "nobody" };
	for (size_t i = 0; geteuid() == 0 && i < sizeof names / sizeof *names; i++) {
		const struct passwd *pw = names[i] ? getpwnam(names[i]) : NULL;
		if (pw)
			return pw;
	}
	return NULL;
}

/* Runs the helper with `in` on its standard input. */
static int order(struct cli *c, const struct config *conf, const char *what, const char *name, struct str in)
{
	char helper[4096], user[64] = "";
	const struct passwd *pw = account(conf);
	char *state = config_path(conf, "pepsi", "STATE_DIR");
	int to[2], status = 0;
	if (!state || token_helper_path(helper, sizeof helper)) {
		free(state);
		return cli_fail("there is no pepsi-helper-token-refresh beside this program (it needs libcurl when it is built)");
	}
	if (pw)
		snprintf(user, sizeof user, "%s", pw->pw_name);
	if (token_dir_make(state, pw ? pw->pw_uid : geteuid(), pw ? pw->pw_gid : getegid())) {
		cli_fail("%s/tokens: %s", state, strerror(errno));
		free(state);
		return CLI_FAILED;
	}
	pid_t pid = pipe(to) ? -1 : fork();
	if (pid == 0) {
		char *argv[] = { helper, (char *)(uintptr_t)"-c", (char *)(uintptr_t)cli_config_file(c), (char *)(uintptr_t)"--state", state,
			(char *)(uintptr_t)what, (char *)(uintptr_t)name, NULL };
		if (dup2(to[0], STDIN_FILENO) >= 0 && close(to[0]) == 0 && close(to[1]) == 0 && (!user[0] || service_leave_root(user) == CLI_DONE))
			execv(helper, argv);
		_exit(127);
	}
	free(state);
	if (pid < 0)
		return cli_fail("cannot run the helper: %s", strerror(errno));
	close(to[0]);
	while (in.n) {
		ssize_t n = write(to[1], in.p, in.n);
		if (n < 0 && errno != EINTR)
			break;
		in = str_skip(in, n > 0 ? (size_t)n : 0);
	}
	close(to[1]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return CLI_DONE;
	return WIFEXITED(status) && WEXITSTATUS(status) == 1 ? CLI_FAILED : cli_fail("%s ended with %d", helper, status);
}

/* The configuration, and that the token is in it. */
static struct config *config_of(struct cli *c)
{
	struct config *conf = cli_config_need(c);
	const char *name;
	if (!conf)
		return NULL;
	for (size_t i = 0; (name = token_name(conf, i)); i++)
		if (!strcasecmp(name, c->args.pos[0])) {
			c->args.pos[0] = name;
			return conf;
		}
	cli_fail("there is no section [token-%s]", c->args.pos[0]);
	config_free(conf);
	return NULL;
}

/* A line from the terminal, unseen if secret, or the whole of standard input that is none. */
static int ask(const char *prompt, bool secret, struct buf *out)
{
	struct termios old, quiet;
	bool tty = isatty(STDIN_FILENO), hidden = false;
	char ch;
	buf_room(out, out->max);
	if (tty) {
		fputs(prompt, stderr);
		if (secret && tcgetattr(STDIN_FILENO, &old) == 0) {
			quiet = old;
			quiet.c_lflag &= ~(tcflag_t)(ECHO | ICANON); /* a token may be longer than a terminal's line */
			hidden = tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet) == 0;
		}
	}
	while (read(STDIN_FILENO, &ch, 1) == 1 && (ch != '\n' || !out->n) && !(tty && ch == '\r'))
		buf_addc(out, ch);
	if (hidden) {
		tcsetattr(STDIN_FILENO, TCSANOW, &old);
		fputc('\n', stderr);
	}
	return out->failed || !out->n ? -1 : 0;
}

static int done(const char *name, int rc)
{
	if (rc == CLI_DONE)
		printf("%s: signed in; pepsid keeps it fresh\n", name);
	return rc;
}

int tool_token_add(struct cli *c)
{
	struct config *conf = config_of(c);
	struct buf in = BUF_INIT(TOKEN_MAX + 2);
	if (!conf)
		return CLI_FAILED;
	int rc = ask("Refresh token: ", true, &in) ? cli_fail("no token, or one that is too long") : order(c, conf, "--put", c->args.pos[0], buf_str(&in));
	rc = done(c->args.pos[0], rc);
	buf_free_secret(&in);
	config_free(conf);
	return rc;
}

/* Random text for a URL: Base64 with its alphabet (RFC 4648 §5), without padding. */
static int url64(const unsigned char *p, size_t n, char out[RANDOM_TEXT + 1])
{
	EVP_EncodeBlock((unsigned char *)out, p, (int)n);
	for (char *q = out; *q; q++)
		*q = *q == '+' ? '-' : *q == '/' ? '_' : *q;
	out[strcspn(out, "=")] = 0;
	return 0;
}

/* The value of a parameter in an address, decoded. */
static int parameter(struct str url, const char *name, struct buf *out)
{
	ptrdiff_t mark = str_chr(url, '?');
	struct str rest = mark < 0 ? STR_NULL : str_skip(url, (size_t)mark + 1), word;
	size_t n = strlen(name);
	while (str_word(&rest, "&#", &word)) {
		if (word.n <= n || memcmp(word.p, name, n) || word.p[n] != '=')
			continue;
		for (size_t i = n + 1; i < word.n; i++) {
			unsigned char octet;
			if (word.p[i] == '%' && i + 2 < word.n && !str_unhex(str_n(word.p + i + 1, 2), &octet, 1)) {
				i += 2;
				buf_addc(out, (char)octet);
			} else {
				buf_addc(out, word.p[i] == '+' ? ' ' : word.p[i]);
			}
		}
		return out->failed ? -1 : 0;
	}
	return -1;
}

/* Authorization code with PKCE (RFC 7636), for a person with a browser anywhere: the address it ends at is pasted here. */
int tool_token_sign_in(struct cli *c)
{
	static const char redirect[] = "http://localhost";
	struct config *conf = config_of(c);
	struct token_settings s;
	struct buf query = BUF_INIT(8192), pasted = BUF_INIT(16384), code = BUF_INIT(TOKEN_MAX), state = BUF_INIT(200), in = BUF_INIT(2 * TOKEN_MAX - 1);
	unsigned char raw[2 * VERIFIER], digest[EVP_MAX_MD_SIZE];
	char verifier[RANDOM_TEXT + 1], sent[RANDOM_TEXT + 1], challenge[EVP_MAX_MD_SIZE * 2];
	unsigned len = 0;
	const char *why;
	if (!conf)
		return CLI_FAILED;
	int rc = token_settings_read(&s, conf, c->args.pos[0], &why) ? cli_fail("[token-%s]: %s", c->args.pos[0], why) : CLI_DONE;
	if (rc == CLI_DONE && !s.authorize_url[0])
		rc = cli_fail("[token-%s]: AUTHORIZE_URL is missing: where a person signs in", s.name);
	if (rc == CLI_DONE && RAND_bytes(raw, sizeof raw) != 1)
		rc = cli_fail("no random numbers");
	if (rc == CLI_DONE) {
		url64(raw, VERIFIER, verifier);
		url64(raw + VERIFIER, VERIFIER, sent);
		EVP_Digest(verifier, strlen(verifier), digest, &len, EVP_sha256(), NULL);
		url64(digest, len, challenge);
		token_form_add(&query, "response_type", STR("code"));
		token_form_add(&query, "client_id", str_from(s.client_id));
		token_form_add(&query, "redirect_uri", str_from(redirect));
		if (s.scope)
			token_form_add(&query, "scope", str_from(s.scope));
		token_form_add(&query, "state", str_from(sent));
		token_form_add(&query, "code_challenge", str_from(challenge));
		token_form_add(&query, "code_challenge_method", STR("S256"));
		token_form_add(&query, "access_type", STR("offline")); /* Google gives a refresh token for these two alone */
		token_form_add(&query, "prompt", STR("consent"));
		printf("1. Open this address in a browser, anywhere, and sign in as the sender of the mail:\n\n%s%c%s\n\n"
		       "2. In the end the browser says that it cannot reach %s. Copy the whole address it shows then, and paste it here.\n",
		    s.authorize_url, strchr(s.authorize_url, '?') ? '&' : '?', buf_z(&query), redirect);
		fflush(stdout);
		if (ask("Address: ", false, &pasted) || parameter(buf_str(&pasted), "code", &code))
			rc = parameter(buf_str(&pasted), "error", &code) ? cli_fail("there is no code in that address") : cli_fail("the provider says: %s", buf_z(&code));
		else if (parameter(buf_str(&pasted), "state", &state) || !str_eq(buf_str(&state), str_from(sent)))
			rc = cli_fail("that address belongs to another sign-in: begin again");
		else if (buf_addf(&in, "%s\n%s\n%s\n", buf_z(&code), verifier, redirect))
			rc = cli_fail("the code is too long");
		else
			rc = done(s.name, order(c, conf, "--exchange", s.name, buf_str(&in)));
	}
	token_settings_done(&s);
	buf_free(&query);
	buf_free(&state);
	buf_free_secret(&pasted);
	buf_free_secret(&code);
	buf_free_secret(&in);
	OPENSSL_cleanse(raw, sizeof raw);
	OPENSSL_cleanse(verifier, sizeof verifier);
	config_free(conf);
	return rc;
}

int tool_token_refresh(struct cli *c)
{
	struct config *conf = config_of(c);
	int rc = conf ? order(c, conf, "--refresh", c->args.pos[0], STR_NULL) : CLI_FAILED;
	if (rc == CLI_DONE)
		printf("%s: refreshed\n", c->args.pos[0]);
	config_free(conf);
	return rc;
}

int tool_token_remove(struct cli *c)
{
	struct config *conf = cli_config_need(c); /* also of a section that is gone */
	int rc = conf ? order(c, conf, "--forget", c->args.pos[0], STR_NULL) : CLI_FAILED;
	config_free(conf);
	return rc;
}
