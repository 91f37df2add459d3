/* For tests of proto/mail/mime.h: the message put together from the pieces that the parser names, and whether they fit each other. */
#ifndef TEST_MIME_PIECES_H
#define TEST_MIME_PIECES_H

#include "proto/mail/mime.h"

/* Appends part i and what is within. One level of parts per call. */
static inline void mime_pieces(const struct mail_mime *m, size_t i, struct buf *out)
{
	const struct mail_mime_part *p = &m->part[i];
	buf_adds(out, p->delimiter);
	buf_adds(out, p->head);
	buf_adds(out, p->gap);
	if (p->kind == MAIL_MIME_LEAF) {
		buf_adds(out, p->body);
		return;
	}
	buf_adds(out, p->preamble);
	for (size_t k = p->child; k != MAIL_MIME_NONE; k = m->part[k].next)
		mime_pieces(m, k, out);
	buf_adds(out, p->close);
	buf_adds(out, p->epilogue);
}

/* Is what the parser says of the tree and of the pieces consistent, and are the pieces the message? */
static inline bool mime_whole(const struct mail_mime *m)
{
	struct buf b = BUF_INIT(m->raw.n + 1);
	bool ok = m->n > 0 && m->part[0].parent == MAIL_MIME_NONE && m->part[0].all.n == m->raw.n;
	for (size_t i = 0; ok && i < m->n; i++) {
		const struct mail_mime_part *p = &m->part[i];
		ok &= p->head.n + p->gap.n + p->body.n == p->all.n && p->all.p >= m->raw.p && p->all.p + p->all.n <= m->raw.p + m->raw.n;
		ok &= p->depth <= MAIL_MIME_DEPTH_MAX && (i == 0 || (p->parent < i && p->depth == m->part[p->parent].depth + 1));
		ok &= p->kind != MAIL_MIME_MESSAGE || (p->child != MAIL_MIME_NONE && str_eq(m->part[p->child].all, p->body));
	}
	if (ok)
		mime_pieces(m, 0, &b);
	ok = ok && !b.failed && str_eq(buf_str(&b), m->raw);
	buf_reset(&b);
	ok = ok && mail_mime_write(m, NULL, NULL, &b) == 0 && str_eq(buf_str(&b), m->raw);
	buf_free(&b);
	return ok;
}

#endif
