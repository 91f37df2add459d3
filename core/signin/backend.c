/* The backends: which there are, which can do what, and the two that live in the database (table, certificate) and behind a keeper
 * (PAM). What an account may, whichever backend vouches for it, stands in pepsi.mail_account. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const names[BACKEND_KINDS] = { "table", "pam", "dovecot", "oauth", "certificate" };

const char *backend_name(enum backend_kind k)
{
	return names[k];
}

static void add_backend(struct signin *s, struct str name)
{
	for (unsigned k = 0; k < BACKEND_KINDS; k++)
		if (str_ieq(name, str_from(names[k])) && !backend_has(s, (enum backend_kind)k))
			s->backends[s->n_backends++].kind = (enum backend_kind)k;
}

void backend_settings(struct signin *s)
{
	static const char *const caps[STORE_CAPS] = { "MESSAGES_PER_HOUR", "MESSAGES_PER_DAY", "RECIPIENTS_PER_HOUR", "RECIPIENTS_PER_DAY" };
	struct str rest = str_from(config_str(s->config, "pepsi-signin", "BACKENDS")), w;
	while (str_word(&rest, " \t,", &w))
		add_backend(s, w);
	for (unsigned i = 0; i < STORE_CAPS; i++)
		s->caps[i] = (uint32_t)config_int(s->config, "pepsi-signin", caps[i]);
}

bool backend_has(const struct signin *s, enum backend_kind k)
{
	for (size_t i = 0; i < s->n_backends; i++)
		if (s->backends[i].kind == k)
			return true;
	return false;
}

bool backend_up(const struct signin *s, const struct backend *b)
{
	switch (b->kind) {
	case BACKEND_TABLE:
	case BACKEND_CERTIFICATE:
		return s->db_up;
	case BACKEND_DOVECOT:
		return dovecot_up(s->dovecot);
	case BACKEND_OAUTH:
		return oauth_up(s->oauth);
	default:
		return true;
	}
}

static bool dovecot_has(const struct signin *s, struct str mechanism)
{
	const char *m;
	for (size_t i = 0; (m = dovecot_mech(s->dovecot, i)); i++)
		if (str_ieq(str_from(m), mechanism))
			return true;
	return false;
}

static bool sends_password(enum sasl_mech m)
{
	return m == SASL_PLAIN || m == SASL_LOGIN;
}

static bool takes_passwords(const struct signin *s, enum backend_kind k)
{
	return k == BACKEND_TABLE || k == BACKEND_PAM || (k == BACKEND_DOVECOT && dovecot_has(s, STR("PLAIN")));
}

static bool can(const struct signin *s, enum backend_kind k, bool known, enum sasl_mech m, struct str name)
{
	if (known && sends_password(m))
		return takes_passwords(s, k);
	switch (k) {
	case BACKEND_TABLE:
		return known && (m == SASL_SCRAM_SHA_256 || m == SASL_SCRAM_SHA_256_PLUS);
	case BACKEND_OAUTH:
		return known && (m == SASL_OAUTHBEARER || m == SASL_XOAUTH2);
	case BACKEND_CERTIFICATE:
		return known && m == SASL_EXTERNAL;
	case BACKEND_DOVECOT:
		return dovecot_has(s, name);
	default:
		return false;
	}
}

unsigned backend_mask(const struct signin *s, struct str list)
{
	struct str w;
	unsigned mask = 0;
	if (!str_trim(list).n)
		return ~0u;
	while (str_word(&list, " \t,", &w))
		for (size_t i = 0; i < s->n_backends; i++)
			if (str_ieq(w, str_from(backend_name(s->backends[i].kind))))
				mask |= 1u << i;
	return mask;
}

size_t backend_choose(const struct signin *s, unsigned allowed, struct str mechanism, bool *ret_relay)
{
	enum sasl_mech m = SASL_MECHS;
	bool known = sasl_mech_parse(mechanism, &m) == 0;
	size_t i = 0;
	while (i < s->n_backends && !(allowed & 1u << i && can(s, s->backends[i].kind, known, m, mechanism)))
		i++;
	*ret_relay = i < s->n_backends && s->backends[i].kind == BACKEND_DOVECOT && !(known && sends_password(m));
	return i;
}

void backend_offer(const struct signin *s, unsigned allowed, char *out, size_t size)
{
	size_t n = 0;
	const char *name;
	bool relay;
	out[0] = 0;
#define OFFER(z) (n += (size_t)snprintf(out + n, size - n, "%s%s", n ? " " : "", (z)))
	for (unsigned m = 0; m < SASL_MECHS; m++) {
		name = sasl_mech_name((enum sasl_mech)m);
		if (backend_choose(s, allowed, str_from(name), &relay) < s->n_backends && n + strlen(name) + 2 < size)
			OFFER(name);
	}
	for (size_t i = 0; (name = dovecot_mech(s->dovecot, i)); i++) {
		enum sasl_mech m;
		if (sasl_mech_parse(str_from(name), &m) && backend_choose(s, allowed, str_from(name), &relay) < s->n_backends && n + strlen(name) + 2 < size)
			OFFER(name);
	}
#undef OFFER
}

bool backend_next(struct exchange *x)
{
	for (size_t i = x->backend + 1; i < x->s->n_backends; i++)
		if (x->allowed & 1u << i && takes_passwords(x->s, x->s->backends[i].kind)) {
			x->backend = i;
			return true;
		}
	return false;
}

/* ---- pepsi.mail_account */

/* The asker of a row: found again by number, for a call to the database cannot be taken back. */
struct asked {
	struct signin *s;
	uint64_t serial;
	void (*then)(struct exchange *x, enum store_rc rc, const char *err);
	struct str scram; /* of the row, while `then` runs */
};

static bool keep_senders(struct exchange *x, const struct store_account *a)
{
	size_t need = 0;
	for (size_t i = 0; i < a->n_senders; i++)
		need += a->senders[i].n;
	buf_reset(&x->senders_text);
	if (!buf_room(&x->senders_text, need + 1)) /* at once, so that it does not move */
		return false;
	for (size_t i = 0; i < a->n_senders; i++) {
		size_t at = x->senders_text.n;
		if (buf_adds(&x->senders_text, a->senders[i]))
			return false;
		x->senders[i] = str_n(x->senders_text.p + at, a->senders[i].n);
	}
	x->n_senders = a->n_senders;
	return true;
}

static void on_row(void *arg, enum store_rc rc, const struct store_account *a, const char *err)
{
	struct asked *q = arg;
	struct exchange *x = exchange_find(q->s, q->serial);
	if (x) {
		x->row_known = rc == STORE_OK;
		x->row_there = a != NULL;
		x->row_enabled = a && a->enabled;
		x->row_stale = a && a->signed_in_at == 0;
		x->n_senders = 0;
		memcpy(x->caps, q->s->caps, sizeof x->caps);
		x->phc[0] = 0;
		if (a) {
			/* what the account last did is written about hourly: the statement looks again */
			x->row_stale = true;
			snprintf(x->account, sizeof x->account, "%.*s", (int)a->name.n, a->name.p);
			for (unsigned i = 0; i < STORE_CAPS; i++)
				if (a->caps[i] >= 0)
					x->caps[i] = (uint32_t)a->caps[i];
			if (a->password.n && a->password.n < sizeof x->phc) {
				memcpy(x->phc, a->password.p, a->password.n);
				x->phc[a->password.n] = 0;
			}
			if (!keep_senders(x, a)) {
				rc = STORE_FULL;
				err = "out of memory";
			}
		}
		struct str scram = a && a->scram.p ? a->scram : STR_NULL;
		if (q->then)
			q->then(x, rc, err);
		else if (rc == STORE_OK)
			exchange_verifier(x, scram);
		else
			exchange_verdict(x, VERDICT_AWAY, true, STR_NULL, err);
	}
	free(q);
}

static struct asked *ask(struct exchange *x, void (*then)(struct exchange *, enum store_rc, const char *))
{
	struct asked *q = calloc(1, sizeof *q);
	if (!q) {
		exchange_verdict(x, VERDICT_BUSY, true, STR_NULL, "out of memory");
		return NULL;
	}
	*q = (struct asked){ .s = x->s, .serial = x->serial, .then = then };
	return q;
}

/* ---- table */

static void on_verified(void *arg, const struct job_msg *answer)
{
	struct exchange *x = arg;
	x->ticket = 0;
	x->s->counts_changed = true;
	if (!answer || answer->what == JOB_DIED)
		exchange_verdict(x, VERDICT_AWAY, true, STR_NULL, "the process that computes digests died");
	else if (answer->what == JOB_AWAY)
		exchange_verdict(x, VERDICT_AWAY, true, STR_NULL, "the stored digest cannot be used, or memory is out");
	else if (answer->what != JOB_YES)
		exchange_verdict(x, VERDICT_NO, true, STR_NULL, x->row_there ? "wrong password" : "no such account");
	else if (!x->row_there)
		exchange_verdict(x, VERDICT_NO, true, STR_NULL, "no such account");
	else
		exchange_verdict(x, VERDICT_YES, true, str_from(x->account), "");
}

static bool later_password_backend(const struct exchange *x)
{
	for (size_t i = x->backend + 1; i < x->s->n_backends; i++)
		if (x->allowed & 1u << i && takes_passwords(x->s, x->s->backends[i].kind))
			return true;
	return false;
}

/* The same work whether there is an account or not, so that time does not tell. */
static void verify(struct exchange *x, const char *phc)
{
	struct job_msg m = { .what = JOB_VERIFY, .n = 2, .f = { str_from(phc), sasl_server_password(x->sasl) } };
	x->keeper = x->s->hash;
	if (!(x->ticket = keeper_run(x->keeper, &m, on_verified, x)))
		exchange_verdict(x, VERDICT_BUSY, true, STR_NULL, "too many password checks are waiting");
}

static void table_password(struct exchange *x, enum store_rc rc, const char *err)
{
	if (rc != STORE_OK) {
		exchange_verdict(x, VERDICT_AWAY, true, STR_NULL, err);
	} else if (x->row_there && x->phc[0]) {
		char phc[PASSWORD_PHC_MAX];
		memcpy(phc, x->phc, sizeof phc);
		explicit_bzero(x->phc, sizeof x->phc);
		verify(x, phc);
		explicit_bzero(phc, sizeof phc);
	} else if (later_password_backend(x)) {
		exchange_verdict(x, VERDICT_NO, false, STR_NULL, "not in the table"); /* the other one has its own work to do */
	} else {
		x->row_there = false; /* an account without password has none that could be right */
		verify(x, x->s->dummy);
	}
}

void backend_verifier(struct exchange *x)
{
	struct asked *q = ask(x, NULL);
	if (q)
		store_account_get(x->s->db, str_from(x->account), on_row, q);
}

/* ---- PAM */

static void on_pam(void *arg, const struct job_msg *answer)
{
	struct exchange *x = arg;
	struct str text = answer && answer->n ? answer->f[0] : STR_NULL;
	char why[200];
	x->ticket = 0;
	x->s->counts_changed = true;
	snprintf(why, sizeof why, "PAM: %.*s", (int)(text.n < 150 ? text.n : 150), text.p ? text.p : "");
	if (!answer || answer->what == JOB_DIED)
		exchange_verdict(x, VERDICT_AWAY, true, STR_NULL, "PAM: its process died, or took too long");
	else if (answer->what == JOB_YES)
		exchange_verdict(x, VERDICT_YES, true, text, "");
	else if (answer->what == JOB_DISABLED)
		exchange_verdict(x, VERDICT_DISABLED, true, STR_NULL, why);
	else if (answer->what == JOB_NO)
		exchange_verdict(x, VERDICT_NO, false, STR_NULL, why);
	else
		exchange_verdict(x, VERDICT_AWAY, true, STR_NULL, why);
}

static void pam_password(struct exchange *x)
{
	struct job_msg m = { .what = JOB_PAM, .n = 4, .f = { str_from(config_str(x->s->config, "pepsi-signin", "PAM_SERVICE")),
		str_from(x->account), sasl_server_password_raw(x->sasl), x->start.client } };
	if (!x->account[0]) {
		exchange_verdict(x, VERDICT_NO, false, STR_NULL, "not a name");
		return;
	}
	x->keeper = x->s->pam;
	if (!(x->ticket = keeper_run(x->keeper, &m, on_pam, x)))
		exchange_verdict(x, VERDICT_BUSY, true, STR_NULL, "too many password checks are waiting");
}

/* ---- Dovecot, PLAIN */

static void dovecot_password(struct exchange *x)
{
	struct str password = sasl_server_password_raw(x->sasl);
	struct buf plain = BUF_INIT(WIRE_SIGNIN_BLOB_MAX);
	int bad = x->account[0] && buf_room(&plain, 2 + strlen(x->account) + password.n) ? 0 : -1;
	if (!bad) {
		buf_addc(&plain, 0);
		buf_addz(&plain, x->account);
		buf_addc(&plain, 0);
		buf_adds(&plain, password);
		bad = plain.failed ? -1 : dovecot_begin(x->s->dovecot, x, STR("PLAIN"), true, buf_str(&plain));
	}
	buf_free_secret(&plain);
	if (bad && !x->account[0])
		exchange_verdict(x, VERDICT_NO, false, STR_NULL, "not a name");
	else if (bad)
		exchange_verdict(x, VERDICT_AWAY, true, STR_NULL, "Dovecot's auth service is away");
}

void backend_password(struct exchange *x)
{
	struct asked *q;
	switch (x->s->backends[x->backend].kind) {
	case BACKEND_PAM:
		pam_password(x);
		break;
	case BACKEND_DOVECOT:
		dovecot_password(x);
		break;
	default:
		if ((q = ask(x, table_password)))
			store_account_get(x->s->db, str_from(x->account), on_row, q);
	}
}

/* ---- certificate */

static bool is_claimed(const struct exchange *x, const char *claimed)
{
	return !claimed[0] || strcmp(claimed, x->account) == 0;
}

static void certificate_known(struct exchange *x, enum store_rc rc, const char *err)
{
	char claimed[WIRE_SIGNIN_NAME_MAX + 1], email[WIRE_SIGNIN_NAME_MAX + 1] = "", first[WIRE_SIGNIN_NAME_MAX + 1] = "";
	struct str wants = sasl_server_name(x->sasl);
	if (rc != STORE_OK) {
		exchange_verdict(x, VERDICT_AWAY, true, STR_NULL, err);
		return;
	}
	if (!wants.n)
		claimed[0] = 0;
	else if (wire_signin_name(wants, claimed) < 0) {
		exchange_verdict(x, VERDICT_DENIED, true, STR_NULL, "the identity asked for is no name");
		return;
	}
	if (x->row_there) { /* the row that names this certificate */
		if (is_claimed(x, claimed))
			exchange_verdict(x, VERDICT_YES, true, str_from(x->account), "");
		else
			exchange_verdict(x, VERDICT_DENIED, true, STR_NULL, "the certificate is another account's");
		return;
	}
	x->row_known = false; /* asked for by certificate, not by name */
	bool by_email = config_int(x->s->config, "pepsi-signin", "CERTIFICATE_EMAIL") && x->start.cert_verified;
	for (size_t i = 0; by_email && i < x->start.n_cert_emails; i++) {
		if (wire_signin_name(x->start.cert_emails[i], email) < 0)
			continue;
		if (!first[0])
			memcpy(first, email, sizeof first);
		if (claimed[0] && strcmp(claimed, email) == 0) {
			exchange_verdict(x, VERDICT_YES, true, str_from(email), "");
			return;
		}
	}
	if (first[0] && !claimed[0])
		exchange_verdict(x, VERDICT_YES, true, str_from(first), "");
	else
		exchange_verdict(x, VERDICT_NO, true, STR_NULL, first[0] ? "the certificate does not name the identity asked for" :
		                                                           "no account has this certificate");
}

void backend_certificate(struct exchange *x)
{
	static const char digits[] = "0123456789abcdef";
	char hex[65];
	struct asked *q;
	if (!x->start.has_cert) {
		exchange_verdict(x, VERDICT_NO, true, STR_NULL, "the client has shown no certificate");
		return;
	}
	for (size_t i = 0; i < 32; i++) {
		hex[2 * i] = digits[(unsigned char)x->start.cert_digest.p[i] >> 4];
		hex[2 * i + 1] = digits[(unsigned char)x->start.cert_digest.p[i] & 15];
	}
	hex[64] = 0;
	if ((q = ask(x, certificate_known)))
		store_account_by_certificate(x->s->db, str_from(hex), on_row, q);
}

/* ---- what it may */

static void policy_known(struct exchange *x, enum store_rc rc, const char *err)
{
	if (rc != STORE_OK)
		exchange_verdict(x, VERDICT_AWAY, true, STR_NULL, err);
	else if (x->row_there && !x->row_enabled)
		exchange_verdict(x, VERDICT_DISABLED, true, STR_NULL, "the account is disabled");
	else
		exchange_accepted(x);
}

void backend_policy(struct exchange *x)
{
	struct asked *q;
	explicit_bzero(x->phc, sizeof x->phc);
	if (x->row_known)
		policy_known(x, STORE_OK, "");
	else if ((q = ask(x, policy_known)))
		store_account_get(x->s->db, str_from(x->account), on_row, q);
}
