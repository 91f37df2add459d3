/* Fuzz: the header block. The splitter and the reader of fields against slow ones that go octet by octet, line by line, after the words of
 * RFC 5322 §2.1 and §2.2. */
#include "base/check.h"
#include "proto/mail/header.h"
#include "proto/mail/split.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LINES_MAX = 4096 };

static size_t line(struct str s)
{
	for (size_t i = 0; i + 1 < s.n; i++)
		if (s.p[i] == '\r' && s.p[i + 1] == '\n')
			return i + 2;
	return s.n;
}

static bool empty_line(struct str s)
{
	return s.n >= 2 && s.p[0] == '\r' && s.p[1] == '\n';
}

/* field-name = 1*ftext; obsolete: blanks before the colon */
static bool begins_field(struct str s)
{
	size_t i = 0;
	while (i < s.n && (unsigned char)s.p[i] > 32 && (unsigned char)s.p[i] < 127 && s.p[i] != ':')
		i++;
	if (!i)
		return false;
	while (i < s.n && (s.p[i] == ' ' || s.p[i] == '\t'))
		i++;
	return i < s.n && s.p[i] == ':';
}

/* Octets of the header block, and whether an empty line ends it. */
static size_t slow_split(struct str raw, bool *ret_separated)
{
	size_t at = 0;
	*ret_separated = false;
	if (raw.n && (raw.p[0] == ' ' || raw.p[0] == '\t'))
		return 0;
	for (size_t i = 0; i < raw.n; i += line(str_skip(raw, i)))
		if (empty_line(str_skip(raw, i))) {
			*ret_separated = true;
			return i;
		}
	while (at < raw.n) {
		struct str rest = str_skip(raw, at);
		bool folded = rest.p[0] == ' ' || rest.p[0] == '\t';
		if (!folded && !begins_field(str_n(rest.p, line(rest))))
			break;
		at += line(rest);
	}
	return at;
}

/* Octets of the next field or non-field: a line and those behind it that begin with a blank. */
static size_t slow_field(struct str s)
{
	size_t n = line(s);
	while (n < s.n && (s.p[n] == ' ' || s.p[n] == '\t'))
		n += line(str_skip(s, n));
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str raw = str_n((const char *)data, size), rest, slow;
	struct mail_split s;
	struct mail_field f, found;
	bool separated;
	int rc;
	if (size > 1 << 16)
		return 0;
	mail_split(raw, &s);
	size_t n = slow_split(raw, &separated);
	must(s.separated == separated && s.headers.n == n && (!n || s.headers.p == raw.p));
	must(s.body.n == size - n - (separated ? 2 : 0) && (!s.body.n || s.body.p + s.body.n == raw.p + size));
	must(s.unterminated == (n && (n < 2 || raw.p[n - 2] != '\r' || raw.p[n - 1] != '\n')));
	rest = slow = s.headers;
	for (size_t i = 0; i < LINES_MAX && (rc = mail_field_next(&rest, &f)); i++) {
		size_t all = slow_field(slow);
		must(f.all.n == all && f.all.p == slow.p && (rc > 0) == begins_field(str_n(slow.p, line(slow))));
		slow = str_skip(slow, all);
		must(rest.n == slow.n);
		if (rc < 0)
			continue;
		size_t nth = mail_field_count(s.headers, f.name, 0), seen = 0;
		must(nth > 0 && mail_field_find(s.headers, f.name, nth, &found) == -1);
		for (size_t k = 0; k < nth && nth < 20; k++)
			seen += mail_field_find(s.headers, f.name, k, &found) == 0 && found.all.p == f.all.p;
		must(nth >= 20 || seen == 1);
		struct buf b = BUF_INIT(1 << 17);
		must(mail_field_unfold(&b, f.value) == 0 && b.n <= f.value.n);
		for (size_t k = 0; k < b.n; k++)
			must(b.p[k] != '\r' && b.p[k] != '\n' && b.p[k]);
		buf_free(&b);
		if (i > 64) /* the counting above is quadratic */
			break;
	}
	return 0;
}
