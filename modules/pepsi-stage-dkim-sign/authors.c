/* Authors of a message (authors.h). */
#include "authors.h"
#include "proto/mail/addrlist.h"
#include "proto/mail/header.h"
#include "proto/address/address.h"

#include <stdio.h>

static void add(struct authors *a, struct str domain)
{
	struct buf ascii = BUF_INIT(300);
	/* it becomes the name of a folder, and a dot-atom may hold a '/': smtp_domain_to_ascii() lets none of that through */
	if (smtp_domain_to_ascii(domain, &ascii) || ascii.n >= sizeof a->domain[0]) {
		a->why = "an author's domain is none";
		buf_free(&ascii);
		return;
	}
	bool known = false;
	for (size_t i = 0; i < a->n; i++)
		known |= !strcmp(a->domain[i], buf_z(&ascii));
	if (!known && a->n == AUTHORS_MAX)
		a->why = "its From names too many domains";
	else if (!known)
		snprintf(a->domain[a->n++], sizeof a->domain[0], "%s", buf_z(&ascii));
	buf_free(&ascii);
}

static void field(struct authors *a, struct str value)
{
	struct mail_addrlist l;
	if (mail_addrlist_parse(&l, value)) {
		a->why = "its From field is beyond all limits";
		mail_addrlist_free(&l);
		return;
	}
	if (l.bad)
		a->why = "its From field is none that a grammar allows";
	for (size_t i = 0; i < l.n; i++) {
		if (l.item[i].kind != MAIL_ADDR_MAILBOX)
			continue;
		if (!l.item[i].valid || l.item[i].literal)
			a->why = l.item[i].valid ? "an author has no domain" : "an author's address is none";
		else
			add(a, l.item[i].domain);
	}
	mail_addrlist_free(&l);
}

void authors_read(struct str headers, struct authors *ret)
{
	struct mail_field f;
	size_t n = 0;
	memset(ret, 0, sizeof *ret);
	for (int r; (r = mail_field_next(&headers, &f)) != 0;)
		if (r > 0 && str_ieq(f.name, STR("From"))) {
			if (++n > AUTHORS_MAX)
				break;
			field(ret, f.value);
		}
	if (n > 1)
		ret->why = "it has several From fields";
	else if (!n)
		ret->why = "it has no From field";
	else if (!ret->n && !ret->why)
		ret->why = "its From field names nobody";
}
