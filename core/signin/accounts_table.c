/* Requests of `pepsi account` about accounts: their rows read, added, changed and removed in pepsi.mail_account. Passwords pass through here to
 * the process that digests them; what is kept of them are digests. */
#include "accounts_internal.h"

#include "base/log.h"
#include "proto/smtp/address.h"

#include <ctype.h>
#include <string.h>

/* ---- reading */

void accounts_row(struct peer *p, const struct store_account *a)
{
	struct wire_account_row r = { .name = a->name, .has_password = a->has_password, .enabled = a->enabled, .n_senders = a->n_senders,
		.n_certificates = a->n_certificates, .created_at = (uint64_t)(a->created_at / 1000000),
		.changed_at = (uint64_t)(a->changed_at / 1000000), .signed_in_at = (uint64_t)(a->signed_in_at / 1000000) };
	for (size_t i = 0; i < a->n_senders; i++)
		r.senders[i] = a->senders[i];
	for (size_t i = 0; i < a->n_certificates; i++)
		r.certificates[i] = a->certificates[i];
	for (unsigned i = 0; i < WIRE_CAPS; i++)
		r.caps[i] = a->caps[i] < 0 ? WIRE_ACCOUNT_CAP_DEFAULT : (uint32_t)a->caps[i];
	if (p->rows.n > WIRE_ACCOUNT_ROWS_ENOUGH || p->more)
		p->more = true;
	else
		wire_account_row_put(&p->rows, &r);
}

static void on_list_row(void *arg, const struct store_account *a)
{
	accounts_row(arg, a);
}

static void on_listed(void *arg, enum store_rc rc, unsigned n, const char *err)
{
	peer_listed(arg, rc, n == STORE_ACCOUNT_PAGE, err);
}

static void on_shown(void *arg, enum store_rc rc, const struct store_account *a, const char *err)
{
	struct peer *p = arg;
	if (rc != STORE_OK) {
		peer_database_no(p, rc, err);
	} else if (!a) {
		peer_refuse(p, "there is no account %s", p->name);
	} else {
		accounts_row(p, a);
		peer_done(p);
	}
}

/* ---- writing */

static const char *const events[] = { [WIRE_ACCOUNT_ADD] = "account-added", [WIRE_ACCOUNT_CHANGE] = "account-changed",
	[WIRE_ACCOUNT_REMOVE] = "account-removed" };

static void on_written(void *arg, enum store_rc rc, unsigned n, const char *err)
{
	struct peer *p = arg;
	if (rc != STORE_OK) {
		peer_database_no(p, rc, err);
	} else if (!n && p->op == WIRE_ACCOUNT_ADD) {
		peer_refuse(p, "there is an account %s already", p->name);
	} else if (!n) {
		peer_refuse(p, "there is no account %s", p->name);
	} else {
		log_info(NULL, "event=%s account=%s uid=%u pid=%d", events[p->op], log_qz(p->name), (unsigned)p->who.uid, (int)p->who.pid);
		peer_done(p);
	}
}

static void write_out(struct peer *p, struct str phc, struct str scram)
{
	struct store_account_change *c = &p->change;
	c->name = str_from(p->name);
	c->password = phc;
	c->scram = scram;
	if (p->op == WIRE_ACCOUNT_CHANGE) {
		store_account_change(p->a->s->db, c, on_written, p);
		return;
	}
	struct store_account a = { .name = c->name, .password = phc, .scram = scram, .enabled = !c->set_enabled || c->enabled,
		.n_senders = c->n_senders, .n_certificates = c->n_certificates };
	for (size_t i = 0; i < c->n_senders; i++)
		a.senders[i] = c->senders[i];
	for (size_t i = 0; i < c->n_certificates; i++)
		a.certificates[i] = c->certificates[i];
	for (unsigned i = 0; i < STORE_CAPS; i++)
		a.caps[i] = c->caps[i] < 0 ? -1 : c->caps[i];
	store_account_add(p->a->s->db, &a, on_written, p);
}

static void on_hashed(void *arg, const struct job_msg *answer)
{
	struct peer *p = arg;
	if (!answer || answer->what != JOB_YES || answer->n != 2)
		peer_refuse(p, "the password's digest could not be computed (out of memory?); nothing was changed");
	else
		write_out(p, answer->f[0], answer->f[1]);
}

/* ---- requests */

/* "a@b", "@b" or "*", its domain in lower case; appended to kept. NULL, or why not. */
static const char *take_sender(struct buf *kept, struct str s, struct str *ret)
{
	struct smtp_address a;
	size_t at = kept->n;
	if (str_eq(s, STR("*"))) {
		buf_addc(kept, '*');
	} else if (s.n && s.p[0] == '@') {
		char domain[CONFIG_DOMAIN_MAX + 1];
		if (smtp_domain_check(str_skip(s, 1), true) || config_domain_fold(str_skip(s, 1), domain, sizeof domain))
			return "not a domain";
		buf_addc(kept, '@');
		buf_addz(kept, domain);
	} else {
		int fault = smtp_address_parse(s, true, &a);
		if (fault)
			return smtp_address_fault_text(fault);
		buf_adds(kept, a.local);
		buf_addc(kept, '@');
		for (size_t i = 0; i < a.domain.n; i++)
			buf_addc(kept, ascii_lower(a.domain.p[i]));
	}
	*ret = str_n(kept->p + at, kept->n - at);
	return kept->failed ? "too long" : NULL;
}

/* 64 hexadecimal digits, colons between them allowed, as programs print SHA-256 fingerprints. */
static const char *take_certificate(struct buf *kept, struct str s, struct str *ret)
{
	size_t at = kept->n;
	for (size_t i = 0; i < s.n; i++)
		if (isxdigit((unsigned char)s.p[i]))
			buf_addc(kept, (char)tolower((unsigned char)s.p[i]));
		else if (s.p[i] != ':')
			return "not a SHA-256 fingerprint: 64 hexadecimal digits";
	if (kept->failed || kept->n - at != 64)
		return "not a SHA-256 fingerprint: 64 hexadecimal digits";
	*ret = str_n(kept->p + at, 64);
	return NULL;
}

static bool take_lists(struct peer *p, const struct wire_account_request *r)
{
	const char *bad;
	buf_free(&p->kept);
	p->kept = BUF_INIT(64 * 1024);
	if (!buf_room(&p->kept, 48 * 1024)) { /* more than all can be: it must not move */
		peer_refuse(p, "out of memory");
		return false;
	}
	for (size_t i = 0; i < r->n_senders; i++)
		if ((bad = take_sender(&p->kept, r->senders[i], &p->senders[i]))) {
			peer_refuse(p, "sender \"%.*s\": %s (wanted: an address, @DOMAIN, or *)", STR_ARG(r->senders[i]), bad);
			return false;
		}
	for (size_t i = 0; i < r->n_certificates; i++)
		if ((bad = take_certificate(&p->kept, r->certificates[i], &p->certificates[i]))) {
			peer_refuse(p, "certificate \"%.*s\": %s", STR_ARG(r->certificates[i]), bad);
			return false;
		}
	p->change = (struct store_account_change){ .set_enabled = r->set_enabled, .enabled = r->enabled, .set_senders = r->set_senders,
		.senders = p->senders, .n_senders = r->n_senders, .set_certificates = r->set_certificates, .certificates = p->certificates,
		.n_certificates = r->n_certificates };
	for (unsigned i = 0; i < WIRE_CAPS; i++)
		p->change.caps[i] = r->caps[i] == WIRE_ACCOUNT_CAP_KEEP ? STORE_CAP_KEEP :
		    r->caps[i] == WIRE_ACCOUNT_CAP_DEFAULT ? -1 : (int32_t)r->caps[i];
	return true;
}

static void add_or_change(struct peer *p, const struct wire_account_request *r)
{
	struct buf prepared = BUF_INIT(4 * WIRE_SIGNIN_PASSWORD_MAX);
	struct job_msg m = { .what = JOB_HASH, .n = 1 };
	const char *bad = r->set_password ? password_fault(r->password) : NULL;
	if (bad) {
		peer_refuse(p, "this password cannot be taken: %s", bad);
		return;
	}
	if (!take_lists(p, r))
		return;
	if (!r->set_password) {
		write_out(p, STR_NULL, STR_NULL);
		return;
	}
	if (password_prepare(r->password, &prepared)) {
		buf_free_secret(&prepared);
		peer_refuse(p, "out of memory");
		return;
	}
	m.f[0] = buf_str(&prepared);
	uint64_t ticket = keeper_run(p->a->s->hash, &m, on_hashed, p);
	buf_free_secret(&prepared);
	if (!ticket)
		peer_refuse(p, "too many password checks are waiting; try again in a moment");
}

void accounts_account(struct peer *p, const struct wire_account_request *r)
{
	p->name[0] = 0;
	if ((r->name.n || r->op != WIRE_ACCOUNT_LIST) && wire_signin_name(r->name, p->name) < 0) {
		peer_refuse(p, "\"%.*s\" cannot be an account's name: wanted are 1 to %d octets of UTF-8 without blanks, quotation marks, "
		    "backslashes and control characters, and \"" WIRE_SIGNIN_NAME_RESERVED "\" at the front is kept for users of this machine", STR_ARG(r->name), WIRE_SIGNIN_NAME_MAX);
		return;
	}
	switch (r->op) {
	case WIRE_ACCOUNT_ADD:
	case WIRE_ACCOUNT_CHANGE:
		add_or_change(p, r);
		break;
	case WIRE_ACCOUNT_REMOVE:
		store_account_remove(p->a->s->db, str_from(p->name), on_written, p);
		break;
	case WIRE_ACCOUNT_LIST:
		store_account_list(p->a->s->db, str_from(p->name), STORE_ACCOUNT_PAGE, on_list_row, on_listed, p);
		break;
	case WIRE_ACCOUNT_SHOW:
		store_account_get(p->a->s->db, str_from(p->name), on_shown, p);
		break;
	case WIRE_RECIPIENT_ADD:
	case WIRE_RECIPIENT_REMOVE:
	case WIRE_RECIPIENT_LIST:
	case WIRE_OVERLAY_SET:
	case WIRE_OVERLAY_UNSET:
	case WIRE_OVERLAY_LIST:
		break; /* of other files */
	}
}
