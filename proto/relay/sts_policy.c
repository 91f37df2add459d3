/* Policies of MTA-STS as they are fetched; see sts.h. */
#include "proto/relay/sts.h"

#include "proto/dns/fields.h"

#include <stdio.h>

static const char *const modes[] = { "none", "testing", "enforce" };

const char *sts_mode_name(enum sts_mode m)
{
	return (unsigned)m < sizeof modes / sizeof *modes ? modes[m] : "";
}

int sts_mode_parse(struct str s, enum sts_mode *ret)
{
	for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++)
		if (str_eq(s, str_from(modes[i]))) {
			*ret = (enum sts_mode)i;
			return 0;
		}
	return -1;
}

/* Letters, digits and hyphens in labels that neither begin nor end with one (RFC 5321 §4.1.2 "Domain"); A-labels only. */
static bool domain_ok(struct str s)
{
	size_t label = 0;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (c == '.' ? !label || s.p[i - 1] == '-' : c == '-' ? !label : !fields_alnum(str_n(&c, 1)))
			return false;
		label = c == '.' ? 0 : label + 1;
		if (label > DNS_LABEL_MAX)
			return false;
	}
	return label && s.p[s.n - 1] != '-' && s.n <= DNS_NAME_MAX;
}

static bool pattern_ok(struct str s)
{
	return domain_ok(str_starts(s, STR("*.")) ? str_skip(s, 2) : s);
}

/* An extension's value: printable, UTF-8, blanks inside only. */
static bool text_ok(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f)
			return false;
	return s.n && s.p[0] != ' ' && str_is_utf8(s);
}

struct reading {
	struct sts_policy *p;
	bool version, mode, age;
};

/* One "name: value". Returns NULL, or why not. */
static const char *take(struct reading *r, struct str name, struct str value)
{
	uint64_t age;
	if (str_eq(name, STR("version"))) {
		if (!str_eq(value, STR("STSv1")) && !r->version)
			return "its version is not STSv1";
		r->version = true;
	} else if (str_eq(name, STR("mode"))) {
		if (!r->mode && sts_mode_parse(value, &r->p->mode))
			return "its mode is neither enforce, testing nor none";
		r->mode = true;
	} else if (str_eq(name, STR("max_age"))) {
		if (!r->age && (value.n > 10 || str_u64(value, 9999999999u, &age)))
			return "its max_age is no number of at most ten digits";
		if (!r->age)
			r->p->max_age = age > STS_AGE_MAX ? STS_AGE_MAX : (uint32_t)age;
		r->age = true;
	} else if (str_eq(name, STR("mx"))) {
		if (!pattern_ok(value))
			return "one of its mx is no host name or pattern";
		if (r->p->n_mx == STS_MX_MAX)
			return "it has too many mx";
		r->p->mx[r->p->n_mx++] = value;
	} else if (!fields_name_ok(name) || !text_ok(value)) {
		return "it has a line that is not in the grammar";
	}
	return NULL;
}

/* A line without its end and the blanks before that. */
static struct str next_line(struct str *rest)
{
	ptrdiff_t lf = str_chr(*rest, '\n');
	struct str line = str_n(rest->p, lf < 0 ? rest->n : (size_t)lf);
	*rest = str_skip(*rest, lf < 0 ? rest->n : (size_t)lf + 1);
	if (lf >= 0 && line.n && line.p[line.n - 1] == '\r')
		line.n--;
	while (line.n && (line.p[line.n - 1] == ' ' || line.p[line.n - 1] == '\t'))
		line.n--;
	return line;
}

int sts_policy_parse(struct str body, struct sts_policy *ret, const char **ret_why)
{
	struct reading r = { .p = ret };
	*ret_why = "it is too large";
	ret->n_mx = 0;
	ret->mode = STS_NONE;
	ret->max_age = 0;
	if (body.n > STS_POLICY_MAX)
		return -1;
	while (body.n) {
		struct str line = next_line(&body);
		ptrdiff_t colon = str_chr(line, ':');
		*ret_why = "it has a line that is not in the grammar";
		if (colon <= 0)
			return -1;
		struct str name = str_n(line.p, (size_t)colon), value = str_skip(line, (size_t)colon + 1);
		while (value.n && (value.p[0] == ' ' || value.p[0] == '\t'))
			value = str_skip(value, 1);
		if ((*ret_why = take(&r, name, value)))
			return -1;
	}
	*ret_why = !r.version ? "it has no version" : !r.mode ? "it has no mode" : !r.age ? "it has no max_age" :
	    ret->mode != STS_NONE && !ret->n_mx ? "it has no mx" : NULL;
	return *ret_why ? -1 : 0;
}

bool sts_mx_match(struct str pattern, struct str host)
{
	if (host.n && host.p[host.n - 1] == '.')
		host.n--;
	if (!str_starts(pattern, STR("*.")))
		return host.n && str_ieq(pattern, host);
	ptrdiff_t dot = str_chr(host, '.');
	return dot > 0 && str_ieq(str_skip(pattern, 2), str_skip(host, (size_t)dot + 1));
}

bool sts_policy_covers(const struct sts_policy *p, struct str host)
{
	for (size_t i = 0; i < p->n_mx; i++)
		if (sts_mx_match(p->mx[i], host))
			return true;
	return false;
}

const char *sts_http_fault(unsigned code, struct str type)
{
	if (code >= 300 && code < 400)
		return "the server redirects, which is not followed";
	if (code != 200)
		return "the server gives no policy";
	ptrdiff_t semicolon = str_chr(type, ';');
	if (semicolon >= 0)
		type.n = (size_t)semicolon;
	return str_ieq(str_trim(type), STR("text/plain")) ? NULL : "what the server gives is not text/plain";
}

int sts_url(struct str domain, char *out, size_t size)
{
	char name[DNS_NAME_MAX + 1];
	if (dns_name_fold(domain, name) < 0 || !domain_ok(str_from(name)))
		return -1;
	int n = snprintf(out, size, "https://mta-sts.%s/.well-known/mta-sts.txt", name);
	return n > 0 && (size_t)n < size ? 0 : -1;
}
