/* Mail addresses with their domains folded; see address.h. */
#include "address.h"

#include "answers.h"

int dns_address_fold(struct str address, struct buf *out)
{
	char folded[DNS_NAME_MAX + 1];
	size_t before = out->n, at = address.n;
	while (at && address.p[at - 1] != '@')
		at--;
	struct str domain = str_skip(address, at);
	int n = at ? dns_name_fold(domain, folded) : -1;
	if (n >= 0)
		domain = str_n(folded, (size_t)n);
	if (buf_adds(out, str_n(address.p, at)) || buf_adds(out, domain)) {
		out->n = before;
		return -1;
	}
	return 0;
}
