/* libunbound: loaded here, set up out of [pepsi-dns], asked. May not know who asks. What the library would print becomes lines of our log. */
#include "internal.h"

#include "base/library.h"
#include "base/log.h"

#ifndef PEPSI_UNBOUND

const char *recursor_missing(void)
{
	return "this program was built without libunbound (package libunbound-dev was not there)";
}

int library_start(struct event_base *base, const struct config *c)
{
	(void)base;
	(void)c;
	log_error(NULL, "event=recursor-start reason=%s", log_qz(recursor_missing()));
	return -1;
}

int library_ask(const char *name, unsigned type, library_answer_fn answer, void *arg)
{
	(void)name;
	(void)type;
	(void)answer;
	(void)arg;
	return -1;
}

void library_end(void)
{
}

#else

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unbound.h>
#include <unbound-event.h>
#include <unistd.h>

static struct {
	__typeof__(ub_ctx_create_event) *create;
	__typeof__(ub_ctx_delete) *delete;
	__typeof__(ub_ctx_set_option) *set_option;
	__typeof__(ub_ctx_config) *config;
	__typeof__(ub_ctx_set_fwd) *set_fwd;
	__typeof__(ub_ctx_add_ta_file) *add_ta_file;
	__typeof__(ub_ctx_debugout) *debugout;
	__typeof__(ub_resolve_event) *resolve;
	__typeof__(ub_strerror) *strerror;
	struct ub_ctx *ctx;
} ub;

const char *recursor_missing(void)
{
	return NULL;
}

static int load(void)
{
	static const struct library_symbol of[] = { { "ub_ctx_create_event", &ub.create }, { "ub_ctx_delete", &ub.delete },
		{ "ub_ctx_set_option", &ub.set_option }, { "ub_ctx_config", &ub.config }, { "ub_ctx_set_fwd", &ub.set_fwd },
		{ "ub_ctx_add_ta_file", &ub.add_ta_file }, { "ub_ctx_debugout", &ub.debugout }, { "ub_resolve_event", &ub.resolve },
		{ "ub_strerror", &ub.strerror } };
	return library_need("recursor-start", "libunbound.so.8", "libunbound8", of, sizeof of / sizeof *of);
}

/* One write is one line or more, "[time] libunbound[pid:0] error: text". */
static ssize_t say(void *arg, const char *p, size_t n)
{
	struct str rest = str_n(p, n), line;
	(void)arg;
	while (str_word(&rest, "\n", &line)) {
		const char *colon = memmem(line.p, line.n, "] ", 2), *next = colon ? memmem(colon + 2, line.n - (size_t)(colon + 2 - line.p), "] ", 2) : NULL;
		if (next)
			line = str_skip(line, (size_t)(next + 2 - line.p));
		log_warn(NULL, "event=recursor-library text=%s", log_q(line));
	}
	return (ssize_t)n;
}

static int failed(const char *what, int rc)
{
	log_error(NULL, "event=recursor-start at=%s reason=%s", what, log_qz(ub.strerror(rc)));
	return -1;
}

/* Sizes are what one mail server needs; the clients cache, too. */
static int set_options(void)
{
	static const char *const options[][2] = { { "use-syslog:", "no" }, { "verbosity:", "0" }, { "val-log-level:", "0" }, { "chroot:", "" }, { "username:", "" },
		{ "directory:", "" }, { "msg-cache-size:", "8m" }, { "rrset-cache-size:", "16m" }, { "key-cache-size:", "4m" }, { "neg-cache-size:", "1m" },
		{ "num-queries-per-thread:", "1024" }, { "outgoing-range:", "2048" }, { "qname-minimisation:", "yes" }, { "harden-below-nxdomain:", "yes" },
		{ "harden-dnssec-stripped:", "yes" } };
	for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
		int rc = ub.set_option(ub.ctx, options[i][0], options[i][1]);
		if (rc)
			return failed(options[i][0], rc);
	}
	return 0;
}

/* libunbound reads anchors with the first question, and then only says that it could not. */
static int readable(const char *option, const char *path)
{
	if (access(path, R_OK) == 0)
		return 0;
	log_error(NULL, "event=recursor-start option=%s path=%s reason=%s hint=\"the account of [pepsi-dns] USER must be able to read it\"", option,
	    log_qz(path), log_qz(strerror(errno)));
	return -1;
}

/* "192.0.2.1:5353", "[2001:db8::1]:53" as libunbound has it: 192.0.2.1@5353. */
static int forward_to(struct str word)
{
	char text[80];
	int n = word.n && word.p[0] == '[' ? 1 : 0;
	ptrdiff_t close = str_chr(word, ']'), colon = str_chr(word, ':');
	struct str address = n ? str_n(word.p + 1, (size_t)close - 1) : word, port = n ? str_skip(word, (size_t)close + 1) : STR_NULL;
	if (!n && colon >= 0 && str_chr(str_skip(word, (size_t)colon + 1), ':') < 0) {
		address = str_n(word.p, (size_t)colon);
		port = str_skip(word, (size_t)colon);
	}
	snprintf(text, sizeof text, "%.*s%s%.*s", STR_ARG(address), port.n > 1 ? "@" : "", STR_ARG(str_skip(port, 1)));
	int rc = ub.set_fwd(ub.ctx, text);
	return rc ? failed("SERVERS", rc) : 0;
}

static int set_up(const struct config *c)
{
	static const cookie_io_functions_t sink = { .write = say };
	const char *servers = config_str(c, "pepsi-dns", "SERVERS");
	struct str rest = str_from(servers ? servers : ""), word;
	FILE *out = fopencookie(NULL, "w", sink);
	int rc = 0;
	if (out) {
		setvbuf(out, NULL, _IOLBF, 1024);
		ub.debugout(ub.ctx, out);
	}
	if (set_options())
		return -1;
	char *anchor = config_path(c, "pepsi-dns", "TRUST_ANCHOR"), *hints = config_path(c, "pepsi-dns", "ROOT_HINTS"),
	     *more = config_path(c, "pepsi-dns", "UNBOUND_CONFIG");
	if (anchor && strcmp(anchor, "none") != 0)
		rc = readable("TRUST_ANCHOR", anchor) || ub.add_ta_file(ub.ctx, anchor);
	if (!rc && hints && *hints)
		rc = readable("ROOT_HINTS", hints) || ub.set_option(ub.ctx, "root-hints:", hints);
	while (!rc && str_word(&rest, " \t,", &word))
		rc = forward_to(word);
	if (!rc && more && *more && !(rc = readable("UNBOUND_CONFIG", more)) && (rc = ub.config(ub.ctx, more)))
		failed("UNBOUND_CONFIG", rc);
	free(anchor);
	free(hints);
	free(more);
	return rc ? -1 : 0;
}

int library_start(struct event_base *base, const struct config *c)
{
	if (load())
		return -1;
	if (!(ub.ctx = ub.create(base))) {
		log_error(NULL, "event=recursor-start reason=\"libunbound cannot be set up\"");
		return -1;
	}
	return set_up(c);
}

struct asked {
	library_answer_fn answer;
	void *arg;
};

static void on_answer(void *arg, int rcode, void *packet, int n, int sec, char *why_bogus, int limited)
{
	struct asked *a = arg;
	struct asked now = *a;
	(void)limited;
	free(a);
	now.answer(now.arg, rcode, rcode ? NULL : packet, rcode || n < 0 ? 0 : (size_t)n, sec == 2, sec == 1 ? why_bogus ? why_bogus : "" : NULL);
}

int library_ask(const char *name, unsigned type, library_answer_fn answer, void *arg)
{
	struct asked *a = malloc(sizeof *a);
	if (!a)
		return -1;
	*a = (struct asked){ answer, arg };
	int rc = ub.resolve(ub.ctx, name, (int)type, 1, a, on_answer, NULL);
	if (!rc)
		return 0;
	free(a);
	log_warn(NULL, "event=recursor-unasked name=%s reason=%s", log_qz(name), log_qz(ub.strerror(rc)));
	return -1;
}

void library_end(void)
{
	if (ub.ctx)
		ub.delete(ub.ctx);
	ub.ctx = NULL;
}

#endif
