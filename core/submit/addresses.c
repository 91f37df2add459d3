/* Address lists of header fields and command lines (RFC 5322 §3.4, with the obsolete forms that programs still write): a scanner
 * with a few flags instead of a grammar, since only the addresses are wanted. Pure. */
#include "submit.h"

#include "proto/smtp/address.h"

#include <stdlib.h>

enum { ADDRESSES_OCTETS = 4 << 20, BAD_OCTETS = 64 * 1024, BAD_SHOWN = 20, ELEMENT_MAX = 1024 };

void submit_addresses_init(struct submit_addresses *a)
{
	*a = (struct submit_addresses){ .text = BUF_INIT(ADDRESSES_OCTETS), .bad = BUF_INIT(BAD_OCTETS) };
}

void submit_addresses_done(struct submit_addresses *a)
{
	buf_free(&a->text);
	buf_free(&a->bad);
	free(a->slots);
	a->slots = NULL;
}

static uint64_t hash(struct str s)
{
	uint64_t h = UINT64_C(14695981039346656037);
	for (size_t i = 0; i < s.n; i++)
		h = (h ^ (unsigned char)s.p[i]) * UINT64_C(1099511628211);
	return h;
}

static int grow(struct submit_addresses *a)
{
	size_t n = a->n_slots ? a->n_slots * 4 : 64;
	uint32_t *slots = calloc(n, sizeof *slots);
	if (!slots)
		return -1;
	for (size_t i = 0; i < a->n_slots; i++) {
		if (!a->slots[i])
			continue;
		size_t at = hash(str_from(a->text.p + a->slots[i] - 1)) % n;
		while (slots[at])
			at = (at + 1) % n;
		slots[at] = a->slots[i];
	}
	free(a->slots);
	a->slots = slots;
	a->n_slots = n;
	return 0;
}

/* Adds it unless it is there. */
static int add(struct submit_addresses *a, struct str address)
{
	if (a->n * 2 >= a->n_slots && grow(a))
		return -1;
	size_t at = hash(address) % a->n_slots;
	for (; a->slots[at]; at = (at + 1) % a->n_slots)
		if (str_eq(str_from(a->text.p + a->slots[at] - 1), address))
			return 0;
	if (a->n == SUBMIT_RCPTS_MAX)
		return -1;
	a->slots[at] = (uint32_t)a->text.n + 1;
	a->n++;
	a->utf8 = a->utf8 || !str_is_ascii(address);
	return buf_adds(&a->text, address) || buf_addc(&a->text, 0) ? -1 : 0;
}

/* The canonical form: quotes only where needed, domain in lower case. spec: without blanks and comments. 0, or -1: none. */
static int canonical(struct buf *out, struct str spec, const char *host)
{
	struct buf full = BUF_INIT(2 * ELEMENT_MAX);
	struct smtp_address parsed;
	bool quoted = false, domain = false;
	for (size_t i = 0; i < spec.n; i++) {
		if (spec.p[i] == '\\' && quoted)
			i++;
		else if (spec.p[i] == '"')
			quoted = !quoted;
		else if (spec.p[i] == '@' && !quoted)
			domain = true;
	}
	buf_adds(&full, spec);
	if (!domain) {
		buf_addc(&full, '@');
		buf_addz(&full, host);
	}
	int r = full.failed || smtp_address_parse(buf_str(&full), true, &parsed) ? -1 : 0;
	size_t before = out->n;
	r = r || smtp_address_canonical(&parsed, out) ? -1 : 0;
	/* the domain, where case means nothing (RFC 5321 §2.4) */
	for (size_t i = out->n; !r && !parsed.literal && i > before && out->p[i - 1] != '@'; i--)
		out->p[i - 1] = ascii_lower(out->p[i - 1]);
	buf_free(&full);
	return r;
}

/* One element of a list while it is read. */
struct element {
	struct buf plain, angle; /* outside and inside <>, without blanks and comments */
	bool has_angle, words;   /* words: two of them with a blank between: a name, no address */
	bool last_atom, blank;   /* the last octet was of a word; blanks since */
	bool broken;
	size_t start;
};

static void reset(struct element *e, size_t start)
{
	buf_reset(&e->plain);
	buf_reset(&e->angle);
	e->has_angle = e->words = e->last_atom = e->blank = e->broken = false;
	e->start = start;
}

static void put(struct element *e, bool angle, char c)
{
	bool joins = c == '.' || c == '@';
	if (!joins && e->last_atom && e->blank) {
		if (angle)
			e->broken = true;
		else
			e->words = true;
	}
	e->last_atom = !joins;
	e->blank = false;
	if ((angle ? &e->angle : &e->plain)->n >= ELEMENT_MAX)
		e->broken = true;
	else
		buf_addc(angle ? &e->angle : &e->plain, c);
}

static void blank(struct element *e)
{
	e->blank = true;
}

static void complain(struct submit_addresses *a, struct str raw)
{
	raw = str_trim(raw);
	if (a->n_bad++ >= BAD_SHOWN)
		return;
	if (raw.n > 200)
		raw.n = 200;
	for (size_t i = 0; i < raw.n; i++)
		buf_addc(&a->bad, (unsigned char)raw.p[i] < 32 || raw.p[i] == 127 ? ' ' : raw.p[i]);
	buf_addc(&a->bad, '\n');
}

/* <@a,@b:c@d>: the route means nothing any more (RFC 5321 §C). */
static struct str without_route(struct str s)
{
	ptrdiff_t colon = s.n && s.p[0] == '@' ? str_chr(s, ':') : -1;
	return colon >= 0 ? str_skip(s, (size_t)colon + 1) : s;
}

static int finish(struct submit_addresses *a, struct element *e, struct str list, size_t end, const char *host)
{
	struct str spec = e->has_angle ? without_route(buf_str(&e->angle)) : buf_str(&e->plain);
	struct buf out = BUF_INIT(2 * ELEMENT_MAX);
	int r = 0;
	if (!spec.n && !e->broken && !e->has_angle)
		return 0; /* ", ," and the rest of a group */
	if (e->broken || !spec.n || (!e->has_angle && e->words) || canonical(&out, spec, host))
		complain(a, str_n(list.p + e->start, end - e->start));
	else
		r = add(a, buf_str(&out));
	buf_free(&out);
	return r;
}

/* Steps over a comment at p[i]; nesting is counted. */
static size_t skip_comment(struct str s, size_t i, bool *broken)
{
	size_t depth = 0;
	for (; i < s.n; i++) {
		if (s.p[i] == '\\')
			i++;
		else if (s.p[i] == '(')
			depth++;
		else if (s.p[i] == ')' && --depth == 0)
			return i;
	}
	*broken = true;
	return s.n;
}

int submit_addresses_add(struct submit_addresses *a, struct str list, const char *host)
{
	struct element e = { .plain = BUF_INIT(ELEMENT_MAX + 8), .angle = BUF_INIT(ELEMENT_MAX + 8) };
	bool angle = false;
	int r = 0;
	size_t i;
	for (i = 0; i < list.n && !r; i++) {
		char c = list.p[i];
		if (c == '(') {
			i = skip_comment(list, i, &e.broken);
			blank(&e);
		} else if (c == '"') {
			put(&e, angle, c);
			for (i++; i < list.n && list.p[i] != '"'; i++) {
				if (list.p[i] == '\r' || list.p[i] == '\n')
					continue;
				if (list.p[i] == '\\' && i + 1 < list.n)
					put(&e, angle, list.p[i++]);
				put(&e, angle, list.p[i]);
			}
			e.broken = e.broken || i >= list.n;
			put(&e, angle, '"');
		} else if (c == '[') {
			for (; i < list.n && list.p[i] != ']'; i++)
				put(&e, angle, list.p[i]);
			e.broken = e.broken || i >= list.n;
			put(&e, angle, ']');
		} else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
			blank(&e);
		} else if (c == '<') {
			e.broken = e.broken || angle || e.has_angle;
			angle = e.has_angle = true;
			e.last_atom = e.blank = false;
		} else if (c == '>') {
			e.broken = e.broken || !angle;
			angle = false;
			e.last_atom = e.blank = false;
		} else if (c == ':' && !angle) {
			if (str_chr(buf_str(&e.plain), '@') < 0)
				reset(&e, i + 1); /* the name of a group */
			else
				e.broken = true;
		} else if ((c == ',' || c == ';') && !angle) {
			r = finish(a, &e, list, i, host);
			reset(&e, i + 1);
		} else if (!angle && e.has_angle) {
			e.broken = true; /* words behind <> */
		} else {
			put(&e, angle, c);
		}
	}
	e.broken = e.broken || angle;
	if (!r)
		r = finish(a, &e, list, i < list.n ? i : list.n, host);
	buf_free(&e.plain);
	buf_free(&e.angle);
	return r || a->text.failed ? -1 : 0;
}

int submit_address_one(struct buf *out, struct str text, const char *host)
{
	struct submit_addresses a;
	text = str_trim(text);
	if (!text.n || str_eq(text, STR("<>")))
		return 0;
	submit_addresses_init(&a);
	int r = submit_addresses_add(&a, text, host) || a.n != 1 || a.n_bad ? -1 : buf_addz(out, a.text.p);
	submit_addresses_done(&a);
	return r;
}
