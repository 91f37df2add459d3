/* The table of extensions.h, and what of a session decides about its rows. Says what is offered; the verbs and parameters
 * themselves are worked on elsewhere. */
#include "extensions.h"

#include "datetime.h"
#include "params.h"
#include "server_internal.h"

static void write_size(const struct smtp_server *s, struct buf *out)
{
	buf_addf(out, " %llu", (unsigned long long)s->conf->size_limit);
}

static void write_limits(const struct smtp_server *s, struct buf *out)
{
	if (s->conf->max_transactions)
		buf_addf(out, " MAILMAX=%u", s->conf->max_transactions);
	buf_addf(out, " RCPTMAX=%u", smtp_server_max_rcpts(s));
}

static void write_deliverby(const struct smtp_server *s, struct buf *out)
{
	if (s->conf->deliver_by_min)
		buf_addf(out, " %u", s->conf->deliver_by_min);
}

static bool deliverby_ready(const struct smtp_server *s)
{
	return s->now;
}

static bool futurerelease_ready(const struct smtp_server *s)
{
	return s->conf->hold_max && s->now && (s->conf->hold_all || s->trust & SMTP_TRUST_HOLD);
}

static void write_futurerelease(const struct smtp_server *s, struct buf *out)
{
	buf_addf(out, " %u ", s->conf->hold_max);
	smtp_datetime_write(s->now + s->conf->hold_max, out);
}

static void write_priority(const struct smtp_server *s, struct buf *out)
{
	if (s->conf->priority_profile.n) {
		buf_addc(out, ' ');
		buf_adds(out, s->conf->priority_profile);
	}
}

static void write_xclient(const struct smtp_server *s, struct buf *out)
{
	(void)s;
	buf_addz(out, " NAME ADDR PORT PROTO HELO LOGIN DESTADDR DESTPORT");
}

static bool xonce_ready(const struct smtp_server *s)
{
	return s->trust & SMTP_TRUST_ONCE;
}

const struct smtp_extension smtp_extensions[] = {
	{ STR_INIT("PIPELINING"), SMTP_EXT_PIPELINING, 0, 0, NULL, NULL, NULL },
	{ STR_INIT("SIZE"), SMTP_EXT_SIZE, 0, 0, smtp_params_size, NULL, write_size },
	{ STR_INIT("8BITMIME"), SMTP_EXT_8BITMIME, 0, 0, smtp_params_body, NULL, NULL },
	/* RFC 6531 §3.1 item 8: only along with 8BITMIME */
	{ STR_INIT("SMTPUTF8"), SMTP_EXT_SMTPUTF8, 0, SMTP_EXT_8BITMIME, smtp_params_smtputf8, NULL, NULL },
	{ STR_INIT("ENHANCEDSTATUSCODES"), SMTP_EXT_ENHANCEDSTATUSCODES, 0, 0, NULL, NULL, NULL },
	{ STR_INIT("DSN"), SMTP_EXT_DSN, 0, 0, smtp_params_dsn, NULL, NULL },
	{ STR_INIT("STARTTLS"), SMTP_EXT_STARTTLS, SMTP_WHEN_PLAIN, 0, NULL, NULL, NULL },
	{ STR_INIT("CHUNKING"), SMTP_EXT_CHUNKING, 0, 0, NULL, NULL, NULL },
	/* RFC 3030 §3: only along with CHUNKING */
	{ STR_INIT("BINARYMIME"), SMTP_EXT_BINARYMIME, 0, SMTP_EXT_CHUNKING, smtp_params_body, NULL, NULL },
	{ STR_INIT("REQUIRETLS"), SMTP_EXT_REQUIRETLS, SMTP_WHEN_TLS, 0, smtp_params_requiretls, NULL, NULL },
	{ STR_INIT("LIMITS"), SMTP_EXT_LIMITS, 0, 0, NULL, NULL, write_limits },
	{ STR_INIT("DELIVERBY"), SMTP_EXT_DELIVERBY, 0, 0, smtp_params_deliverby, deliverby_ready,
	    write_deliverby },
	{ STR_INIT("FUTURERELEASE"), SMTP_EXT_FUTURERELEASE, 0, 0, smtp_params_futurerelease, futurerelease_ready,
	    write_futurerelease },
	{ STR_INIT("MT-PRIORITY"), SMTP_EXT_MT_PRIORITY, 0, 0, smtp_params_priority, NULL, write_priority },
	{ STR_INIT("PRDR"), SMTP_EXT_PRDR, SMTP_WHEN_SMTP, 0, smtp_params_prdr, NULL, NULL },
	{ STR_INIT("HELP"), SMTP_EXT_HELP, 0, 0, NULL, NULL, NULL },
	{ STR_INIT("EXPN"), SMTP_EXT_EXPN, 0, 0, NULL, NULL, NULL },
	{ STR_INIT("AUTH"), SMTP_EXT_AUTH, 0, 0, smtp_params_auth, smtp_server_auth_ready, smtp_server_auth_write },
	{ STR_INIT("XCLIENT"), SMTP_EXT_XCLIENT, SMTP_WHEN_TRUSTED, 0, NULL, NULL, write_xclient },
	{ STR_INIT("XONCE"), SMTP_EXT_XONCE, 0, 0, smtp_params_xonce, xonce_ready, NULL },
};
const size_t smtp_extensions_n = sizeof smtp_extensions / sizeof *smtp_extensions;

static bool offered(const struct smtp_server *s, const struct smtp_extension *x)
{
	return !(x->when & SMTP_WHEN_PLAIN && s->tls) && !(x->when & SMTP_WHEN_TLS && !s->tls) &&
	    !(x->when & SMTP_WHEN_SMTP && s->conf->lmtp) &&
	    !(x->when & SMTP_WHEN_TRUSTED && !(s->trust & SMTP_TRUST_XCLIENT)) && (!x->ready || x->ready(s));
}

unsigned smtp_server_offers(const struct smtp_server *s)
{
	unsigned ext = 0;
	for (size_t i = 0; i < smtp_extensions_n; i++) {
		const struct smtp_extension *x = &smtp_extensions[i];
		if (s->conf->extensions & x->bit && (ext & x->needs) == x->needs && offered(s, x))
			ext |= x->bit;
	}
	return ext;
}

unsigned smtp_server_extensions(const struct smtp_server *s)
{
	return s->esmtp ? smtp_server_offers(s) : 0;
}

const struct smtp_extension *smtp_extension_find(struct str keyword)
{
	for (size_t i = 0; i < smtp_extensions_n; i++)
		if (str_ieq(keyword, smtp_extensions[i].keyword))
			return &smtp_extensions[i];
	return NULL;
}

int smtp_extensions_parse(struct str list, unsigned *ret, struct str *ret_unknown)
{
	struct str word;
	unsigned bits = 0;
	while (str_word(&list, " \t,", &word)) {
		const struct smtp_extension *x = smtp_extension_find(word);
		if (!x) {
			if (ret_unknown)
				*ret_unknown = word;
			return -1;
		}
		bits |= x->bit;
	}
	*ret = bits;
	return 0;
}
