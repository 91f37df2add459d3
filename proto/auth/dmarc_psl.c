/* The public suffix list through libpsl; see dmarc_psl.h. The list's text is parsed from memory: nothing is opened here. */
#include "proto/auth/dmarc_psl.h"

#include <libpsl.h>
#include <stdio.h>
#include <stdlib.h>

/* What libpsl knows is a psl_ctx_t; ours is that, under a name of its own. */
static psl_ctx_t *context(struct dmarc_psl *p)
{
	return (psl_ctx_t *)p;
}

bool dmarc_psl_available(void)
{
	return true;
}

struct dmarc_psl *dmarc_psl_new(struct str text)
{
	psl_ctx_t *c;
	if (!text.n)
		return (struct dmarc_psl *)(void *)(uintptr_t)psl_builtin();
	char *z = str_dupz(text); /* fmemopen() wants it writable */
	FILE *f = z ? fmemopen(z, text.n, "r") : NULL;
	c = f ? psl_load_fp(f) : NULL;
	if (f)
		fclose(f);
	free(z);
	if (c && psl_suffix_count(c) <= 0) {
		psl_free(c);
		c = NULL;
	}
	return (struct dmarc_psl *)c;
}

void dmarc_psl_free(struct dmarc_psl *p)
{
	psl_free(context(p));
}

int dmarc_psl_org(void *arg, const char *domain, char ret[DNS_NAME_MAX + 1])
{
	char folded[DNS_NAME_MAX + 1];
	if (dns_name_fold(str_from(domain), folded) < 0)
		return -1;
	const char *org = psl_registrable_domain(context(arg), folded);
	if (!org)
		return -1;
	snprintf(ret, DNS_NAME_MAX + 1, "%s", org);
	return 0;
}
