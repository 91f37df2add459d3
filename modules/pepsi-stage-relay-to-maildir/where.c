/* From a recipient to a folder name. There is no language over mail data here: three variables, and values that are taken
 * as they are or refused. */
#include "maildir.h"

#include "pattern.h"

#include <stdio.h>

static const char *const variables[] = { "${domain}", "${local}", "${address}" };

int maildir_pattern_parse(const char *text, struct maildir_pattern *ret, struct buf *why)
{
	struct maildir_pattern p = { .fixed = "" };
	struct str s = str_from(text);
	size_t first = s.n;
	if (!s.n || s.p[0] != '/' || s.n >= MAILDIR_PATH_MAX) {
		buf_addz(why, "must be an absolute path such as /var/mail/${domain}/${local}");
		return -1;
	}
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] != '$')
			continue;
		size_t k = 0, n = sizeof variables / sizeof *variables;
		while (k < n && !str_starts(str_skip(s, i), str_from(variables[k])))
			k++;
		if (k == n) {
			buf_addf(why, "unknown variable at \"%.20s\"; there are ${domain}, ${local} and ${address}", s.p + i);
			return -1;
		}
		first = i < first ? i : first;
	}
	if (first == s.n) {
		buf_addz(why, "names no ${local} or ${address}: all recipients would share one mailbox");
		return -1;
	}
	struct str rest = s, word;
	while (str_word(&rest, "/", &word))
		if (str_eq(word, STR(".")) || str_eq(word, STR(".."))) {
			buf_addz(why, "must not hold the folders . or ..");
			return -1;
		}
	while (s.p[first - 1] != '/')
		first--;
	memcpy(p.fixed, s.p, first);
	p.fixed[first] = 0;
	memcpy(p.rest, s.p + first, s.n - first);
	p.rest[s.n - first] = 0;
	*ret = p;
	return 0;
}

static const char *value_wrong(const char *z, const char *what_empty)
{
	if (!z[0])
		return what_empty;
	if (z[0] == '.')
		return "an address part that begins with a dot cannot name a mailbox";
	if (strlen(z) > MAILDIR_NAME_MAX)
		return "an address part is too long to name a mailbox";
	for (const char *p = z; *p; p++)
		if (*p == '/' || (unsigned char)*p < 0x20 || *p == 0x7f)
			return "an address part holds a character that cannot name a mailbox";
	return NULL;
}

struct str maildir_detail(struct str rcpt, const char *delimiters)
{
	const char *at = rcpt.n ? memrchr(rcpt.p, '@', rcpt.n) : NULL;
	size_t local = at ? (size_t)(at - rcpt.p) : rcpt.n;
	if (delimiters && *delimiters && rcpt.n && rcpt.p[0] != '"')
		for (size_t i = 1; i < local; i++)
			if (rcpt.p[i] && strchr(delimiters, rcpt.p[i]))
				return str_skip(rcpt, i);
	return str_skip(rcpt, rcpt.n);
}

int maildir_where(const struct maildir_pattern *p, struct str rcpt, char *out, size_t size, const char **why)
{
	struct pattern_address a;
	struct buf b = BUF_INIT(size - 1);
	struct str rest = str_from(p->rest);
	/* refuses NUL and lengths beyond RFC 5321's; gives lower case, the local part without quotes */
	if (pattern_address(rcpt, &a)) {
		*why = "not an address that can name a mailbox";
		return -1;
	}
	if ((*why = value_wrong(a.local, "the local part is empty")) || (*why = value_wrong(a.domain, "the address has no domain")))
		return -1;
	while (rest.n) {
		if (str_starts(rest, STR("${domain}"))) {
			buf_addz(&b, a.domain);
			rest = str_skip(rest, strlen("${domain}"));
		} else if (str_starts(rest, STR("${local}"))) {
			buf_addz(&b, a.local);
			rest = str_skip(rest, strlen("${local}"));
		} else if (str_starts(rest, STR("${address}"))) {
			buf_addf(&b, "%s@%s", a.local, a.domain);
			rest = str_skip(rest, strlen("${address}"));
		} else {
			buf_addc(&b, rest.p[0]);
			rest = str_skip(rest, 1);
		}
	}
	int bad = b.failed;
	if (bad)
		*why = "the mailbox's path would be too long";
	else
		snprintf(out, size, "%s", buf_z(&b));
	buf_free(&b);
	return bad ? -1 : 0;
}
