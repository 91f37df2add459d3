/* DMARC in Authentication-Results; see dmarc_authres.h. */
#include "proto/auth/dmarc_authres.h"

#include <stdio.h>

void dmarc_authres(const struct dmarc_check *c, struct dmarc_authres *ret)
{
	struct authres_result *r = &ret->result;
	*r = (struct authres_result){ .method = STR("dmarc"), .result = str_from(dmarc_result_name(c->result)) };
	ret->comment[0] = 0;
	if (c->author->n > 1)
		snprintf(ret->comment, sizeof ret->comment, "%s dis=%s", c->author->why, dmarc_policy_name(c->disposition));
	else if (c->result != DMARC_RESULT_NONE)
		snprintf(ret->comment, sizeof ret->comment, "%s=%s dis=%s%s",
		    c->policy_tag == DMARC_TAG_NP ? "np" : c->policy_tag == DMARC_TAG_SP ? "sp" : "p", dmarc_policy_name(c->policy),
		    dmarc_policy_name(c->disposition), c->testing ? " t=y" : "");
	r->comment = str_from(ret->comment);
	for (size_t i = 0; i < c->author->n; i++)
		r->prop[r->n_props++] = (struct authres_prop){ STR("header"), STR("from"), str_from(c->author->domain[i]) };
}
