/* See return_path.h. */
#include "return_path.h"

#include "base/log.h"
#include "proto/smtp/address.h"
#include "say.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

/* --- the configuration */

static int take_domain(const char *text, char *out, size_t size)
{
	struct buf ascii = BUF_INIT(300);
	int r = !text || smtp_domain_to_ascii(str_from(text), &ascii) || ascii.n >= size ? -1 : 0;
	if (!r)
		snprintf(out, size, "%s", buf_z(&ascii));
	buf_free(&ascii);
	return r;
}

int32_t return_open(struct return_path *r, const char *name, const struct pepsi_host *h, const struct pepsi_conf *c)
{
	const char *dir = h->conf_str(c, "KEY_DIR");
	*r = (struct return_path){ .name = name, .host = h, .conf = c, .stage = h->conf_stage_name(c) };
	if (!dir || take_domain(h->conf_str(c, "DOMAIN"), r->domain, sizeof r->domain)) {
		h->log(NULL, PEPSI_LOG_ERROR, dir ? "DOMAIN is not set, or no domain" : "KEY_DIR is not set");
		return PEPSI_PERMANENT;
	}
	r->srs = (struct srs){ .domain = str_from(r->domain), .max_age = (unsigned)(h->conf_int(c, "MAX_AGE") / RETURN_DAY_S), .separator = '=' };
	keys_init(&r->keys, dir);
	return PEPSI_OK;
}

void return_close(struct return_path *r)
{
	keys_done(&r->keys);
}

void return_check(const struct pepsi_host *h, const struct pepsi_conf *c, struct pepsi_report *report)
{
	static const struct return_list_source of = { NULL, "LOCAL_DOMAINS", true };
	const char *domain = h->conf_str(c, "DOMAIN");
	char ascii[RETURN_DOMAIN_MAX + 1], address[RETURN_DOMAIN_MAX + 3];
	struct return_list local;
	if (domain && take_domain(domain, ascii, sizeof ascii)) {
		fault(h, report, "DOMAIN", "\"%s\" is no domain", domain);
	} else if (domain && !return_list_read(h, c, &of, &local)) {
		snprintf(address, sizeof address, "x@%s", ascii);
		if (!return_list_has(&local, str_from(address)))
			fault(h, report, "DOMAIN", "%s is none of LOCAL_DOMAINS: bounces to it would be refused as relaying", domain);
		return_list_free(&local);
	}
	if (!h->conf_str(c, "NEXT_STAGE"))
		h->report(report, NULL, "NEXT_STAGE must be set: the stage that delivers, or tells who does");
	if (!h->conf_str(c, "BOUNCE_STAGE"))
		h->report(report, NULL, "BOUNCE_STAGE must be set: for recipients that are no return addresses of ours");
}

int32_t return_ready(struct return_path *r, const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct buf why = BUF_INIT(600);
	int rc = keys_use(&r->keys, &r->srs, &why);
	if (rc)
		say(h, m, PEPSI_LOG_ERROR, "%s has no keys: %s", r->name, buf_z(&why));
	buf_free(&why);
	return rc ? PEPSI_RETRY : PEPSI_OK;
}

/* --- lists */

static struct str text_of(const struct pepsi_host *h, const struct pepsi_conf *c, const struct return_list_source *from)
{
	const char *text = from->option ? h->conf_str(c, from->option) : NULL;
	if (!text && from->fallback)
		text = h->conf_global(c, "pepsi", from->fallback);
	return str_from(text ? text : "");
}

static bool taken(struct str word, const struct return_list_source *from, struct pattern *ret)
{
	return !pattern_parse(word, ret) && ret->kind != PATTERN_ANY && ret->kind != PATTERN_LOCAL && !(from->domains && ret->kind == PATTERN_ADDRESS);
}

void return_list_check(const struct pepsi_host *h, const struct pepsi_conf *c, const struct return_list_source *from, struct pepsi_report *report)
{
	struct str rest = text_of(h, c, from), word;
	struct pattern p;
	size_t n = 0;
	for (; str_word(&rest, " \t,", &word); n++)
		if (!taken(word, from, &p))
			fault(h, report, from->option, "\"%.*s\" is no %s", STR_ARG(word), from->domains ? "domain" : "sender or domain");
	if (n > RETURN_PATTERNS_MAX)
		fault(h, report, from->option, "more than %d", RETURN_PATTERNS_MAX);
}

int return_list_read(const struct pepsi_host *h, const struct pepsi_conf *c, const struct return_list_source *from, struct return_list *ret)
{
	struct str rest = text_of(h, c, from), all = rest, word;
	size_t n = 0;
	while (n < RETURN_PATTERNS_MAX && str_word(&rest, " \t,", &word))
		n++;
	*ret = (struct return_list){ NULL, 0 };
	if (n && !(ret->p = calloc(n, sizeof *ret->p)))
		return -1;
	for (size_t i = 0; i < n && str_word(&all, " \t,", &word); i++)
		ret->n += taken(word, from, &ret->p[ret->n]);
	return 0;
}

void return_list_free(struct return_list *l)
{
	free(l->p);
	*l = (struct return_list){ NULL, 0 };
}

bool return_list_has(const struct return_list *l, struct str address)
{
	struct pattern_address a;
	return !pattern_address(address, &a) && pattern_match_any(l->p, l->n, &a);
}

/* --- recipients that lead nowhere */

const struct return_refusal return_forged = { "forged", "5.1.1", "No such return address: it was not made here, or changed on its way" };
const struct return_refusal return_expired = { "expired", "5.1.1", "This return address has expired: the mail it belongs to is too old" };

static struct json_object *told(const struct return_path *r, const struct return_refusal *why, struct str rcpt)
{
	struct json_object *o = json_object_new_object();
	json_object_object_add(o, "failed_recipient", json_object_new_string_len(rcpt.p, (int)rcpt.n));
	json_object_object_add(o, "diagnostic", json_object_new_string(why->text));
	json_object_object_add(o, "enhanced_status", json_object_new_string(why->status));
	json_object_object_add(o, "phase", json_object_new_string(r->name));
	return o;
}

/* {"last_error":…,"bounce":{…}} for the recipients that have a refusal, summed up by the first of them; put it. */
static struct json_object *state_of(const struct return_path *r, const struct pepsi_host *h, struct pepsi_msg *m, const struct return_refusal *const *why, size_t n)
{
	struct json_object *state = json_object_new_object(), *bounce = json_object_new_object(), *list = json_object_new_array();
	const struct return_refusal *first = NULL;
	for (size_t i = 0; i < n; i++)
		if (why[i]) {
			first = first ? first : why[i];
			json_object_array_add(list, told(r, why[i], from_host(h->rcpt(m, i))));
		}
	json_object_object_add(bounce, "kind", json_object_new_string("permanent"));
	json_object_object_add(bounce, "diagnostic", json_object_new_string(first ? first->text : ""));
	json_object_object_add(bounce, "enhanced_status", json_object_new_string(first ? first->status : ""));
	json_object_object_add(bounce, "rcpts", list);
	json_object_object_add(state, "last_error", json_object_new_string(first ? first->text : ""));
	json_object_object_add(state, "bounce", bounce);
	return state;
}

int32_t return_refuse(const struct return_path *r, const struct pepsi_host *h, struct pepsi_msg *m, bool question, const struct return_refusal *const *why)
{
	const char *bounce_stage = h->bounce_stage(m);
	size_t n = h->n_rcpt(m), n_bad = 0, n_good = 0;
	uint32_t *bad = calloc(n + 1, 2 * sizeof *bad), *good = bad ? bad + n : NULL;
	int32_t rc = PEPSI_RETRY;
	if (!bad)
		return PEPSI_RETRY;
	for (size_t i = 0; i < n; i++) {
		if (!why[i]) {
			good[n_good++] = (uint32_t)i;
			continue;
		}
		bad[n_bad++] = (uint32_t)i;
		if (!question)
			say(h, m, PEPSI_LOG_WARN, "%s refused to=%s from=%s status=%s reason=\"%s\"", r->name, log_address(from_host(h->rcpt(m, i))),
			    log_address(from_host(h->mail_from(m))), why[i]->status, why[i]->text);
	}
	struct json_object *state = state_of(r, h, m, why, n);
	const char *json = json_object_to_json_string_ext(state, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	if (!n_bad) {
		rc = PEPSI_NONE;
	} else if (!n_good) {
		rc = bounce_stage ? h->reroute(m, bounce_stage, json) : h->fail(m, json);
	} else {
		struct pepsi_clone c = { .abi = PEPSI_ABI_OF(struct pepsi_clone), .stage = bounce_stage ? bounce_stage : r->stage,
			.status = bounce_stage ? PEPSI_CLONE_PENDING : PEPSI_CLONE_FAILED, .indices = bad, .n = n_bad, .state = json };
		rc = h->fan_out(m, &c, 1, good, n_good);
		if (rc == PEPSI_OK)
			rc = h->advance_to(m, r->stage);
	}
	json_object_put(state);
	free(bad);
	return rc;
}
