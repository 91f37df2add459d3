/* Requests of `pepsi account` about the table of recipients that the ingress asks: rows added, removed, listed. Whether mail for them is
 * accepted is decided elsewhere. */
#include "accounts_internal.h"

#include "base/log.h"
#include "proto/smtp/address.h"
#include "store/recipient.h"

#include <stdio.h>
#include <string.h>

static void on_recipient_row(void *arg, struct str name, bool alias)
{
	struct store_account row = { .name = name };
	(void)alias;
	accounts_row(arg, &row);
}

static void on_recipients_listed(void *arg, enum store_rc rc, unsigned n, const char *err)
{
	peer_listed(arg, rc, n == STORE_RECIPIENT_PAGE, err);
}

static void on_recipient_written(void *arg, enum store_rc rc, unsigned n, const char *err)
{
	struct peer *p = arg;
	bool add = p->op == WIRE_RECIPIENT_ADD;
	if (rc != STORE_OK) {
		peer_database_no(p, rc, err);
	} else if (!n) {
		peer_refuse(p, add ? "%s is a recipient already" : "there is no recipient %s in the table", p->name);
	} else {
		log_info(NULL, "event=recipient-%s recipient=%s uid=%u pid=%d", add ? "added" : "removed", log_qz(p->name), (unsigned)p->who.uid,
		    (int)p->who.pid);
		peer_done(p);
	}
}

/* "a@b" or "@b" in the form that is compared, into p->name. */
static bool take_recipient(struct peer *p, struct str s)
{
	struct smtp_address a;
	char domain[CONFIG_DOMAIN_MAX + 1];
	bool whole = s.n && s.p[0] == '@';
	int fault = whole ? (smtp_domain_check(str_skip(s, 1), true) ? -SMTP_ADDRESS_DOMAIN : 0) : smtp_address_parse(s, true, &a);
	if (whole)
		a = (struct smtp_address){ .domain = str_skip(s, 1) };
	if (!fault && config_domain_fold(a.domain, domain, sizeof domain))
		fault = -SMTP_ADDRESS_DOMAIN;
	if (!fault && a.local.n + 1 + strlen(domain) >= sizeof p->name)
		fault = -SMTP_ADDRESS_LONG;
	if (fault) {
		peer_refuse(p, "\"%.*s\": %s (wanted: an address or @DOMAIN)", STR_ARG(s), smtp_address_fault_text(fault));
		return false;
	}
	snprintf(p->name, sizeof p->name, "%.*s@%s", STR_ARG(a.local), domain);
	ascii_lower_z(p->name);
	return true;
}

void accounts_recipient(struct peer *p, const struct wire_account_request *r)
{
	p->name[0] = 0;
	if (r->op == WIRE_RECIPIENT_LIST) {
		store_recipient_list(p->a->s->db, r->name, on_recipient_row, on_recipients_listed, p);
		return;
	}
	if (!take_recipient(p, r->name))
		return;
	(r->op == WIRE_RECIPIENT_ADD ? store_recipient_add : store_recipient_remove)(p->a->s->db, str_from(p->name), on_recipient_written, p);
}
