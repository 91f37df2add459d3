/* MAIL and RCPT: their checks, which refuse or fill the transaction's fields. The answers are the caller's. */
#include "command.h"
#include "params.h"
#include "server_internal.h"

#include <stdio.h>

static void refuse_path(struct smtp_server *s, int fault, const char *status, const char *what, const char *syntax)
{
	char text[160];
	if (fault == -SMTP_COMMAND_SYNTAX || fault == -SMTP_ADDRESS_BRACKET) {
		smtp_server_refuse(s, 501, "5.5.4", syntax);
		return;
	}
	if (fault == -SMTP_ADDRESS_NOT_ASCII) {
		smtp_server_refuse(s, 553, "5.6.7", "Address is not ASCII: SMTPUTF8 needed");
		return;
	}
	snprintf(text, sizeof text, "Bad %s address: %s", what, smtp_address_fault_text(fault));
	smtp_server_refuse(s, 501, status, text);
}

static void refuse_param(struct smtp_server *s, enum smtp_param_fault fault, const struct smtp_param *at)
{
	static const char *const what[] = {
		[SMTP_PARAM_SYNTAX] = "Syntax error at parameter",
		[SMTP_PARAM_UNKNOWN] = "Parameter not recognized or not implemented:",
		[SMTP_PARAM_DUPLICATE] = "Parameter given twice:",
		[SMTP_PARAM_VALUE] = "Bad value of parameter",
	};
	char text[160];
	/* up to 40 octets of the peer's own text; the reply writer makes it printable */
	int n = at->name.n > 40 ? 40 : (int)at->name.n;
	snprintf(text, sizeof text, "%s %.*s", what[fault], n, n ? at->name.p : "");
	smtp_server_refuse(s, fault == SMTP_PARAM_UNKNOWN ? 555 : 501, "5.5.4", text);
}

/* The address in its canonical form, put behind the command line in the same buffer when it differs from what was sent. */
static int canonical(struct smtp_server *s, struct smtp_address *a)
{
	size_t at = s->command.n;
	if (!a->quoted)
		return 0;
	/* reserved by the caller of smtp_server_command(): does not move what the other strings point into */
	if (s->command.cap - at <= SMTP_MAILBOX_MAX || smtp_address_canonical(a, &s->command))
		return -1;
	struct str whole = str_n(s->command.p + at, s->command.n - at);
	size_t behind = a->domain.n ? a->domain.n + 1 : 0;
	a->address = whole;
	a->local = str_n(whole.p, whole.n - behind);
	a->domain = str_n(whole.p + whole.n - a->domain.n, a->domain.n);
	return 0;
}

static const char no_memory[] = "Insufficient system resources";

/* What a parameter asks for against what the server promises: false, and it has refused. */
static bool within_limits(struct smtp_server *s, const struct smtp_mail_params *p)
{
	const struct smtp_server_conf *conf = s->conf;
	if (conf->size_limit && p->size > conf->size_limit)
		smtp_server_refuse(s, 552, "5.3.4", "Message size exceeds the limit");
	else if (p->hold_for > conf->hold_max || p->hold_until > s->now + conf->hold_max)
		smtp_server_refuse(s, 501, "5.5.4", "Longer than a message may be held");
	else if (p->deliver_mode == 'R' && p->deliver_by < (int64_t)conf->deliver_by_min)
		smtp_server_refuse(s, 555, "5.5.4", "Less time than delivery takes");
	else if (conf->max_transactions && s->mails >= conf->max_transactions)
		smtp_server_fail(s, 421, "4.7.0", "Too many messages in one session");
	else
		return true;
	return false;
}

static void take_params(struct smtp_server *s, const struct smtp_mail_params *p)
{
	struct smtp_transaction *tx = &s->tx;
	tx->size = p->size;
	tx->body = p->body;
	tx->smtputf8 = p->smtputf8;
	tx->ret = p->ret;
	tx->hold_for = p->hold_for;
	tx->hold_until = p->hold_for ? s->now + p->hold_for : p->hold_until;
	tx->deliver_mode = p->deliver_mode;
	tx->deliver_by = p->deliver_by;
	tx->deliver_at = p->deliver_mode && s->now ? s->now + p->deliver_by : 0;
	tx->deliver_trace = p->deliver_trace;
	tx->has_priority = p->has_priority;
	tx->priority_asked = p->priority;
	/* RFC 6710: who is not trusted may ask for less, not for more */
	tx->priority = p->priority > 0 && !(s->trust & SMTP_TRUST_PRIORITY) ? 0 : p->priority;
	tx->require_tls = p->require_tls;
	tx->prdr = p->prdr;
}

bool smtp_server_mail_check(struct smtp_server *s, struct str args)
{
	struct smtp_address a;
	struct smtp_mail_params p;
	struct smtp_param at;
	struct str text;
	unsigned ext = smtp_server_extensions(s);
	int r = smtp_command_path(args, STR("FROM:"), SMTP_PATH_NULL | (ext & SMTP_EXT_SMTPUTF8 ? SMTP_PATH_UTF8 : 0), &a,
	    &text);
	if (r) {
		refuse_path(s, r, "5.1.7", "sender", "Syntax: MAIL FROM:<address> [parameters]");
		return false;
	}
	enum smtp_param_fault f = smtp_mail_params_parse(text, ext, &p, &at);
	if (f) {
		refuse_param(s, f, &at);
		return false;
	}
	if (a.utf8 && !p.smtputf8) {
		refuse_path(s, -SMTP_ADDRESS_NOT_ASCII, NULL, NULL, NULL);
		return false;
	}
	if (!within_limits(s, &p))
		return false;
	if (smtp_transaction_begin(s) || canonical(s, &a)) {
		smtp_server_say(s, 452, "4.3.1", no_memory);
		return false;
	}
	struct smtp_transaction *tx = &s->tx;
	tx->mail_from = arena_str(tx->arena, a.address);
	tx->envid = p.envid.n ? arena_str(tx->arena, p.envid) : STR_NULL;
	tx->once = p.once.n ? arena_str(tx->arena, p.once) : STR_NULL;
	tx->auth = p.auth.n ? arena_str(tx->arena, p.auth) : STR_NULL;
	if (!tx->mail_from.p || (p.envid.n && !tx->envid.p) || (p.once.n && !tx->once.p) || (p.auth.n && !tx->auth.p)) {
		smtp_transaction_clear(s);
		smtp_server_say(s, 452, "4.3.1", no_memory);
		return false;
	}
	tx->mail_domain = str_n(tx->mail_from.p + tx->mail_from.n - a.domain.n, a.domain.n);
	take_params(s, &p);
	return true;
}

bool smtp_server_rcpt_check(struct smtp_server *s, struct str args)
{
	struct smtp_address a;
	struct smtp_rcpt_params p;
	struct smtp_param at;
	struct str text;
	unsigned flags = SMTP_PATH_POSTMASTER | (s->tx.smtputf8 ? SMTP_PATH_UTF8 : 0);
	int r = smtp_command_path(args, STR("TO:"), flags, &a, &text);
	if (r) {
		refuse_path(s, r, "5.1.3", "recipient", "Syntax: RCPT TO:<address> [parameters]");
		return false;
	}
	enum smtp_param_fault f = smtp_rcpt_params_parse(text, smtp_server_extensions(s), s->tx.smtputf8, &p, &at);
	if (f) {
		refuse_param(s, f, &at);
		return false;
	}
	if (s->tx.n_rcpts >= smtp_server_max_rcpts(s)) { /* no error of the client's: it sends the rest in another transaction */
		smtp_server_say(s, 452, "4.5.3", "Too many recipients");
		return false;
	}
	if (!canonical(s, &a)) {
		s->rcpt = (struct smtp_rcpt){ a.address, a.local, a.domain, p.notify, p.orcpt };
		if (!smtp_transaction_keep_rcpt(s))
			return true;
	}
	smtp_server_say(s, 452, "4.3.1", no_memory);
	return false;
}
