/* XCLIENT (Postfix's XCLIENT_README): a host of XCLIENT_FROM says for whom it speaks. From here on the session is that
 * client's: its address for limits, relay control and trace, its name, its login. */
#include "ingress_internal.h"

#include "proto/wire/signin.h"

#include <stdlib.h>

/* Whose address counts now; the places of both are moved. False: the new one has no place. */
static bool move_to(struct session *s, const struct net_addr *peer)
{
	struct ingress *in = s->in;
	bool relay = config_networks_has(s->terms->relay, peer->text), exempt = abuse_exempt(s->at, peer, relay);
	if (!clients_enter(&in->clients, peer, exempt ? 0 : s->terms->max_per_address))
		return false;
	if (!clients_enter(&in->networks, peer, exempt ? 0 : s->terms->abuse.max_per_network)) {
		clients_leave(&in->clients, peer);
		return false;
	}
	clients_leave(&in->clients, &s->peer);
	clients_leave(&in->networks, &s->peer);
	s->exempt = exempt;
	s->unknown = 0;
	s->peer = *peer;
	s->relay = relay;
	return true;
}

static void put(struct buf *out, enum smtp_xclient_state is, struct str value)
{
	if (is == SMTP_XCLIENT_ABSENT)
		return;
	buf_reset(out);
	if (is == SMTP_XCLIENT_GIVEN)
		buf_adds(out, value);
}

void xclient_take(struct session *s, const struct smtp_xclient *x)
{
	struct smtp_reply bad = { 501, "5.5.4", "Bad address" }, full = { 421, "4.7.0", "Too many connections of that client" };
	struct smtp_reply bad_login = { 501, "5.5.4", "Bad login name" };
	struct net_addr peer = s->peer, proxy = s->peer;
	if (x->addr_is == SMTP_XCLIENT_GIVEN && net_addr_parse(&peer, x->addr, 0)) {
		smtp_server_reject(s->engine, &bad);
		return;
	}
	if (x->login_is == SMTP_XCLIENT_GIVEN && x->login.n >= sizeof WIRE_SIGNIN_NAME_RESERVED - 1 &&
	    str_ieq(str_n(x->login.p, sizeof WIRE_SIGNIN_NAME_RESERVED - 1), STR(WIRE_SIGNIN_NAME_RESERVED))) {
		smtp_server_reject(s->engine, &bad_login); /* nobody who signs in is called so */
		return;
	}
	if (x->addr_is == SMTP_XCLIENT_UNAVAILABLE || x->addr_is == SMTP_XCLIENT_TEMPUNAVAIL)
		net_addr_from(&peer, NULL, 0); /* unknown: nobody's rights */
	if (x->port_is != SMTP_XCLIENT_ABSENT)
		peer.port = x->port_is == SMTP_XCLIENT_GIVEN ? x->port : 0;
	if (x->addr_is != SMTP_XCLIENT_ABSENT && !move_to(s, &peer)) {
		ingress_refused(s->in, s, REFUSED_CONNECTIONS, "at=XCLIENT for=%s", peer.text);
		smtp_server_reject(s->engine, &full);
		return;
	}
	s->peer.port = peer.port;
	if (!s->via && (s->via = calloc(1, sizeof *s->via)))
		s->via->addr = proxy;
	if (x->addr_is != SMTP_XCLIENT_ABSENT) { /* what was known of the address before is not about this one */
		if (reverse_result(s) == IPREV_PASS)
			buf_reset(&s->rdns);
		reverse_free(s);
	}
	if (s->who) { /* another client now: what the proxy's own sign-in gave is not his */
		buf_reset(&s->login);
		auth_drop_who(s);
	}
	put(&s->rdns, x->name_is, x->name);
	if (x->addr_is == SMTP_XCLIENT_GIVEN && x->name_is == SMTP_XCLIENT_ABSENT && !s->rdns.n)
		reverse_begin(s, false);
	dnsbl_begin(s);
	put(&s->login, x->login_is, x->login);
	put(&s->helo, x->helo_is, x->helo);
	s->helo_told = x->helo_is == SMTP_XCLIENT_GIVEN;
	/* the certificate was the proxy's: its client signs in by none, and none is recorded for it */
	free(s->identity);
	s->identity = NULL;
	s->in->used[USED_XCLIENT]++;
	session_trust(s);
	session_log_context(s);
	log_info(&s->log, "event=xclient by=%s helo=%s name=%s login=%s", proxy.text, log_q(buf_str(&s->helo)),
	    log_q(buf_str(&s->rdns)), log_q(buf_str(&s->login)));
	smtp_server_accept(s->engine, NULL);
}
