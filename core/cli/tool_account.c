/* pepsi account: the accounts that may sign in to send mail. It talks to the admin child of a running pepsid through a socket that
 * is root's (or the account's that runs pepsid), never through the reactor, and looks at who listens there before it sends a password.
 * Passwords come from standard input or an unechoed terminal, never from the command line, and are wiped. */
#include "base/clock.h"
#include "account_client.h"
#include "cli_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

/* ---- passwords */

static struct termios saved;

/* The terminal as it was, also when the operator gives up. */
static void on_signal(int sig)
{
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved);
	signal(sig, SIG_DFL);
	raise(sig);
}

/* One line from standard input, without its end. 0, or -1 after a message. */
static int read_line(struct buf *out)
{
	char c;
	ssize_t n;
	while ((n = read(STDIN_FILENO, &c, 1)) == 1 && c != '\n')
		if (buf_addc(out, c)) {
			cli_fail("the password is longer than %d octets", WIRE_SIGNIN_PASSWORD_MAX);
			return -1;
		}
	if (n < 0) {
		cli_fail("cannot read the password: %s", strerror(errno));
		return -1;
	}
	if (out->n && out->p[out->n - 1] == '\r')
		out->n--;
	if (!out->n) {
		cli_fail("the password is empty");
		return -1;
	}
	return 0;
}

static int prompt(const char *text, struct buf *out)
{
	struct termios quiet;
	if (tcgetattr(STDIN_FILENO, &saved)) {
		cli_fail("cannot read a password from this terminal: %s", strerror(errno));
		return -1;
	}
	quiet = saved;
	quiet.c_lflag &= ~(tcflag_t)(ECHO | ECHOE | ECHOK | ECHONL);
	void (*was_int)(int) = signal(SIGINT, on_signal), (*was_term)(int) = signal(SIGTERM, on_signal);
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
	fputs(text, stderr);
	fflush(stderr);
	int rc = read_line(out);
	putc('\n', stderr);
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved);
	signal(SIGINT, was_int);
	signal(SIGTERM, was_term);
	return rc;
}

/* 1: got one; 0: none is wanted; -1 after a message. */
static int take_password(struct cli *c, bool needed, struct buf *out)
{
	struct buf again = BUF_INIT(2 * WIRE_SIGNIN_PASSWORD_MAX);
	bool same;
	if (!buf_room(out, WIRE_SIGNIN_PASSWORD_MAX + 1)) /* at once: growing leaves copies */
		return -1;
	if (c->args.set & CLI_BIT(CLI_PASSWORD_STDIN))
		return read_line(out) ? -1 : 1;
	if (!needed)
		return 0;
	if (!isatty(STDIN_FILENO)) {
		cli_usage(c, "give the password with --password-stdin, on one line of standard input");
		return -1;
	}
	if (prompt("Password: ", out) || !buf_room(&again, WIRE_SIGNIN_PASSWORD_MAX + 1) || prompt("Again: ", &again)) {
		buf_free_secret(&again);
		return -1;
	}
	same = str_eq_secret(buf_str(out), buf_str(&again));
	buf_free_secret(&again);
	if (!same) {
		cli_fail("the two differ; nothing was changed");
		return -1;
	}
	return 1;
}

/* ---- options */

static int take_cap(struct cli *c, enum cli_opt o, uint32_t *ret)
{
	const char *v = c->args.value[o];
	int64_t n;
	if (!(c->args.set & CLI_BIT(o)))
		return CLI_DONE;
	if (!strcmp(v, "default")) {
		*ret = WIRE_ACCOUNT_CAP_DEFAULT;
	} else if (!strcmp(v, "none")) {
		*ret = 0;
	} else {
		char what[64];
		snprintf(what, sizeof what, "--%s (default, none, or a number)", cli_opts[o].name);
		if ((n = cli_number(c, what, v, 1, WIRE_ACCOUNT_CAP_MAX)) < 0)
			return CLI_USAGE;
		*ret = (uint32_t)n;
	}
	return CLI_DONE;
}

static int take_options(struct cli *c, struct wire_account_request *r)
{
	static const enum cli_opt caps[WIRE_CAPS] = { CLI_MESSAGES_PER_HOUR, CLI_MESSAGES_PER_DAY, CLI_RECIPIENTS_PER_HOUR, CLI_RECIPIENTS_PER_DAY };
	for (size_t i = 0; i < c->args.n_each; i++) {
		const struct cli_each *e = &c->args.each[i];
		bool sender = e->opt == CLI_SENDER;
		size_t *n = sender ? &r->n_senders : &r->n_certificates;
		if (!sender && e->opt != CLI_CERTIFICATE)
			continue;
		if (!strcmp(e->value, "none")) { /* an empty list is told apart from no word about it */
			*n = 0;
		} else if (*n == (sender ? (size_t)WIRE_SIGNIN_SENDERS_MAX : (size_t)WIRE_ACCOUNT_CERTIFICATES_MAX)) {
			return cli_usage(c, "--%s: at most %zu", cli_opts[e->opt].name, *n);
		} else {
			(sender ? r->senders : r->certificates)[(*n)++] = str_from(e->value);
		}
	}
	r->set_senders = c->args.set & CLI_BIT(CLI_SENDER);
	r->set_certificates = c->args.set & CLI_BIT(CLI_CERTIFICATE);
	for (unsigned i = 0; i < WIRE_CAPS; i++)
		if (take_cap(c, caps[i], &r->caps[i]))
			return CLI_USAGE;
	return CLI_DONE;
}

/* ---- changes */

static int change(struct cli *c, enum wire_account_op op, bool password_needed, int enabled)
{
	struct wire_account_request r = { .op = op, .name = str_from(c->args.pos[0]), .set_enabled = enabled >= 0, .enabled = enabled > 0 };
	struct wire_account_answer an;
	struct buf password = BUF_INIT(2 * WIRE_SIGNIN_PASSWORD_MAX);
	for (unsigned i = 0; i < WIRE_CAPS; i++)
		r.caps[i] = op == WIRE_ACCOUNT_ADD ? WIRE_ACCOUNT_CAP_DEFAULT : WIRE_ACCOUNT_CAP_KEEP;
	int rc = take_options(c, &r);
	if (rc)
		return rc;
	struct account_client *a = cli_account_client(c);
	if (!a)
		return CLI_FAILED;
	/* first: nobody types a password for a daemon that is not there */
	if ((rc = cli_account_connect(a)))
		return cli_account_done(a, rc);
	int got = take_password(c, password_needed, &password);
	if (got >= 0) {
		r.set_password = got;
		r.password = buf_str(&password);
		rc = cli_account_ask(a, &r, &an);
	} else {
		rc = c->args.set & CLI_BIT(CLI_PASSWORD_STDIN) || isatty(STDIN_FILENO) ? CLI_FAILED : CLI_USAGE;
	}
	buf_free_secret(&password);
	if (rc == CLI_DONE && c->json)
		puts("{\"ok\":true}");
	return cli_account_done(a, rc);
}

int tool_account_add(struct cli *c)
{
	bool without = c->args.set & CLI_BIT(CLI_NO_PASSWORD);
	if (without && c->args.set & CLI_BIT(CLI_PASSWORD_STDIN))
		return cli_usage(c, "--no-password and --password-stdin exclude each other");
	return change(c, WIRE_ACCOUNT_ADD, !without, -1);
}

int tool_account_passwd(struct cli *c)
{
	return change(c, WIRE_ACCOUNT_CHANGE, true, -1);
}

int tool_account_set(struct cli *c)
{
	if (!(c->args.set & (CLI_ACCOUNT)))
		return cli_usage(c, "account set: what? --sender, --certificate, or a limit");
	return change(c, WIRE_ACCOUNT_CHANGE, false, -1);
}

int tool_account_enable(struct cli *c)
{
	return change(c, WIRE_ACCOUNT_CHANGE, false, 1);
}

int tool_account_disable(struct cli *c)
{
	return change(c, WIRE_ACCOUNT_CHANGE, false, 0);
}

int tool_account_remove(struct cli *c)
{
	return change(c, WIRE_ACCOUNT_REMOVE, false, -1);
}

/* ---- looking */

static const char *const cap_names[WIRE_CAPS] = { "messages_per_hour", "messages_per_day", "recipients_per_hour", "recipients_per_day" };

static struct json_object *text(struct str s)
{
	return json_object_new_string_len(s.p ? s.p : "", (int)s.n);
}

static struct json_object *texts(const struct str *of, size_t n)
{
	struct json_object *l = json_object_new_array();
	for (size_t i = 0; i < n; i++)
		json_object_array_add(l, text(of[i]));
	return l;
}

static void time_text(uint64_t at, char *out, size_t size)
{
	time_t t = (time_t)at;
	struct tm tm;
	if (!at || !gmtime_r(&t, &tm) || !strftime(out, size, "%Y-%m-%dT%H:%M:%SZ", &tm))
		out[0] = 0;
}

static struct json_object *time_json(uint64_t at)
{
	char z[32];
	time_text(at, z, sizeof z);
	return z[0] ? json_object_new_string(z) : NULL;
}

static struct json_object *row_json(const struct wire_account_row *r)
{
	struct json_object *o = json_object_new_object();
	json_object_object_add(o, "name", text(r->name));
	json_object_object_add(o, "enabled", json_object_new_boolean(r->enabled));
	json_object_object_add(o, "has_password", json_object_new_boolean(r->has_password));
	json_object_object_add(o, "senders", texts(r->senders, r->n_senders));
	json_object_object_add(o, "certificates", texts(r->certificates, r->n_certificates));
	for (unsigned i = 0; i < WIRE_CAPS; i++) /* null: what the configuration says; 0: none */
		json_object_object_add(o, cap_names[i],
		    r->caps[i] == WIRE_ACCOUNT_CAP_DEFAULT ? NULL : json_object_new_int64((int64_t)r->caps[i]));
	json_object_object_add(o, "created_at", time_json(r->created_at));
	json_object_object_add(o, "changed_at", time_json(r->changed_at));
	json_object_object_add(o, "signed_in_at", time_json(r->signed_in_at));
	return o;
}

static void print_words(const char *head, const struct str *of, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		printf("%-22s", i ? "" : head);
		cli_text_print(stdout, of[i]);
		putchar('\n');
	}
}

static void print_row(const struct wire_account_row *r)
{
	char at[32];
	printf("%-22s", "name");
	cli_text_print(stdout, r->name);
	printf("\n%-22s%s%s\n", "state", r->enabled ? "enabled" : "disabled", r->has_password ? "" : ", without a password");
	print_words("senders", r->senders, r->n_senders);
	print_words("certificates", r->certificates, r->n_certificates);
	for (unsigned i = 0; i < WIRE_CAPS; i++)
		if (r->caps[i] == WIRE_ACCOUNT_CAP_DEFAULT)
			printf("%-22s%s\n", cap_names[i], "default");
		else if (r->caps[i] == 0)
			printf("%-22s%s\n", cap_names[i], "none");
		else
			printf("%-22s%" PRIu32 "\n", cap_names[i], r->caps[i]);
	time_text(r->created_at, at, sizeof at);
	printf("%-22s%s\n", "created", at);
	time_text(r->changed_at, at, sizeof at);
	printf("%-22s%s\n", "changed", at);
	time_text(r->signed_in_at, at, sizeof at);
	printf("%-22s%s\n", "last sign-in (~1 h)", at[0] ? at : "never");
}

static void print_line(const struct wire_account_row *r)
{
	char at[32];
	time_text(r->signed_in_at, at, sizeof at);
	printf("%-9s %-20s ", r->enabled ? "enabled" : "disabled", at[0] ? at : "never");
	cli_text_print(stdout, r->name);
	putchar('\n');
}

int tool_account_show(struct cli *c)
{
	struct wire_account_request r = { .op = WIRE_ACCOUNT_SHOW, .name = str_from(c->args.pos[0]) };
	struct wire_account_answer an;
	struct wire_account_row row;
	struct account_client *a = cli_account_client(c);
	if (!a)
		return CLI_FAILED;
	int rc = cli_account_connect(a);
	if (!rc)
		rc = cli_account_ask(a, &r, &an);
	if (!rc && wire_account_row_get(&an.rows, &row) != 1)
		rc = cli_fail("pepsid at %s gave an answer that cannot be read", a->path);
	if (!rc && c->json) {
		struct json_object *o = row_json(&row);
		cli_json_print(o);
		json_object_put(o);
	} else if (!rc) {
		print_row(&row);
	}
	return cli_account_done(a, rc);
}

int tool_account_list(struct cli *c)
{
	return cli_account_list(c, WIRE_ACCOUNT_LIST, row_json, print_line);
}
