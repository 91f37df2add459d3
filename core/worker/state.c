/* The state object over json-c. json-c is laxer than PostgreSQL and than RFC 8259, so what it lets through is looked
 * at again before anything is stored. May not log or do I/O. */
#include "state.h"

#include "proto/dsn/notify.h"

#include "base/buf.h"

#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>

enum { DEPTH = 32 };

/* What json-c lets through and PostgreSQL's jsonb refuses: NUL in strings, octets that only look like UTF-8 (F5 to F7), numbers
 * that are none. Depth is bounded by the parser's. */
static const char *unstorable(json_object *o)
{
	const char *why = NULL;
	switch (json_object_get_type(o)) {
	case json_type_string:
		if (memchr(json_object_get_string(o), 0, (size_t)json_object_get_string_len(o)))
			why = "a string holds NUL";
		else if (!str_is_utf8(str_n(json_object_get_string(o), (size_t)json_object_get_string_len(o))))
			why = "a string is no valid UTF-8";
		break;
	case json_type_double:
		if (!isfinite(json_object_get_double(o)))
			why = "a number is not finite";
		break;
	case json_type_array:
		for (size_t i = 0; i < json_object_array_length(o) && !why; i++)
			why = unstorable(json_object_array_get_idx(o, i));
		break;
	case json_type_object: {
		json_object_object_foreach(o, key, val)
		{
			if (!why && !str_is_utf8(str_from(key)))
				why = "a key is no valid UTF-8";
			if (!why)
				why = unstorable(val);
		}
		break;
	}
	default:
		break;
	}
	return why;
}

json_object *state_parse(struct str text, const char **why)
{
	json_tokener *tok;
	*why = "out of memory";
	if (text.n > STATE_MAX) {
		*why = "the text is too long";
		return NULL;
	}
	tok = json_tokener_new_ex(DEPTH);
	if (!tok)
		return NULL;
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	json_object *o = json_tokener_parse_ex(tok, text.p ? text.p : "", (int)text.n);
	if (json_tokener_get_error(tok) != json_tokener_success) {
		*why = json_tokener_get_error(tok) == json_tokener_continue
		    ? "the text ends early"
		    : json_tokener_error_desc(json_tokener_get_error(tok)); /* static text of the library */
		json_object_put(o);
		o = NULL;
	} else if (!json_object_is_type(o, json_type_object)) {
		*why = "not an object";
		json_object_put(o);
		o = NULL;
	} else if ((*why = unstorable(o))) {
		json_object_put(o);
		o = NULL;
	}
	json_tokener_free(tok);
	return o;
}

struct str state_text(struct arena *a, json_object *o)
{
	size_t n = 0;
	const char *p = json_object_to_json_string_length(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &n);
	return p ? arena_str(a, str_n(p, n)) : STR_NULL;
}

int state_merge(json_object *into, json_object *more, bool keep_null)
{
	json_object_object_foreach(more, key, val)
	{
		if (!val && !keep_null)
			json_object_object_del(into, key);
		else if (json_object_object_add(into, key, json_object_get(val)))
			return -1;
	}
	return 0;
}

json_object *state_at(json_object *o, const char *path)
{
	struct str rest = str_from(path), word;
	while (o && str_word(&rest, ".", &word)) {
		char key[128];
		uint64_t i;
		if (word.n >= sizeof key)
			return NULL;
		memcpy(key, word.p, word.n);
		key[word.n] = 0;
		if (json_object_is_type(o, json_type_array)) {
			if (str_u64(word, UINT32_MAX, &i))
				return NULL;
			o = json_object_array_get_idx(o, (size_t)i);
		} else if (!json_object_is_type(o, json_type_object) || !json_object_object_get_ex(o, key, &o)) {
			return NULL;
		}
	}
	return o;
}

/* A shallow copy of dsn with an empty rcpt list, or NULL. *ret_old is the list of the original. */
static json_object *dsn_copy(json_object *state, json_object **ret_old)
{
	json_object *dsn = state_at(state, "dsn"), *list = state_at(state, "dsn.rcpt");
	if (!json_object_is_type(dsn, json_type_object) || !json_object_is_type(list, json_type_array))
		return NULL;
	json_object *copy = json_object_new_object(), *now = json_object_new_array();
	if (!copy || !now || state_merge(copy, dsn, false) || json_object_object_add(copy, "rcpt", now)) {
		json_object_put(now);
		json_object_put(copy);
		return NULL;
	}
	*ret_old = list;
	return copy;
}

static int append(json_object *dsn, json_object *entry)
{
	json_object *list = state_at(dsn, "rcpt");
	json_object *add = json_object_is_type(entry, json_type_object) ? json_object_get(entry) : json_object_new_object();
	if (!add || json_object_array_add(list, add)) {
		json_object_put(add);
		return -1;
	}
	return 0;
}

static int fold_cmp(struct str a, struct str b)
{
	int r = strncasecmp(a.p ? a.p : "", b.p ? b.p : "", a.n < b.n ? a.n : b.n);
	return r ? r : a.n < b.n ? -1 : a.n > b.n;
}

struct known {
	struct str addr;
	size_t i;
};

static int known_cmp(const void *a, const void *b)
{
	return fold_cmp(((const struct known *)a)->addr, ((const struct known *)b)->addr);
}

/* Sorted and searched, because both lists may be long and come from outside. */
json_object *state_dsn_match(json_object *state, const struct str *was, size_t n_was, const struct str *now, size_t n_now)
{
	json_object *old, *dsn = dsn_copy(state, &old);
	struct known *k = dsn ? calloc(n_was ? n_was : 1, sizeof *k) : NULL;
	bool bad = !k;
	for (size_t i = 0; i < n_was && k; i++)
		k[i] = (struct known){ was[i], i };
	if (k)
		qsort(k, n_was, sizeof *k, known_cmp);
	for (size_t i = 0; i < n_now && !bad; i++) {
		struct known want = { now[i], 0 }, *hit = bsearch(&want, k, n_was, sizeof *k, known_cmp);
		bad = append(dsn, hit ? json_object_array_get_idx(old, hit->i) : NULL);
	}
	free(k);
	if (bad) {
		json_object_put(dsn);
		return NULL;
	}
	return dsn;
}

unsigned state_notify(json_object *state, size_t i)
{
	json_object *list = state_at(state, "dsn.rcpt");
	unsigned notify = 0;
	if (!json_object_is_type(list, json_type_array))
		return 0;
	json_object *n = state_at(json_object_array_get_idx(list, i), "notify");
	if (json_object_is_type(n, json_type_string))
		return dsn_notify(str_n(json_object_get_string(n), (size_t)json_object_get_string_len(n)));
	if (json_object_is_type(n, json_type_array))
		for (size_t k = 0; k < json_object_array_length(n); k++) {
			json_object *word = json_object_array_get_idx(n, k);
			if (json_object_is_type(word, json_type_string))
				notify |= dsn_notify(str_n(json_object_get_string(word), (size_t)json_object_get_string_len(word)));
		}
	return notify;
}

char *state_escape(struct arena *a, struct str s, size_t max)
{
	struct buf b = BUF_INIT(6 * max + 8);
	bool ascii_only = s.n > max || !str_is_utf8(s); /* a cut could fall into a character */
	for (size_t i = 0; i < s.n && i < max; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if (c == '"' || c == '\\')
			buf_addf(&b, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			buf_addf(&b, "\\u%04x", c);
		else if (c > 0x7f && ascii_only)
			buf_addc(&b, '?');
		else
			buf_addc(&b, (char)c);
	}
	char *z = b.failed ? NULL : arena_strz(a, buf_str(&b));
	buf_free(&b);
	return z;
}
