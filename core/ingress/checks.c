/* The way of one question through lists, recipients, greylist and delay; see checks.h. */
#include "checks.h"

#include "base/clock.h"
#include "before.h"
#include "greylist.h"
#include "ingress_internal.h"
#include "proto/address/address.h"

#include <stdarg.h>
#include <stdlib.h>

enum { TEXT_MAX = 512 };

struct check {
	struct session *s;
	enum smtp_event_kind what;
	bool local;
	bool later;                   /* not inside the engine's event any more */
	struct smtp_rcpt rcpt;        /* strings live in the transaction, as do those of */
	struct str sender;
	struct recipient_ask *ask;
	struct before_ask *stage;
	struct greylist_ask *grey;
	struct event *timer;
	bool tarpitted;
	bool accept;
	struct smtp_reply reply;      /* text: below */
	char status[12], text[TEXT_MAX];
};

static void release(struct check *c)
{
	struct session *s = c->s;
	recipients_cancel(c->ask);
	before_ask_cancel(c->stage);
	greylist_cancel(c->grey);
	if (c->timer)
		event_free(c->timer);
	if (c->tarpitted)
		s->in->tarpitted--;
	s->check = NULL;
	free(c);
}

void checks_free(struct session *s)
{
	if (s->check)
		release(s->check);
}

/* Tells the engine; may free the session when that happens later. */
static void answer(struct check *c)
{
	struct session *s = c->s;
	bool later = c->later;
	if (c->what == SMTP_EV_RCPT && c->accept)
		vet_begin(s, c->sender);
	if (c->what == SMTP_EV_DATA && c->accept)
		policy_data_begin(s);
	else if (c->accept)
		smtp_server_accept(s->engine, c->text[0] ? &c->reply : NULL);
	else
		smtp_server_reject(s->engine, &c->reply);
	release(c);
	if (later)
		session_answered(s);
}

static void on_delayed(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	answer(arg);
}

static bool wait_until(struct check *c, int64_t us, event_callback_fn fn)
{
	struct timeval tv = { .tv_sec = us / US_PER_S, .tv_usec = us % US_PER_S };
	if (c->timer)
		event_free(c->timer);
	c->timer = evtimer_new(c->s->in->base, fn, c);
	if (!c->timer || event_add(c->timer, &tv))
		return false;
	c->later = true;
	session_postpone(c->s, us);
	return true;
}

static void accept_it(struct check *c)
{
	c->accept = true;
	answer(c);
}

static void reply(struct check *c, unsigned code, const char *status, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static void reply(struct check *c, unsigned code, const char *status, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(c->text, sizeof c->text, fmt, ap);
	va_end(ap);
	snprintf(c->status, sizeof c->status, "%s", status);
	c->reply = (struct smtp_reply){ code, c->status, c->text };
}

/* --- the greylist */

static void on_greylist(void *arg, int32_t wait_s)
{
	struct check *c = arg;
	struct session *s = c->s;
	c->grey = NULL;
	if (!wait_s) {
		accept_it(c);
		return;
	}
	ingress_refused(s->in, s, REFUSED_GREYLIST, "from=%s to=%s wait_s=%d", log_q(c->sender), log_q(c->rcpt.address), (int)wait_s);
	reply(c, c->what == SMTP_EV_DATA ? 451 : 450, "4.7.1", "First time from your network: try again in %d seconds", (int)wait_s);
	answer(c);
}

static bool is_stranger(const struct session *s)
{
	return !s->exempt && !s->relay && !s->login.n;
}

static bool greylists(const struct session *s)
{
	return s->terms->abuse.greylist && is_stranger(s) && !s->terms->lmtp && !dnsbl_allowed(s);
}

static void ask_greylist(struct check *c)
{
	struct session *s = c->s;
	/* a null sender is asked to wait at DATA only: those who look whether an address exists leave before */
	if (greylists(s) && c->local && (c->sender.n || c->what == SMTP_EV_DATA))
		c->grey = greylist_ask(s->in->greylist, &s->peer, c->sender, c->rcpt.address, on_greylist, c);
	if (c->grey) {
		c->later = true;
		return;
	}
	accept_it(c);
}

/* --- who lives here */

static const char nobody[] = "No such recipient here", not_now[] = "Recipients cannot be looked up at the moment; try again later";

/* For good. text: what is said. */
static void unknown(struct check *c, const char *status, const char *text)
{
	struct session *s = c->s;
	const struct abuse_terms *t = &s->terms->abuse;
	bool stranger = is_stranger(s), harvests = false;
	s->unknown++;
	if (stranger) {
		int64_t now = clock_mono_us();
		harvests = limits_harvests(s->in->limits, &t->rates, &s->peer, now);
		limits_unknown(s->in->limits, &s->peer, now);
	}
	bool over = stranger && (harvests || (t->unknown_max && s->unknown >= t->unknown_max));
	ingress_refused(s->in, s, over ? REFUSED_HARVEST : REFUSED_RECIPIENT, "from=%s to=%s unknown=%u", log_q(c->sender),
	    log_q(c->rcpt.address), s->unknown);
	if (over)
		reply(c, 421, "4.7.0", "Too many unknown recipients");
	else
		reply(c, 550, status, "%s", text);
	if (stranger && t->unknown_delay_us && (harvests || s->unknown > t->unknown_free)) {
		if (s->in->tarpitted < s->in->set.abuse.tarpit_max && wait_until(c, t->unknown_delay_us, on_delayed)) {
			c->tarpitted = true;
			s->in->tarpitted++;
			s->in->tarpitted_total++;
			return;
		}
		s->in->tarpit_full++;
	}
	answer(c);
}

static void on_recipient(struct check *c, enum recipient_answer a)
{
	struct session *s = c->s;
	if (c->what == SMTP_EV_VRFY) {
		if (a == RECIPIENT_YES)
			reply(c, 250, "2.1.5", "<%.*s>", STR_ARG(c->rcpt.address));
		else if (a == RECIPIENT_NO)
			reply(c, 550, "5.1.1", nobody);
		else
			reply(c, 451, "4.3.0", "Cannot look it up at the moment");
		c->accept = a == RECIPIENT_YES;
		answer(c);
	} else if (a == RECIPIENT_YES) {
		ask_greylist(c);
	} else if (a == RECIPIENT_NO) {
		unknown(c, "5.1.1", nobody);
	} else {
		ingress_refused(s->in, s, REFUSED_LOOKUP, "from=%s to=%s", log_q(c->sender), log_q(c->rcpt.address));
		reply(c, 451, "4.3.0", "%s", not_now);
		answer(c);
	}
}

static void on_recipient_later(void *arg, enum recipient_answer a, const char *source)
{
	struct check *c = arg;
	(void)source;
	c->ask = NULL;
	on_recipient(c, a);
}

static void ask_sources(struct check *c)
{
	const char *source;
	enum recipient_answer a = recipients_ask(c->s->in->recipients, c->rcpt.local, c->rcpt.domain, on_recipient_later, c, &c->ask, &source);
	if (a == RECIPIENT_WAIT)
		c->later = true;
	else
		on_recipient(c, a);
}

/* The stage that RECIPIENTS names has spoken. */
static void on_stage(void *arg, enum before_told told, const char *enhanced, const char *text)
{
	struct check *c = arg;
	struct session *s = c->s;
	c->stage = NULL;
	if (told == BEFORE_SILENT) {
		ask_sources(c);
	} else if (c->what == SMTP_EV_VRFY || told == BEFORE_KNOWS) {
		on_recipient(c, told == BEFORE_KNOWS ? RECIPIENT_YES : told == BEFORE_REFUSES ? RECIPIENT_NO : RECIPIENT_AWAY);
	} else if (told == BEFORE_REFUSES) {
		unknown(c, enhanced[0] ? enhanced : "5.1.1", text[0] ? text : nobody);
	} else {
		ingress_refused(s->in, s, REFUSED_LOOKUP, "from=%s to=%s", log_q(c->sender), log_q(c->rcpt.address));
		reply(c, text[0] ? 450 : 451, enhanced[0] ? enhanced : "4.3.0", "%s", text[0] ? text : not_now);
		answer(c);
	}
}

static void ask_recipient(struct check *c)
{
	struct ingress *in = c->s->in;
	const char *stage;
	if (!c->local || !c->rcpt.domain.n) {
		on_recipient(c, RECIPIENT_YES);
		return;
	}
	if (!(stage = recipients_stage(in->recipients, c->rcpt.domain))) {
		ask_sources(c);
		return;
	}
	if ((c->stage = before_ask(in->before, &c->s->log, stage, c->sender, c->rcpt.address, on_stage, c)))
		c->later = true;
	else
		on_recipient(c, RECIPIENT_AWAY);
}

/* --- lists in the DNS */

static void judge_lists(struct check *c)
{
	struct session *s = c->s;
	const struct dnsbl_result *r;
	const struct dnsbl_list *l = is_stranger(s) ? dnsbl_refusal(s, &r) : NULL;
	if (!l) {
		ask_recipient(c);
		return;
	}
	bool reject = l->action == DNSBL_REJECT;
	ingress_refused(s->in, s, REFUSED_DNSBL, "zone=%s address=127.%u.%u.%u from=%s to=%s", l->zone, r->address[1], r->address[2],
	    r->address[3], log_q(c->sender), log_q(c->rcpt.address));
	reply(c, reject ? 550 : 450, reject ? "5.7.1" : "4.7.1", "Client [%s] is listed by %s%s%s", s->peer.text, l->zone, r->text[0] ? ": " : "",
	    r->text);
	answer(c);
}

static void on_lists_late(evutil_socket_t fd, short what, void *arg)
{
	struct check *c = arg;
	(void)fd;
	(void)what;
	event_free(c->timer);
	c->timer = NULL;
	dnsbl_late(c->s);
	judge_lists(c);
}

void checks_dnsbl_done(struct session *s)
{
	struct check *c = s->check;
	if (!c || !c->timer || c->tarpitted || c->ask || c->stage || c->grey || c->what != SMTP_EV_RCPT)
		return; /* nobody waits for lists */
	event_free(c->timer);
	c->timer = NULL;
	judge_lists(c);
}

/* --- the beginning */

static struct check *make(struct session *s, const struct smtp_event *ev)
{
	struct check *c = calloc(1, sizeof *c);
	struct smtp_reply full = { 451, "4.3.0", "Out of memory; try again later" };
	if (!c) {
		smtp_server_reject(s->engine, &full);
		return NULL;
	}
	c->s = s;
	c->what = ev->kind;
	if (ev->tx)
		c->sender = ev->tx->mail_from;
	s->check = c;
	return c;
}

void checks_rcpt(struct session *s, const struct smtp_event *ev, bool local)
{
	struct check *c = make(s, ev);
	if (!c)
		return;
	c->rcpt = *ev->rcpt;
	c->local = local;
	if (is_stranger(s) && dnsbl_open(s)) {
		if (wait_until(c, s->terms->abuse.dnsbl_wait_us, on_lists_late))
			return;
		dnsbl_late(s);
	}
	judge_lists(c);
}

bool checks_data(struct session *s, const struct smtp_event *ev)
{
	if (ev->tx->mail_from.n || !ev->tx->n_rcpts || !greylists(s))
		return false;
	struct check *c = make(s, ev);
	if (c) {
		c->rcpt = ev->tx->rcpts[0];
		c->local = true;
		ask_greylist(c);
	}
	return true;
}

void checks_vrfy(struct session *s, const struct smtp_event *ev)
{
	struct smtp_address a;
	struct str text = str_trim(ev->text);
	if (text.n > 2 && text.p[0] == '<' && text.p[text.n - 1] == '>')
		text = str_n(text.p + 1, text.n - 2);
	/* 252 to strangers: they are not told who lives here */
	if (!s->login.n || smtp_address_parse(text, ev->smtputf8, &a) || !config_domains_has(s->terms->local, a.domain)) {
		smtp_server_accept(s->engine, NULL);
		return;
	}
	struct check *c = make(s, ev);
	if (!c)
		return;
	c->rcpt = (struct smtp_rcpt){ .address = a.address, .local = a.local, .domain = a.domain };
	c->local = true;
	ask_recipient(c);
}
