/* host->resolve() under evaluators, and DANE for one host that an operator named. */
#include "hop_dane.h"

#include "lookup.h"

enum { ROUNDS_MAX = 16 };

int hop_evaluate(const struct pepsi_host *host, struct pepsi_msg *msg, dns_evaluate_fn fn, void *arg, struct dns_answers *set)
{
	int r = DNS_MORE;
	for (int round = 0; round < ROUNDS_MAX && (r = fn(arg, set)) == DNS_MORE; round++) {
		struct str name;
		enum dns_type type;
		while (dns_answers_missing(set, 0, &name, &type)) {
			char z[DNS_NAME_MAX + 1];
			memcpy(z, name.p, name.n <= DNS_NAME_MAX ? name.n : DNS_NAME_MAX);
			z[name.n <= DNS_NAME_MAX ? name.n : DNS_NAME_MAX] = 0;
			struct dns_answer *a = lookup_answer(name, type, host->resolve(msg, z, (uint32_t)type));
			if (!a || dns_answers_put(set, a))
				return -1;
		}
	}
	return r == DNS_DONE ? 0 : -1;
}

int hop_dane_look(const struct pepsi_host *h, struct pepsi_msg *msg, const char *host, int port, struct hop_dane *ret, struct buf *why)
{
	*ret = (struct hop_dane){ .set = dns_answers_new(), .look = { .host = str_from(host), .port = (unsigned)port, .ipv4 = true, .ipv6 = true } };
	if (!ret->set || hop_evaluate(h, msg, dane_evaluate, &ret->look, ret->set)) {
		buf_addz(why, "DANE: out of memory");
		return -1;
	}
	if (ret->look.status == DANE_USABLE)
		return 0;
	buf_addf(why, "DANE is required here: %s", ret->look.reason ? ret->look.reason : dane_status_name(ret->look.status));
	return -1;
}

void hop_dane_done(struct hop_dane *d)
{
	dns_answers_free(d->set);
	*d = (struct hop_dane){ 0 };
}

int hop_dane_match(const struct hop_dane *d, const struct stack_st_X509 *chain, int64_t now, struct buf *why)
{
	struct dane_check c = { .rr = d->look.tlsa->rr, .n_rr = d->look.tlsa->n_rr, .chain = chain, .name = { d->look.base }, .n_names = 1, .now = now };
	char host[DNS_NAME_MAX + 1];
	if (d->look.host.n < sizeof host) {
		memcpy(host, d->look.host.p, d->look.host.n);
		host[d->look.host.n] = 0;
		c.name[c.n_names++] = host;
	}
	if (dane_check(&c))
		return 0;
	buf_addf(why, "TLS: the certificate does not match the TLSA records (%s): %s", dane_verdict_name(c.verdict), c.reason ? c.reason : "");
	return -1;
}
