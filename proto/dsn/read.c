/* Reading bounces: the parts of the message are sorted into formal part, text for people and what came back; each recipient found is then judged by
 * what is said of him. See read.h; the forms are read by read_status.c and read_human.c, the words by read_reason.c. */
#include "read_internal.h"

#include "proto/mail/addrlist.h"
#include "proto/mail/encoded.h"
#include "proto/mail/header.h"
#include "proto/mail/mime.h"

struct dsn_read_rcpt *dsn_read_known(struct dsn_gather *g, struct str address)
{
	for (size_t i = 0; i < g->r->n; i++)
		if (str_ieq(g->r->rcpt[i].address, address))
			return &g->r->rcpt[i];
	return NULL;
}

struct dsn_read_rcpt *dsn_read_add(struct dsn_gather *g, struct str address)
{
	struct dsn_read *r = g->r;
	struct dsn_read_rcpt *known = dsn_read_known(g, address);
	if (known || !str_is_utf8(address))
		return known;
	if (r->n == DSN_READ_RCPTS_MAX) {
		r->dropped++;
		return NULL;
	}
	struct dsn_read_rcpt *one = &r->rcpt[r->n];
	*one = (struct dsn_read_rcpt){ .address = arena_str(r->mem, address) };
	if (!one->address.p) {
		g->memory = true;
		return NULL;
	}
	r->n++;
	return one;
}

/* A field of a head, unfolded; LF may end its lines. */
static struct str field(struct dsn_gather *g, struct str head, const char *name)
{
	struct str rest = head, found = STR_NULL;
	size_t n = strlen(name);
	while (rest.n) {
		const char *nl = memchr(rest.p, '\n', rest.n);
		struct str line = str_n(rest.p, nl ? (size_t)(nl - rest.p) + 1 : rest.n);
		rest = str_skip(rest, line.n);
		bool folded = line.p[0] == ' ' || line.p[0] == '\t';
		if (found.p && folded)
			found.n = (size_t)(line.p + line.n - found.p);
		else if (found.p)
			break;
		else if (line.n > n && line.p[n] == ':' && str_istarts(line, str_from(name)))
			found = str_skip(line, n + 1);
	}
	found = str_trim(found);
	struct str r = found.n && found.n < 8192 ? arena_str(g->r->mem, found) : STR_NULL;
	g->memory |= found.n && found.n < 8192 && !r.p;
	return r;
}

static struct str address_in(struct str value)
{
	size_t at = 0;
	struct str a = STR_NULL;
	ptrdiff_t angle = str_chr(value, '<');
	if (angle >= 0)
		at = (size_t)angle;
	if (!dsn_read_address(value, &at, &a)) {
		at = 0;
		dsn_read_address(value, &at, &a);
	}
	return a;
}

static void add_text(struct dsn_gather *g, const struct mail_mime_part *p, bool html)
{
	struct buf decoded = BUF_INIT(DSN_READ_TEXT_MAX), plain = BUF_INIT(DSN_READ_TEXT_MAX + 64), utf8 = BUF_INIT(DSN_READ_TEXT_MAX * 4);
	struct str human, returned, text = p->body;
	if (p->encoding == MAIL_TRANSFER_BASE64 || p->encoding == MAIL_TRANSFER_QP) {
		bool cut = text.n > DSN_READ_TEXT_MAX;
		if (cut) { /* … not within "=C3" */
			const char *sign = memchr(text.p + DSN_READ_TEXT_MAX - 2, '=', 2);
			text.n = sign ? (size_t)(sign - text.p) : DSN_READ_TEXT_MAX;
		}
		mail_transfer_decode(p->encoding, text, &decoded);
		text = buf_str(&decoded);
		if (cut && text.n) /* half a character at the end would make it look like no UTF-8 */
			text.n = str_utf8_cut(text, text.n - 1);
	}
	text.n = str_utf8_cut(text, DSN_READ_TEXT_MAX);
	text = dsn_read_utf8(p->charset, text, &utf8);
	if (dsn_read_json(g, text))
		text = STR_NULL; /* all that it says is read */
	/* some say nothing of what they write */
	if (html || (text.n && memmem(text.p, text.n, "<br>", 4)) || (text.n && memmem(text.p, text.n, "<BR>", 4))) {
		dsn_read_strip_html(text, &plain);
		text = buf_str(&plain);
	}
	dsn_read_cut(text, &human, &returned);
	if (g->human.n + human.n + 1 <= g->human.max) {
		buf_adds(&g->human, human);
		buf_addc(&g->human, '\n');
	}
	if (g->returned.n + returned.n < g->returned.max)
		buf_adds(&g->returned, returned);
	buf_free(&decoded);
	buf_free(&plain);
	buf_free(&utf8);
}

/* Is the part one of a message that came back? */
static bool came_back(const struct mail_mime *m, size_t i)
{
	for (size_t k = m->part[i].parent; k != MAIL_MIME_NONE; k = m->part[k].parent)
		if (m->part[k].kind == MAIL_MIME_MESSAGE)
			return true;
	return false;
}

static void sort_parts(struct dsn_gather *g, const struct mail_mime *m)
{
	bool plain = false;
	for (size_t i = 0; i < m->n; i++)
		plain |= str_eq(m->part[i].type, STR("text/plain")) && !came_back(m, i);
	for (size_t i = 0; i < m->n; i++) {
		const struct mail_mime_part *p = &m->part[i];
		if (came_back(m, i)) {
			if (m->part[p->parent].kind == MAIL_MIME_MESSAGE && !g->returned.n && p->head.n < g->returned.max)
				buf_adds(&g->returned, p->head);
			continue;
		}
		if (p->kind == MAIL_MIME_MULTIPART) {
			if (p->child == MAIL_MIME_NONE)
				add_text(g, p, false); /* what a broken multipart says */
			else if (i == 0 && p->preamble.n > 200)
				add_text(g, &(struct mail_mime_part){ .body = p->preamble }, false);
			continue;
		}
		if (str_eq(p->type, STR("message/delivery-status")) || str_eq(p->type, STR("message/global-delivery-status"))) {
			struct buf b = BUF_INIT(DSN_READ_TEXT_MAX * 4);
			struct str text = p->body;
			if (text.n > DSN_READ_TEXT_MAX * 4u)
				text.n = DSN_READ_TEXT_MAX * 4u;
			mail_transfer_decode(p->encoding, text, &b);
			g->r->formal = true;
			dsn_read_status(g, buf_str(&b));
			buf_free(&b);
		} else if (str_eq(p->type, STR("text/rfc822-headers")) || str_eq(p->type, STR("message/global-headers")) || str_starts(p->type, STR("message/"))) {
			if (p->kind != MAIL_MIME_MESSAGE && !g->returned.n && p->body.n < g->returned.max)
				buf_adds(&g->returned, p->body);
		} else if (str_starts(p->type, STR("multipart/"))) { /* one without a boundary */
			add_text(g, p, false);
		} else if (str_starts(p->type, STR("text/")) && g->human.n < DSN_READ_TEXT_MAX / 2) {
			bool html = str_eq(p->type, STR("text/html"));
			if (!html || !plain)
				add_text(g, p, html);
		}
	}
}

static bool looks_like_daemon(struct dsn_gather *g, struct str return_path)
{
	static const struct str from[] = { STR_INIT("mailer-daemon"), STR_INIT("postmaster"), STR_INIT("mail-daemon"), STR_INIT("mailerdaemon"), STR_INIT("post_master") };
	if (g->r->formal || g->strong_words || str_eq(str_trim(return_path), STR("<>")))
		return true;
	for (size_t i = 0; i < sizeof from / sizeof *from; i++)
		if (str_istarts(g->from, from[i]))
			return true;
	return g->bounce_subject;
}

/* Is it the head of a bounce: from nobody? */
static bool is_wrapped(struct str head)
{
	return memmem(head.p, head.n, "MAILER-DAEMON", 13) || memmem(head.p, head.n, "Return-Path: <>", 15);
}

/* What the text for people says of an address, up to the next empty line. */
static struct str said_of(struct str human, struct str address)
{
	const char *at = human.n && address.n ? memmem(human.p, human.n, address.p, address.n) : NULL;
	if (!at)
		return STR_NULL;
	struct str said = str_skip(human, (size_t)(at - human.p));
	if (said.n > DSN_READ_DIAGNOSTIC_MAX)
		said.n = DSN_READ_DIAGNOSTIC_MAX;
	const char *end = memmem(said.p, said.n, "\n\n", 2);
	return end ? str_n(said.p, (size_t)(end - said.p)) : said;
}

static bool says_after_data(struct str s)
{
	static const struct str words[] = { STR_INIT("end of DATA"), STR_INIT("end of data"), STR_INIT("after DATA"), STR_INIT("end of message") };
	for (size_t i = 0; s.n && i < sizeof words / sizeof *words; i++)
		if (memmem(s.p, s.n, words[i].p, words[i].n))
			return true;
	return false;
}

/* Was the recipient refused only after the message was sent, by what is in it? Some say so in words. The transcript that others give shows it: one
 * reply behind DATA. Where there are two, commands were sent together, and the first is that to RCPT. */
static bool after_data(struct str human, const struct dsn_read_rcpt *r)
{
	if (says_after_data(r->diagnostic) || says_after_data(said_of(human, r->address)))
		return true;
	const char *data = human.n ? memmem(human.p, human.n, ">>> DATA", 8) : NULL;
	if (!data)
		return false;
	struct str after = str_skip(human, (size_t)(data - human.p));
	const char *one = memmem(after.p, after.n, "<<< 5", 5);
	if (!one)
		return false;
	after = str_skip(after, (size_t)(one - after.p) + 5);
	/* 503, and 554 for want of recipients: there was nobody left to send to */
	return !memmem(after.p, after.n, "<<< 5", 5) && !str_starts(after, STR("03")) && !memmem(after.p, after.n, "no valid recip", 14);
}

static void judge(struct dsn_gather *g, struct dsn_read_rcpt *r)
{
	struct str human = buf_str(&g->human);
	if (r->reason == DSN_REASON_OTHER) /* else its first line said it */
		r->reason = dsn_reason_of(r->diagnostic, r->status, r->code);
	/* what was said to people may say more, where it is about nobody else */
	if (g->r->n == 1 && dsn_reason_words(r->diagnostic, false) == DSN_REASON_OTHER) {
		enum dsn_read_reason w = dsn_reason_words(human, false);
		if (w != DSN_REASON_OTHER)
			r->reason = w;
		if (!r->status.n)
			r->status = arena_str(g->r->mem, dsn_read_find_status(human));
		if (!r->code)
			r->code = dsn_read_find_code(human);
		if (r->reason == DSN_REASON_OTHER)
			r->reason = dsn_reason_of(STR_NULL, r->status, r->code);
		if (r->reason == DSN_REASON_OTHER)
			r->reason = dsn_reason_words(human, true);
	}
	if (r->reason == DSN_REASON_UNKNOWN_USER && after_data(human, r))
		r->reason = DSN_REASON_POLICY;
	if (!g->r->formal && g->delay_words && r->action == DSN_READ_FAILED && !dsn_reason_hard(r->reason))
		r->action = DSN_READ_DELAYED;
	r->hard = r->action == DSN_READ_FAILED && dsn_reason_hard(r->reason);
}

/* A formal part without a type of its own: in a text that repeats it, or in a broken multipart. It ends where a part does. */
static void unmarked_status(struct dsn_gather *g)
{
	struct str text = buf_str(&g->human);
	const char *status = text.n ? memmem(text.p, text.n, "\nReporting-MTA:", 15) : NULL;
	if (!status)
		return;
	text = str_skip(text, (size_t)(status - text.p) + 1);
	const char *end = memmem(text.p, text.n, "\n--", 3);
	dsn_read_status(g, end ? str_n(text.p, (size_t)(end - text.p) + 1) : text);
}

static int fill(struct dsn_gather *g, const struct mail_mime *m)
{
	struct dsn_read *r = g->r;
	struct str head = m->part[0].head, value, to;
	struct buf subject = BUF_INIT(3 * 8192), utf8 = BUF_INIT(4 * 8192);
	r->rcpt = arena_calloc(r->mem, DSN_READ_RCPTS_MAX, sizeof *r->rcpt);
	if (!r->rcpt)
		return DSN_READ_MEMORY;
	g->from = address_in(field(g, head, "From"));
	g->to = address_in(field(g, head, "To"));
	g->failed = field(g, head, "X-Failed-Recipients");
	value = dsn_read_utf8(STR_NULL, field(g, head, "Subject"), &utf8); /* some encode nothing */
	mail_encoded_decode(value, &subject);
	g->subject = subject.n ? arena_str(r->mem, buf_str(&subject)) : STR_NULL;
	buf_free(&subject);
	buf_free(&utf8);
	sort_parts(g, m);
	if (!r->formal)
		unmarked_status(g);
	size_t formal = r->n;
	dsn_read_human(g);
	if (!r->n && g->returned.n) { /* a bounce that somebody's system wrapped into another */
		struct str inner = buf_str(&g->returned), human, rest;
		const char *body = memmem(inner.p, inner.n, "\n\n", 2);
		if (!body && (body = memmem(inner.p, inner.n, "\n\r\n", 3)))
			body++;
		if (body && is_wrapped(str_n(inner.p, (size_t)(body - inner.p)))) {
			dsn_read_cut(str_skip(inner, (size_t)(body - inner.p) + 2), &human, &rest);
			buf_reset(&g->human);
			buf_adds(&g->human, str_n(human.p, human.n < DSN_READ_TEXT_MAX ? human.n : DSN_READ_TEXT_MAX));
			unmarked_status(g);
			if (!r->n)
				dsn_read_human(g);
		}
	}
	bool daemon = looks_like_daemon(g, field(g, head, "Return-Path"));
	if (!formal && !g->failed.n && (!daemon || !(g->failure_words || g->delay_words)))
		r->n = 0;
	/* nobody is named: the message that came back says to whom it went */
	if (!r->n && daemon && (g->failure_words || g->delay_words || r->formal) && (to = address_in(field(g, buf_str(&g->returned), "To"))).n)
		dsn_read_add(g, to);
	r->report = r->formal || g->failed.n || r->n || (daemon && g->failure_words);
	for (size_t i = 0; i < r->n; i++)
		judge(g, &r->rcpt[i]);
	return g->memory ? DSN_READ_MEMORY : 0;
}

int dsn_read(struct str raw, bool bare_lf, struct dsn_read *ret)
{
	struct mail_mime m;
	struct dsn_gather g = { .r = ret, .human = BUF_INIT(DSN_READ_TEXT_MAX * 2), .returned = BUF_INIT(DSN_READ_TEXT_MAX) };
	*ret = (struct dsn_read){ .mem = arena_new(4u << 20) };
	int r = ret->mem ? mail_mime_parse(&m, raw, bare_lf) : DSN_READ_MEMORY;
	if (ret->mem && r)
		r = r == MAIL_MIME_LIMIT ? DSN_READ_LIMIT : DSN_READ_MEMORY;
	if (!r) {
		r = fill(&g, &m);
		mail_mime_free(&m);
	}
	buf_free(&g.human);
	buf_free(&g.returned);
	if (r)
		dsn_read_free(ret);
	return r;
}

void dsn_read_free(struct dsn_read *r)
{
	arena_free(r->mem);
	*r = (struct dsn_read){ 0 };
}
