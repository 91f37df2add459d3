/* What a connection's TLS session knows of itself and of its peer: names for the log and the trace fields, channel
 * bindings for SASL, the client's certificate; and whether it is still there. Reads only; no octet moves here. */
#include "conn_internal.h"

#include <poll.h>
#include <sys/ioctl.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/objects.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

static bool secured(const struct net_conn *c)
{
	return c->ssl && !c->securing;
}

bool net_conn_gone(const struct net_conn *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLRDHUP };
	int unread = 0;
	if (poll(&p, 1, 0) <= 0)
		return false;
	if (p.revents & (POLLHUP | POLLERR | POLLNVAL))
		return true;
	return p.revents & POLLRDHUP && (c->ssl || ioctl(c->fd, FIONREAD, &unread) || !unread);
}

const char *net_conn_tls_protocol(const struct net_conn *c)
{
	return secured(c) ? SSL_get_version(c->ssl) : NULL;
}

const char *net_conn_tls_cipher(const struct net_conn *c)
{
	return secured(c) ? SSL_get_cipher_name(c->ssl) : NULL;
}

int net_conn_tls_bits(const struct net_conn *c)
{
	return secured(c) ? SSL_get_cipher_bits(c->ssl, NULL) : 0;
}

const char *net_conn_tls_server_name(const struct net_conn *c)
{
	return secured(c) ? SSL_get_servername(c->ssl, TLSEXT_NAMETYPE_host_name) : NULL;
}

bool net_conn_tls_resumed(const struct net_conn *c)
{
	return secured(c) && SSL_session_reused(c->ssl);
}

int net_conn_tls_exporter(const struct net_conn *c, uint8_t out[32])
{
	static const char label[] = "EXPORTER-Channel-Binding";
	/* RFC 9266 §3: under TLS 1.2 only with the extended master secret, else it binds nothing */
	if (!secured(c) || (SSL_version(c->ssl) < TLS1_3_VERSION && SSL_get_extms_support(c->ssl) != 1))
		return -1;
	ERR_clear_error();
	return SSL_export_keying_material(c->ssl, out, 32, label, sizeof label - 1, NULL, 0, 0) == 1 ? 0 : -1;
}

int net_conn_tls_server_end_point(const struct net_conn *c, uint8_t out[64], size_t *ret_n)
{
	int md_nid = NID_undef;
	unsigned n = 0;
	X509 *x = secured(c) ? SSL_get_certificate(c->ssl) : NULL;
	/* RFC 5929 §4.1: the hash of the certificate's signature, SHA-256 in place of MD5 and SHA-1; signatures that use
	 * no hash of their own (EdDSA) have no such binding */
	if (!x || OBJ_find_sigid_algs(X509_get_signature_nid(x), &md_nid, NULL) != 1)
		return -1;
	if (md_nid == NID_md5 || md_nid == NID_sha1 || md_nid == NID_md5_sha1)
		md_nid = NID_sha256;
	const EVP_MD *md = md_nid == NID_undef ? NULL : EVP_get_digestbynid(md_nid);
	if (!md || EVP_MD_get_size(md) > 64 || X509_digest(x, md, out, &n) != 1)
		return -1;
	*ret_n = n;
	return 0;
}

/* The first mail address among the alternative names (RFC 5280 §4.2.1.6), else "". */
static void put_email(X509 *x, char *out, size_t size)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);
	for (int i = 0; names && i < sk_GENERAL_NAME_num(names); i++) {
		const GENERAL_NAME *g = sk_GENERAL_NAME_value(names, i);
		if (g->type != GEN_EMAIL)
			continue;
		int n = ASN1_STRING_length(g->d.rfc822Name);
		const unsigned char *p = ASN1_STRING_get0_data(g->d.rfc822Name);
		if (n <= 0 || (size_t)n >= size || memchr(p, 0, (size_t)n))
			continue;
		memcpy(out, p, (size_t)n);
		out[n] = 0;
		break;
	}
	GENERAL_NAMES_free(names);
}

static void put_common_name(X509 *x, char *out, size_t size)
{
	X509_NAME *name = X509_get_subject_name(x);
	/* several: none, since which one is meant is anybody's guess */
	int at = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
	if (at < 0 || X509_NAME_get_index_by_NID(name, NID_commonName, at) >= 0)
		return;
	unsigned char *utf8 = NULL;
	int n = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
	if (n > 0 && (size_t)n < size && !memchr(utf8, 0, (size_t)n)) {
		memcpy(out, utf8, (size_t)n);
		out[n] = 0;
	}
	OPENSSL_free(utf8);
}

static int put_subject(X509 *x, char *out, size_t size)
{
	BIO *b = BIO_new(BIO_s_mem());
	char *p = NULL;
	long n = b && X509_NAME_print_ex(b, X509_get_subject_name(x), 0, XN_FLAG_RFC2253 & ~(unsigned long)ASN1_STRFLGS_ESC_MSB) >= 0 ?
	    BIO_get_mem_data(b, &p) : -1;
	int ok = n >= 0 && (size_t)n < size;
	if (ok) {
		memcpy(out, p, (size_t)n);
		out[n] = 0;
	}
	BIO_free(b);
	return ok ? 0 : -1;
}

const struct net_tls_identity *net_conn_tls_client_identity(struct net_conn *c)
{
	unsigned char md[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	if (c->identity)
		return c->identity;
	X509 *x = secured(c) ? SSL_get0_peer_certificate(c->ssl) : NULL;
	/* a resumed session brings its certificate along; its end may have come since */
	if (!x || SSL_get_verify_result(c->ssl) != X509_V_OK || X509_cmp_current_time(X509_get0_notAfter(x)) <= 0)
		return NULL;
	struct net_tls_identity *id = calloc(1, sizeof *id);
	if (!id)
		return NULL;
	if (put_subject(x, id->subject, sizeof id->subject) || X509_digest(x, EVP_sha256(), md, &n) != 1 || n != 32) {
		ERR_clear_error();
		free(id);
		return NULL;
	}
	static const char hex[] = "0123456789abcdef";
	for (unsigned i = 0; i < n; i++) {
		id->fingerprint[2 * i] = hex[md[i] >> 4];
		id->fingerprint[2 * i + 1] = hex[md[i] & 15];
	}
	put_email(x, id->email, sizeof id->email);
	put_common_name(x, id->common_name, sizeof id->common_name);
	ERR_clear_error();
	c->identity = id;
	return id;
}
