/* What `pepsi auth-check --json` prints: one object, documented in pepsi-auth-check(1). */
#include "auth_check.h"

static void add_z(struct json_object *o, const char *key, const char *z)
{
	json_object_object_add(o, key, z ? json_object_new_string(z) : NULL);
}

static void add_int(struct json_object *o, const char *key, int64_t n)
{
	json_object_object_add(o, key, json_object_new_int64(n));
}

static void add_spf(struct json_object *o, const char *key, const struct spf_check *s)
{
	struct json_object *one = s ? json_object_new_object() : NULL;
	if (!s)
		return;
	add_z(one, "result", spf_result_name(s->result));
	add_z(one, "record_domain", s->where);
	add_z(one, "term", s->term);
	add_z(one, "explanation", s->explanation[0] ? s->explanation : NULL);
	add_int(one, "lookups", s->n_terms);
	add_int(one, "void_lookups", s->n_voids);
	json_object_object_add(o, key, one);
}

static struct json_object *message_of(const struct auth_check *k)
{
	struct json_object *o = json_object_new_object();
	add_z(o, "file", k->file);
	add_int(o, "octets", (int64_t)k->raw.n);
	add_int(o, "fields_taken_off", (int64_t)k->taken_off);
	add_int(o, "line_ends_changed", (int64_t)k->line_ends);
	return o;
}

static struct json_object *client_of(const struct auth_check *k)
{
	struct json_object *o = json_object_new_object();
	add_z(o, "ip", k->ip_text);
	add_z(o, "ip_from", k->ip_by);
	add_z(o, "helo", k->helo);
	add_z(o, "helo_from", k->helo_by);
	add_z(o, "mail_from", k->from);
	add_z(o, "mail_from_from", k->from_by);
	return o;
}

static struct json_object *listener_of(const struct auth_check *k)
{
	struct json_object *o = json_object_new_object();
	add_z(o, "name", k->section ? k->section + strlen("listener-") : NULL);
	add_z(o, "spf", auth_mode(k->terms.spf));
	add_z(o, "dkim", auth_mode(k->terms.dkim));
	add_z(o, "arc", auth_mode(k->terms.arc));
	add_z(o, "dmarc", auth_mode(k->terms.dmarc));
	json_object_object_add(o, "exempt", json_object_new_boolean(k->exempt));
	return o;
}

static struct json_object *decision_of(const struct auth_check *k)
{
	const struct vet_decision *d = &k->decision;
	struct json_object *o = json_object_new_object();
	enum vet_action a = k->exempt ? VET_ACCEPTS : d->action;
	add_z(o, "action", auth_action(a));
	if (a == VET_ACCEPTS)
		return o;
	add_z(o, "method", verify_method_name(d->method));
	if (a == VET_QUARANTINES) {
		add_z(o, "stage", k->terms.quarantine);
		return o;
	}
	add_int(o, "code", d->code);
	add_z(o, "status", d->status);
	add_z(o, "text", d->text);
	return o;
}

void auth_print_json(const struct auth_check *k)
{
	const struct verify_verdict *r = verify_verdict(k->v);
	struct json_object *o = json_object_new_object(), *spf = json_object_new_object();
	struct buf b = BUF_INIT(1 << 20);
	json_object_object_add(o, "message", message_of(k));
	json_object_object_add(o, "client", client_of(k));
	json_object_object_add(o, "listener", listener_of(k));
	json_object_object_add(o, "decision", decision_of(k));
	verify_json(k->v, &b);
	json_object_object_add(o, "auth", json_tokener_parse(buf_z(&b)));
	add_spf(spf, "mailfrom", r->spf && !r->spf->by_helo ? r->spf : NULL);
	add_spf(spf, "helo", r->spf && r->spf->by_helo ? r->spf : r->spf_helo);
	json_object_object_add(o, "spf", spf);
	json_object_object_add(o, "steps", json_object_get(k->steps));
	add_int(o, "queries", k->queries);
	json_object_object_add(o, "authentication_results", json_object_new_string_len(k->field.p, (int)k->field.n));
	cli_json_print(o);
	json_object_put(o);
	buf_free(&b);
}
