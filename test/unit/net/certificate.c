#include "certificate.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>

static int add_name(X509 *x, const char *host)
{
	char san[300];
	X509V3_CTX ctx;
	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, x, x, NULL, NULL, 0);
	snprintf(san, sizeof san, "DNS:%s", host);
	X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, NID_subject_alt_name, san);
	int ok = e && X509_add_ext(x, e, -1) == 1;
	X509_EXTENSION_free(e);
	return ok ? 0 : -1;
}

X509 *certificate_new(EVP_PKEY *key, const char *host)
{
	X509 *x = X509_new();
	if (!x)
		return NULL;
	X509_set_version(x, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
	X509_gmtime_adj(X509_getm_notBefore(x), -3600);
	X509_gmtime_adj(X509_getm_notAfter(x), 3600);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC, (const unsigned char *)host, -1, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(x));
	X509_set_pubkey(x, key);
	if (add_name(x, host) == 0 && X509_sign(x, key, EVP_sha256()) > 0)
		return x;
	X509_free(x);
	return NULL;
}

int certificate_make(const char *host, const char *cert_path, const char *key_path)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = key ? certificate_new(key, host) : NULL;
	FILE *c = fopen(cert_path, "we"), *k = fopen(key_path, "we");
	int ret = x && c && k && PEM_write_X509(c, x) == 1 && PEM_write_PrivateKey(k, key, NULL, NULL, 0, NULL, NULL) == 1 ? 0 : -1;
	if (c)
		fclose(c);
	if (k)
		fclose(k);
	X509_free(x);
	EVP_PKEY_free(key);
	return ret;
}

struct str certificate_read(const char *path, struct buf *out)
{
	FILE *f = fopen(path, "re");
	size_t n = 0;
	*out = BUF_INIT(1 << 20);
	for (char *at; f && (at = buf_room(out, 4096)) && (n = fread(at, 1, 4096, f)) > 0;)
		out->n += n;
	if (f)
		fclose(f);
	return buf_str(out);
}
