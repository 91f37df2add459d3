/* Requests of `pepsi account` about what is laid over the configuration: per-address options set, unset, listed. Checks what can be known
 * of them without a module's code, which is never loaded here. */
#include "accounts_internal.h"

#include "base/log.h"
#include "config/overlay.h"
#include "store/overlay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_override_row(void *arg, struct str section, struct str option, struct str value)
{
	struct peer *p = arg;
	struct wire_overlay_row r = { section, option, value };
	if (p->rows.n > WIRE_ACCOUNT_ROWS_ENOUGH || p->more)
		p->more = true;
	else if (wire_overlay_row_put(&p->rows, &r)) /* longer than anything that came through here */
		log_warn(NULL, "event=overlay-row section=%s option=%s reason=\"too long to be shown\"", log_q(section), log_q(option));
}

static void on_overrides(void *arg, enum store_rc rc, unsigned n, const char *err)
{
	peer_listed(arg, rc, n == STORE_OVERLAY_PAGE, err);
}

static void on_override_written(void *arg, enum store_rc rc, unsigned n, const char *err)
{
	struct peer *p = arg;
	bool set = p->op == WIRE_OVERLAY_SET;
	if (rc != STORE_OK) {
		peer_database_no(p, rc, err);
	} else if (!n) {
		peer_refuse(p, "%s is not set there", p->name);
	} else {
		log_info(NULL, "event=overlay-%s option=%s value=%s uid=%u pid=%d", set ? "set" : "unset", log_qz(p->name),
		    set ? log_q(buf_str(&p->kept)) : "-", (unsigned)p->who.uid, (int)p->who.pid);
		peer_done(p);
	}
}

/* The tool has asked the module; here is what can be known without loading foreign code. The worker asks again. */
void accounts_overlay(struct peer *p, const struct wire_account_request *r)
{
	struct store_conn *db = p->a->s->db;
	char section[WIRE_OVERLAY_NAME_MAX + 1], option[WIRE_OVERLAY_NAME_MAX + 1], *value = str_dupz(r->value);
	struct buf why = BUF_INIT(2048);
	snprintf(section, sizeof section, "%.*s", STR_ARG(r->section));
	snprintf(option, sizeof option, "%.*s", STR_ARG(r->option));
	snprintf(p->name, sizeof p->name, "[%.120s] %.120s", section, option);
	buf_free(&p->kept);
	p->kept = BUF_INIT(WIRE_OVERLAY_VALUE_MAX);
	if (r->op == WIRE_OVERLAY_LIST)
		store_overlay_list(db, r->section, r->option, on_override_row, on_overrides, p);
	else if (r->op == WIRE_OVERLAY_UNSET)
		store_overlay_unset(db, r->section, r->option, on_override_written, p);
	else if (!value || strlen(value) != r->value.n || buf_addz(&p->kept, value))
		peer_refuse(p, "out of memory, or a value with NUL in it");
	else if (config_overlay_check(p->a->s->config, NULL, section, option, value, NULL, &why))
		peer_refuse(p, "%s: %s", p->name, buf_z(&why));
	else
		store_overlay_set(db, r->section, r->option, r->value, on_override_written, p);
	buf_free(&why);
	free(value);
}
