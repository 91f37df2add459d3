/* Bounces as JSON: the notices of Amazon SES, which SNS sends as mail ("notificationType", or "eventType" where events are published: Bounce, Delivery,
 * DeliveryDelay), as they are or within SNS's own object. What is not of this form is left to the readers of text. Bounded by DSN_READ_TEXT_MAX and a depth. */
#include "read_internal.h"

#include <json-c/json.h>

enum { DEPTH_MAX = 16 };

static struct json_object *member(struct json_object *o, const char *key, enum json_type type)
{
	struct json_object *v = NULL;
	return json_object_is_type(o, json_type_object) && json_object_object_get_ex(o, key, &v) && json_object_is_type(v, type) ? v : NULL;
}

static struct str text(struct json_object *o, const char *key)
{
	struct json_object *v = member(o, key, json_type_string);
	return v ? str_n(json_object_get_string(v), (size_t)json_object_get_string_len(v)) : STR_NULL;
}

/* Behind the object there may be more. NULL: no object, or out of memory. */
static struct json_object *parse(struct str s)
{
	struct json_tokener *t = json_tokener_new_ex(DEPTH_MAX);
	if (!t)
		return NULL;
	struct json_object *o = json_tokener_parse_ex(t, s.p, (int)s.n);
	json_tokener_free(t);
	if (o && !json_object_is_type(o, json_type_object)) {
		json_object_put(o);
		return NULL;
	}
	return o;
}

/* What a bounce is called where no words and no status of the other side say more. */
static enum dsn_read_reason subtype(struct str type, struct str sub)
{
	static const struct {
		struct str name;
		enum dsn_read_reason reason;
	} subs[] = { { STR_INIT("MailboxFull"), DSN_REASON_FULL }, { STR_INIT("MessageTooLarge"), DSN_REASON_TOO_BIG }, { STR_INIT("ContentRejected"), DSN_REASON_POLICY },
		{ STR_INIT("AttachmentRejected"), DSN_REASON_POLICY }, { STR_INIT("General"), DSN_REASON_UNKNOWN_USER }, { STR_INIT("NoEmail"), DSN_REASON_UNKNOWN_USER },
		{ STR_INIT("Suppressed"), DSN_REASON_UNKNOWN_USER } };
	for (size_t i = 0; i < sizeof subs / sizeof *subs; i++)
		if (str_ieq(sub, subs[i].name) && (str_ieq(type, STR("Permanent")) || !dsn_reason_hard(subs[i].reason)))
			return subs[i].reason;
	return str_ieq(type, STR("Transient")) ? DSN_REASON_SYSTEM : DSN_REASON_OTHER;
}

static void add(struct dsn_gather *g, struct json_object *one, struct json_object *bounce, enum dsn_read_action action)
{
	struct str address = STR_NULL, said = json_object_is_type(one, json_type_string) ? STR_NULL : text(one, "diagnosticCode"), sub = text(bounce, "bounceSubType"),
		   type = text(bounce, "bounceType"), named = json_object_is_type(one, json_type_string) ? str_from(json_object_get_string(one)) : text(one, "emailAddress");
	size_t at = 0;
	if (!dsn_read_address(named, &at, &address))
		return;
	struct dsn_read_rcpt *r = dsn_read_add(g, address);
	if (!r)
		return;
	r->action = action;
	if (str_istarts(said, STR("smtp;")))
		said = str_skip(said, 5);
	r->diagnostic = dsn_read_line(g, said);
	struct str status = dsn_read_find_status(json_object_is_type(one, json_type_string) ? STR_NULL : text(one, "status"));
	if (!status.n)
		status = dsn_read_find_status(r->diagnostic);
	r->status = arena_str(g->r->mem, status);
	g->memory |= !r->status.p;
	r->code = dsn_read_find_code(r->diagnostic);
	if (action != DSN_READ_FAILED)
		return;
	r->reason = dsn_reason_of(r->diagnostic, r->status, r->code);
	if (str_ieq(sub, STR("OnAccountSuppressionList"))) /* a list of one's own at the provider: no server was asked */
		r->reason = DSN_REASON_POLICY;
	else if (r->reason == DSN_REASON_OTHER)
		r->reason = subtype(type, sub);
	else if (dsn_reason_hard(r->reason) && str_ieq(type, STR("Transient")))
		r->reason = DSN_REASON_SYSTEM;
}

static bool read_notice(struct dsn_gather *g, struct json_object *o)
{
	static const struct {
		struct str type;
		const char *about, *whom;
		enum dsn_read_action action;
	} kinds[] = { { STR_INIT("Bounce"), "bounce", "bouncedRecipients", DSN_READ_FAILED }, { STR_INIT("DeliveryDelay"), "deliveryDelay", "delayedRecipients", DSN_READ_DELAYED },
		{ STR_INIT("Delivery"), "delivery", "recipients", DSN_READ_DELIVERED } };
	struct str type = text(o, "notificationType");
	if (!type.n)
		type = text(o, "eventType");
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct json_object *about = member(o, kinds[i].about, json_type_object), *list = member(about, kinds[i].whom, json_type_array);
		if (!list || !str_eq(type, kinds[i].type))
			continue;
		for (size_t k = 0; k < json_object_array_length(list); k++)
			add(g, json_object_array_get_idx(list, k), about, kinds[i].action);
		return true;
	}
	return false;
}

bool dsn_read_json(struct dsn_gather *g, struct str s)
{
	s = str_trim(s);
	if (!s.n || s.p[0] != '{' || s.n > DSN_READ_TEXT_MAX || !memmem(s.p, s.n, "ecipients", 9))
		return false;
	struct json_object *o = parse(s), *within = NULL;
	struct str message = text(o, "Message");
	bool found = read_notice(g, o);
	if (!found && message.n && (within = parse(message)))
		found = read_notice(g, within);
	json_object_put(within);
	json_object_put(o);
	return found;
}
