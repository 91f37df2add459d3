/* The part for people: what happened, to whom, why, and what to do; in the words of a language, lines of at most 76 columns. */
#include "dsn_internal.h"
#include "proto/smtp/xtext.h"

#include <stdio.h>
#include <time.h>

enum { WIDTH = 76, FILLED_MAX = DSN_WORDS_TEXT_MAX + 40 * DSN_TEXT_MAX };

static size_t columns(struct str s)
{
	size_t n = 0;
	for (size_t i = 0; i < s.n; i++)
		n += ((unsigned char)s.p[i] & 0xc0) != 0x80;
	return n;
}

/* Writes one paragraph as lines of at most WIDTH columns, each behind indent; ends the line. */
static void wrap(struct buf *out, const char *indent, struct str text)
{
	struct str word;
	size_t column = 0, n = strlen(indent);
	while (str_word(&text, " \t", &word)) {
		size_t wide = columns(word);
		if (column && column + 1 + wide > WIDTH) {
			buf_add(out, "\r\n", 2);
			column = 0;
		}
		if (!column)
			buf_add(out, indent, n);
		else
			buf_addc(out, ' ');
		column += (column ? 1 : n) + wide;
		buf_adds(out, word);
	}
	if (column)
		buf_add(out, "\r\n", 2);
}

/* Texts with the values of the moment. */
struct writer {
	struct buf *out;
	const struct dsn_words *words;
	struct str values[DSN_VALUES];
};

/* The text of that name, its paragraphs set apart; more (may be empty) goes behind its last word. False: there is none. */
static bool say(struct writer *w, const char *indent, const char *name, const char *more)
{
	struct buf b = BUF_INIT(FILLED_MAX);
	bool is = dsn_words_fill(&b, w->words, name, w->values);
	if (is)
		buf_addz(&b, more);
	struct str rest = buf_str(&b);
	while (is && rest.n) {
		ptrdiff_t end = str_chr(rest, '\n');
		struct str line = str_n(rest.p, end < 0 ? rest.n : (size_t)end);
		if (line.n)
			wrap(w->out, indent, line);
		else
			buf_add(w->out, "\r\n", 2);
		rest = str_skip(rest, line.n + (end >= 0));
	}
	w->out->failed |= b.failed;
	buf_free(&b);
	return is;
}

/* The same as a paragraph of its own. */
static void paragraph(struct writer *w, const char *name)
{
	if (say(w, "", name, ""))
		buf_add(w->out, "\r\n", 2);
}

/* "2026-11-30 11:39 UTC": read alike in every language. */
static struct str date_words(char room[40], int64_t us)
{
	time_t t = (time_t)(us / 1000000);
	struct tm tm;
	room[0] = 0;
	if (us > 0 && us < INT64_C(253402300800) * 1000000 && gmtime_r(&t, &tm))
		snprintf(room, 40, "%04d-%02d-%02d %02d:%02d UTC", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min);
	return str_from(room);
}

static void advice(struct writer *w, const struct dsn_rcpt *r, enum dsn_kind action, const char *status)
{
	static const char *const fixed[] = { NULL, "advice.delayed", "advice.delivered", "advice.relayed", "advice.expanded" };
	char name[32];
	if (fixed[action]) {
		say(w, "    ", fixed[action], "");
		return;
	}
	if (r->cause) {
		say(w, "    ", r->cause == DSN_CAUSE_OPERATOR ? "advice.returned" : "advice.here", "");
		return;
	}
	const char *detail = status + 2;
	if (!strcmp(detail, "7.30")) /* RFC 8689 §4.2.1: REQUIRETLS; for people the same as 7.10 */
		detail = "7.10";
	snprintf(name, sizeof name, "advice.%s", detail);
	if (!say(w, "    ", name, ""))
		say(w, "    ", detail[0] == '7' ? "advice.policy" : detail[0] == '1' ? "advice.address" : status[0] == '4' ? "advice.temporary" : "advice.other", "");
}

static void reason(struct writer *w, const struct dsn_rcpt *r)
{
	static const char *const causes[] = { NULL, "cause.operator", "cause.stage", "cause.slow", "cause.crash" };
	char code[16], name[40];
	struct buf text = BUF_INIT(2 * DSN_TEXT_MAX), mta = BUF_INIT(1024), phase = BUF_INIT(DSN_WORDS_TEXT_MAX);
	if (r->cause)
		say(w, "    ", r->cause == DSN_CAUSE_STAGE && !w->values[DSN_V_STAGE].n ? "cause.unknown" : causes[r->cause], "");
	if (r->hidden && !r->cause) {
		say(w, "    ", "reason.hidden", "");
	} else if (r->code && !r->hidden) {
		snprintf(code, sizeof code, "%u", r->code);
		snprintf(name, sizeof name, "phase.%.*s", (int)(r->phase.n > 20 ? 20 : r->phase.n), r->phase.n ? r->phase.p : "");
		buf_addz(&phase, " (");
		bool known = dsn_words_fill(&phase, w->words, name, w->values);
		buf_addc(&phase, ')');
		dsn_text(&text, r->reply, true, DSN_TEXT_MAX);
		dsn_text(&mta, r->remote_mta, true, 300);
		w->values[DSN_V_CODE] = str_from(code);
		w->values[DSN_V_TEXT] = buf_str(&text);
		w->values[DSN_V_MTA] = buf_str(&mta);
		say(w, "    ", mta.n ? "reply" : "reply.unnamed", known ? buf_z(&phase) : "");
	} else if (!r->cause) {
		dsn_text(&text, r->diagnostic, true, DSN_TEXT_MAX);
		w->values[DSN_V_TEXT] = buf_str(&text);
		say(w, "    ", text.n ? "reason" : "reason.none", "");
	}
	w->out->failed |= text.failed || mta.failed || phase.failed;
	buf_free(&text);
	buf_free(&mta);
	buf_free(&phase);
}

/* What the sender wrote, when it is another address than the one the report is about (an alias, say). */
static void original(struct writer *w, const struct dsn_rcpt *r)
{
	struct buf address = BUF_INIT(DSN_TEXT_MAX), shown = BUF_INIT(2 * DSN_TEXT_MAX);
	struct str type;
	if (r->orcpt.n && smtp_orcpt_decode(r->orcpt, true, &type, &address) == 0 && !str_ieq(buf_str(&address), r->address) &&
	    (str_ieq(type, STR("rfc822")) || str_ieq(type, STR("utf-8")))) {
		dsn_text(&shown, buf_str(&address), true, DSN_TEXT_MAX);
		w->values[DSN_V_ORIGINAL] = buf_str(&shown);
		say(w, "    ", "original", "");
	}
	buf_free(&address);
	buf_free(&shown);
}

static void recipient(struct writer *w, const struct dsn *d, const struct dsn_rcpt *r)
{
	struct buf b = BUF_INIT(4 * DSN_TEXT_MAX);
	char room[16], date[40];
	enum dsn_kind action = dsn_action(d, r);
	buf_addz(&b, "<");
	dsn_text(&b, r->address, true, DSN_TEXT_MAX);
	size_t n = b.n;
	buf_addz(&b, ">:");
	w->values[DSN_V_RECIPIENT] = b.failed ? STR_NULL : str_n(b.p + 1, n - 1);
	wrap(w->out, "", buf_str(&b));
	original(w, r);
	advice(w, r, action, dsn_status(r, action, room));
	if (action == DSN_FAILED || action == DSN_DELAYED)
		reason(w, r);
	if (action == DSN_DELAYED && d->retry_until_us > 0) {
		w->values[DSN_V_DATE] = date_words(date, d->retry_until_us);
		say(w, "    ", "until", "");
	}
	buf_add(w->out, "\r\n", 2);
	w->out->failed |= b.failed;
	w->values[DSN_V_RECIPIENT] = STR_NULL;
	buf_free(&b);
}

void dsn_values(struct str values[DSN_VALUES], const struct dsn *d, struct buf *b)
{
	size_t at[5];
	for (size_t i = 0; i < DSN_VALUES; i++)
		values[i] = STR_NULL;
	at[0] = b->n;
	dsn_text(b, d->hostname, true, 300);
	at[1] = b->n;
	if (!d->postmaster.n)
		buf_addz(b, "postmaster@");
	dsn_text(b, d->postmaster.n ? d->postmaster : d->hostname, true, 300);
	at[2] = b->n;
	dsn_text(b, d->to, true, DSN_TEXT_MAX);
	at[3] = b->n;
	dsn_text(b, d->id, true, 64);
	at[4] = b->n;
	for (size_t i = 0; i < 4 && !b->failed; i++)
		values[DSN_V_HOST + i] = str_n(b->p + at[i], at[i + 1] - at[i]);
}

void dsn_human_part(struct buf *out, const struct dsn *d, const struct dsn_words *words, bool full)
{
	struct writer w = { .out = out, .words = words };
	struct buf made = BUF_INIT(4 * DSN_TEXT_MAX), b = BUF_INIT(4096);
	char date[40];
	dsn_values(w.values, d, &made);
	paragraph(&w, "hello");
	say(&w, "", d->kind == DSN_DELAYED ? "delayed" : d->kind != DSN_FAILED ? "success" : d->n_rcpts == 1 ? "failed.one" : "failed.many", "");
	say(&w, "", full ? "attached.message" : "attached.headers", "");
	buf_add(out, "\r\n", 2);
	dsn_text(&b, d->stage, true, 64);
	bool caused = false;
	for (size_t i = 0; i < d->n_rcpts && i < DSN_RCPTS_MAX; i++)
		caused |= d->rcpts[i].cause != DSN_CAUSE_NONE;
	w.values[DSN_V_STAGE] = buf_str(&b);
	if (d->stage.n && !caused)
		paragraph(&w, "stage");
	if (d->maybe) {
		struct buf hop = BUF_INIT(1024);
		dsn_text(&hop, d->maybe_hop, true, 300);
		w.values[DSN_V_HOP] = buf_str(&hop);
		w.values[DSN_V_DATE] = date_words(date, d->maybe_us);
		paragraph(&w, w.values[DSN_V_DATE].n && hop.n ? "maybe" : "maybe.unknown");
		w.values[DSN_V_HOP] = w.values[DSN_V_DATE] = STR_NULL;
		buf_free(&hop);
	}
	for (size_t i = 0; i < d->n_rcpts && i < DSN_RCPTS_MAX; i++)
		recipient(&w, d, &d->rcpts[i]);
	paragraph(&w, "footer");
	out->failed |= b.failed || made.failed;
	buf_free(&b);
	buf_free(&made);
}
