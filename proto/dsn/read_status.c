/* The formal part of a report: blocks of fields (RFC 3464 §2, RFC 6533 §3). Blocks are read by their fields, not by their order: some put
 * blank lines where none belong. Knows nothing of free text. */
#include "read_internal.h"

/* "rfc822; a@b" without its type, brackets and comments. */
static struct str typed(struct str v)
{
	ptrdiff_t semi = str_chr(v, ';');
	if (semi >= 0)
		v = str_skip(v, (size_t)semi + 1);
	v = str_trim(v);
	if (v.n && v.p[0] == '<')
		v = str_skip(v, 1);
	for (size_t i = 0; i < v.n; i++)
		if (v.p[i] == '>' || v.p[i] == ' ' || v.p[i] == '\t' || v.p[i] == '\r' || v.p[i] == '\n') {
			v.n = i;
			break;
		}
	return v;
}

struct block {
	struct str final, original, actual, status, action, diagnostic;
};

static struct str copy(struct dsn_gather *g, struct str s)
{
	struct str r = arena_str(g->r->mem, s);
	if (!r.p)
		g->memory = true;
	return r;
}

static struct str diagnostic(struct dsn_gather *g, struct str v)
{
	ptrdiff_t semi = str_chr(v, ';');
	/* the type is one word */
	if (semi > 0 && str_chr(str_trim(str_n(v.p, (size_t)semi)), ' ') < 0)
		v = str_skip(v, (size_t)semi + 1);
	return dsn_read_line(g, v);
}

static void finish(struct dsn_gather *g, struct block *b)
{
	struct str address = typed(b->final), original = typed(b->original), actual = typed(b->actual);
	struct block none = { 0 };
	bool any = b->final.p || b->original.p || b->actual.p;
	if (!any && !b->status.p && !b->action.p)
		return;
	/* where the last hop calls the recipient by a name of its own, what was written to says more */
	if (str_chr(address, '@') < 0 && str_chr(actual, '@') > 0)
		address = actual;
	if (str_chr(address, '@') < 0 && str_chr(original, '@') > 0)
		address = original;
	struct dsn_read_rcpt *r = any ? dsn_read_add(g, address) : NULL;
	if (r) {
		if (original.n && str_is_utf8(original))
			r->original = copy(g, original);
		r->status = copy(g, dsn_read_find_status(b->status));
		r->diagnostic = diagnostic(g, b->diagnostic);
		r->code = dsn_read_find_code(r->diagnostic);
		struct str a = str_trim(b->action);
		r->action = str_istarts(a, STR("delayed")) ? DSN_READ_DELAYED : str_istarts(a, STR("delivered")) ? DSN_READ_DELIVERED :
		    str_istarts(a, STR("relayed")) ? DSN_READ_RELAYED : str_istarts(a, STR("expanded")) ? DSN_READ_EXPANDED :
		    str_starts(r->status, STR("2.")) ? DSN_READ_DELIVERED : DSN_READ_FAILED; /* "deliverable", as an answer to a question; or nothing said */
	}
	*b = none;
}

void dsn_read_status(struct dsn_gather *g, struct str text)
{
	static const struct {
		struct str name;
		size_t at;
	} fields[] = {
		{ STR_INIT("Final-Recipient"), offsetof(struct block, final) }, { STR_INIT("Original-Recipient"), offsetof(struct block, original) },
		{ STR_INIT("X-Actual-Recipient"), offsetof(struct block, actual) }, { STR_INIT("Status"), offsetof(struct block, status) },
		{ STR_INIT("Action"), offsetof(struct block, action) }, { STR_INIT("Diagnostic-Code"), offsetof(struct block, diagnostic) },
	};
	struct block b = { 0 };
	struct str *open = NULL;
	if (text.n > DSN_READ_TEXT_MAX * 4u)
		text.n = DSN_READ_TEXT_MAX * 4u;
	while (text.n) {
		const char *nl = memchr(text.p, '\n', text.n);
		struct str line = str_n(text.p, nl ? (size_t)(nl - text.p) + 1 : text.n);
		text = str_skip(text, line.n);
		if (line.p[0] == ' ' || line.p[0] == '\t') {
			if (open)
				open->n = (size_t)(line.p + line.n - open->p);
			continue;
		}
		open = NULL;
		ptrdiff_t colon = str_chr(line, ':');
		if (colon < 0)
			continue;
		struct str name = str_trim(str_n(line.p, (size_t)colon));
		for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
			if (!str_ieq(name, fields[i].name))
				continue;
			struct str *slot = (struct str *)(void *)((char *)&b + fields[i].at);
			/* a field that is there already begins the next recipient */
			if (slot->p)
				finish(g, &b);
			*slot = str_skip(line, (size_t)colon + 1);
			open = slot;
		}
	}
	finish(g, &b);
}
