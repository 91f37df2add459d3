/* OpenSSL on a connection's own descriptor. Each call clears OpenSSL's error queue first: it is per thread, not per
 * connection, and what one peer left there must not end another's session. */
#include "conn_internal.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char why_text[160];

const char *net_tls_why(void)
{
	return why_text;
}

/* Sorts the outcome of an SSL call that gave ret <= 0. */
static enum net_io sort(struct net_conn *c, int ret, bool *ret_want_write)
{
	int saved = errno;
	unsigned long e;
	*ret_want_write = false;
	switch (SSL_get_error(c->ssl, ret)) {
	case SSL_ERROR_WANT_READ:
		return NET_IO_AGAIN;
	case SSL_ERROR_WANT_WRITE:
		*ret_want_write = true;
		return NET_IO_AGAIN;
	case SSL_ERROR_ZERO_RETURN: /* close_notify, or (IGNORE_UNEXPECTED_EOF) just the end */
		return NET_IO_EOF;
	case SSL_ERROR_SYSCALL:
		snprintf(why_text, sizeof why_text, "%s", saved ? strerror(saved) : "connection ended inside TLS");
		return NET_IO_BROKEN;
	default:
		e = ERR_peek_error();
		snprintf(why_text, sizeof why_text, "TLS: %s",
		    e && ERR_reason_error_string(e) ? ERR_reason_error_string(e) : "protocol error");
		ERR_clear_error();
		return NET_IO_BROKEN;
	}
}

enum net_io net_tls_read(struct net_conn *c, char *p, size_t size, size_t *ret_n)
{
	bool w;
	ERR_clear_error();
	errno = 0;
	int n = SSL_read(c->ssl, p, (int)size);
	c->read_needs_write = false;
	if (n > 0) {
		*ret_n = (size_t)n;
		return NET_IO_OK;
	}
	enum net_io r = sort(c, n, &w);
	c->read_needs_write = r == NET_IO_AGAIN && w;
	return r;
}

enum net_io net_tls_write(struct net_conn *c, const char *p, size_t n, size_t *ret_n)
{
	bool w;
	ERR_clear_error();
	errno = 0;
	int k = SSL_write(c->ssl, p, n > INT32_MAX / 2 ? INT32_MAX / 2 : (int)n);
	c->write_needs_read = false;
	if (k > 0) {
		*ret_n = (size_t)k;
		return NET_IO_OK;
	}
	enum net_io r = sort(c, k, &w);
	c->write_needs_read = r == NET_IO_AGAIN && !w;
	return r == NET_IO_EOF ? NET_IO_BROKEN : r;
}

enum net_io net_tls_handshake(struct net_conn *c)
{
	bool w;
	ERR_clear_error();
	errno = 0;
	int r = SSL_accept(c->ssl);
	c->read_needs_write = false;
	if (r == 1) {
		c->securing = false;
		return NET_IO_OK;
	}
	enum net_io io = sort(c, r, &w);
	c->read_needs_write = io == NET_IO_AGAIN && w;
	if (io == NET_IO_EOF) {
		snprintf(why_text, sizeof why_text, "connection ended in the TLS handshake");
		io = NET_IO_BROKEN;
	}
	return io;
}

int net_conn_starttls(struct net_conn *c, struct net_tls *tls)
{
	SSL *s = c->ssl ? NULL : net_tls_session(tls);
	if (!s || SSL_set_fd(s, c->fd) != 1) {
		SSL_free(s);
		return -1;
	}
	SSL_set_accept_state(s);
	c->ssl = s;
	c->tls = net_tls_ref(tls);
	c->securing = true;
	net_conn_arm(c);
	return 0;
}

void net_tls_end(struct net_conn *c)
{
	if (!c->ssl)
		return;
	ERR_clear_error();
	if (!c->securing) {
		/* we do not wait for the peer's close_notify (RFC 8446 §6.1 allows it) */
		SSL_set_shutdown(c->ssl, SSL_RECEIVED_SHUTDOWN);
		SSL_shutdown(c->ssl);
		ERR_clear_error();
	}
	SSL_free(c->ssl);
	net_tls_unref(c->tls);
	free(c->identity);
	c->ssl = NULL;
	c->tls = NULL;
	c->identity = NULL;
}

bool net_conn_securing(const struct net_conn *c)
{
	return c->securing;
}
