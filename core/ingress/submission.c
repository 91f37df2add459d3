/* The rules of submission.h. Bcc is taken out, as sendmail has always done for what users hand in: a program that leaves it to the server
 * (RFC 5322 §3.6.3 allows that) would else show its hidden recipients to all. */
#include "submission.h"

#include "auth.h"
#include "ingress_internal.h"
#include "proto/mail/addrlist.h"
#include "proto/mail/date.h"
#include "proto/mail/header.h"

#include <stdio.h>

/* Every address of the field must be the account's. first: the first of them. */
static enum submission_fault owned(const struct session *s, const char *name, struct str value, bool check, size_t *ret_n, char *first,
    size_t first_size, char *text, size_t size)
{
	struct mail_addrlist l;
	enum submission_fault ret = SUBMISSION_OK;
	bool bad = mail_addrlist_parse(&l, value) || l.bad;
	*ret_n = 0;
	for (size_t i = 0; i < l.n && !bad && !ret; i++) {
		const struct mail_address *a = &l.item[i];
		if (a->kind != MAIL_ADDR_MAILBOX)
			continue;
		bad = !a->valid;
		if (!bad && !(*ret_n)++ && first)
			snprintf(first, first_size, "%.*s", STR_ARG(a->address));
		if (!bad && check && !auth_may_send_as(s, a->address)) {
			snprintf(text, size, "%s: <%.*s> is not an address of yours", name, STR_ARG(a->address));
			ret = SUBMISSION_OWNER;
		}
	}
	if (!ret && (bad || !*ret_n)) {
		snprintf(text, size, "%s is no list of addresses", name);
		ret = SUBMISSION_FORM;
	}
	mail_addrlist_free(&l);
	return ret;
}

/* Who sent it again (RFC 5322 §3.6.6): readers are shown that, too. Blocks of earlier times stand there as well: all of them must be his. */
static enum submission_fault resent(const struct session *s, struct str head, char *text, size_t size)
{
	static const char *const names[] = { "Resent-From", "Resent-Sender" };
	enum submission_fault r = SUBMISSION_OK;
	struct mail_field f;
	size_t n;
	int kind;
	while (!r && (kind = mail_field_next(&head, &f)))
		for (unsigned i = 0; i < 2 && kind == 1 && !r; i++)
			if (str_ieq(f.name, str_from(names[i])))
				r = owned(s, names[i], f.value, true, &n, NULL, 0, text, size);
	return r;
}

enum submission_fault submission_check(const struct session *s, struct str head, struct str mail_from, struct submission *ret,
    char *text, size_t size)
{
	struct mail_field f = { 0 };
	bool check = s->terms->own_header;
	size_t authors = 0, n;
	enum submission_fault r = SUBMISSION_OK;
	char first[256] = "";
	*ret = (struct submission){ 0 };
	if (s->terms->need_auth)
		*ret = (struct submission){ .add_date = mail_field_find(head, STR("Date"), 0, &f) != 0,
			.add_id = mail_field_find(head, STR("Message-ID"), 0, &f) != 0,
			.drop_bcc = s->terms->remove_bcc && (!mail_field_find(head, STR("Bcc"), 0, &f) || !mail_field_find(head, STR("Resent-Bcc"), 0, &f)) };
	/* RFC 5322 §3.6: one, and no more; of two, nobody knows which one a reader is shown */
	if (mail_field_count(head, STR("From"), 2) > 1 || mail_field_count(head, STR("Sender"), 2) > 1) {
		snprintf(text, size, "The message has more than one %s", mail_field_count(head, STR("From"), 2) > 1 ? "From" : "Sender");
		return SUBMISSION_FORM;
	}
	if (!mail_field_find(head, STR("From"), 0, &f)) {
		r = owned(s, "From", f.value, check, &authors, first, sizeof first, text, size);
	} else if (s->terms->need_auth) {
		snprintf(text, size, "The message has no From");
		return SUBMISSION_FORM;
	}
	if (!r && check)
		r = resent(s, head, text, size);
	if (r)
		return r;
	if (mail_field_find(head, STR("Sender"), 0, &f)) {
		/* several authors: who of them sent it (RFC 6409 §8.1) */
		if (authors > 1 && s->terms->need_auth)
			snprintf(ret->sender, sizeof ret->sender, "%.*s", STR_ARG(mail_from.n && mail_from.n < sizeof ret->sender ? mail_from : str_from(first)));
		return SUBMISSION_OK;
	}
	r = owned(s, "Sender", f.value, check, &n, NULL, 0, text, size);
	if (!r && n > 1) {
		snprintf(text, size, "Sender has more than one address");
		return SUBMISSION_FORM;
	}
	return r;
}

static int add(struct buf *out, struct str name, const char *value)
{
	return mail_field_write(out, name, str_from(value));
}

int submission_headers(const struct submission *sub, struct str head, const char *id, const char *hostname, int64_t now_us, struct buf *out)
{
	char text[MAIL_DATE_SIZE + 600];
	struct mail_field f;
	if (sub->add_date) {
		buf_addz(out, "Date: ");
		if (mail_date_write(out, now_us, 0) || buf_addz(out, "\r\n"))
			return -1;
	}
	if (sub->add_id) {
		snprintf(text, sizeof text, "<%s.%lld@%s>", id, (long long)now_us, hostname);
		if (add(out, STR("Message-ID"), text))
			return -1;
	}
	if (sub->sender[0]) {
		snprintf(text, sizeof text, "<%s>", sub->sender);
		if (add(out, STR("Sender"), text))
			return -1;
	}
	if (!sub->drop_bcc)
		return buf_adds(out, head);
	while (head.n) {
		int r = mail_field_next(&head, &f);
		if (!r)
			break;
		if (r == 1 && (str_ieq(f.name, STR("Bcc")) || str_ieq(f.name, STR("Resent-Bcc"))))
			continue;
		if (buf_adds(out, f.all))
			return -1;
	}
	return 0;
}
