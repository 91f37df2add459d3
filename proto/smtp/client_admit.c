/* Before a transaction: what may be sent to this peer at all, and to which of the recipients. Whatever is refused here never meets it. */
#include "client_internal.h"

/* Can the address stand between < and >? Quotes balanced, nothing outside them that ends the path or the line. */
static bool address_ok(struct str a)
{
	bool quoted = false;
	if (!a.n || a.n > SMTP_CLIENT_ADDRESS_MAX || !str_is_utf8(a))
		return false;
	for (size_t i = 0; i < a.n; i++) {
		unsigned char ch = (unsigned char)a.p[i];
		if (ch < 32 || ch == 127)
			return false;
		if (quoted && ch == '\\') {
			if (++i == a.n || (unsigned char)a.p[i] < 32 || (unsigned char)a.p[i] > 126)
				return false;
		} else if (ch == '"') {
			quoted = !quoted;
		} else if (!quoted && (ch == ' ' || ch == '<' || ch == '>')) {
			return false;
		}
	}
	return !quoted;
}

uint64_t client_size(const struct smtp_client *c)
{
	const struct smtp_client_msg *m = c->msg;
	if (c->plan)
		return c->plan->size + (c->plan->open ? 2 : 0);
	return (uint64_t)m->headers.n + 2 + m->body.n + (!c->binary && m->content & SMTP_CONTENT_OPEN ? 2 : 0);
}

/* What was promised to the sender, and this peer would not keep. */
static bool promises(struct smtp_client *c)
{
	const struct smtp_client_msg *m = c->msg;
	if (c->conf->lmtp)
		return true;
	if (m->require_tls && m->mail_from.n && !(c->tls && c->offer.caps & SMTP_CAP_REQUIRETLS))
		return client_refuse(c, SMTP_PHASE_MAIL, "5.7.30", c->tls ? "the sender requires TLS all the way, which the next hop does not promise (REQUIRETLS)"
		                                                    : "the sender requires TLS all the way, and the next hop has none (REQUIRETLS)");
	if (m->deliver_mode != 'R')
		return true;
	/* RFC 2852 §4.1.5: what must come back in time is not given to somebody who does not know of it */
	if (!(c->offer.caps & SMTP_CAP_DELIVERBY))
		return client_refuse(c, SMTP_PHASE_MAIL, "5.3.3", "the sender wants the message back if it is late, which the next hop cannot do (DELIVERBY)");
	if (m->deliver_by <= 0 || (uint64_t)m->deliver_by < c->offer.deliver_by_min)
		return client_refuse(c, SMTP_PHASE_MAIL, "5.4.7", "less time is left to deliver the message than the next hop needs (DELIVERBY)");
	return true;
}

/* The domain as it is told apart: what lies behind the last @. */
static struct str domain_of(struct str a)
{
	size_t at = a.n;
	while (at && a.p[at - 1] != '@')
		at--;
	return at ? str_skip(a, at) : STR_NULL;
}

/* Puts off the recipients beyond what the peer takes in one transaction (RFC 9422 §4). Returns how many are left of `left`. */
static size_t limit(struct smtp_client *c, size_t left)
{
	const struct smtp_limits *l = &c->offer.limits;
	struct smtp_client_msg *m = c->msg;
	struct str *seen = NULL;
	size_t n_seen = 0, n = 0, over = 0, max = l->rcpt_domain_max < left ? l->rcpt_domain_max : left;
	if ((!l->rcpt_max || l->rcpt_max >= left) && (!l->rcpt_domain_max || l->rcpt_domain_max >= left))
		return left;
	if (max && !(seen = arena_alloc(c->arena, max * sizeof *seen)))
		max = 0; /* without memory for it the peer will say what it does not take */
	for (size_t i = 0; i < m->n_rcpts; i++) {
		struct smtp_client_rcpt *r = &m->rcpts[i];
		struct str d = domain_of(r->address);
		size_t k = 0;
		if (r->result.outcome != SMTP_OUT_NONE)
			continue;
		while (k < n_seen && !str_ieq(seen[k], d))
			k++;
		if ((!l->rcpt_max || n < l->rcpt_max) && (k < n_seen || !max || n_seen < max)) {
			if (k == n_seen && max)
				seen[n_seen++] = d;
			n++;
			continue;
		}
		over++;
		client_result_text(c, &r->result, SMTP_OUT_TRANSIENT, SMTP_PHASE_RCPT, "4.5.3",
		    "the next hop takes fewer recipients at a time (LIMITS)");
	}
	if (over && m->whole) {
		struct smtp_result res;
		client_result_text(c, &res, SMTP_OUT_TRANSIENT, SMTP_PHASE_RCPT, "4.5.3", "the next hop takes fewer recipients at a time (LIMITS)");
		client_undecided(c, &res);
		return 0;
	}
	return n;
}

/* What the content needs and this peer does not offer. binary: it was declared so, and is; as_it_is: and goes so. */
static unsigned lacking(const struct smtp_client *c, const struct smtp_client_msg *m, bool binary, bool as_it_is)
{
	bool header = m->content & SMTP_CONTENT_HEADER_8BIT, body = m->content & SMTP_CONTENT_BODY_8BIT;
	unsigned lacks = binary && !as_it_is ? MAIL_LACKS_BINARY : 0;
	if ((header || body) && !as_it_is && !(c->offer.caps & SMTP_CAP_8BITMIME))
		lacks |= MAIL_LACKS_8BIT;
	/* fields of parts count, too, but to know of them takes a look at all parts */
	if (m->smtputf8 && !(c->offer.caps & SMTP_CAP_SMTPUTF8) && (header || (body && m->downgrade)))
		lacks |= MAIL_LACKS_UTF8;
	return lacks;
}

static void scan(struct smtp_client_msg *m)
{
	if (!(m->content & SMTP_CONTENT_SCANNED))
		m->content = smtp_content_scan(m->headers, m->body);
}

/* Declared as binary, and such that it matters (RFC 3030 §3). */
static bool is_binary(const struct smtp_client_msg *m)
{
	return m->body_binary && m->content & (SMTP_CONTENT_BAD | SMTP_CONTENT_LONG);
}

static bool as_binary(const struct smtp_client *c, const struct smtp_client_msg *m)
{
	return is_binary(m) && m->chunking != SMTP_CHUNKING_NEVER && !(m->content & SMTP_CONTENT_HEADER_BAD) && c->offer.caps & SMTP_CAP_CHUNKING && c->offer.caps & SMTP_CAP_BINARYMIME;
}

unsigned smtp_client_lacks(const struct smtp_client *c, struct smtp_client_msg *m)
{
	scan(m);
	unsigned lacks = lacking(c, m, is_binary(m), as_binary(c, m));
	bool ascii = str_is_ascii(m->mail_from);
	for (size_t i = 0; i < m->n_rcpts && ascii; i++)
		ascii = str_is_ascii(m->rcpts[i].address);
	return lacks | (!ascii && !(c->offer.caps & SMTP_CAP_SMTPUTF8) ? MAIL_LACKS_UTF8 : 0);
}

/* Content that is not converted. */
static bool refuse_lacking(struct smtp_client *c, unsigned lacks)
{
	if (lacks & MAIL_LACKS_BINARY)
		return client_refuse(c, SMTP_PHASE_DATA, "5.6.3", "message is binary (BINARYMIME) and cannot be sent as text");
	if (lacks & MAIL_LACKS_UTF8)
		return client_refuse(c, SMTP_PHASE_MAIL, "5.6.7", "the next hop does not take internationalized mail (SMTPUTF8)");
	return client_refuse(c, SMTP_PHASE_MAIL, "5.6.3", "message has 8-bit content, which the next hop does not take (8BITMIME)");
}

bool client_admit(struct smtp_client *c)
{
	struct smtp_client_msg *m = c->msg;
	bool has_utf8 = c->offer.caps & SMTP_CAP_SMTPUTF8, eight;
	size_t left = 0;
	client_downgrade_done(c);
	m->downgraded = (struct smtp_downgraded){ 0 };
	m->chunked = false;
	scan(m);
	bool binary = is_binary(m);
	c->bdat = c->binary = as_binary(c, m);
	unsigned lacks = lacking(c, m, binary, c->binary);
	if (lacks && c->binary && m->downgrade) { /* what is converted goes as text */
		c->bdat = c->binary = false;
		lacks = lacking(c, m, binary, false);
	}
	if (lacks & MAIL_LACKS_BINARY && (!m->downgrade || m->content & SMTP_CONTENT_HEADER_BAD))
		return refuse_lacking(c, lacks);
	if (m->content & SMTP_CONTENT_BAD && !binary)
		return client_refuse(c, SMTP_PHASE_DATA, "5.6.0", "message holds a bare CR, a bare LF or a NUL and cannot be sent");
	if (m->mail_from.n && !address_ok(m->mail_from))
		return client_refuse(c, SMTP_PHASE_MAIL, "5.1.7", "the sender address cannot be sent");
	if (!promises(c) || (lacks && m->downgrade && !client_downgrade(c, lacks)))
		return false;
	if (m->chunking == SMTP_CHUNKING_ALWAYS && c->offer.caps & SMTP_CAP_CHUNKING && !c->plan)
		c->bdat = true; /* without BINARYMIME, it is held to line ends (RFC 3030 §3), which it has here */
	m->chunked = c->bdat;
	if (c->offer.size_limit && client_size(c) > c->offer.size_limit)
		return client_refuse(c, SMTP_PHASE_MAIL, "5.3.4", "message is larger than the next hop accepts");
	bool need_utf8 = !str_is_ascii(m->mail_from) || (m->smtputf8 && (m->content & SMTP_CONTENT_HEADER_8BIT));
	if (!has_utf8 && !client_address_ascii(m->mail_from)) {
		struct smtp_result r;
		client_address_result(c, &r, SMTP_PHASE_MAIL, m->mail_from);
		client_undecided(c, &r);
		return false;
	}
	if (lacks && !m->downgrade)
		return refuse_lacking(c, lacks);
	m->downgraded.envelope = !has_utf8 && !str_is_ascii(m->mail_from);
	eight = c->plan ? c->plan->eight : m->content & (SMTP_CONTENT_HEADER_8BIT | SMTP_CONTENT_BODY_8BIT);
	for (size_t i = 0; i < m->n_rcpts; i++) {
		struct smtp_client_rcpt *r = &m->rcpts[i];
		bool ascii = str_is_ascii(r->address);
		if (!address_ok(r->address))
			client_result_text(c, &r->result, SMTP_OUT_PERMANENT, SMTP_PHASE_RCPT, "5.1.3",
			    "the recipient address cannot be sent");
		else if (!has_utf8 && !client_address_ascii(r->address))
			client_address_result(c, &r->result, SMTP_PHASE_RCPT, r->address);
		else {
			left++;
			need_utf8 |= !ascii;
			m->downgraded.envelope |= !ascii && !has_utf8;
		}
	}
	left = limit(c, left);
	c->eight = !c->binary && (eight || (!c->plan && (m->body_8bit || m->body_binary))) && (c->offer.caps & SMTP_CAP_8BITMIME);
	c->utf8 = (need_utf8 || m->smtputf8) && has_utf8;
	buf_reset(&c->content.buf); /* may still hold the end of the message before */
	buf_reset(&c->content.piece);
	if ((m->content & SMTP_CONTENT_DOTS || c->plan) && !c->bdat &&
	    (!buf_room(&c->content.buf, c->content.buf.max) || (c->plan && !buf_room(&c->content.piece, c->content.piece.max)))) {
		struct smtp_result res;
		client_result_text(c, &res, SMTP_OUT_LOST, SMTP_PHASE_MAIL, "4.3.0", "out of memory");
		client_undecided(c, &res);
		buf_reset(&c->content.buf);
		buf_reset(&c->content.piece);
		return false;
	}
	return left > 0;
}
