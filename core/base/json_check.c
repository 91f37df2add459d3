/* Is a text a JSON object that can be stored? For what comes from code that is not ours (verdicts of stages before acceptance): held
 * against RFC 8259 and what both PostgreSQL's jsonb and the workers' reader take. One pass, no tree, no recursion, no memory; keeps
 * nothing of the text. */
#include "json.h"

enum {
	NUMBER_MAX = 400,    /* octets; jsonb takes more, but nobody computes with it */
	EXPONENT_MAX = 307,  /* 10^n: above 1.8e308 the workers' numbers end */
};

struct reader {
	struct str s;
	size_t at;
	const char *why;
};

static bool fail(struct reader *r, const char *why)
{
	r->why = why;
	return false;
}

static int peek(const struct reader *r)
{
	return r->at < r->s.n ? (unsigned char)r->s.p[r->at] : -1;
}

static void blanks(struct reader *r)
{
	while (peek(r) == ' ' || peek(r) == '\t' || peek(r) == '\n' || peek(r) == '\r')
		r->at++;
}

static int hex4(struct reader *r)
{
	int v = 0;
	for (unsigned i = 0; i < 4; i++, r->at++) {
		int c = peek(r), d = c < 0 ? -1 : ascii_hex((char)c);
		if (d < 0)
			return -1;
		v = v << 4 | d;
	}
	return v;
}

/* Behind "\u". */
static bool unicode(struct reader *r)
{
	int v = hex4(r);
	if (v < 0)
		return fail(r, "an escape is none");
	if (!v)
		return fail(r, "a string holds NUL");
	if (v >= 0xdc00 && v <= 0xdfff)
		return fail(r, "half a surrogate pair");
	if (v < 0xd800 || v > 0xdbff)
		return true;
	if (r->s.n - r->at < 2 || r->s.p[r->at] != '\\' || r->s.p[r->at + 1] != 'u')
		return fail(r, "half a surrogate pair");
	r->at += 2;
	v = hex4(r);
	return (v >= 0xdc00 && v <= 0xdfff) || fail(r, "half a surrogate pair");
}

/* At its first quotation mark. UTF-8 was looked at for the whole text. */
static bool string(struct reader *r)
{
	for (r->at++; peek(r) != '"'; ) {
		int c = peek(r);
		r->at++;
		if (c < 0)
			return fail(r, "the text ends early");
		if (c < 0x20)
			return fail(r, "a string holds a control character");
		if (c != '\\')
			continue;
		c = peek(r);
		r->at++;
		if (c == 'u') {
			if (!unicode(r))
				return false;
		} else if (c < 0 || !memchr("\"\\/bfnrt", c, 8)) {
			return fail(r, "an escape is none");
		}
	}
	r->at++;
	return true;
}

static unsigned digits(struct reader *r)
{
	unsigned n = 0;
	for (; peek(r) >= '0' && peek(r) <= '9' && n <= NUMBER_MAX; n++)
		r->at++;
	return n;
}

static bool number(struct reader *r)
{
	unsigned whole, exponent = 0;
	if (peek(r) == '-')
		r->at++;
	size_t begin = r->at;
	whole = digits(r);
	if (!whole || (whole > 1 && r->s.p[begin] == '0'))
		return fail(r, "a number is none");
	if (peek(r) == '.') {
		r->at++;
		if (!digits(r))
			return fail(r, "a number is none");
	}
	if ((peek(r) | 32) == 'e') {
		r->at++;
		if (peek(r) == '+' || peek(r) == '-')
			r->at++;
		size_t from = r->at;
		if (!digits(r))
			return fail(r, "a number is none");
		for (size_t i = from; i < r->at && exponent <= EXPONENT_MAX; i++)
			exponent = exponent * 10 + (unsigned)(r->s.p[i] - '0');
	}
	/* an upper bound of its magnitude: 0e300 with 300 digits in front is refused, too */
	return (whole + exponent <= EXPONENT_MAX && r->at - begin <= NUMBER_MAX) || fail(r, "a number is too large");
}

static bool word(struct reader *r, struct str w)
{
	if (!str_starts(str_skip(r->s, r->at), w))
		return fail(r, "a value is none");
	r->at += w.n;
	return true;
}

static bool scalar(struct reader *r)
{
	switch (peek(r)) {
	case '"':
		return string(r);
	case 't':
		return word(r, STR("true"));
	case 'f':
		return word(r, STR("false"));
	case 'n':
		return word(r, STR("null"));
	default:
		return number(r);
	}
}

/* "key" and its colon. */
static bool key(struct reader *r)
{
	blanks(r);
	if (peek(r) != '"')
		return fail(r, "a key is none");
	if (!string(r))
		return false;
	blanks(r);
	if (peek(r) != ':')
		return fail(r, "a key without a value");
	r->at++;
	return true;
}

static bool object(struct reader *r)
{
	uint32_t arrays = 0; /* a bit for each level: an array? */
	unsigned depth = 0;
	for (;;) {
		/* a value, or the beginning of one */
		blanks(r);
		int c = peek(r);
		if (c == '{' || c == '[') {
			if (depth == JSON_DEPTH_MAX)
				return fail(r, "nested too deeply");
			arrays = arrays << 1 | (c == '[');
			depth++;
			r->at++;
			blanks(r);
			if (peek(r) != (c == '[' ? ']' : '}')) {
				if (c == '{' && !key(r))
					return false;
				continue;
			}
		} else if (!scalar(r)) {
			return false;
		}
		/* what ends here, and what goes on */
		for (;;) {
			blanks(r);
			c = peek(r);
			if (c != (arrays & 1 ? ']' : '}'))
				break;
			r->at++;
			arrays >>= 1;
			if (!--depth)
				return true;
		}
		if (c != ',')
			return fail(r, c < 0 ? "the text ends early" : "neither a comma nor an end");
		r->at++;
		if (!(arrays & 1) && !key(r))
			return false;
	}
}

const char *json_object_fault(struct str text)
{
	struct reader r = { .s = text };
	if (!str_is_utf8(text))
		return "no UTF-8";
	if (str_chr(text, 0) >= 0)
		return "it holds NUL";
	blanks(&r);
	if (peek(&r) != '{')
		return "not an object";
	if (!object(&r))
		return r.why;
	blanks(&r);
	return r.at == text.n ? NULL : "something follows the object";
}
