/* pepsi-stage-header-filter: looks at header fields and tags, marks, redirects or refuses the message. An example of a stage
 * module that lives outside the tree of pepsi: it needs <pepsi/stage.h> and libc, nothing else. Copy it and begin.
 *
 *     [stage-filter]
 *     PROGRAM = pepsi-stage-header-filter
 *     RULE_1 = Subject: *invoice* => tag [invoice?]
 *     RULE_2 = Content-Type: *name=*.exe* => reject no programs by mail, please
 *     RULE_3 = X-Spam-Flag: yes => stage quarantine
 *     RULE_4 = Precedence: bulk => add X-Bulk: yes
 *     NEXT_STAGE = deliver
 *     BOUNCE_STAGE = bounce
 *
 * A rule is FIELD: PATTERN => ACTION ARGUMENT. In a pattern * stands for anything and ? for one octet; ASCII letters match in
 * both cases. Rules are tried in the order of the file: tag and add go on, stage and reject end it. */
#include <pepsi/stage.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { RULES_MAX = 100, VALUE_MAX = 8192, TAG_MAX = 100, LINE_MAX_OCTETS = 998 };

enum action { ACT_TAG, ACT_ADD, ACT_STAGE, ACT_REJECT };

struct rule {
	char *field, *pattern, *argument;
	enum action action;
};

/* One per worker process. No globals: two stages may run in one process. */
struct worker {
	const struct pepsi_conf *conf;
	struct rule rules[RULES_MAX];
	size_t n;
};

static const struct pepsi_option options[] = {
	{ .name = "RULE_*", .type = PEPSI_OPT_MULTI, .flags = PEPSI_OPTF_REQUIRED,
	    .help = "FIELD: PATTERN => tag TEXT, add FIELD: VALUE, stage STAGE or reject TEXT" },
};

/* --- rules */

static char *trimmed(const char *p, size_t n)
{
	while (n && (*p == ' ' || *p == '\t')) {
		p++;
		n--;
	}
	while (n && (p[n - 1] == ' ' || p[n - 1] == '\t'))
		n--;
	return strndup(p, n);
}

static int is_field_name(const char *z)
{
	size_t n = strlen(z);
	for (size_t i = 0; i < n; i++)
		if (z[i] <= ' ' || z[i] > '~' || z[i] == ':')
			return 0;
	return n > 0 && n < 77;
}

static int is_line(const char *z, size_t max)
{
	for (const char *p = z; *p; p++)
		if (*p < ' ' || *p > '~')
			return 0;
	return strlen(z) <= max;
}

static void rule_done(struct rule *r)
{
	free(r->field);
	free(r->pattern);
	free(r->argument);
}

/* NULL, or what is wrong with the text. The rule is to be freed in both cases. */
static const char *rule_parse(const char *text, struct rule *r)
{
	static const char *const names[] = { "tag", "add", "stage", "reject" };
	const char *colon = strchr(text, ':'), *arrow = strstr(text, "=>");
	*r = (struct rule){ NULL, NULL, NULL, ACT_TAG };
	if (!colon || !arrow || colon > arrow)
		return "is not FIELD: PATTERN => ACTION ARGUMENT";
	const char *act = arrow + 2 + strspn(arrow + 2, " \t");
	size_t len = strcspn(act, " \t");
	r->field = trimmed(text, (size_t)(colon - text));
	r->pattern = trimmed(colon + 1, (size_t)(arrow - colon - 1));
	r->argument = trimmed(act + len, strlen(act + len));
	if (!r->field || !r->pattern || !r->argument)
		return "does not fit into memory";
	if (!is_field_name(r->field))
		return "names no header field";
	for (unsigned i = 0; i < 4; i++)
		if (strlen(names[i]) == len && !strncmp(names[i], act, len)) {
			r->action = (enum action)i;
			if (!r->argument[0])
				return "has an action without argument";
			if (!is_line(r->argument, r->action == ACT_TAG ? TAG_MAX : LINE_MAX_OCTETS - 2))
				return "has an argument that is too long or not printable ASCII";
			if (r->action != ACT_ADD)
				return NULL;
			colon = strchr(r->argument, ':');
			char *name = colon ? trimmed(r->argument, (size_t)(colon - r->argument)) : NULL;
			int good = name && is_field_name(name);
			free(name);
			return good ? NULL : "adds something that is not FIELD: VALUE";
		}
	return "has an action that is none of tag, add, stage, reject";
}

/* Iterative: a pattern with many stars costs at most pattern × text steps, never more. */
static int matches(const char *pat, const char *s)
{
	const char *star = NULL, *from = s;
	while (*s) {
		if (*pat == '*') {
			star = ++pat;
			from = s;
		} else if (*pat == '?' || (*pat && !strncasecmp(pat, s, 1))) {
			pat++;
			s++;
		} else if (star) {
			pat = star;
			s = ++from;
		} else {
			return 0;
		}
	}
	while (*pat == '*')
		pat++;
	return !*pat;
}

/* --- headers. A block is whole lines with CRLF; a line that begins with a blank belongs to the field before it. */

struct field {
	size_t begin, end;   /* the whole field with its line ends */
	size_t value;        /* where its value begins */
};

/* The next field of that name at or behind `at`; 0 when there is none. */
static int find(struct pepsi_str h, const char *name, size_t at, struct field *ret)
{
	size_t len = strlen(name);
	while (at < h.n) {
		size_t end = at;
		do { /* one line, and its continuations */
			const char *lf = memchr(h.p + end, '\n', h.n - end);
			end = lf ? (size_t)(lf - h.p) + 1 : h.n;
		} while (end < h.n && (h.p[end] == ' ' || h.p[end] == '\t'));
		if (end - at > len && !strncasecmp(h.p + at, name, len) && h.p[at + len] == ':') {
			*ret = (struct field){ at, end, at + len + 1 };
			return 1;
		}
		at = end;
	}
	return 0;
}

/* The value in one line, cut at VALUE_MAX. NUL cannot be matched and becomes a blank. */
static void unfold(struct pepsi_str h, const struct field *f, char *out)
{
	size_t n = 0;
	for (size_t i = f->value; i < f->end && n < VALUE_MAX - 1; i++)
		if (h.p[i] != '\r' && h.p[i] != '\n' && (n || (h.p[i] != ' ' && h.p[i] != '\t')))
			out[n++] = h.p[i] ? h.p[i] : ' ';
	out[n] = 0;
}

/* The block with `text` put in at `at`. The host copies what it is given and checks it. */
static int32_t insert(const struct pepsi_host *host, struct pepsi_msg *msg, struct pepsi_str h, size_t at, const char *text)
{
	size_t n = strlen(text);
	char *p = malloc(h.n + n + 1);
	if (!p)
		return PEPSI_RETRY;
	memcpy(p, h.p, at);
	memcpy(p + at, text, n);
	memcpy(p + at + n, h.p + at, h.n - at);
	int32_t rc = host->set_headers(msg, (struct pepsi_str){ p, h.n + n });
	free(p);
	return rc;
}

/* --- actions */

static int32_t tag(const struct pepsi_host *host, struct pepsi_msg *msg, const char *text)
{
	struct pepsi_str h;
	struct field f;
	char value[VALUE_MAX], line[TAG_MAX + 20];
	int32_t rc = host->headers(msg, &h);
	if (rc != PEPSI_OK)
		return rc;
	if (!find(h, "Subject", 0, &f)) {
		snprintf(line, sizeof line, "Subject: %s\r\n", text);
		return insert(host, msg, h, h.n, line);
	}
	unfold(h, &f, value);
	if (strstr(value, text)) /* a reply to a message that was tagged before */
		return PEPSI_OK;
	snprintf(line, sizeof line, " %s", text);
	return insert(host, msg, h, f.value, line);
}

static int32_t add(const struct pepsi_host *host, struct pepsi_msg *msg, const char *text)
{
	struct pepsi_str h;
	char line[LINE_MAX_OCTETS + 3];
	int32_t rc = host->headers(msg, &h);
	if (rc != PEPSI_OK)
		return rc;
	snprintf(line, sizeof line, "%s\r\n", text);
	return insert(host, msg, h, h.n, line);
}

/* The bounce stage makes a report of state.bounce (pepsi.state(7)). */
static int32_t reject(const struct pepsi_host *host, struct pepsi_msg *msg, const char *text)
{
	char state[3 * LINE_MAX_OCTETS];
	const char *bounce = host->bounce_stage(msg);
	size_t n = (size_t)snprintf(state, sizeof state, "%s",
	    bounce ? "{\"bounce\":{\"kind\":\"permanent\",\"phase\":\"data\",\"enhanced_status\":\"5.7.1\",\"diagnostic\":\""
		   : "{\"last_error\":\"");
	for (; *text && n < sizeof state - 8; text++) {
		if (*text == '"' || *text == '\\')
			state[n++] = '\\';
		state[n++] = *text;
	}
	snprintf(state + n, sizeof state - n, bounce ? "\"}}" : "\"}");
	return bounce ? host->reroute(msg, bounce, state) : host->fail(msg, state);
}

/* --- hooks */

static int32_t validate(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report)
{
	const char *name, *text;
	size_t n = 0;
	for (; host->conf_multi(conf, "RULE_*", n, &name, &text) == PEPSI_OK; n++) {
		struct rule r;
		char section[160];
		const char *wrong = rule_parse(text, &r);
		if (!wrong && r.action == ACT_STAGE) {
			snprintf(section, sizeof section, "stage-%s", r.argument);
			if (!host->conf_global(conf, section, "PROGRAM"))
				wrong = "names a stage that is not configured";
		}
		if (wrong)
			host->report(report, name, wrong);
		rule_done(&r);
	}
	if (n > RULES_MAX)
		host->report(report, NULL, "there are more than 100 rules");
	return PEPSI_OK;
}

static void close_worker(void *p)
{
	struct worker *w = p;
	for (size_t i = 0; w && i < w->n; i++)
		rule_done(&w->rules[i]);
	free(w);
}

static int32_t open_worker(const struct pepsi_host *host, const struct pepsi_conf *conf, void **ret)
{
	const char *name, *text, *wrong = NULL;
	struct worker *w = calloc(1, sizeof *w);
	if (!w)
		return PEPSI_RETRY;
	w->conf = conf;
	while (!wrong && w->n < RULES_MAX && host->conf_multi(conf, "RULE_*", w->n, &name, &text) == PEPSI_OK)
		wrong = rule_parse(text, &w->rules[w->n++]);
	if (wrong) {
		host->log(NULL, PEPSI_LOG_ERROR, wrong);
		close_worker(w);
		return PEPSI_PERMANENT;
	}
	*ret = w;
	return PEPSI_OK;
}

/* Does any field of that name match? */
static int applies(const struct rule *r, struct pepsi_str h)
{
	struct field f = { 0, 0, 0 };
	char value[VALUE_MAX];
	while (find(h, r->field, f.end, &f)) {
		unfold(h, &f, value);
		if (matches(r->pattern, value))
			return 1;
	}
	return 0;
}

static int32_t process(void *p, const struct pepsi_host *host, struct pepsi_msg *msg)
{
	struct worker *w = p;
	struct pepsi_str h;
	int32_t rc = host->headers(msg, &h); /* the rules look at the message as it came, not at what they changed */
	for (size_t i = 0; i < w->n && rc == PEPSI_OK; i++) {
		const struct rule *r = &w->rules[i];
		if (!applies(r, h))
			continue;
		switch (r->action) {
		case ACT_TAG:
			rc = tag(host, msg, r->argument);
			break;
		case ACT_ADD:
			rc = add(host, msg, r->argument);
			break;
		case ACT_STAGE:
			return host->advance_to(msg, r->argument);
		case ACT_REJECT:
			return reject(host, msg, r->argument);
		}
	}
	return rc == PEPSI_OK ? host->advance(msg) : rc;
}

PEPSI_STAGE(.name = "pepsi-stage-header-filter", .version = "1.0", .license = "Apache-2.0",
    .summary = "tags, marks, redirects or refuses messages by their header fields", .load_class = PEPSI_LOAD_HEADERS,
    PEPSI_OPTIONS(options), .validate = validate, .open = open_worker, .process = process, .close = close_worker);
