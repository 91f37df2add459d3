/* Topic dkim. The suites are older than RFC 8301: many of their signatures are rsa-sha1 or by keys of 512 and 768 bits, some of drafts
 * without v=. Each message is therefore judged twice: by a policy that takes all that is old, whose result is the suite's, and by
 * the policy we live by, which may say less, but only for a reason RFC 8301 or RFC 6376 §3.5 (v=) gives. */
#include "auth.h"

#include "proto/dkim/canon.h"
#include "proto/mail/header.h"

enum { NOW = 1700000000 }; /* the suites' x= of 2007 are over, those in the far future are not */

static const struct dkim_policy old_ways = { .now = NOW, .rsa_min = 256, .sha1 = true, .partial = true, .historic = true };
static const struct dkim_policy todays = { .now = NOW };

/* -- zones: an object name -> "record" | {"txt": …} | {"error": …} | {"TXT": [[…]]} */

static struct dns_answer *from_value(struct str name, struct json_object *v)
{
	struct json_object *lists, *parts;
	struct buf b = BUF_INIT(1 << 16);
	if (json_object_is_type(v, json_type_string))
		return auth_txt(name, str_n(json_object_get_string(v), (size_t)json_object_get_string_len(v)));
	if (vectors_str(v, "txt").p)
		return auth_txt(name, vectors_str(v, "txt"));
	if (vectors_str(v, "error").p)
		return auth_error(name, vectors_str(v, "error"));
	if (!json_object_object_get_ex(v, "TXT", &lists) || !(parts = json_object_array_get_idx(lists, 0)))
		return NULL;
	for (size_t i = 0; i < json_object_array_length(parts); i++)
		buf_addz(&b, json_object_get_string(json_object_array_get_idx(parts, i)));
	struct dns_answer *a = auth_txt(name, buf_str(&b));
	buf_free(&b);
	return a;
}

static struct dns_answer *from_object(void *arg, struct str name)
{
	struct json_object *zone = arg;
	json_object_object_foreach(zone, key, value)
	{
		if (str_ieq(str_from(key), name))
			return from_value(name, value);
	}
	return NULL;
}

/* -- verdicts */

static const char *class_of(enum dkim_result r)
{
	return r == DKIM_PASS ? "pass" : r == DKIM_FAIL ? "fail" : "invalid";
}

/* The best of all signatures, as the suites count. */
static const char *best(const struct dkim *d)
{
	bool pass = false, fail = false;
	for (size_t i = 0; i < dkim_n(d); i++) {
		pass = pass || dkim_signature(d, i)->result == DKIM_PASS;
		fail = fail || dkim_signature(d, i)->result == DKIM_FAIL;
	}
	return pass ? "pass" : fail ? "fail" : dkim_n(d) ? "invalid" : "none";
}

static void show(const struct dkim *d, struct buf *out)
{
	for (size_t i = 0; d && i < dkim_n(d); i++)
		buf_addf(out, " %s (%s)", dkim_result_name(dkim_signature(d, i)->result), dkim_signature(d, i)->reason);
}

/* Does today's policy say the same, or refuse for one of the reasons it may have? */
static bool stricter(const struct dkim *old, const struct dkim *now)
{
	if (dkim_n(old) != dkim_n(now))
		return false;
	for (size_t i = 0; i < dkim_n(old); i++) {
		const struct dkim_signature *a = dkim_signature(old, i), *b = dkim_signature(now, i);
		struct str why = str_from(b->reason);
		if (a->result == b->result || b->result == DKIM_POLICY)
			continue;
		if (b->result == DKIM_PASS && a->result != DKIM_PASS && str_eq(str_from(a->reason), STR("the key is not for this i=")))
			continue; /* g= is no more (RFC 6376 §C.2) */
		if (b->result == DKIM_PASS || !(str_starts(why, STR("v= ")) || str_starts(why, STR("q= "))))
			return false;
	}
	return true;
}

struct twice {
	struct dkim *old, *now;
};

static bool judge_twice(struct str message, struct json_object *zone, struct twice *t, struct verdict *v)
{
	struct buf text = BUF_INIT(16 << 20);
	auth_crlf(message, &text);
	t->old = auth_verify(buf_str(&text), &old_ways, 1, from_object, zone);
	t->now = auth_verify(buf_str(&text), &todays, 0, from_object, zone);
	buf_free(&text);
	bool ok = t->old && t->now;
	v->ok = ok && stricter(t->old, t->now);
	if (ok && !v->ok)
		buf_addz(&v->expected, "today's policy to differ for a reason only, ");
	show(t->old, &v->got);
	if (!v->ok) {
		buf_addz(&v->got, " and today");
		show(t->now, &v->got);
	}
	return ok;
}

static void twice_free(struct twice *t)
{
	dkim_release(t->old);
	dkim_release(t->now);
}

/* The note when today's policy refuses what the suite passes. */
static const char *refusal(const struct twice *t)
{
	return strcmp(best(t->old), "pass") == 0 && strcmp(best(t->now), "pass") != 0 ?
		   "today refused: RFC 8301 sections 3.1 and 3.2, RFC 6376 section 3.5 v=" : NULL;
}

/* Where even the old ways and a suite part, and why that is right: by what was found, never by the name of a case. NULL: no excuse. */
static const char *excuse(const struct dkim *d, struct str message, struct str expect)
{
	bool wants_pass = str_eq(expect, STR("pass"));
	if (!dkim_n(d)) {
		if (str_eq(expect, STR("invalid")))
			return "no field that is a DKIM-Signature is no signature, RFC 6376 section 6.1";
		struct buf head = BUF_INIT(16 << 20);
		auth_crlf(message, &head);
		bool domainkeys = mail_field_count(buf_str(&head), STR("DomainKey-Signature"), 1);
		buf_free(&head);
		return domainkeys ? "DomainKeys (RFC 4870) are historic" : NULL;
	}
	for (size_t i = 0; i < dkim_n(d); i++) {
		const struct dkim_signature *s = dkim_signature(d, i);
		if (wants_pass && strcmp(s->reason, "From is not signed") == 0)
			return "From MUST be signed, RFC 6376 section 5.4";
		if (wants_pass && strstr(s->reason, "= is missing"))
			return "a required tag is missing, RFC 6376 section 3.5";
		if (wants_pass && s->result == DKIM_POLICY && s->raw == DKIM_PASS)
			return "an unsigned From beside a signed one, RFC 6376 section 8.15";
		if (!wants_pass && s->result == DKIM_NEUTRAL && strstr(s->reason, "is no Base64"))
			return "what is no Base64 is a syntax error, RFC 6376 section 6.1.1";
		if (!wants_pass && s->result == DKIM_FAIL && strcmp(s->reason, "the body is shorter than l=") == 0)
			return "a body shorter than l= is not what was signed, RFC 6376 section 3.5 l=";
	}
	return NULL;
}

static int read_beside(struct str name, struct buf *out)
{
	struct buf path = BUF_INIT(4096);
	buf_adds(&path, vectors_folder());
	buf_adds(&path, name);
	int r = auth_read_file(buf_z(&path), out);
	buf_free(&path);
	return r;
}

/* mail-dkim.json */
static void judge_mail_dkim(struct json_object *one, struct verdict *v)
{
	struct str expect = vectors_str(one, "expect");
	struct json_object *zone = NULL, *each = NULL;
	struct buf message = BUF_INIT(16 << 20);
	struct twice t = { 0 };
	json_object_object_get_ex(one, "dns", &zone);
	if (read_beside(vectors_str(one, "file"), &message)) {
		buf_addz(&v->expected, "a message file");
	} else if (judge_twice(buf_str(&message), zone, &t, v)) {
		v->note = refusal(&t);
		if (!str_eq(str_from(best(t.old)), expect)) {
			v->note = excuse(t.old, buf_str(&message), expect);
			v->ok = v->ok && v->note;
		}
		json_object_object_get_ex(one, "signatures", &each);
		for (size_t i = 0; each && i < json_object_array_length(each); i++) {
			const struct dkim_signature *s = dkim_signature(t.old, i);
			v->ok = v->ok && s && strcmp(class_of(s->result), json_object_get_string(json_object_array_get_idx(each, i))) == 0;
		}
		vectors_escape(expect, &v->expected);
	}
	buf_free(&message);
	twice_free(&t);
}

/* opendkim.json: signing is judged by verifying what should come out. */
static void judge_opendkim(struct json_object *one, struct verdict *v)
{
	struct str status = vectors_str(one, "expect_status"), field = vectors_str(one, "expect_signature");
	struct json_object *zone = NULL;
	struct buf message = BUF_INIT(16 << 20);
	struct twice t = { 0 };
	bool sign = str_eq(vectors_str(one, "op"), STR("sign"));
	if (vectors_root())
		json_object_object_get_ex(vectors_root(), "dns", &zone);
	if (sign) {
		buf_addz(&message, "DKIM-Signature: ");
		buf_adds(&message, field);
		buf_addz(&message, "\r\n");
	}
	if (read_beside(vectors_str(one, "message"), &message)) {
		buf_addz(&v->expected, "a message file");
	} else if (judge_twice(buf_str(&message), zone, &t, v)) {
		const char *want = sign || str_eq(status, STR("DKIM_STAT_OK")) ? "pass" :
				   str_eq(status, STR("DKIM_STAT_BADSIG"))  ? "fail" : "invalid";
		bool same = strcmp(best(t.old), want) == 0;
		v->note = refusal(&t);
		/* INVALID is OpenDKIM's own look at From before it verifies; that a message with a From that was changed
		 * fails says no less (RFC 6376 §3.8: how far input is checked is the verifier's choice). */
		if (!same && str_eq(status, STR("DKIM_STAT_INVALID")) && !strcmp(best(t.old), "fail")) {
			same = true;
			v->note = "a From of no use fails, RFC 6376 section 3.8";
		}
		if (!same) {
			v->note = excuse(t.old, buf_str(&message), str_from(want));
			same = v->note;
		}
		/* NOSIG: a field that is none counts as a signature that cannot be read (RFC 6376 §6.1.1, RFC 8601 §2.7.1). */
		v->ok = v->ok && same;
		buf_addz(&v->expected, want);
	}
	buf_free(&message);
	twice_free(&t);
}

static void to_buffer(void *arg, const char *p, size_t n)
{
	buf_add(arg, p, n);
}

static void judge_canonicalisation(struct json_object *one, struct verdict *v)
{
	struct str in = vectors_str(one, "input"), out = vectors_str(one, "output"), rest = in;
	enum dkim_canon c = str_eq(vectors_str(one, "algorithm"), STR("simple")) ? DKIM_SIMPLE : DKIM_RELAXED;
	struct buf got = BUF_INIT(1 << 20);
	if (str_eq(vectors_str(one, "part"), STR("header"))) {
		struct dkim_out o = { .sink = to_buffer, .arg = &got };
		struct mail_field f;
		while (mail_field_next(&rest, &f) == 1)
			dkim_canon_field(c, f.all, 0, 0, false, &o);
		dkim_out_flush(&o);
	} else {
		struct dkim_canon_body b = { .canon = c, .out = { .sink = to_buffer, .arg = &got } };
		for (size_t i = 0; i < in.n; i++)
			dkim_canon_body_add(&b, in.p + i, 1);
		dkim_canon_body_end(&b);
	}
	v->ok = str_eq(buf_str(&got), out);
	vectors_escape(out, &v->expected);
	vectors_escape(buf_str(&got), &v->got);
	buf_free(&got);
}

/* Lines "name record" up to the first empty line, then the message; every signature passes, whatever the time. */
static struct json_object *zone_in_front(struct str *text)
{
	struct json_object *zone = json_object_new_object();
	while (text->n) {
		const char *end = memchr(text->p, '\n', text->n);
		struct str line = str_trim(end ? str_n(text->p, (size_t)(end - text->p)) : *text);
		*text = end ? str_skip(*text, (size_t)(end - text->p) + 1) : STR_NULL;
		if (!line.n)
			break;
		ptrdiff_t blank = str_chr(line, ' ');
		char *name = str_dupz(str_n(line.p, blank < 0 ? line.n : (size_t)blank));
		struct str record = str_trim(str_skip(line, blank < 0 ? line.n : (size_t)blank));
		json_object_object_add(zone, name, json_object_new_string_len(record.p, (int)record.n));
		free(name);
	}
	return zone;
}

static void judge_message(struct json_object *one, struct verdict *v)
{
	struct buf content = BUF_INIT(16 << 20), text = BUF_INIT(16 << 20), dns = BUF_INIT(4096);
	static const struct dkim_policy no_clock = { 0 };
	struct json_object *zone = NULL;
	buf_addz(&v->expected, "pass of every signature");
	if (!auth_read_file(json_object_get_string(json_object_object_get(one, "path")), &content)) {
		struct str message = buf_str(&content);
		if (str_iends(vectors_str(one, "path"), STR(".eml"))) {
			buf_adds(&dns, vectors_folder());
			buf_addz(&dns, "dns.json");
			zone = json_object_from_file(buf_z(&dns));
		} else {
			zone = zone_in_front(&message);
		}
		auth_crlf(message, &text);
		struct dkim *d = zone ? auth_verify(buf_str(&text), &no_clock, 7, from_object, zone) : NULL;
		v->ok = d && dkim_n(d);
		for (size_t i = 0; v->ok && i < dkim_n(d); i++)
			v->ok = dkim_signature(d, i)->result == DKIM_PASS;
		show(d, &v->got);
		dkim_release(d);
		json_object_put(zone);
	}
	buf_free(&content);
	buf_free(&text);
	buf_free(&dns);
}

/* dkim_differential.py: what other verifiers say, signature by signature ("pass" or not), of a message in the case itself. That we refuse
 * a part of a body behind l= is our policy (`raw` says what they say). */
static void judge_differential(struct json_object *one, struct verdict *v)
{
	static const struct dkim_policy no_clock = { .sha1 = true }; /* opendkim-testmsg still signs so */
	struct json_object *zone = NULL, *verdicts = NULL;
	struct str text = vectors_str(one, "text"), other = vectors_str(one, "opendkim");
	json_object_object_get_ex(one, "dns", &zone);
	json_object_object_get_ex(one, "verdicts", &verdicts);
	struct dkim *d = zone && verdicts ? auth_verify(text, &no_clock, 5, from_object, zone) : NULL;
	v->ok = d && dkim_n(d) == json_object_array_length(verdicts);
	for (size_t i = 0; v->ok && i < dkim_n(d); i++) {
		const struct dkim_signature *s = dkim_signature(d, i);
		bool pass = s->result == DKIM_PASS || (s->result == DKIM_POLICY && s->raw == DKIM_PASS && s->has_length);
		const char *want = json_object_get_string(json_object_array_get_idx(verdicts, i));
		v->ok = pass == !strcmp(want, "pass") && (!other.p || pass == str_eq(other, STR("pass")));
		buf_addf(&v->expected, "%s%s ", want, !other.p ? "" : str_eq(other, STR("pass")) ? "+opendkim pass" : "+opendkim other");
	}
	show(d, &v->got);
	dkim_release(d);
}

void topic_dkim(const char *file, struct json_object *one, struct verdict *v)
{
	(void)file;
	if (vectors_str(one, "path").p)
		judge_message(one, v);
	else if (vectors_str(one, "text").p)
		judge_differential(one, v);
	else if (vectors_str(one, "op").p)
		judge_opendkim(one, v);
	else if (vectors_str(one, "part").p)
		judge_canonicalisation(one, v);
	else
		judge_mail_dkim(one, v);
}
