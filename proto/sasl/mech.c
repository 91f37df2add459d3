/* Names of mechanisms, and what both sides ask of a nonce. */
#include "mech.h"

static const char *const names[SASL_MECHS] = {
	[SASL_EXTERNAL] = "EXTERNAL",
	[SASL_SCRAM_SHA_256_PLUS] = "SCRAM-SHA-256-PLUS",
	[SASL_SCRAM_SHA_256] = "SCRAM-SHA-256",
	[SASL_OAUTHBEARER] = "OAUTHBEARER",
	[SASL_XOAUTH2] = "XOAUTH2",
	[SASL_PLAIN] = "PLAIN",
	[SASL_LOGIN] = "LOGIN",
};

int sasl_mech_parse(struct str name, enum sasl_mech *ret)
{
	for (unsigned i = 0; i < SASL_MECHS; i++)
		if (str_ieq(name, str_from(names[i]))) {
			*ret = (enum sasl_mech)i;
			return 0;
		}
	return -1;
}

const char *sasl_mech_name(enum sasl_mech m)
{
	return names[m];
}

bool sasl_nonce_ok(struct str nonce)
{
	for (size_t i = 0; i < nonce.n; i++)
		if (nonce.p[i] <= ' ' || nonce.p[i] > '~' || nonce.p[i] == ',')
			return false;
	return nonce.n >= SASL_NONCE_MIN && nonce.n <= SASL_NONCE_MAX;
}
