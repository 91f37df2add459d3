/* Without libpsl: there is no list; see dmarc_psl.h. */
#include "proto/auth/dmarc_psl.h"

bool dmarc_psl_available(void)
{
	return false;
}

struct dmarc_psl *dmarc_psl_new(struct str text)
{
	(void)text;
	return NULL;
}

void dmarc_psl_free(struct dmarc_psl *p)
{
	(void)p;
}

int dmarc_psl_org(void *arg, const char *domain, char ret[DNS_NAME_MAX + 1])
{
	(void)arg;
	(void)domain;
	(void)ret;
	return -1;
}
