/* Server certificates and contexts. May not open a file or read a socket. */
#include "tls.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CHAIN_MAX = 16, CLIENT_CAS_MAX = 256, CLIENT_DEPTH = 8 };

struct net_tls {
	unsigned refs;
	size_t n;
	struct net_tickets *tickets;
	struct {
		SSL_CTX *ctx;
		char *file;
	} of[];
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
		if (X509_check_host(SSL_CTX_get0_certificate(t->of[i].ctx), name, 0, 0, NULL) == 1) {
			SSL_set_SSL_CTX(ssl, t->of[i].ctx);
			return SSL_TLSEXT_ERR_OK;
		}
	return SSL_TLSEXT_ERR_NOACK; /* an unknown name gets the default: mail clients rarely insist */
}

static int fault(char *err, size_t size, const char *what, const char *file, const char *otherwise)
{
	unsigned long e = ERR_peek_last_error();
	const char *why = e ? ERR_reason_error_string(e) : NULL;
	snprintf(err, size, "%s %s: %s", what, file, why ? why : otherwise);
	ERR_clear_error();
	return -1;
}

/* A key with a passphrase must not wait for somebody at a terminal that is not there. */
static int no_passphrase(char *buf, int size, int writing, void *arg)
{
	(void)buf;
	(void)size;
	(void)writing;
	(void)arg;
	return -1;
}

static BIO *reader(struct str pem)
{
	return pem.n <= INT32_MAX ? BIO_new_mem_buf(pem.n ? pem.p : "", (int)pem.n) : NULL;
}

static int use_chain(SSL_CTX *ctx, const struct net_tls_pair *p, char *err, size_t size)
{
	BIO *in = reader(p->cert);
	X509 *x = in ? PEM_read_bio_X509_AUX(in, NULL, no_passphrase, NULL) : NULL;
	int bad = !x || SSL_CTX_use_certificate(ctx, x) != 1;
	X509_free(x);
	for (unsigned i = 0; !bad && (x = PEM_read_bio_X509(in, NULL, no_passphrase, NULL)); i++) {
		bad = i == CHAIN_MAX || SSL_CTX_add0_chain_cert(ctx, x) != 1; /* takes x when it succeeds */
		if (bad)
			X509_free(x);
	}
	/* the end of the text shows as "no start line"; anything else is damage */
	unsigned long e = ERR_peek_last_error();
	if (!bad && e && !(ERR_GET_LIB(e) == ERR_LIB_PEM && ERR_GET_REASON(e) == PEM_R_NO_START_LINE))
		bad = 1;
	BIO_free(in);
	if (bad)
		return fault(err, size, "certificate", p->cert_name, "no certificate, or too long a chain");
	ERR_clear_error();
	return 0;
}

static int use_key(SSL_CTX *ctx, const struct net_tls_pair *p, char *err, size_t size)
{
	BIO *in = reader(p->key);
	EVP_PKEY *key = in ? PEM_read_bio_PrivateKey(in, NULL, no_passphrase, NULL) : NULL;
	BIO_free(in);
	if (!key)
		return fault(err, size, "private key", p->key_name, "no private key in PEM form");
	/* OpenSSL compares it with the certificate here */
	int ok = SSL_CTX_use_PrivateKey(ctx, key) == 1 && SSL_CTX_check_private_key(ctx) == 1;
	EVP_PKEY_free(key);
	if (ok)
		return 0;
	ERR_clear_error();
	snprintf(err, size, "private key %s does not belong to certificate %s", p->key_name, p->cert_name);
	return -1;
}

static int ask_clients(SSL_CTX *ctx, const struct net_tls_conf *c, char *err, size_t size)
{
	X509_STORE *store = X509_STORE_new();
	BIO *in = reader(c->client_ca);
	unsigned n = 0;
	bool bad = !store || !in;
	for (X509 *x; !bad && (x = PEM_read_bio_X509(in, NULL, no_passphrase, NULL)); n++) {
		bad = n == CLIENT_CAS_MAX || X509_STORE_add_cert(store, x) != 1 || SSL_CTX_add_client_CA(ctx, x) != 1;
		X509_free(x);
	}
	BIO_free(in);
	if (!bad && n) {
		ERR_clear_error();
		SSL_CTX_set_cert_store(ctx, store); /* takes it */
		SSL_CTX_set_verify_depth(ctx, CLIENT_DEPTH);
		SSL_CTX_set_verify(
		    ctx, SSL_VERIFY_PEER | (c->client == NET_TLS_CLIENT_REQUIRE ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), NULL);
		return SSL_CTX_set_purpose(ctx, X509_PURPOSE_SSL_CLIENT) == 1 ? 0 : -1;
	}
	X509_STORE_free(store);
	return fault(err, size, "certificate authorities", c->client_ca_name, "no certificate in it, or too many");
}

/* Where a ticket is good: the same listener, the same idea of whose client certificates count (RFC 8446 §4.6.1 leaves it
 * to us; a certificate accepted under other authorities must not come back by a ticket). */
static void set_context(SSL_CTX *ctx, const struct net_tls_conf *c)
{
	unsigned char md[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	EVP_MD_CTX *h = EVP_MD_CTX_new();
	unsigned char kind = (unsigned char)c->client;
	if (h && EVP_DigestInit_ex(h, EVP_sha256(), NULL) == 1 &&
	    EVP_DigestUpdate(h, c->context ? c->context : "", c->context ? strlen(c->context) + 1 : 1) == 1 &&
	    EVP_DigestUpdate(h, &kind, 1) == 1 && EVP_DigestUpdate(h, c->client_ca.n ? c->client_ca.p : "", c->client_ca.n) == 1)
		EVP_DigestFinal_ex(h, md, &n);
	EVP_MD_CTX_free(h);
	SSL_CTX_set_session_id_context(ctx, md, n < SSL_MAX_SID_CTX_LENGTH ? n : SSL_MAX_SID_CTX_LENGTH);
}

static int set_rules(SSL_CTX *ctx, const struct net_tls_conf *c, char *err, size_t size)
{
	bool tls12 = !c->no_tls12 && !(c->ciphers && !*c->ciphers), tls13 = !c->no_tls13 && !(c->suites && !*c->suites);
	const char *what = "protocols", *value = "none is left";
	if (!tls12 && !tls13)
		goto bad;
	SSL_CTX_set_min_proto_version(ctx, tls12 ? TLS1_2_VERSION : TLS1_3_VERSION);
	SSL_CTX_set_max_proto_version(ctx, tls13 ? TLS1_3_VERSION : TLS1_2_VERSION);
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_COMPRESSION |
	    SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
	/* buffers are given back while a session is idle; what could not be written is retried from wherever it is then */
	SSL_CTX_set_mode(
	    ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	what = "ciphers";
	value = c->ciphers ? c->ciphers : NET_TLS_CIPHERS;
	if (tls12 && SSL_CTX_set_cipher_list(ctx, value) != 1)
		goto bad;
	value = c->suites;
	if (tls13 && value && SSL_CTX_set_ciphersuites(ctx, value) != 1)
		goto bad;
	what = "groups";
	value = c->groups ? c->groups : NET_TLS_GROUPS;
	if (SSL_CTX_set1_groups_list(ctx, value) != 1)
		goto bad;
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_timeout(ctx, NET_TICKETS_LIFE_S);
	if (c->tickets) {
		net_tickets_use(ctx);
		SSL_CTX_set_num_tickets(ctx, 1);
	} else {
		SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
		SSL_CTX_set_num_tickets(ctx, 0);
	}
	set_context(ctx, c);
	return 0;
bad:
	ERR_clear_error();
	snprintf(err, size, "TLS %s: OpenSSL does not take %s", what, value);
	return -1;
}

static SSL_CTX *make(const struct net_tls_conf *c, const struct net_tls_pair *p, char *err, size_t size)
{
	ERR_clear_error();
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	if (!ctx) {
		snprintf(err, size, "out of memory");
		return NULL;
	}
	SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
	if (set_rules(ctx, c, err, size) || use_chain(ctx, p, err, size) || use_key(ctx, p, err, size) ||
	    (c->client != NET_TLS_CLIENT_NONE && ask_clients(ctx, c, err, size))) {
		ERR_clear_error();
		SSL_CTX_free(ctx);
		return NULL;
	}
	return ctx;
}

struct net_tls *net_tls_new(const struct net_tls_conf *c, char *err, size_t err_size)
{
	struct net_tls *t = calloc(1, sizeof *t + c->n * sizeof *t->of);
	if (!t || !c->n) {
		snprintf(err, err_size, t ? "no certificate" : "out of memory");
		free(t);
		return NULL;
	}
	/* OpenSSL writes with write(2): a peer that is gone must be an error, not a signal */
	signal(SIGPIPE, SIG_IGN);
	t->refs = 1;
	t->tickets = net_tickets_ref(c->tickets);
	for (size_t i = 0; i < c->n; i++) {
		t->of[i].ctx = make(c, &c->pairs[i], err, err_size);
		t->n += t->of[i].ctx != NULL;
		if (t->of[i].ctx && !(t->of[i].file = strdup(c->pairs[i].cert_name)))
			snprintf(err, err_size, "out of memory");
		if (!t->of[i].ctx || !t->of[i].file) {
			net_tls_unref(t);
			return NULL;
		}
	}
	if (c->n > 1) {
		SSL_CTX_set_tlsext_servername_callback(t->of[0].ctx, on_name);
		SSL_CTX_set_tlsext_servername_arg(t->of[0].ctx, t);
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
	for (size_t i = 0; i < t->n; i++) {
		SSL_CTX_free(t->of[i].ctx);
		free(t->of[i].file);
	}
	net_tickets_unref(t->tickets);
	free(t);
}

SSL *net_tls_session(struct net_tls *t)
{
	SSL *ssl = SSL_new(t->of[0].ctx);
	if (ssl)
		net_tickets_bind(t->tickets, ssl);
	return ssl;
}

bool net_tls_cert(const struct net_tls *t, size_t i, struct net_tls_cert *ret)
{
	struct tm tm = { 0 };
	if (!t || i >= t->n)
		return false;
	const ASN1_TIME *end = X509_get0_notAfter(SSL_CTX_get0_certificate(t->of[i].ctx));
	*ret = (struct net_tls_cert){ .file = t->of[i].file };
	if (end && ASN1_TIME_to_tm(end, &tm) == 1)
		ret->not_after_s = (int64_t)timegm(&tm);
	return true;
}

bool net_tls_names(const struct net_tls *t, const char *host)
{
	for (size_t i = 0; i < t->n; i++)
		if (X509_check_host(SSL_CTX_get0_certificate(t->of[i].ctx), host, 0, 0, NULL) == 1)
			return true;
	return false;
}
