/* The command line of sendmail(8): single letters, values attached or in the next word, options also behind addresses. Pure. */
#include "tool_sendmail.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static const char *base_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	return slash ? slash + 1 : path ? path : "";
}

/* The names it goes by; 0: not one of them. */
static const char *const names[] = { "sendmail", "mailq", "newaliases", "pepsi-sendmail", "pepsi-mailq", "pepsi-newaliases" };

static bool is_name(const char *name)
{
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

bool sendmail_is_called(int argc, char **argv, int *ret_skip)
{
	*ret_skip = 0;
	if (argc > 0 && is_name(base_name(argv[0])))
		return true;
	*ret_skip = 1;
	return argc > 1 && strcmp(base_name(argv[0]), "pepsi") == 0 && is_name(argv[1]);
}

static int fail(char *err, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int fail(char *err, size_t size, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(err, size, fmt, ap);
	va_end(ap);
	return EX_USAGE;
}

static void ignore(struct sendmail_args *a, char letter, const char *value)
{
	buf_addf(&a->ignored, "%s-%c%s", a->ignored.n ? " " : "", letter, value ? value : "");
}

static int take_mode(struct sendmail_args *a, const char *v, char *err, size_t size)
{
	static const struct {
		char letter;
		enum sendmail_mode mode;
	} modes[] = { { 'm', SENDMAIL_SUBMIT }, { 's', SENDMAIL_SMTP }, { 'p', SENDMAIL_QUEUE }, { 'i', SENDMAIL_ALIAS }, { 'v', SENDMAIL_VERIFY } };
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
		if (v[0] == modes[i].letter && !v[1]) {
			a->mode = modes[i].mode;
			return 0;
		}
	if (!strcmp(v, "h") || !strcmp(v, "H") || !strcmp(v, "P")) { /* host status: there is none to show or purge */
		ignore(a, 'b', v);
		return 0;
	}
	if (!strcmp(v, "d") || !strcmp(v, "D"))
		return fail(err, size, "-b%s: the daemon is pepsid, started by its service", v);
	return fail(err, size, "-b%s: no such mode (-bm, -bs, -bp, -bi, -bv)", v);
}

static int take_errors(struct sendmail_args *a, const char *v, char *err, size_t size)
{
	switch (v[0]) {
	case 'p':
	case 'q':
	case 'm':
	case 'e':
		a->errors = (enum sendmail_errors)v[0];
		return 0;
	case 'w': /* on the terminal if there is one, else by mail */
		a->errors = SENDMAIL_MAIL;
		return 0;
	default:
		return fail(err, size, "-oe%s: errors are told by p, q, m, w or e", v);
	}
}

/* -oX…: the options of old, a letter each. */
static int take_old(struct sendmail_args *a, const char *v, char *err, size_t size)
{
	if (v[0] == 'i' && (!v[1] || !strcmp(v + 1, "True") || !strcmp(v + 1, "t"))) {
		a->ignore_dots = true;
		return 0;
	}
	if (v[0] == 'e')
		return take_errors(a, v + 1, err, size);
	ignore(a, 'o', v); /* -odb, -odi, -odq, -om, -oA, -o7, -o8, … */
	return 0;
}

static bool word_is(struct str s, const char *name)
{
	return str_ieq(s, str_from(name));
}

static bool is_yes(const char *v)
{
	return v[0] == 'T' || v[0] == 't' || v[0] == 'Y' || v[0] == 'y' || !v[0];
}

/* -O Name=value */
static int take_long_old(struct sendmail_args *a, const char *v, char *err, size_t size)
{
	const char *eq = strchr(v, '=');
	struct str name = str_n(v, eq ? (size_t)(eq - v) : strlen(v));
	if (word_is(name, "IgnoreDots"))
		a->ignore_dots = is_yes(eq ? eq + 1 : "");
	else if (word_is(name, "ErrorMode"))
		return take_errors(a, eq ? eq + 1 : "", err, size);
	else
		ignore(a, 'O', v);
	return 0;
}

static int take_notify(struct sendmail_args *a, const char *v, char *err, size_t size)
{
	struct str rest = str_from(v), word;
	unsigned n = 0, never = 0;
	while (str_word(&rest, ",", &word)) {
		bool no = word_is(word, "never");
		if (!no && !word_is(word, "success") && !word_is(word, "failure") && !word_is(word, "delay"))
			return fail(err, size, "-N %s: expected never, or some of success,failure,delay", v);
		n++;
		never += no;
	}
	if (!n || (never && n > 1))
		return fail(err, size, "-N %s: never stands alone", v);
	a->notify = v;
	return 0;
}

static int take_value(struct sendmail_args *a, char o, const char *v, char *err, size_t size)
{
	switch (o) {
	case 'b':
		return take_mode(a, v, err, size);
	case 'e':
		return take_errors(a, v, err, size);
	case 'o':
		return take_old(a, v, err, size);
	case 'O':
		return take_long_old(a, v, err, size);
	case 'N':
		return take_notify(a, v, err, size);
	case 'R':
		if (!word_is(str_from(v), "full") && !word_is(str_from(v), "hdrs"))
			return fail(err, size, "-R %s: expected full or hdrs", v);
		a->ret = v;
		return 0;
	case 'B':
		if (!word_is(str_from(v), "7BIT") && !word_is(str_from(v), "8BITMIME"))
			return fail(err, size, "-B %s: expected 7BIT or 8BITMIME", v);
		a->body_8bit = word_is(str_from(v), "8BITMIME");
		return 0;
	case 'V':
		for (const char *p = v; *p; p++)
			if ((unsigned char)*p < 33 || (unsigned char)*p > 126)
				return fail(err, size, "-V: an envelope id is printable ASCII without blanks");
		if (strlen(v) > 100)
			return fail(err, size, "-V: an envelope id has 100 characters at most");
		a->envid = v;
		return 0;
	case 'f':
	case 'r':
		a->from = v;
		return 0;
	case 'F':
		a->full_name = v;
		return 0;
	default: /* A C D h L M p X */
		ignore(a, o, v);
		return 0;
	}
}

static int take_word(int argc, char **argv, int *i, struct sendmail_args *a, char *err, size_t size)
{
	for (const char *p = argv[*i] + 1; *p; p++) {
		if (strchr("beoONRBVfrFACDhLMpX", *p)) {
			char o = *p;
			const char *v = p[1] ? p + 1 : *i + 1 < argc ? argv[++*i] : NULL;
			if (!v)
				return fail(err, size, "option -%c needs a value", o);
			return take_value(a, o, v, err, size);
		}
		switch (*p) {
		case 't':
			a->extract = true;
			break;
		case 'i':
			a->ignore_dots = true;
			break;
		case 'v':
			a->verbose = true;
			break;
		case 'I':
			a->mode = SENDMAIL_ALIAS;
			break;
		case 'q': /* -q, -q30m, -qIid, -qRaddress: the queue is run by itself all the time; it is kicked */
			a->mode = SENDMAIL_FLUSH;
			return 0;
		case 'd': /* -d0-99.1: debugging of another program */
			ignore(a, 'd', p + 1);
			return 0;
		case 'c':
		case 'E':
		case 'G':
		case 'm':
		case 'n':
		case 's':
		case 'T':
		case 'U':
		case 'x':
		case 'Y':
			ignore(a, *p, NULL);
			break;
		default:
			return fail(err, size, "unknown option -%c", *p);
		}
	}
	return 0;
}

int sendmail_args_parse(int argc, char **argv, struct sendmail_args *a, char *err, size_t err_size)
{
	const char *name = base_name(argc > 0 ? argv[0] : "");
	bool more = true;
	*a = (struct sendmail_args){ .mode = SENDMAIL_SUBMIT, .errors = SENDMAIL_PRINT, .ignored = BUF_INIT(64 * 1024) };
	err[0] = 0;
	if (!strcmp(name, "mailq") || !strcmp(name, "pepsi-mailq"))
		a->mode = SENDMAIL_QUEUE;
	else if (!strcmp(name, "newaliases") || !strcmp(name, "pepsi-newaliases"))
		a->mode = SENDMAIL_ALIAS;
	a->rcpts = calloc((size_t)(argc > 0 ? argc : 1), sizeof *a->rcpts);
	if (!a->rcpts) {
		fail(err, err_size, "out of memory");
		return EX_OSERR;
	}
	for (int i = 1; i < argc; i++) {
		int r = 0;
		if (more && !strcmp(argv[i], "--"))
			more = false;
		else if (more && !strcmp(argv[i], "--help"))
			a->mode = SENDMAIL_HELP;
		else if (more && !strcmp(argv[i], "--version"))
			a->mode = SENDMAIL_VERSION;
		else if (more && !strncmp(argv[i], "--", 2))
			r = fail(err, err_size, "unknown option %.60s", argv[i]);
		else if (more && argv[i][0] == '-' && argv[i][1])
			r = take_word(argc, argv, &i, a, err, err_size);
		else if (!strcmp(argv[i], "-") && more)
			;
		else
			a->rcpts[a->n_rcpts++] = argv[i];
		if (r)
			return r;
	}
	return 0;
}

void sendmail_args_done(struct sendmail_args *a)
{
	free(a->rcpts);
	a->rcpts = NULL;
	buf_free(&a->ignored);
}
