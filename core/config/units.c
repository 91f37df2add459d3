/* Single values: booleans, durations, sizes, ADDRESS:PORT. Pure. */
#include "config.h"

int config_parse_bool(struct str s, int64_t *ret)
{
	s = str_trim(s);
	if (str_ieq(s, STR("YES")) || str_ieq(s, STR("TRUE")) || str_ieq(s, STR("ON")) || str_eq(s, STR("1")))
		*ret = 1;
	else if (str_ieq(s, STR("NO")) || str_ieq(s, STR("FALSE")) || str_ieq(s, STR("OFF")) || str_eq(s, STR("0")))
		*ret = 0;
	else
		return -1;
	return 0;
}

struct unit {
	const char *name;
	int64_t factor;
};

/* A number and its unit off the front of *s; unit is NULL when none follows. 0 or -1. */
static int take(struct str *s, const struct unit *units, size_t n, int64_t *ret, const struct unit **ret_unit)
{
	size_t digits = 0, letters;
	uint64_t v;
	while (digits < s->n && s->p[digits] >= '0' && s->p[digits] <= '9')
		digits++;
	if (str_u64(str_n(s->p, digits), INT64_MAX, &v))
		return -1;
	struct str rest = str_trim(str_skip(*s, digits));
	for (letters = 0; letters < rest.n && ascii_is_alpha(rest.p[letters]); letters++)
		;
	*s = str_trim(str_skip(rest, letters));
	*ret_unit = NULL;
	*ret = (int64_t)v;
	if (!letters)
		return 0;
	for (size_t i = 0; i < n && !*ret_unit; i++)
		if (str_ieq(str_n(rest.p, letters), str_from(units[i].name)))
			*ret_unit = &units[i];
	return *ret_unit && !__builtin_mul_overflow(*ret, (*ret_unit)->factor, ret) ? 0 : -1;
}

int config_parse_duration_us(struct str s, int64_t *ret_us)
{
	static const struct unit units[] = { { "us", 1 }, { "ms", 1000 }, { "s", 1000000 }, { "sec", 1000000 },
		{ "second", 1000000 }, { "seconds", 1000000 }, { "m", 60000000 }, { "min", 60000000 }, { "minute", 60000000 },
		{ "minutes", 60000000 }, { "h", 3600000000 }, { "hour", 3600000000 }, { "hours", 3600000000 },
		{ "d", 86400000000 }, { "day", 86400000000 }, { "days", 86400000000 }, { "w", 604800000000 },
		{ "week", 604800000000 }, { "weeks", 604800000000 } };
	const struct unit *unit, *before = NULL;
	int64_t sum = 0, v;
	s = str_trim(s);
	if (!s.n)
		return -1;
	do {
		if (take(&s, units, sizeof units / sizeof *units, &v, &unit))
			return -1;
		if (!unit) {
			/* a bare number is seconds, but only when it stands alone */
			if (before || s.n || __builtin_mul_overflow(v, INT64_C(1000000), &v))
				return -1;
		} else if (before && unit->factor >= before->factor) {
			return -1; /* "1 h 30 min", not "30 min 1 h" or "1 h 2 h" */
		}
		before = unit;
		if (__builtin_add_overflow(sum, v, &sum))
			return -1;
	} while (s.n);
	*ret_us = sum;
	return 0;
}

int config_parse_duration(struct str s, int64_t *ret_seconds)
{
	int64_t us;
	if (config_parse_duration_us(s, &us) || us % 1000000)
		return -1;
	*ret_seconds = us / 1000000;
	return 0;
}

int config_parse_size(struct str s, int64_t *ret_octets)
{
	static const struct unit units[] = { { "B", 1 }, { "KB", 1000 }, { "MB", 1000000 }, { "GB", 1000000000 },
		{ "TB", 1000000000000 }, { "KiB", 1 << 10 }, { "MiB", 1 << 20 }, { "GiB", 1 << 30 },
		{ "TiB", INT64_C(1) << 40 } };
	const struct unit *unit;
	int64_t v;
	s = str_trim(s);
	if (take(&s, units, sizeof units / sizeof *units, &v, &unit) || s.n)
		return -1;
	*ret_octets = v;
	return 0;
}

int config_parse_hostport(struct str s, char *host, size_t host_size, uint16_t *ret_port)
{
	struct str name, number;
	uint64_t port;
	s = str_trim(s);
	bool bracket = s.n && s.p[0] == '[';
	ptrdiff_t end = str_chr(s, bracket ? ']' : ':');
	if (end < 0)
		return -1;
	name = bracket ? str_n(s.p + 1, (size_t)end - 1) : str_n(s.p, (size_t)end);
	number = str_skip(s, (size_t)end + 1);
	if (bracket) {
		if (!number.n || number.p[0] != ':')
			return -1;
		number = str_skip(number, 1);
	} else if (str_chr(number, ':') >= 0) {
		return -1; /* an IPv6 address without brackets: nobody can say where its port begins */
	}
	if (!name.n || name.n >= host_size || str_u64(number, 65535, &port))
		return -1;
	for (size_t i = 0; i < name.n; i++)
		if ((unsigned char)name.p[i] <= ' ' || name.p[i] == 127)
			return -1;
	memcpy(host, name.p, name.n);
	host[name.n] = 0;
	*ret_port = (uint16_t)port;
	return 0;
}

int config_parse_bind(struct str word, struct config_bind *ret)
{
	struct config_bind b = { .kind = CONFIG_BIND_TCP };
	struct str rest;
	word = str_trim(word);
	if (str_istarts(word, STR("unix:")))
		b.kind = CONFIG_BIND_UNIX;
	else if (str_istarts(word, STR("systemd:")))
		b.kind = CONFIG_BIND_SYSTEMD;
	else if (config_parse_hostport(word, b.host, sizeof b.host, &b.port))
		return -1;
	if (b.kind != CONFIG_BIND_TCP) {
		rest = str_skip(word, (size_t)str_chr(word, ':') + 1);
		if (!rest.n || rest.n >= sizeof b.name || memchr(rest.p, 0, rest.n))
			return -1;
		if (b.kind == CONFIG_BIND_UNIX && rest.p[0] != '/' && rest.p[0] != '$')
			return -1;
		/* sd_listen_fds_with_names(3): names are printable ASCII without ':', at most 255 octets */
		for (size_t i = 0; b.kind == CONFIG_BIND_SYSTEMD && i < rest.n; i++)
			if (rest.n > 255 || rest.p[i] <= ' ' || rest.p[i] > '~' || rest.p[i] == ':')
				return -1;
		memcpy(b.name, rest.p, rest.n);
	}
	*ret = b;
	return 0;
}
