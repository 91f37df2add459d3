/* Fuzz: the evaluators over answers that have none of their own: iprev and block lists, whatever the DNS says. The first line is a block list
 * as it stands in a configuration; behind it, each line answers the next question, over and over: "!" fails, an empty one is NXDOMAIN,
 * "-" NODATA, else its words are the records. */
#include "base/check.h"
#include "proto/dns/dnsbl.h"
#include "proto/dns/iprev.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct str line(struct str *rest)
{
	ptrdiff_t end = str_chr(*rest, '\n');
	struct str s = str_n(rest->p, end < 0 ? rest->n : (size_t)end);
	*rest = str_skip(*rest, s.n + 1);
	return s;
}

static struct dns_answer *answer(struct str zone, struct str *rest, struct str name, enum dns_type type)
{
	char octets[32][16], folded[DNS_NAME_MAX + 1];
	struct dns_rr rr[32] = { 0 };
	size_t n = 0;
	if (!rest->n)
		*rest = zone;
	struct str text = line(rest), words = text, word;
	if (str_eq(text, STR("!")))
		return dns_answer_fail(name, type, "fuzz");
	while (n < 32 && str_word(&words, " ", &word)) {
		if (type == DNS_A || type == DNS_AAAA) { /* the octets of the word, the last one again and again */
			for (size_t i = 0; i < 16; i++)
				octets[n][i] = word.p[i < word.n ? i : word.n - 1];
			rr[n].data = str_n(octets[n], type == DNS_A ? 4 : 16);
			n++;
		} else if (type == DNS_TXT || dns_name_fold(word, folded) > 0) {
			rr[n++].data = word;
		}
	}
	return dns_answer_new(name, type, n ? DNS_OK : text.n ? DNS_NODATA : DNS_NXDOMAIN, rr, n, 1, false);
}

/* Returns the questions it took. */
static size_t run(dns_evaluate_fn fn, void *arg, struct str zone)
{
	struct dns_answers *set = dns_answers_new();
	struct str rest = zone, name;
	enum dns_type type;
	size_t rounds = 0;
	must(set);
	while (fn(arg, set) == DNS_MORE) {
		must(dns_answers_n_missing(set) > 0 && ++rounds <= 3);
		while (dns_answers_missing(set, 0, &name, &type)) {
			char again[DNS_NAME_MAX + 1];
			must(dns_name_fold(name, again) == (int)name.n && memcmp(again, name.p, name.n) == 0);
			must(dns_answers_put(set, answer(zone, &rest, name, type)) == 0);
		}
	}
	size_t n = dns_answers_n(set);
	dns_answers_free(set);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest = str_n((const char *)data, size);
	struct dnsbl_list lists[2];
	struct dnsbl_result results[2];
	const char *why = NULL;
	unsigned char ip[16] = "1111111111111111";
	if (size > 8192)
		return 0;
	struct str word = line(&rest), zone = rest;
	size_t n = 0;
	for (int allow = 0; allow < 2; allow++)
		if (dnsbl_parse(word, allow, &lists[n], &why) == 0) {
			must(lists[n].n <= DNSBL_PATTERNS_MAX && lists[n].zone[0]);
			n++;
		} else {
			must(why != NULL);
		}
	for (size_t ip_n = 4; ip_n <= 16; ip_n += 12) {
		struct iprev v = { .ip = ip, .ip_n = ip_n };
		must(run(iprev_evaluate, &v, zone) <= 1 + IPREV_NAMES_MAX);
		must(v.result > IPREV_NONE && v.result <= IPREV_PERMERROR && strlen(v.name) <= DNS_NAME_MAX);
		must((v.result != IPREV_PASS && v.result != IPREV_FAIL) == !v.name[0]);
		struct dnsbl_check c = { .lists = lists, .results = results, .n = n, .ip = ip, .ip_n = ip_n, .texts = true };
		must(run(dnsbl_evaluate, &c, zone) <= 2 * n);
		for (size_t i = 0; i < n; i++) {
			must(!results[i].listed || (results[i].address[0] == 127 && dnsbl_matches(&lists[i], results[i].address)));
			must(!results[i].listed || !results[i].failed);
			for (const char *p = results[i].text; *p; p++)
				must(*p >= ' ' && *p <= '~');
		}
	}
	return 0;
}
