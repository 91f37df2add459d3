/* What a listener is told to do about a verdict, and what follows from it for a message: the reply (RFC 7372, codes of RFC 8617 §7.3) or
 * the place in quarantine. Of the configuration (and the list it names) and the verdict alone: no session, nothing is counted or logged. */
#include "vet_decide.h"

#include "proto/auth/dmarc_psl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* --- terms */

static enum vet_mode mode(const struct config *c, const char *section, const char *option, bool smtp)
{
	const char *set = config_str(c, section, option);
	if (!set)
		return smtp ? VET_RECORD : VET_OFF;
	return !strcmp(set, "enforce") ? VET_ENFORCE : !strcmp(set, "record") ? VET_RECORD : VET_OFF;
}

static int read_sealers(struct vet_terms *t, const char *list)
{
	struct str rest, word;
	size_t n = 0;
	if (!list || !*list)
		return 0;
	if (!(t->sealer_text = strdup(list)))
		return -1;
	rest = str_from(t->sealer_text);
	while (str_word(&rest, " \t,", &word))
		n++;
	if (!(t->sealers = calloc(n ? n : 1, sizeof *t->sealers)))
		return -1;
	rest = str_from(t->sealer_text);
	while (str_word(&rest, " \t,", &word))
		t->sealers[t->n_sealers++] = word;
	return 0;
}

enum { LIST_OCTETS_MAX = 16 << 20 }; /* today's has 300 KiB */

/* NULL: all is well. */
static const char *read_suffixes(struct vet_terms *t, const char *path)
{
	struct buf text = BUF_INIT(LIST_OCTETS_MAX);
	char piece[16384];
	size_t n;
	if (!path || !*path)
		return NULL;
	if (!dmarc_psl_available())
		return "PUBLIC_SUFFIX_LIST: built without libpsl";
	FILE *f = fopen(path, "re");
	while (f && (n = fread(piece, 1, sizeof piece, f)) && !text.failed)
		buf_add(&text, piece, n);
	bool bad = !f || ferror(f) || text.failed || !text.n;
	if (f)
		fclose(f);
	t->psl = bad ? NULL : dmarc_psl_new(buf_str(&text));
	buf_free(&text);
	return bad ? "PUBLIC_SUFFIX_LIST cannot be read" : t->psl ? NULL : "PUBLIC_SUFFIX_LIST is no public suffix list";
}

int vet_terms_read(struct vet_terms *t, const struct config *c, const char *section, bool smtp, const char **ret_why)
{
	const char *exempt = config_str(c, section, "AUTHENTICATION_EXEMPT"), *stage = config_str(c, section, "QUARANTINE_STAGE"),
		   *temperror = config_str(c, section, "AUTHENTICATION_TEMPERROR");
	*t = (struct vet_terms){
		.spf = mode(c, section, "SPF", smtp),
		.dkim = mode(c, section, "DKIM", smtp),
		.arc = mode(c, section, "ARC", smtp),
		.dmarc = mode(c, section, "DMARC", smtp),
		.tempfail = temperror && !strcmp(temperror, "tempfail"),
		.timeout_us = config_int(c, section, "AUTHENTICATION_TIMEOUT") * INT64_C(1000000),
		.received_spf = config_int(c, section, "RECEIVED_SPF"),
		.explain = config_int(c, section, "SPF_EXPLANATION"),
	};
	*ret_why = "out of memory";
	if (exempt && !(t->exempt = config_networks_new(exempt)))
		return -1;
	if (stage && *stage && !(t->quarantine = strdup(stage)))
		return -1;
	if (read_sealers(t, config_str(c, section, "ARC_SEALERS")))
		return -1;
	*ret_why = read_suffixes(t, config_str(c, section, "PUBLIC_SUFFIX_LIST"));
	return *ret_why ? -1 : 0;
}

void vet_terms_done(struct vet_terms *t)
{
	config_networks_free(t->exempt);
	dmarc_psl_free(t->psl);
	free(t->sealer_text);
	free(t->sealers);
	free(t->quarantine);
}

/* --- the reply */

/* Names come from outside: what is no printable ASCII becomes "?". */
static bool refuse(struct vet_decision *ret, enum verify_method m, unsigned code, const char *status, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
static bool refuse(struct vet_decision *ret, enum verify_method m, unsigned code, const char *status, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(ret->text, sizeof ret->text, fmt, ap);
	va_end(ap);
	for (char *p = ret->text; *p; p++)
		*p = *p >= 0x20 && *p < 0x7f ? *p : '?';
	ret->action = code < 500 ? VET_PUTS_OFF : VET_REFUSES;
	ret->method = m;
	ret->code = code;
	ret->status = status;
	return true;
}

static bool by_dmarc(const struct vet_terms *t, const struct verify_verdict *r, struct vet_decision *ret)
{
	const struct dmarc_check *c = r->dmarc;
	if (t->dmarc != VET_ENFORCE || !c)
		return false;
	if (r->disposition == DMARC_REJECT && (!c->author->n || c->author->more))
		return refuse(ret, VERIFY_DMARC, 550, "5.7.1", "Whose mail this is cannot be told: %s", c->author->why);
	if (r->disposition == DMARC_REJECT)
		return refuse(ret, VERIFY_DMARC, 550, "5.7.26", "Refused by the DMARC policy of %.253s: %s",
		    c->author->domain[0], c->reason);
	if (c->result == DMARC_RESULT_TEMPERROR && t->tempfail)
		return refuse(ret, VERIFY_DMARC, 451, "4.7.0", "Try again later: %s", c->reason);
	if (r->disposition == DMARC_QUARANTINE) {
		ret->action = VET_QUARANTINES;
		ret->method = VERIFY_DMARC;
	}
	return false;
}

/* Mail that was passed on fails SPF although it is its author's: where DMARC says that it is, that counts (RFC 9989 §7.1). */
static bool by_spf(const struct vet_terms *t, const struct verify_verdict *r, const char *client, struct vet_decision *ret)
{
	const struct spf_check *both[2] = { r->spf, r->spf_helo };
	if (t->spf != VET_ENFORCE || (r->dmarc && (r->dmarc->result == DMARC_RESULT_PASS || r->override == VERIFY_TRUSTED_SEALER)))
		return false;
	for (unsigned i = 0; i < 2; i++) {
		const struct spf_check *c = both[i];
		bool explained = c && t->explain && c->explanation[0];
		if (c && c->result == SPF_FAIL) /* RFC 7208 §6.2: foreign words are told as such */
			return refuse(ret, VERIFY_MAILFROM, 550, "5.7.23", "SPF: %s does not let [%s] send mail as %s%s%s%s%s", c->domain, client,
			    c->by_helo ? "this host" : "that domain", explained ? "; the domain " : "", explained ? c->domain : "",
			    explained ? " explains: " : "", explained ? c->explanation : "");
	}
	for (unsigned i = 0; i < 2 && t->tempfail; i++)
		if (both[i] && both[i]->result == SPF_TEMPERROR)
			return refuse(ret, VERIFY_MAILFROM, 451, "4.7.24",
			    "SPF of %s cannot be looked up at the moment; try again later", both[i]->domain);
	return false;
}

/* Signed, and no signature holds. Who does not sign is let through, as RFC 6376 §6.1 has it, and so is who only tries it out (t=y). */
static bool by_dkim(const struct vet_terms *t, const struct verify_verdict *r, struct vet_decision *ret)
{
	enum dkim_result all = verify_dkim_result(r);
	const struct dkim_signature *first = NULL;
	bool good = false;
	if (t->dkim != VET_ENFORCE || !r->dkim_checked || all == DKIM_PASS || all == DKIM_NONE)
		return false;
	if (all == DKIM_TEMPERROR)
		return t->tempfail && refuse(ret, VERIFY_DKIM, 451, "4.7.0",
		    "A signature cannot be checked at the moment; try again later");
	for (size_t i = r->n_dkim; i-- > 0;) {
		first = r->dkim[i].signature;
		good |= first->raw == DKIM_PASS;
		if (first->testing)
			return false;
	}
	if (good) /* RFC 7372 §3.1: passing ones, none of them acceptable */
		return refuse(ret, VERIFY_DKIM, 550, "5.7.21", "No acceptable DKIM signature: %s", first->reason);
	return refuse(ret, VERIFY_DKIM, 550, "5.7.20", "No DKIM signature holds: %s", first->reason);
}

static bool by_arc(const struct vet_terms *t, const struct verify_verdict *r, struct vet_decision *ret)
{
	if (t->arc != VET_ENFORCE || !r->arc || r->arc->result != DKIM_FAIL)
		return false;
	if (r->arc->temporary)
		return t->tempfail && refuse(ret, VERIFY_ARC, 451, "4.7.0",
		    "The ARC chain cannot be checked at the moment; try again later");
	return refuse(ret, VERIFY_ARC, 550, "5.7.29", "The ARC chain is broken: %s", r->arc->reason);
}

enum dmarc_policy vet_applied(const struct vet_decision *d)
{
	return d->method != VERIFY_DMARC || d->action == VET_ACCEPTS ? DMARC_NONE : d->action == VET_REFUSES ? DMARC_REJECT :
	       d->action == VET_QUARANTINES ? DMARC_QUARANTINE : DMARC_NONE;
}

void vet_decide(const struct vet_terms *t, const struct verify_verdict *r, const char *client, struct vet_decision *ret)
{
	*ret = (struct vet_decision){ .action = VET_ACCEPTS };
	(void)(by_dmarc(t, r, ret) || by_spf(t, r, client, ret) || by_dkim(t, r, ret) || by_arc(t, r, ret));
}
