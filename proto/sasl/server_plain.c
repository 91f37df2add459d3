/* The mechanisms without arithmetic: PLAIN, LOGIN, EXTERNAL. */
#include "server_internal.h"

/* RFC 4616 §2: [authzid] NUL authcid NUL passwd. */
enum sasl_server_state sasl_plain_feed(struct sasl_server *s, struct str blob)
{
	struct str authzid, name;
	ptrdiff_t at = str_chr(blob, 0);
	if (at < 0)
		return sasl_server_fail(s, SASL_F_MALFORMED, "PLAIN: parts missing");
	authzid = str_n(blob.p, (size_t)at);
	blob = str_skip(blob, (size_t)at + 1);
	at = str_chr(blob, 0);
	if (at < 0)
		return sasl_server_fail(s, SASL_F_MALFORMED, "PLAIN: parts missing");
	name = str_n(blob.p, (size_t)at);
	blob = str_skip(blob, (size_t)at + 1);
	if (str_chr(blob, 0) >= 0)
		return sasl_server_fail(s, SASL_F_MALFORMED, "PLAIN: NUL in the password");
	if (sasl_server_take_name(s, name) || sasl_server_take_authzid(s, authzid) || sasl_server_take_password(s, blob))
		return s->state;
	return sasl_server_need(s, SASL_NEED_PASSWORD);
}

enum sasl_server_state sasl_login_feed(struct sasl_server *s, struct str blob)
{
	if (s->step == 1) {
		if (sasl_server_take_name(s, blob))
			return s->state;
		buf_addz(&s->challenge, "Password:");
		return sasl_server_ask(s);
	}
	if (sasl_server_take_password(s, blob))
		return s->state;
	return sasl_server_need(s, SASL_NEED_PASSWORD);
}

/* RFC 4422 appendix A: the message is who the client wants to be; empty: whoever its certificate says. That the two are the
 * same is for the backend to see, which knows whose certificate it is. */
enum sasl_server_state sasl_external_feed(struct sasl_server *s, struct str blob)
{
	if (blob.n && sasl_server_take_name(s, blob))
		return s->state;
	return sasl_server_need(s, SASL_NEED_CERTIFICATE);
}
