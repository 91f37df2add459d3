/* The scripted caller of driver.h. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>

const struct smtp_server_conf driver_conf = {
	.hostname = STR_INIT("mx.example.test"),
	.extensions = SMTP_EXT_ALL_PLAIN,
	.size_limit = 1000,
	.max_recipients = 3,
	.max_errors = 10,
	.max_hops = 50,
};

enum { LOG_MAX = 16 << 20 };

void driver_start(struct driver *d, const struct smtp_server_conf *conf)
{
	*d = (struct driver){ .log = BUF_INIT(LOG_MAX), .message = BUF_INIT(LOG_MAX) };
	d->s = smtp_server_new(conf);
	if (!d->s)
		abort();
	smtp_server_time(d->s, DRIVER_TIME);
	buf_reset(smtp_server_out(d->s));
}

static void flush(struct driver *d)
{
	struct buf *out = smtp_server_out(d->s);
	for (size_t i = 0; i < out->n; i++)
		if (out->p[i] != '\r') /* each \r\n becomes the log's \n; test_reply_octets looks at the octets themselves */
			buf_addc(&d->log, out->p[i]);
	buf_reset(out);
}

static void log_text(struct driver *d, const char *name, struct str s)
{
	buf_addf(&d->log, " %s=<", name);
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == '\r')
			buf_addz(&d->log, "\\r");
		else if (s.p[i] == '\n')
			buf_addz(&d->log, "\\n");
		else
			buf_addc(&d->log, s.p[i] ? s.p[i] : '@');
	buf_addc(&d->log, '>');
}

static void log_notify(struct driver *d, const struct smtp_rcpt *r)
{
	static const char *const names[] = { "never", "success", "failure", "delay" };
	for (unsigned i = 0; i < 4; i++)
		if (r->notify & 1u << i)
			buf_addf(&d->log, " %s", names[i]);
	if (r->orcpt.n)
		log_text(d, "orcpt", r->orcpt);
}

static void log_wishes(struct driver *d, const struct smtp_transaction *tx)
{
	if (tx->hold_for || tx->hold_until)
		buf_addf(&d->log, " hold=%u/%lld", tx->hold_for, (long long)tx->hold_until);
	if (tx->deliver_mode)
		buf_addf(&d->log, " by=%d/%lld;%c%s", tx->deliver_by, (long long)tx->deliver_at, tx->deliver_mode,
		    tx->deliver_trace ? "T" : "");
	if (tx->has_priority)
		buf_addf(&d->log, " priority=%d/%d", tx->priority, tx->priority_asked);
	if (tx->require_tls)
		buf_addz(&d->log, " requiretls");
	if (tx->prdr)
		buf_addz(&d->log, " prdr");
}

static void log_xclient(struct driver *d, const struct smtp_xclient *x)
{
	static const char *const is[] = { "", "", "unavailable", "tempunavail" };
	const struct {
		const char *name;
		enum smtp_xclient_state state;
		struct str value;
	} all[] = {
		{ "name", x->name_is, x->name }, { "addr", x->addr_is, x->addr }, { "helo", x->helo_is, x->helo },
		{ "login", x->login_is, x->login }, { "destaddr", x->destaddr_is, x->destaddr },
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (all[i].state)
			log_text(d, all[i].name, all[i].state == SMTP_XCLIENT_GIVEN ? all[i].value : str_from(is[all[i].state]));
	if (x->port_is)
		buf_addf(&d->log, " port=%u", x->port);
	if (x->destport_is)
		buf_addf(&d->log, " destport=%u", x->destport);
	if (x->proto_is)
		buf_addf(&d->log, " proto=%s", x->esmtp ? "esmtp" : "smtp");
}

static void log_event(struct driver *d, const struct smtp_event *ev)
{
	static const char *const names[] = {
		[SMTP_EV_NONE] = "NONE",   [SMTP_EV_HELO] = "HELO",         [SMTP_EV_MAIL] = "MAIL",
		[SMTP_EV_RCPT] = "RCPT",   [SMTP_EV_DATA] = "DATA",         [SMTP_EV_CHUNK] = "CHUNK",
		[SMTP_EV_MESSAGE] = "MESSAGE", [SMTP_EV_ABORT] = "ABORT",   [SMTP_EV_RESET] = "RESET",
		[SMTP_EV_STARTTLS] = "STARTTLS", [SMTP_EV_VRFY] = "VRFY",   [SMTP_EV_QUIT] = "QUIT",
		[SMTP_EV_CLOSE] = "CLOSE",   [SMTP_EV_EXPN] = "EXPN",       [SMTP_EV_XCLIENT] = "XCLIENT",
	};
	const struct smtp_transaction *tx = ev->tx;
	buf_addf(&d->log, "EV %s", names[ev->kind]);
	switch (ev->kind) {
	case SMTP_EV_HELO:
		buf_addf(&d->log, " %s", ev->esmtp ? "esmtp" : "smtp");
		log_text(d, "name", ev->text);
		break;
	case SMTP_EV_MAIL:
		log_text(d, "from", tx->mail_from);
		log_text(d, "domain", tx->mail_domain);
		if (tx->size)
			buf_addf(&d->log, " size=%llu", (unsigned long long)tx->size);
		if (tx->body)
			buf_addz(&d->log, tx->body == SMTP_BODY_BINARYMIME ? " binary" : " 8bit");
		if (tx->smtputf8)
			buf_addz(&d->log, " utf8");
		if (tx->ret)
			buf_addf(&d->log, " ret=%c", tx->ret);
		if (tx->envid.n)
			log_text(d, "envid", tx->envid);
		log_wishes(d, tx);
		break;
	case SMTP_EV_DATA:
		if (tx->chunked)
			buf_addz(&d->log, " chunked");
		break;
	case SMTP_EV_XCLIENT:
		log_xclient(d, ev->xclient);
		break;
	case SMTP_EV_RCPT:
		log_text(d, "to", ev->rcpt->address);
		log_text(d, "local", ev->rcpt->local);
		log_text(d, "domain", ev->rcpt->domain);
		log_notify(d, ev->rcpt);
		break;
	case SMTP_EV_MESSAGE:
		log_text(d, "from", tx->mail_from);
		for (unsigned i = 0; i < tx->n_rcpts; i++) {
			log_text(d, "to", tx->rcpts[i].address);
			log_notify(d, &tx->rcpts[i]);
		}
		log_text(d, "text", buf_str(&d->message));
		break;
	case SMTP_EV_VRFY:
	case SMTP_EV_EXPN:
		if (ev->smtputf8)
			buf_addz(&d->log, " utf8");
		log_text(d, "text", ev->text);
		break;
	case SMTP_EV_ABORT:
	case SMTP_EV_CLOSE:
		log_text(d, "text", ev->text);
		break;
	default:
		break;
	}
	buf_addc(&d->log, '\n');
}

/* NULL: accept; otherwise the reply to refuse with, of code 0 for the engine's default. */
static const struct smtp_reply *verdict(struct driver *d, const struct smtp_event *ev)
{
	static const struct smtp_reply usual = { 0 }, refuse = { 550, "5.1.1", "No such user\nhere" },
				       later = { 451, "4.2.0", "Come back" }, end = { 421, "4.7.1", "Go away" };
	struct str who = STR_NULL;
	switch (ev->kind) {
	case SMTP_EV_XCLIENT:
		return str_istarts(ev->xclient->login, STR("refuse")) ? &usual : NULL;
	case SMTP_EV_HELO:
	case SMTP_EV_VRFY:
	case SMTP_EV_EXPN:
		return str_istarts(ev->text, STR("refuse")) ? &usual : NULL;
	case SMTP_EV_MAIL:
		who = ev->tx->mail_from;
		break;
	case SMTP_EV_RCPT:
		who = ev->rcpt->address;
		break;
	case SMTP_EV_DATA:
		return str_istarts(ev->tx->mail_from, STR("nodata")) ? &usual : NULL;
	case SMTP_EV_MESSAGE:
		return d->message.n && memmem(d->message.p, d->message.n, "refuse", 6) ? &usual : NULL;
	default:
		break;
	}
	return str_istarts(who, STR("refuse")) ? &refuse : str_istarts(who, STR("later")) ? &later :
	    str_istarts(who, STR("end"))   ? &end :
					     NULL;
}

static void answer(struct driver *d, const struct smtp_event *ev)
{
	char text[64];
	struct smtp_reply queued = { 250, "2.6.0", text };
	const struct smtp_reply *r = verdict(d, ev);
	if (r) {
		smtp_server_reject(d->s, r->code ? r : NULL);
	} else if (ev->kind == SMTP_EV_MESSAGE) {
		for (unsigned i = 0; i < ev->tx->n_rcpts; i++)
			if (str_istarts(ev->tx->rcpts[i].address, STR("full")))
				smtp_server_answer_rcpt(d->s, i, &(struct smtp_reply){ 452, "4.2.2", "Mailbox full" });
		snprintf(text, sizeof text, "queued as %u", ++d->messages);
		smtp_server_accept(d->s, &queued);
	} else {
		smtp_server_accept(d->s, NULL);
	}
}

void driver_pump(struct driver *d)
{
	struct smtp_event ev;
	while (smtp_server_next(d->s, &ev)) {
		flush(d);
		switch (ev.kind) {
		case SMTP_EV_CHUNK:
			buf_adds(&d->message, ev.chunk);
			continue; /* how it is cut is not part of the log */
		case SMTP_EV_DATA:
			buf_reset(&d->message);
			break;
		case SMTP_EV_QUIT:
		case SMTP_EV_CLOSE:
			d->closed = true;
			break;
		default:
			break;
		}
		log_event(d, &ev);
		if (ev.kind == SMTP_EV_HELO || ev.kind == SMTP_EV_MAIL || ev.kind == SMTP_EV_RCPT || ev.kind == SMTP_EV_DATA ||
		    ev.kind == SMTP_EV_MESSAGE || ev.kind == SMTP_EV_VRFY || ev.kind == SMTP_EV_EXPN ||
		    ev.kind == SMTP_EV_XCLIENT) {
			if (d->hold)
				d->held = ev.kind;
			else
				answer(d, &ev);
			d->hold = false;
		}
	}
	flush(d);
}

void driver_send(struct driver *d, struct str octets)
{
	if (smtp_server_feed(d->s, octets.p, octets.n))
		buf_addz(&d->log, "FEED REFUSED\n");
	driver_pump(d);
}

const char *driver_log(struct driver *d)
{
	return buf_z(&d->log);
}

void driver_stop(struct driver *d)
{
	smtp_server_free(d->s);
	buf_free(&d->log);
	buf_free(&d->message);
}
