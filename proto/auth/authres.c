/* Reading Authentication-Results fields (RFC 8601 §2.2). */
#include "proto/auth/authres.h"

#include "proto/auth/authres_scan.h"

#include <stdlib.h>

struct reader {
	struct authres *a;
	struct str rest;
	struct buf scratch;
	size_t cap;
	bool memory; /* ran out */
};

static struct str keep(struct reader *r, struct str s)
{
	struct str copy = arena_str(r->a->mem, s);
	r->memory |= !copy.p;
	return copy;
}

static bool cfws(struct reader *r)
{
	bool ok = authres_skip_cfws(&r->rest);
	r->a->bad |= !ok;
	return ok;
}

static bool at(const struct reader *r, char c)
{
	return r->rest.n && r->rest.p[0] == c;
}

static bool take(struct reader *r, char c)
{
	bool ok = cfws(r) && at(r, c);
	if (ok)
		r->rest = str_skip(r->rest, 1);
	return ok;
}

static bool keyword(struct reader *r, struct str *ret)
{
	size_t n = cfws(r) ? authres_keyword(r->rest) : 0;
	*ret = str_n(r->rest.p, n);
	r->rest = str_skip(r->rest, n);
	return n > 0;
}

static bool number(struct reader *r, unsigned *ret)
{
	size_t n = 0;
	uint64_t v;
	while (n < r->rest.n && r->rest.p[n] >= '0' && r->rest.p[n] <= '9')
		n++;
	if (!n || str_u64(str_n(r->rest.p, n), 999, &v))
		return false;
	*ret = (unsigned)v;
	r->rest = str_skip(r->rest, n);
	return true;
}

/* An octet of an unquoted value: more than tokens have, for addresses, IPv6 and base64 come without quotes. */
static bool loose(char c)
{
	unsigned char u = (unsigned char)c;
	return u > 32 && u != 127 && !memchr(";()\"", u, 4);
}

/* value, or an address with a quoted local part. What it says goes to *ret. */
static bool value(struct reader *r, struct str *ret)
{
	buf_reset(&r->scratch);
	if (!cfws(r))
		return false;
	struct str start = r->rest;
	if (at(r, '"')) {
		if (!authres_take_quoted(&r->rest, &r->scratch))
			return false;
		if (at(r, '@')) { /* the quotes are the local part's */
			buf_reset(&r->scratch);
			buf_add(&r->scratch, start.p, start.n - r->rest.n);
		}
		else {
			*ret = keep(r, buf_str(&r->scratch));
			return true;
		}
	} else if (at(r, '='))
		return false;
	size_t n = 0;
	while (n < r->rest.n && loose(r->rest.p[n]))
		n++;
	buf_add(&r->scratch, r->rest.p, n);
	r->rest = str_skip(r->rest, n);
	*ret = keep(r, buf_str(&r->scratch));
	return r->scratch.n > 0;
}

/* reasonspec or propspec. False: neither. */
static bool read_prop(struct reader *r, struct authres_result *to)
{
	struct authres_prop p;
	if (!keyword(r, &p.ptype))
		return false;
	if (str_ieq(p.ptype, STR("reason")) && take(r, '='))
		return value(r, &to->reason);
	if (!take(r, '.') || !keyword(r, &p.name) || !take(r, '=') || !value(r, &p.value))
		return false;
	p.ptype = keep(r, p.ptype);
	p.name = keep(r, p.name);
	if (to->n_props == AUTHRES_PROPS_MAX)
		return false;
	to->prop[to->n_props++] = p;
	return true;
}

static bool read_result(struct reader *r, struct authres_result *to)
{
	*to = (struct authres_result){ .version = 1 };
	if (!keyword(r, &to->method))
		return false;
	if (take(r, '/') && (!cfws(r) || !number(r, &to->version)))
		return false;
	if (!take(r, '=') || !keyword(r, &to->result))
		return false;
	to->method = keep(r, to->method);
	to->result = keep(r, to->result);
	return true;
}

static struct authres_result *room(struct reader *r)
{
	if (r->a->n < r->cap)
		return &r->a->result[r->a->n];
	size_t cap = r->cap ? r->cap * 2 : 4;
	struct authres_result *p = reallocarray(r->a->result, cap, sizeof *p);
	if (!p) {
		r->memory = true;
		return NULL;
	}
	r->a->result = p;
	r->cap = cap;
	return &p[r->a->n];
}

/* To the next semicolon that is in no comment and no quotes. */
static void skip_result(struct reader *r)
{
	r->a->bad = true;
	while (r->rest.n && !at(r, ';')) {
		if (at(r, '(')) {
			cfws(r);
		} else if (at(r, '"')) {
			buf_reset(&r->scratch);
			authres_take_quoted(&r->rest, &r->scratch);
		} else
			r->rest = str_skip(r->rest, 1);
	}
}

static void read_id(struct reader *r)
{
	buf_reset(&r->scratch);
	if (!cfws(r))
		return;
	if (at(r, '"'))
		r->a->bad |= !authres_take_quoted(&r->rest, &r->scratch);
	else {
		size_t n = 0;
		while (n < r->rest.n && authres_is_token(r->rest.p[n]))
			n++;
		buf_add(&r->scratch, r->rest.p, n);
		r->rest = str_skip(r->rest, n);
	}
	r->a->id = keep(r, buf_str(&r->scratch));
	size_t before = r->rest.n;
	cfws(r);
	if (r->rest.n < before && number(r, &r->a->version))
		cfws(r);
	r->a->bad |= !r->a->id.n || (r->rest.n && !at(r, ';'));
}

static void read_results(struct reader *r)
{
	bool any = false;
	while (r->rest.n && !r->memory) {
		if (!take(r, ';')) {
			skip_result(r);
			continue;
		}
		any = true;
		struct authres_result *to = room(r);
		if (!to)
			return;
		if (r->a->n == AUTHRES_RESULTS_MAX) {
			r->a->bad = true;
			return;
		}
		struct str before = r->rest;
		if (!read_result(r, to)) {
			struct str word;
			r->rest = before;
			if (keyword(r, &word) && str_ieq(word, STR("none")) && cfws(r) && !r->rest.n && !r->a->n)
				r->a->none = true;
			else
				skip_result(r);
			continue;
		}
		while (cfws(r) && r->rest.n && !at(r, ';'))
			if (!read_prop(r, to))
				skip_result(r);
		r->a->n++;
	}
	r->a->bad |= !any;
}

int authres_parse(struct authres *ret, struct str text)
{
	struct reader r = { .a = ret, .rest = str_trim(text), .scratch = BUF_INIT(text.n + 1) };
	*ret = (struct authres){ .version = 1 };
	ret->mem = arena_new(text.n * 32 + 4096);
	if (!ret->mem)
		return -1;
	read_id(&r);
	read_results(&r);
	bool failed = r.memory || r.scratch.failed;
	buf_free(&r.scratch);
	if (failed)
		authres_free(ret);
	return failed ? -1 : 0;
}

void authres_free(struct authres *a)
{
	arena_free(a->mem);
	free(a->result);
	*a = (struct authres){ 0 };
}
