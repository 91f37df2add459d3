/* Server certificates and contexts. May not read a socket. */
#include "tls.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

struct net_tls {
	unsigned refs;
	size_t n;
	SSL_CTX *ctx[];
};

/* The client named a host: take the pair whose certificate is valid for it, if there is one. */
static int on_name(SSL *ssl, int *alert, void *arg)
{
	struct net_tls *t = arg;
	const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
	(void)alert;
	if (!name)
		return SSL_TLSEXT_ERR_NOACK;
	for (size_t i = 0; i < t->n; i++)
		if (X509_check_host(SSL_CTX_get0_certificate(t->ctx[i]), name, 0, 0, NULL) == 1) {
			SSL_set_SSL_CTX(ssl, t->ctx[i]);
			return SSL_TLSEXT_ERR_OK;
		}
	return SSL_TLSEXT_ERR_NOACK; /* an unknown name gets the default: mail clients rarely insist */
}

static void fault(char *err, size_t size, const char *what, const char *file)
{
	unsigned long e = ERR_peek_last_error();
	const char *why = e ? ERR_reason_error_string(e) : NULL;
	snprintf(err, size, "%s %s: %s", what, file, why ? why : "cannot be read");
	ERR_clear_error();
}

static SSL_CTX *make(const char *cert, const char *key, char *err, size_t size)
{
	ERR_clear_error();
	SSL_CTX *c = SSL_CTX_new(TLS_server_method());
	if (!c) {
		snprintf(err, size, "out of memory");
		return NULL;
	}
	SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
	SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_COMPRESSION |
	    SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
	SSL_CTX_set_num_tickets(c, 0);
	SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
	/* buffers are given back while a session is idle; what could not be written is retried from wherever it
	 * is then */
	SSL_CTX_set_mode(
	    c, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	if (SSL_CTX_use_certificate_chain_file(c, cert) != 1)
		fault(err, size, "certificate", cert);
	else if (SSL_CTX_use_PrivateKey_file(c, key, SSL_FILETYPE_PEM) != 1)
		fault(err, size, "private key", key);
	else if (SSL_CTX_check_private_key(c) != 1)
		snprintf(err, size, "private key %s does not belong to certificate %s", key, cert);
	else
		return c;
	ERR_clear_error();
	SSL_CTX_free(c);
	return NULL;
}

struct net_tls *net_tls_new(const char *const *certs, const char *const *keys, size_t n, char *err, size_t err_size)
{
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers is meant */
	struct net_tls *t = calloc(1, sizeof *t + n * sizeof *t->ctx);
	if (!t || !n) {
		snprintf(err, err_size, t ? "no certificate" : "out of memory");
		free(t);
		return NULL;
	}
	/* OpenSSL writes with write(2): a peer that is gone must be an error, not a signal */
	signal(SIGPIPE, SIG_IGN);
	t->refs = 1;
	for (; t->n < n; t->n++) {
		t->ctx[t->n] = make(certs[t->n], keys[t->n], err, err_size);
		if (!t->ctx[t->n]) {
			net_tls_unref(t);
			return NULL;
		}
	}
	if (n > 1) {
		SSL_CTX_set_tlsext_servername_callback(t->ctx[0], on_name);
		SSL_CTX_set_tlsext_servername_arg(t->ctx[0], t);
	}
	return t;
}

struct net_tls *net_tls_ref(struct net_tls *t)
{
	if (t)
		t->refs++;
	return t;
}

void net_tls_unref(struct net_tls *t)
{
	if (!t || --t->refs)
		return;
	for (size_t i = 0; i < t->n; i++)
		SSL_CTX_free(t->ctx[i]);
	free(t);
}

SSL *net_tls_session(struct net_tls *t)
{
	return SSL_new(t->ctx[0]);
}
