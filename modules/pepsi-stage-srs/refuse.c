/* Recipients of our SRS domain that lead nowhere: forged, expired, or written to by somebody who is no mail system. At RCPT the client hears it; of a
 * message that is in the queue all the same the sender does, if there is one. */
#include "say.h"
#include "base/log.h"
#include "srs.h"

#include <json-c/json.h>
#include <stdlib.h>

/* What is told to strangers tells no more than that: not which part was wrong, not which key was tried. */
const struct refusal refusal_sender = { "sender", "5.7.1", "This is a return address of forwarded mail: it takes delivery reports alone, those of the null sender" };
const struct refusal refusal_forged = { "forged", "5.1.1", "No such return address: it was not made here, or changed on its way" };
const struct refusal refusal_expired = { "expired", "5.1.1", "This return address has expired: the mail it belongs to is too old" };

static struct json_object *told(const struct refusal *r, struct str rcpt)
{
	struct json_object *o = json_object_new_object();
	json_object_object_add(o, "failed_recipient", json_object_new_string_len(rcpt.p, (int)rcpt.n));
	json_object_object_add(o, "diagnostic", json_object_new_string(r->text));
	json_object_object_add(o, "enhanced_status", json_object_new_string(r->status));
	json_object_object_add(o, "phase", json_object_new_string("srs"));
	return o;
}

int32_t refuse(const struct pass *p, const struct refusal *const *why)
{
	const struct pepsi_host *h = p->h;
	const char *bounce_stage = h->bounce_stage(p->m);
	uint32_t *bad = calloc(p->n, 2 * sizeof *bad), *good = bad ? bad + p->n : NULL;
	size_t n_bad = 0, n_good = 0;
	struct json_object *state = json_object_new_object(), *bounce = json_object_new_object(), *list = json_object_new_array();
	int32_t r = PEPSI_RETRY;
	for (size_t i = 0; bad && i < p->n; i++) {
		struct str to = from_host(h->rcpt(p->m, i));
		if (!why[i]) {
			good[n_good++] = (uint32_t)i;
			continue;
		}
		if (!p->question)
			say(h, p->m, PEPSI_LOG_WARN, "srs refused to=%s from=%s status=%s reason=\"%s\"", log_address(to), log_address(from_host(h->mail_from(p->m))),
			    why[i]->status, why[i]->text);
		count(p, why[i]->name, 1);
		if (!n_bad) {
			json_object_object_add(bounce, "kind", json_object_new_string("permanent"));
			json_object_object_add(bounce, "diagnostic", json_object_new_string(why[i]->text));
			json_object_object_add(bounce, "enhanced_status", json_object_new_string(why[i]->status));
			json_object_object_add(state, "last_error", json_object_new_string(why[i]->text));
		}
		json_object_array_add(list, told(why[i], to));
		bad[n_bad++] = (uint32_t)i;
	}
	json_object_object_add(bounce, "rcpts", json_object_get(list));
	json_object_object_add(state, "bounce", json_object_get(bounce));
	const char *json = json_object_to_json_string_ext(state, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	if (bad && !n_bad) {
		r = PEPSI_NONE;
	} else if (bad && !n_good) {
		r = bounce_stage ? h->reroute(p->m, bounce_stage, json) : h->fail(p->m, json);
	} else if (bad) {
		struct pepsi_clone c = { .abi = PEPSI_ABI_OF(struct pepsi_clone), .stage = bounce_stage ? bounce_stage : p->w->stage,
			.status = bounce_stage ? PEPSI_CLONE_PENDING : PEPSI_CLONE_FAILED, .indices = bad, .n = n_bad, .state = json };
		r = h->fan_out(p->m, &c, 1, good, n_good);
		if (r == PEPSI_OK)
			r = h->advance_to(p->m, p->w->stage);
	}
	json_object_put(state);
	json_object_put(bounce);
	json_object_put(list);
	free(bad);
	return r;
}
