/* Topic mail: whole messages through the whole evaluator (proto/auth/verify.h), for mail_differential.py. Nothing is judged here; each case's
 * line is "ID JSON" with what was found. The file has besides its cases
 *
 *     "now": seconds, "apex": [name, …]: names below none of these cannot be looked up
 *     "zone": {name: {"TXT": [[string, …], …], "A": [address, …], "MX": [[preference, name], …], "PTR": [name, …]}}
 *
 * and a case {"id", "hex": the message, "ip", "helo", "from"}. The body is fed in pieces of a size that differs from case to case. */
#include "vectors.h"

#include "proto/auth/verify.h"
#include "proto/mail/split.h"

#include <arpa/inet.h>
#include <stdio.h>

enum { ROWS_MAX = 64 };

static bool served(struct str name)
{
	struct json_object *list;
	json_object_object_get_ex(vectors_root(), "apex", &list);
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct str apex = str_from(json_object_get_string(json_object_array_get_idx(list, i)));
		if (str_ieq(name, apex) || (str_iends(name, apex) && name.n > apex.n && name.p[name.n - apex.n - 1] == '.'))
			return true;
	}
	return false;
}

/* One value as its data; octets of addresses go to ip, joined strings to b. */
static struct dns_rr row(struct json_object *value, enum dns_type type, unsigned char ip[16], struct buf *b)
{
	struct dns_rr rr = { 0 };
	if (type == DNS_TXT) {
		for (size_t i = 0; i < json_object_array_length(value); i++) {
			struct json_object *s = json_object_array_get_idx(value, i);
			buf_add(b, json_object_get_string(s), (size_t)json_object_get_string_len(s));
		}
		rr.data = buf_str(b);
	} else if (type == DNS_MX) {
		rr.preference = (uint16_t)json_object_get_int(json_object_array_get_idx(value, 0));
		rr.data = str_from(json_object_get_string(json_object_array_get_idx(value, 1)));
	} else if (type == DNS_A || type == DNS_AAAA) {
		inet_pton(type == DNS_A ? AF_INET : AF_INET6, json_object_get_string(value), ip);
		rr.data = str_n((const char *)ip, type == DNS_A ? 4 : 16);
	} else {
		rr.data = str_from(json_object_get_string(value));
	}
	return rr;
}

static struct dns_answer *answer(struct json_object *zone, struct str name, enum dns_type type)
{
	struct json_object *node, *list = NULL;
	struct dns_rr rr[ROWS_MAX];
	struct buf text[ROWS_MAX];
	unsigned char ip[ROWS_MAX][16];
	char key[DNS_NAME_MAX + 1];
	if (!served(name))
		return dns_answer_fail(name, type, "no such zone");
	snprintf(key, sizeof key, "%.*s", STR_ARG(name));
	if (!json_object_object_get_ex(zone, key, &node)) {
		return dns_answer_new(name, type, DNS_NXDOMAIN, NULL, 0, 60, false);
	}
	size_t n = json_object_object_get_ex(node, dns_type_name(type), &list) ? json_object_array_length(list) : 0;
	n = n > ROWS_MAX ? ROWS_MAX : n;
	for (size_t i = 0; i < n; i++) {
		text[i] = BUF_INIT(1 << 16);
		rr[i] = row(json_object_array_get_idx(list, i), type, ip[i], &text[i]);
	}
	struct dns_answer *a = dns_answer_new(name, type, n ? DNS_OK : DNS_NODATA, rr, n, 60, false);
	for (size_t i = 0; i < n; i++)
		buf_free(&text[i]);
	return a;
}

/* Runs it as far as it comes. False: it asked for nothing new. */
static bool go_on(struct verify *v, struct dns_answers *set, struct json_object *zone)
{
	struct str name;
	enum dns_type type;
	while (verify_evaluate(v, set) == DNS_MORE) {
		if (!dns_answers_n_missing(set))
			return false;
		while (dns_answers_missing(set, 0, &name, &type))
			if (dns_answers_put(set, answer(zone, name, type)))
				return false;
	}
	return true;
}

static bool run(struct verify *v, const struct verify_envelope *e, struct str message, size_t piece, struct json_object *zone)
{
	struct dns_answers *set = dns_answers_new();
	struct mail_split cut;
	mail_split(message, &cut);
	bool ok = !verify_envelope(v, e) && go_on(v, set, zone) && !verify_headers(v, cut.headers) && go_on(v, set, zone);
	for (size_t i = 0; i < cut.body.n; i += piece)
		verify_body(v, cut.body.p + i, piece < cut.body.n - i ? piece : cut.body.n - i);
	verify_body_end(v);
	ok = ok && go_on(v, set, zone) && verify_done(v);
	dns_answers_free(set);
	return ok;
}

void topic_mail(const char *file, struct json_object *one, struct verdict *v)
{
	static const char *const raws[] = { [DKIM_NONE] = "none", [DKIM_PASS] = "pass", [DKIM_FAIL] = "fail" };
	struct json_object *zone, *now;
	struct buf message = BUF_INIT(16 << 20);
	struct verify_envelope e = { .helo = vectors_str(one, "helo"), .mail_from = vectors_str(one, "from"), .receiver = STR("mx.test") };
	struct verify_policy policy = { .spf = true, .dkim = true, .arc = true, .dmarc = true };
	struct str ip = vectors_str(one, "ip");
	(void)file;
	v->report = true;
	if (!vectors_root() || !json_object_object_get_ex(vectors_root(), "zone", &zone) ||
	    !json_object_object_get_ex(vectors_root(), "now", &now) || vectors_unhex(vectors_str(one, "hex"), &message)) {
		buf_addz(&v->got, "null");
		buf_free(&message);
		return;
	}
	policy.dkim_policy.now = json_object_get_int64(now);
	char text[INET6_ADDRSTRLEN];
	snprintf(text, sizeof text, "%.*s", STR_ARG(ip));
	e.ip_n = inet_pton(AF_INET, text, e.ip) == 1 ? 4 : inet_pton(AF_INET6, text, e.ip) == 1 ? 16 : 0;
	struct verify *run_of = verify_new(&policy);
	v->ok = run(run_of, &e, buf_str(&message), 1 + message.n % 4099, zone);
	buf_addz(&v->got, "{\"auth\":");
	if (verify_json(run_of, &v->got))
		v->ok = false;
	buf_addz(&v->got, ",\"raw\":[");
	const struct verify_verdict *d = verify_verdict(run_of);
	for (size_t i = 0; i < d->n_dkim; i++)
		buf_addf(&v->got, "%s\"%s\"", i ? "," : "", raws[d->dkim[i].signature->raw]);
	buf_addf(&v->got, "],\"terms\":%u,\"voids\":%u}", d->spf ? d->spf->n_terms : 0, d->spf ? d->spf->n_voids : 0);
	verify_free(run_of);
	buf_free(&message);
}
