/* For tests of proto/mail/downgrade.h: what must hold of every message that was made fit, whatever it was: it is fit, it says the same, and it is left
 * alone the second time. */
#ifndef TEST_DOWNGRADE_CHECK_H
#define TEST_DOWNGRADE_CHECK_H

#include "base/check.h"
#include "proto/mail/downgrade.h"
#include "proto/mail/header.h"

static inline bool downgrade_solid(const struct mail_mime_part *p)
{
	return p->kind == MAIL_MIME_LEAF || str_starts(p->type, STR("message/global"));
}

/* The next part from i on that is not within a solid one; m->n: none. */
static inline size_t downgrade_skip(const struct mail_mime *m, size_t i)
{
	for (; i < m->n; i++) {
		size_t up = m->part[i].parent;
		while (up != MAIL_MIME_NONE && !downgrade_solid(&m->part[up]))
			up = m->part[up].parent;
		if (up == MAIL_MIME_NONE)
			break;
	}
	return i;
}

/* Are parts and decoded contents those of the original? */
static inline void downgrade_same(const struct mail_mime *a, const struct mail_mime *b)
{
	size_t i = downgrade_skip(a, 0), k = downgrade_skip(b, 0);
	while (i < a->n && k < b->n) {
		const struct mail_mime_part *x = &a->part[i], *y = &b->part[k];
		struct buf s = BUF_INIT(x->body.n + 16), t = BUF_INIT(y->body.n + 16);
		must(str_eq(x->type, y->type) && x->depth == y->depth);
		if (downgrade_solid(x)) {
			mail_transfer_decode(x->encoding, x->body, &s);
			mail_transfer_decode(y->encoding, y->body, &t);
			must(str_eq(buf_str(&s), buf_str(&t)));
		}
		buf_free(&s);
		buf_free(&t);
		i = downgrade_skip(a, i + 1);
		k = downgrade_skip(b, k + 1);
	}
	must(i == a->n && k == b->n);
}

/* A part that is left alone with its long lines? */
static inline bool downgrade_lenient(const struct mail_mime *m)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct mail_mime_part *p = &m->part[i];
		struct str t = p->type;
		if (str_eq(t, STR("multipart/signed")) || str_eq(t, STR("multipart/encrypted")) || p->encoding == MAIL_TRANSFER_UNKNOWN ||
		    (p->kind == MAIL_MIME_LEAF && (str_starts(t, STR("multipart/")) || str_starts(t, STR("message/")))) || str_starts(t, STR("message/global")))
			return true;
	}
	return false;
}

static inline void downgrade_check(struct str headers, struct str body, unsigned lacks)
{
	struct mail_downgrade d, again;
	struct mail_downgrade_reader r;
	struct mail_mime before, after;
	size_t max = (headers.n + body.n) * 8 + (1 << 20);
	struct buf h = BUF_INIT(max), b = BUF_INIT(max), all = BUF_INIT(max);
	if (mail_downgrade_plan(&d, headers, body, lacks)) {
		must(d.fault != MAIL_DOWNGRADE_FINE && d.fault != MAIL_DOWNGRADE_MEMORY && d.status && d.why[0] && str_is_utf8(str_from(d.why)));
		mail_downgrade_free(&d);
		return;
	}
	must(mail_downgrade_headers(&d, &h) == 0 && mail_downgrade_body(&d, &b) == 0);
	mail_downgrade_begin(&d, &r);
	for (size_t step = 1; mail_downgrade_next(&r, &all, step); step = step * 2 % 1021 + 1)
		must(!all.failed);
	must(all.n == d.size && all.n == h.n + 2 + b.n && (!h.n || !memcmp(all.p, h.p, h.n)) && (!b.n || !memcmp(all.p + h.n + 2, b.p, b.n)));
	must(d.open == (all.n >= 2 && memcmp(all.p + all.n - 2, "\r\n", 2) != 0));
	must(mail_headers_sendable(buf_str(&h)));
	if (!d.changed)
		must(str_eq(buf_str(&h), headers) && str_eq(buf_str(&b), body));
	struct mail_content hc = mail_content_look(buf_str(&h)), bc = mail_content_look(buf_str(&b));
	if (lacks & (MAIL_LACKS_8BIT | MAIL_LACKS_UTF8))
		must(!hc.eight);
	if (lacks & MAIL_LACKS_8BIT)
		must(!bc.eight && !d.eight);
	else
		must(d.eight == (hc.eight || bc.eight));
	must(mail_mime_parse_pieces(&before, headers, body) == 0);
	must(mail_mime_parse_pieces(&after, buf_str(&h), buf_str(&b)) == 0);
	if (lacks & (MAIL_LACKS_8BIT | MAIL_LACKS_BINARY))
		must(!bc.bad);
	if (lacks & (MAIL_LACKS_8BIT | MAIL_LACKS_BINARY) && !downgrade_lenient(&after))
		must(bc.longest <= MAIL_LINE_MAX && hc.longest <= MAIL_LINE_MAX);
	downgrade_same(&before, &after);
	must(mail_downgrade_plan(&again, buf_str(&h), buf_str(&b), lacks) == 0 && !again.changed);
	mail_downgrade_free(&again);
	mail_mime_free(&before);
	mail_mime_free(&after);
	mail_downgrade_free(&d);
	buf_free(&h);
	buf_free(&b);
	buf_free(&all);
}

#endif
