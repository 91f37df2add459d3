/* A key and a self-signed certificate in two PEM files, made on the spot. */
#ifndef TEST_NET_CERTIFICATE_H
#define TEST_NET_CERTIFICATE_H

/* Returns 0 or -1. */
int certificate_make(const char *host, const char *cert_path, const char *key_path);

#endif
