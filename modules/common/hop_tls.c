/* OpenSSL between two memory BIOs. */
#include "hop_tls.h"

#include "hop_socket.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>

enum { CIPHER_MAX = 1024 * 1024 }; /* octets of ciphertext waiting to be sent; hop.c writes far less at a time */

struct hop_tls_conf {
	SSL_CTX *ctx;
};

struct hop_tls {
	SSL *ssl;
	BIO *in, *wire; /* owned by ssl */
	struct buf out;
	char text[128];
};

/* The first error of OpenSSL's queue in words; empties the queue. */
static void reason(struct buf *why, const char *what)
{
	char text[200] = "unknown error";
	unsigned long e = ERR_get_error();
	if (e && ERR_reason_error_string(e))
		snprintf(text, sizeof text, "%s", ERR_reason_error_string(e));
	ERR_clear_error();
	buf_addf(why, "%s: %s", what, text);
}

struct hop_tls_conf *hop_tls_conf_new(bool verify, const char *ca_file, struct buf *why)
{
	struct hop_tls_conf *c = calloc(1, sizeof *c);
	if (!c || !(c->ctx = SSL_CTX_new(TLS_client_method()))) {
		reason(why, "TLS");
		free(c);
		return NULL;
	}
	SSL_CTX_set_min_proto_version(c->ctx, TLS1_2_VERSION);
	SSL_CTX_set_options(c->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_mode(c->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_verify(c->ctx, verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
	if (!(ca_file ? SSL_CTX_load_verify_locations(c->ctx, ca_file, NULL) : SSL_CTX_set_default_verify_paths(c->ctx)) && verify) {
		buf_addf(why, "%s: ", ca_file ? ca_file : "system certificates");
		reason(why, "cannot load");
		hop_tls_conf_free(c);
		return NULL;
	}
	ERR_clear_error();
	return c;
}

int hop_tls_conf_identity(struct hop_tls_conf *c, const char *cert, const char *key, struct buf *why)
{
	ERR_clear_error();
	bool ok = SSL_CTX_use_certificate_chain_file(c->ctx, cert) == 1;
	if (!ok) {
		buf_addf(why, "%s: ", cert);
	} else {
		ok = SSL_CTX_use_PrivateKey_file(c->ctx, key, SSL_FILETYPE_PEM) == 1 && SSL_CTX_check_private_key(c->ctx) == 1;
		if (!ok)
			buf_addf(why, "%s: ", key);
	}
	if (!ok)
		reason(why, "cannot load");
	return ok ? 0 : -1;
}

void hop_tls_conf_free(struct hop_tls_conf *c)
{
	if (c)
		SSL_CTX_free(c->ctx);
	free(c);
}

/* A second look, by OpenSSL's own rules: its first one stops at the name that the handshake was told of, before the signatures. */
int hop_tls_chain_error(const struct hop_tls_conf *c, const struct stack_st_X509 *chain, const char *names)
{
	STACK_OF(X509) *shown = (STACK_OF(X509) *)(uintptr_t)chain;
	X509_STORE_CTX *x = chain && sk_X509_num(shown) > 0 ? X509_STORE_CTX_new() : NULL;
	struct str rest = str_from(names), name;
	int error = X509_V_ERR_UNSPECIFIED;
	if (x && X509_STORE_CTX_init(x, SSL_CTX_get_cert_store(c->ctx), sk_X509_value(shown, 0), shown) == 1 &&
	    X509_STORE_CTX_set_default(x, "ssl_server") == 1) {
		X509_VERIFY_PARAM *p = X509_STORE_CTX_get0_param(x);
		bool ok = true, any = false;
		X509_VERIFY_PARAM_set_hostflags(p, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
		while (ok && str_word(&rest, ",", &name))
			ok = any = X509_VERIFY_PARAM_add1_host(p, name.p, name.n) == 1;
		if (ok && any)
			error = X509_verify_cert(x) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(x);
	}
	X509_STORE_CTX_free(x);
	ERR_clear_error();
	return error;
}

struct hop_tls *hop_tls_new(struct hop_tls_conf *c, const char *host)
{
	struct hop_tls *t = calloc(1, sizeof *t);
	if (!t)
		return NULL;
	t->out = BUF_INIT(CIPHER_MAX);
	t->ssl = SSL_new(c->ctx);
	t->in = BIO_new(BIO_s_mem());
	t->wire = BIO_new(BIO_s_mem());
	if (!t->ssl || !t->in || !t->wire) {
		BIO_free(t->in);
		BIO_free(t->wire);
		t->in = t->wire = NULL;
		hop_tls_free(t);
		return NULL;
	}
	BIO_set_mem_eof_return(t->in, -1);
	SSL_set_bio(t->ssl, t->in, t->wire);
	SSL_set_connect_state(t->ssl);
	if (hop_is_numeric(host)) {
		X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(t->ssl), host);
	} else {
		SSL_set_tlsext_host_name(t->ssl, host);
		SSL_set_hostflags(t->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
		SSL_set1_host(t->ssl, host);
	}
	return t;
}

void hop_tls_names(struct hop_tls *t, const char *sni, const char *cert_name)
{
	if (sni && !hop_is_numeric(sni))
		SSL_set_tlsext_host_name(t->ssl, sni);
	if (cert_name && !hop_is_numeric(cert_name))
		SSL_set1_host(t->ssl, cert_name);
}

void hop_tls_free(struct hop_tls *t)
{
	if (!t)
		return;
	SSL_free(t->ssl);
	buf_free_secret(&t->out);
	free(t);
}

int hop_tls_feed(struct hop_tls *t, const char *p, size_t n)
{
	return n <= INT32_MAX && BIO_write(t->in, p, (int)n) == (int)n ? 0 : -1;
}

struct buf *hop_tls_out(struct hop_tls *t)
{
	char *p;
	long n = BIO_get_mem_data(t->wire, &p);
	if (n > 0) {
		buf_add(&t->out, p, (size_t)n);
		(void)BIO_reset(t->wire);
	}
	return &t->out;
}

int hop_tls_handshake(struct hop_tls *t, struct buf *why)
{
	ERR_clear_error();
	int r = SSL_do_handshake(t->ssl);
	if (r == 1)
		return 1;
	int e = SSL_get_error(t->ssl, r);
	if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE)
		return 0;
	long v = SSL_get_verify_result(t->ssl);
	if (v != X509_V_OK && SSL_get_verify_mode(t->ssl) != SSL_VERIFY_NONE) {
		ERR_clear_error();
		buf_addf(why, "TLS: certificate not trusted: %s", X509_verify_cert_error_string(v));
	} else {
		reason(why, "TLS handshake failed");
	}
	return -1;
}

int hop_tls_read(struct hop_tls *t, char *p, size_t n)
{
	ERR_clear_error();
	int r = SSL_read(t->ssl, p, n > INT32_MAX ? INT32_MAX : (int)n);
	if (r > 0)
		return r;
	int e = SSL_get_error(t->ssl, r);
	ERR_clear_error();
	return e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

int hop_tls_write(struct hop_tls *t, const char *p, size_t n)
{
	ERR_clear_error();
	int r = SSL_write(t->ssl, p, n > INT32_MAX ? INT32_MAX : (int)n);
	if (r > 0)
		return r;
	int e = SSL_get_error(t->ssl, r);
	ERR_clear_error();
	return e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

void hop_tls_bye(struct hop_tls *t)
{
	SSL_shutdown(t->ssl);
	ERR_clear_error();
}

int hop_tls_error(const struct hop_tls *t)
{
	return SSL_get0_peer_certificate(t->ssl) ? (int)SSL_get_verify_result(t->ssl) : X509_V_ERR_UNSPECIFIED;
}

bool hop_tls_verified(const struct hop_tls *t)
{
	return hop_tls_error(t) == X509_V_OK;
}

const struct stack_st_X509 *hop_tls_chain(const struct hop_tls *t)
{
	return SSL_get_peer_cert_chain(t->ssl);
}

bool hop_tls_showed(const struct hop_tls *t)
{
	/* in TLS 1.3 a server that wants none gets none; what it thinks of ours shows when EXTERNAL is on offer */
	return SSL_get_certificate(t->ssl) != NULL;
}

bool hop_tls_binding(const struct hop_tls *t, char ret[HOP_TLS_BINDING])
{
	static const char label[] = "EXPORTER-Channel-Binding"; /* RFC 9266 §2 */
	if (SSL_version(t->ssl) < TLS1_3_VERSION)
		return false;
	return SSL_export_keying_material(t->ssl, (unsigned char *)ret, HOP_TLS_BINDING, label, sizeof label - 1, (const unsigned char *)"", 0, 1) == 1;
}

const char *hop_tls_describe(const struct hop_tls *t)
{
	snprintf(((struct hop_tls *)(uintptr_t)t)->text, sizeof t->text, "%s %s", SSL_get_version(t->ssl), SSL_get_cipher_name(t->ssl));
	return t->text;
}
