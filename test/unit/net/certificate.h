/* Self-signed certificates, made on the spot. */
#ifndef TEST_NET_CERTIFICATE_H
#define TEST_NET_CERTIFICATE_H

#include "base/buf.h"

#include <openssl/types.h>

/* For the name, an hour old and good for another; the caller frees it. NULL: it could not be made. */
X509 *certificate_new(EVP_PKEY *key, const char *host);
/* One with a key of its own, in two PEM files. Returns 0 or -1. */
int certificate_make(const char *host, const char *cert_path, const char *key_path);

/* The content of a PEM file, for net_tls_new(): lives in out, which the caller frees; empty when there is none. */
struct str certificate_read(const char *path, struct buf *out);

#endif
