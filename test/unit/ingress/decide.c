/* What a listener makes of a verdict: method, how it is meant to be taken, result, and the reply or the way that follows. Verdicts are made by hand;
 * that they come about like this is the business of auth/verify.c. */
#include "ingress/vet_decide.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* One verdict, all parts there. */
struct parts {
	struct verify_verdict r;
	struct spf_check spf, helo;
	struct dkim_signature signature[2];
	struct arc_result arc;
	struct dmarc_author author;
	struct dmarc_check dmarc;
};

static void fill(struct parts *p)
{
	memset(p, 0, sizeof *p);
	p->spf = (struct spf_check){ .result = SPF_PASS, .domain = "sender.example" };
	p->helo = (struct spf_check){ .result = SPF_NONE, .domain = "helo.example", .by_helo = true };
	p->author = (struct dmarc_author){ .n = 1, .domain = { "author.example" } };
	p->dmarc = (struct dmarc_check){ .author = &p->author, .reason = "no authenticated domain is aligned" };
	p->r = (struct verify_verdict){ .spf = &p->spf, .spf_helo = &p->helo, .dkim_checked = true, .arc = &p->arc, .author = &p->author, .dmarc = &p->dmarc };
}

static void sign(struct parts *p, size_t i, enum dkim_result result, enum dkim_result raw)
{
	p->signature[i] = (struct dkim_signature){ .result = result, .raw = raw, .reason = "of signature X" };
	p->signature[i].reason[strlen("of signature ")] = (char)('1' + i);
	p->r.dkim[i].signature = &p->signature[i];
	p->r.n_dkim = i + 1;
}

static void fails_dmarc(struct parts *p, enum dmarc_policy done)
{
	p->dmarc.result = DMARC_RESULT_FAIL;
	p->dmarc.policy = DMARC_REJECT;
	p->r.disposition = p->dmarc.disposition = done;
}

/* "accept", "quarantine", or "CODE STATUS TEXT". */
static void expect(const struct parts *p, const struct vet_terms *t, const char *want, int line)
{
	struct vet_decision d;
	char got[1200];
	vet_decide(t, &p->r, "192.0.2.7", &d);
	if (d.action == VET_ACCEPTS || d.action == VET_QUARANTINES)
		snprintf(got, sizeof got, "%s", d.action == VET_ACCEPTS ? "accept" : "quarantine");
	else
		snprintf(got, sizeof got, "%u %s %s", d.code, d.status, d.text);
	if (strcmp(got, want) != 0)
		print_error("line %d\n", line);
	assert_string_equal(got, want);
	if (got[0] == '4' || got[0] == '5')
		assert_int_equal(d.action, got[0] == '4' ? VET_PUTS_OFF : VET_REFUSES);
}

enum { OFF = VET_OFF, REC = VET_RECORD, ENF = VET_ENFORCE };
#define TERMS(S, D, A, M, ...) (&(struct vet_terms){ .spf = (enum vet_mode)(S), .dkim = (enum vet_mode)(D), .arc = (enum vet_mode)(A), \
	.dmarc = (enum vet_mode)(M), __VA_ARGS__ })
#define IS(P, WANT, ...) expect(&(P), TERMS(__VA_ARGS__), WANT, __LINE__)

static void spf(void **st)
{
	static const char no[] = "550 5.7.23 SPF: sender.example does not let [192.0.2.7] send mail as that domain";
	struct parts p;
	(void)st;
	for (enum spf_result i = SPF_NONE; i <= SPF_PERMERROR; i++) { /* of all results one refuses */
		fill(&p);
		p.spf.result = i;
		IS(p, i == SPF_FAIL ? no : "accept", ENF, REC, REC, REC, .tempfail = false);
		IS(p, "accept", REC, REC, REC, REC, .tempfail = true);
		IS(p, "accept", OFF, ENF, ENF, ENF, .tempfail = true);
		IS(p, i == SPF_FAIL ? no : i == SPF_TEMPERROR ? "451 4.7.24 SPF of sender.example cannot be looked up at the moment; try again later" :
		    "accept", ENF, OFF, OFF, OFF, .tempfail = true);
	}
	fill(&p);
	p.helo.result = SPF_FAIL;
	IS(p, "550 5.7.23 SPF: helo.example does not let [192.0.2.7] send mail as this host", ENF, OFF, OFF, OFF, .tempfail = true);
	p.spf.result = SPF_TEMPERROR; /* what is known counts more */
	IS(p, "550 5.7.23 SPF: helo.example does not let [192.0.2.7] send mail as this host", ENF, OFF, OFF, OFF, .tempfail = true);
	/* words of the domain: only where they are wanted, and as its own */
	fill(&p);
	p.spf.result = SPF_FAIL;
	snprintf(p.spf.explanation, sizeof p.spf.explanation, "see http://why.example/");
	IS(p, no, ENF, OFF, OFF, OFF, .explain = false);
	IS(p, "550 5.7.23 SPF: sender.example does not let [192.0.2.7] send mail as that domain; the domain sender.example explains: "
	      "see http://why.example/", ENF, OFF, OFF, OFF, .explain = true);
	/* DMARC knows better */
	p.dmarc.result = DMARC_RESULT_PASS;
	IS(p, "accept", ENF, REC, REC, REC, .explain = true);
	fails_dmarc(&p, DMARC_NONE);
	p.r.override = VERIFY_TRUSTED_SEALER;
	IS(p, "accept", ENF, REC, REC, REC, .explain = true);
	p.r.override = VERIFY_TEST_MODE;
	IS(p, no, ENF, REC, REC, REC, .explain = false);
	p.r.dmarc = NULL;
	IS(p, no, ENF, REC, REC, OFF, .explain = false);
	p.r.spf = p.r.spf_helo = NULL;
	IS(p, "accept", ENF, REC, REC, OFF, .tempfail = true);
}

static void dmarc(void **st)
{
	struct parts p;
	(void)st;
	fill(&p);
	fails_dmarc(&p, DMARC_REJECT);
	IS(p, "550 5.7.26 Refused by the DMARC policy of author.example: no authenticated domain is aligned", ENF, ENF, ENF, ENF, .tempfail = true);
	IS(p, "accept", REC, REC, REC, REC, .tempfail = true);
	IS(p, "accept", REC, REC, REC, OFF, .tempfail = true);
	fails_dmarc(&p, DMARC_QUARANTINE);
	IS(p, "quarantine", ENF, ENF, ENF, ENF, .tempfail = true);
	IS(p, "accept", ENF, ENF, ENF, REC, .tempfail = true);
	p.spf.result = SPF_FAIL; /* a refusal is more than a quarantine */
	IS(p, "550 5.7.23 SPF: sender.example does not let [192.0.2.7] send mail as that domain", ENF, REC, REC, ENF, .tempfail = true);
	fill(&p);
	p.dmarc.result = DMARC_RESULT_TEMPERROR;
	p.dmarc.reason = "the policy could not be looked up";
	IS(p, "accept", REC, REC, REC, ENF, .tempfail = false);
	IS(p, "451 4.7.0 Try again later: the policy could not be looked up", REC, REC, REC, ENF, .tempfail = true);
	IS(p, "accept", REC, REC, REC, REC, .tempfail = true);
	fails_dmarc(&p, DMARC_NONE);
	IS(p, "accept", REC, REC, REC, ENF, .tempfail = true);
	/* no author that could be named */
	fails_dmarc(&p, DMARC_REJECT);
	p.author = (struct dmarc_author){ .state = DMARC_AUTHOR_BAD, .why = "the From field is no list of addresses" };
	IS(p, "550 5.7.1 Whose mail this is cannot be told: the From field is no list of addresses", REC, REC, REC, ENF, .tempfail = true);
	p.author = (struct dmarc_author){ .state = DMARC_AUTHOR_SEVERAL, .n = 4, .more = true, .domain = { "a", "b", "c", "d" }, .why = "too many" };
	IS(p, "550 5.7.1 Whose mail this is cannot be told: too many", REC, REC, REC, ENF, .tempfail = true);
	/* names from outside cannot leave their line */
	p.author = (struct dmarc_author){ .n = 1, .domain = { "a\r\nb\x7f\xc3" } };
	IS(p, "550 5.7.26 Refused by the DMARC policy of a??b??: the policy could not be looked up", REC, REC, REC, ENF, .tempfail = true);
}

static void dkim(void **st)
{
	struct parts p;
	(void)st;
	fill(&p);
	IS(p, "accept", OFF, ENF, OFF, OFF, .tempfail = true); /* not signed */
	for (enum dkim_result i = DKIM_PASS; i <= DKIM_PERMERROR; i++) {
		fill(&p);
		sign(&p, 0, i, DKIM_NONE);
		const char *want = i == DKIM_PASS || i == DKIM_TEMPERROR ? "accept" : "550 5.7.20 No DKIM signature holds: of signature 1";
		IS(p, want, OFF, ENF, OFF, OFF, .tempfail = false);
		IS(p, i == DKIM_TEMPERROR ? "451 4.7.0 A signature cannot be checked at the moment; try again later" : want, OFF, ENF, OFF, OFF,
		    .tempfail = true);
		IS(p, "accept", OFF, REC, OFF, OFF, .tempfail = true);
		sign(&p, 1, DKIM_PASS, DKIM_PASS); /* one is enough */
		IS(p, "accept", OFF, ENF, OFF, OFF, .tempfail = true);
		sign(&p, 1, DKIM_FAIL, DKIM_FAIL);
		p.signature[1].testing = true; /* the domain only tries it out */
		if (i != DKIM_TEMPERROR)
			IS(p, "accept", OFF, ENF, OFF, OFF, .tempfail = true);
	}
	fill(&p);
	sign(&p, 0, DKIM_FAIL, DKIM_FAIL);
	sign(&p, 1, DKIM_POLICY, DKIM_PASS);
	IS(p, "550 5.7.21 No acceptable DKIM signature: of signature 1", OFF, ENF, OFF, OFF, .tempfail = true);
	fill(&p);
	p.r.dkim_error = "out of memory";
	IS(p, "accept", OFF, ENF, OFF, OFF, .tempfail = false);
	IS(p, "451 4.7.0 A signature cannot be checked at the moment; try again later", OFF, ENF, OFF, OFF, .tempfail = true);
	p.r.dkim_checked = false;
	IS(p, "accept", OFF, ENF, OFF, OFF, .tempfail = true);
}

static void arc(void **st)
{
	struct parts p;
	(void)st;
	fill(&p);
	for (enum dkim_result i = DKIM_NONE; i <= DKIM_FAIL; i++) {
		p.arc = (struct arc_result){ .result = i, .reason = "ARC-Seal 2 is not one" };
		IS(p, i == DKIM_FAIL ? "550 5.7.29 The ARC chain is broken: ARC-Seal 2 is not one" : "accept", OFF, OFF, ENF, OFF, .tempfail = true);
		IS(p, "accept", OFF, OFF, REC, OFF, .tempfail = true);
	}
	p.arc.temporary = true;
	IS(p, "accept", OFF, OFF, ENF, OFF, .tempfail = false);
	IS(p, "451 4.7.0 The ARC chain cannot be checked at the moment; try again later", OFF, OFF, ENF, OFF, .tempfail = true);
	p.r.arc = NULL;
	IS(p, "accept", OFF, OFF, ENF, OFF, .tempfail = true);
}

/* Who speaks first where all would refuse. */
static void order(void **st)
{
	struct parts p;
	(void)st;
	fill(&p);
	fails_dmarc(&p, DMARC_REJECT);
	p.spf.result = SPF_FAIL;
	sign(&p, 0, DKIM_FAIL, DKIM_FAIL);
	p.arc.result = DKIM_FAIL;
	static const struct {
		enum vet_mode spf, dkim, arc, dmarc;
		unsigned code;
		const char *status;
		enum verify_method method;
	} c[] = {
		{ VET_ENFORCE, VET_ENFORCE, VET_ENFORCE, VET_ENFORCE, 550, "5.7.26", VERIFY_DMARC },
		{ VET_ENFORCE, VET_ENFORCE, VET_ENFORCE, VET_RECORD, 550, "5.7.23", VERIFY_MAILFROM },
		{ VET_RECORD, VET_ENFORCE, VET_ENFORCE, VET_RECORD, 550, "5.7.20", VERIFY_DKIM },
		{ VET_RECORD, VET_RECORD, VET_ENFORCE, VET_RECORD, 550, "5.7.29", VERIFY_ARC },
	};
	for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
		struct vet_terms t = { .spf = c[i].spf, .dkim = c[i].dkim, .arc = c[i].arc, .dmarc = c[i].dmarc };
		struct vet_decision d;
		vet_decide(&t, &p.r, "192.0.2.7", &d);
		assert_int_equal(d.code, c[i].code);
		assert_string_equal(d.status, c[i].status);
		assert_int_equal(d.method, c[i].method);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(spf), cmocka_unit_test(dmarc), cmocka_unit_test(dkim), cmocka_unit_test(arc),
		cmocka_unit_test(order) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
