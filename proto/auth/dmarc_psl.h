/* Organizational domains by the public suffix list (RFC 7489 §3.2), for sites that configure it as a fall-back beside the tree walk:
 * dmarc_check.fallback = dmarc_psl_org, fallback_arg = the list. libpsl, if it was there when this was built. */
#ifndef PROTO_AUTH_DMARC_PSL_H
#define PROTO_AUTH_DMARC_PSL_H

#include "proto/dns/answers.h"

struct dmarc_psl;

/* Was it built in? Else dmarc_psl_new() always fails. */
bool dmarc_psl_available(void);
/* A list out of the text of public_suffix_list.dat, which need not live on; of the one libpsl brings for an empty text. NULL: memory,
 * no list in that text, or not built in. */
struct dmarc_psl *dmarc_psl_new(struct str text);
/* Accepts NULL. */
void dmarc_psl_free(struct dmarc_psl *p);
/* A dmarc_org_fn; arg: struct dmarc_psl. The domain is folded first. 0 and the organizational domain, folded; -1: it has none (it is a
 * public suffix, or no domain). */
int dmarc_psl_org(void *arg, const char *domain, char ret[DNS_NAME_MAX + 1]);

#endif
