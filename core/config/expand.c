/* Variables in paths: $VAR, ${VAR}, ${VAR:-default}, $$. Looked up in the environment, except STATE_DIR, which is
 * the configuration's own. A default may hold variables again, to a fixed depth. */
#include "config_internal.h"
#include "schema.h"

#include <stdlib.h>

enum { EXPAND_DEPTH_MAX = 4, EXPAND_MAX = 8192 };

/* In the value of STATE_DIR itself the name means the environment's. */
struct expand {
	const struct config *c;
	bool in_state_dir;
	struct buf *why;
};

static int expand(const struct expand *x, struct str s, struct buf *out, unsigned depth);

static void wrong(const struct expand *x, const char *fmt, struct str what)
{
	if (x->why) {
		buf_addz(x->why, fmt);
		buf_adds(x->why, str_n(what.p, what.n > 100 ? 100 : what.n));
	}
}

static bool name_octet(char c)
{
	return ascii_is_alnum(c) || c == '_';
}

static int variable(const struct expand *x, struct str name, const struct str *fallback, struct buf *out, unsigned depth)
{
	char z[128];
	const char *value = NULL;
	if (!name.n || name.n >= sizeof z) {
		wrong(x, "a variable without a name, or with too long a name: $", name);
		return -1;
	}
	memcpy(z, name.p, name.n);
	z[name.n] = 0;
	if (str_eq(name, STR("STATE_DIR")) && x->c && !x->in_state_dir) {
		struct expand own = *x;
		own.in_state_dir = true;
		/* not config_str(), which would come back here to see whether the value is good */
		const struct config_value *v = config_get(x->c, "pepsi", "STATE_DIR");
		const char *dir = v ? v->value : schema_option("pepsi", "STATE_DIR")->def;
		if (dir)
			return depth >= EXPAND_DEPTH_MAX ? -1 : expand(&own, str_from(dir), out, depth + 1);
	}
	value = getenv(z);
	/* as in the shell: ":-" also replaces an empty value */
	if (fallback && (!value || !*value)) {
		if (depth >= EXPAND_DEPTH_MAX) {
			wrong(x, "defaults go too deep in ${", name);
			return -1;
		}
		return expand(x, *fallback, out, depth + 1);
	}
	if (!value) {
		wrong(x, "no such environment variable: ", name);
		return -1;
	}
	return buf_addz(out, value);
}

/* Index of the '}' that closes the '{' before s, or -1. */
static ptrdiff_t closing(struct str s)
{
	unsigned open = 1;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '{' && i && s.p[i - 1] == '$')
			open++;
		else if (s.p[i] == '}' && --open == 0)
			return (ptrdiff_t)i;
	}
	return -1;
}

static int expand(const struct expand *x, struct str s, struct buf *out, unsigned depth)
{
	while (s.n) {
		ptrdiff_t at = str_chr(s, '$');
		if (at < 0)
			return buf_adds(out, s);
		if (buf_add(out, s.p, (size_t)at))
			return -1;
		struct str from = str_skip(s, (size_t)at);
		s = str_skip(from, 1);
		if (s.n && s.p[0] == '$') {
			if (buf_addc(out, '$'))
				return -1;
			s = str_skip(s, 1);
		} else if (s.n && s.p[0] == '{') {
			ptrdiff_t end = closing(str_skip(s, 1));
			size_t n = 0;
			struct str inner = str_n(s.p + 1, end < 0 ? 0 : (size_t)end), fallback;
			while (n < inner.n && name_octet(inner.p[n]))
				n++;
			bool with = str_starts(str_skip(inner, n), STR(":-"));
			if (end < 0 || (n < inner.n && !with)) {
				wrong(x, "expected ${NAME} or ${NAME:-default}: ", from);
				return -1;
			}
			fallback = str_skip(inner, n + 2);
			if (variable(x, str_n(inner.p, n), with ? &fallback : NULL, out, depth))
				return -1;
			s = str_skip(s, (size_t)end + 2);
		} else {
			size_t n = 0;
			while (n < s.n && name_octet(s.p[n]))
				n++;
			if (variable(x, str_n(s.p, n), NULL, out, depth))
				return -1;
			s = str_skip(s, n);
		}
	}
	return 0;
}

char *config_expand(const struct config *c, const char *value, struct buf *why)
{
	struct expand x = { c, false, why };
	struct buf out = BUF_INIT(EXPAND_MAX);
	char *ret = NULL;
	if (expand(&x, str_from(value), &out, 0) == 0)
		ret = str_dupz(buf_str(&out));
	if (!ret && why && !why->n)
		buf_addz(why, out.failed ? "too long with its variables put in" : "memory is out, or variables go too deep");
	buf_free(&out);
	return ret;
}

char *config_path(const struct config *c, const char *section, const char *option)
{
	const char *value = config_str(c, section, option);
	struct expand x = { c, str_ieq(str_from(option), STR("STATE_DIR")), NULL };
	struct buf out = BUF_INIT(EXPAND_MAX);
	char *ret = NULL;
	if (value && expand(&x, str_from(value), &out, 0) == 0)
		ret = str_dupz(buf_str(&out));
	buf_free(&out);
	return ret;
}
