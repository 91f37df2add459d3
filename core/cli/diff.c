/* See diff.h: the longest common subsequence of lines, by the textbook table, after what both ends have in common is cut off. */
#include "diff.h"

#include <stdio.h>
#include <stdlib.h>

enum { CELLS_MAX = 4 * 1000 * 1000 }; /* of the table: 16 MB; header blocks have some hundred lines */

struct lines {
	struct str *v; /* with their line ends: a text that lacks the last one is another text */
	size_t n;
};

static int cut(struct str s, struct lines *ret)
{
	size_t n = 0;
	for (size_t i = 0; i < s.n; i++)
		n += s.p[i] == '\n';
	ret->v = calloc(n + 1, sizeof *ret->v);
	ret->n = 0;
	if (!ret->v)
		return -1;
	while (s.n) {
		ptrdiff_t at = str_chr(s, '\n');
		size_t len = at < 0 ? s.n : (size_t)at + 1;
		ret->v[ret->n++] = str_n(s.p, len);
		s = str_skip(s, len);
	}
	return 0;
}

static struct str shown(struct str line)
{
	if (line.n && line.p[line.n - 1] == '\n')
		line.n--;
	if (line.n && line.p[line.n - 1] == '\r')
		line.n--;
	return line;
}

/* An edit script: one octet per line, ' ' (both), '-' (a), '+' (b); NUL at the end. From malloc. */
static char *script(const struct lines *a, const struct lines *b)
{
	size_t head = 0, tail = 0, at = 0;
	char *s = malloc(a->n + b->n + 1);
	while (head < a->n && head < b->n && str_eq(a->v[head], b->v[head]))
		head++;
	while (tail < a->n - head && tail < b->n - head && str_eq(a->v[a->n - 1 - tail], b->v[b->n - 1 - tail]))
		tail++;
	size_t n = a->n - head - tail, m = b->n - head - tail, i = 0, j = 0;
	/* t[i][j]: length of the longest common subsequence of a[head+i…] and b[head+j…] */
	bool small = n < CELLS_MAX && m < CELLS_MAX && (n + 1) * (m + 1) <= CELLS_MAX;
	uint32_t *t = small ? calloc((n + 1) * (m + 1), sizeof *t) : NULL;
	if (!s || (small && !t)) {
		free(s);
		free(t);
		return NULL;
	}
#define T(i, j) t[(i) * (m + 1) + (j)]
	for (size_t x = n; t && x-- > 0;)
		for (size_t y = m; y-- > 0;)
			if (str_eq(a->v[head + x], b->v[head + y]))
				T(x, y) = T(x + 1, y + 1) + 1;
			else
				T(x, y) = T(x + 1, y) >= T(x, y + 1) ? T(x + 1, y) : T(x, y + 1);
	for (; at < head; at++)
		s[at] = ' ';
	while (i < n || j < m) {
		if (t && i < n && j < m && str_eq(a->v[head + i], b->v[head + j])) {
			s[at++] = ' ';
			i++;
			j++;
		} else if (i < n && (!t || j == m || T(i + 1, j) >= T(i, j + 1))) {
			s[at++] = '-';
			i++;
		} else {
			s[at++] = '+';
			j++;
		}
	}
#undef T
	for (size_t k = 0; k < tail; k++)
		s[at++] = ' ';
	s[at] = 0;
	free(t);
	return s;
}

/* One hunk: script[from, to), with the lines it begins at. */
static void hunk(const struct lines *a, const struct lines *b, const char *s, size_t from, size_t to, size_t ia, size_t ib,
    diff_line_fn fn, void *arg)
{
	size_t na = 0, nb = 0;
	char head[96];
	for (size_t k = from; k < to; k++) {
		na += s[k] != '+';
		nb += s[k] != '-';
	}
	/* as diff: an empty range names the line before it */
	int len = snprintf(head, sizeof head, "@@ -%zu,%zu +%zu,%zu @@", na ? ia + 1 : ia, na, nb ? ib + 1 : ib, nb);
	fn(arg, '@', str_n(head, (size_t)len));
	for (size_t k = from; k < to; k++) {
		fn(arg, s[k], shown(s[k] == '+' ? b->v[ib] : a->v[ia]));
		ia += s[k] != '+';
		ib += s[k] != '-';
	}
}

int diff_unified(struct str a, struct str b, diff_line_fn fn, void *arg)
{
	struct lines la = { NULL, 0 }, lb = { NULL, 0 };
	char *s = NULL;
	int rc = cut(a, &la) || cut(b, &lb) || !(s = script(&la, &lb)) ? -1 : 0;
	size_t ia = 0, ib = 0, n = s ? strlen(s) : 0; /* ia, ib: the lines at k */
	for (size_t k = 0; k < n;) {
		if (s[k] == ' ') {
			k++;
			ia++;
			ib++;
			continue;
		}
		size_t from = k > DIFF_CONTEXT ? k - DIFF_CONTEXT : 0, last = k, to;
		/* from k back to the beginning of the context there are only common lines, or the former hunk would go on */
		for (size_t e = k; e < n && e <= last + 2 * DIFF_CONTEXT + 1; e++)
			if (s[e] != ' ')
				last = e;
		to = last + 1 + DIFF_CONTEXT < n ? last + 1 + DIFF_CONTEXT : n;
		hunk(&la, &lb, s, from, to, ia - (k - from), ib - (k - from), fn, arg);
		for (; k < to; k++) {
			ia += s[k] != '+';
			ib += s[k] != '-';
		}
	}
	free(s);
	free(la.v);
	free(lb.v);
	return rc;
}
