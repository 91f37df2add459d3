/* Fuzz: address lists; what is written must read back as the same names, comments and addresses. */
#include "proto/mail/addrlist.h"
#include "proto/mail/header.h"

#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool clean(struct str s)
{
	return !s.n || str_is_utf8(s);
}

/* The next item that is written. */
static const struct mail_address *next(const struct mail_addrlist *l, size_t *i)
{
	while (*i < l->n) {
		const struct mail_address *a = &l->item[(*i)++];
		if ((a->kind == MAIL_ADDR_GROUP && a->name.p) || (a->kind == MAIL_ADDR_MAILBOX && a->valid))
			return a;
	}
	return NULL;
}

static void same(const struct mail_addrlist *l, const struct mail_addrlist *back)
{
	size_t i = 0, k = 0;
	const struct mail_address *a, *b;
	while ((a = next(l, &i))) {
		b = next(back, &k);
		must(b && a->kind == b->kind && str_eq(a->address, b->address) && str_eq(a->local, b->local));
		must(str_eq(a->domain, b->domain) && a->quoted == b->quoted && a->literal == b->literal);
		must(!a->name.p == !b->name.p && str_eq(a->name, b->name) && str_eq(a->comment, b->comment));
	}
	must(!next(back, &k));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mail_addrlist l, back;
	struct mail_field f;
	if (size > 65536 || mail_addrlist_parse(&l, str_n((const char *)data, size)))
		return 0;
	for (size_t i = 0; i < l.n; i++) {
		const struct mail_address *a = &l.item[i];
		must(clean(a->name) && clean(a->comment) && clean(a->address) && a->group <= i);
		must(!a->valid || (a->domain.n && a->domain.p == a->address.p + a->address.n - a->domain.n && a->domain.p[-1] == '@'));
		must(a->valid || a->kind != MAIL_ADDR_MAILBOX || l.bad);
	}
	for (int utf8 = 0; utf8 < 2; utf8++) {
		struct buf b = BUF_INIT(1 << 20);
		if (mail_addrlist_write(&b, STR("To"), &l, utf8) == 0) {
			struct str rest = buf_str(&b);
			must(mail_headers_sendable(rest) && (utf8 || str_is_ascii(rest)));
			must(mail_field_next(&rest, &f) == 1 && !rest.n);
			must(mail_addrlist_parse(&back, f.value) == 0 && !back.loose && !back.obsolete);
			must(!back.bad);
			same(&l, &back);
			mail_addrlist_free(&back);
		}
		buf_free(&b);
	}
	mail_addrlist_free(&l);
	return 0;
}
