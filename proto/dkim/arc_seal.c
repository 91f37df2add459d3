/* Sealing (arc_seal.h). Fields are laid out as the signing half of the ARC suite has them: tags in the order of the alphabet, one blank or
 * one fold between two. What is hashed is hashed by the verifier's own functions; arc_seal_holds() then asks the verifier as a stranger would. */
#include "arc_seal.h"
#include "dkim_internal.h"

#include "proto/mail/header.h"
#include "proto/sasl/base64.h"

#include <openssl/err.h>

enum { SCRATCH_MAX = 64 << 20, LINE_WANT = MAIL_LINE_WANT, DIGEST = 32 };

static const struct str aar_name = STR_INIT("ARC-Authentication-Results"), ams_name = STR_INIT("ARC-Message-Signature"), as_name = STR_INIT("ARC-Seal");

/* What readers see and what says how to read it (RFC 6376 §5.4.1), what lists and programs act upon, and the signatures that are there (RFC 8617
 * §4.1.2: they SHOULD be covered). */
static const char *const usual[] = { "from", "sender", "reply-to", "to", "cc", "subject", "date", "message-id", "in-reply-to", "references", "mime-version",
	"content-type", "content-transfer-encoding", "content-id", "content-description", "content-disposition", "resent-from", "resent-sender", "resent-to",
	"resent-cc", "resent-date", "resent-message-id", "list-id", "list-help", "list-unsubscribe", "list-unsubscribe-post", "list-subscribe", "list-post",
	"list-owner", "list-archive", "auto-submitted", "feedback-id", "dkim-signature", NULL };
/* Fields that stand once at most: one more, and readers would see it instead. */
static const char *const usual_once[] = { "from", "reply-to", "to", "cc", "subject", "date", "message-id", "in-reply-to", "references", "mime-version",
	"content-type", "content-transfer-encoding", "content-disposition", NULL };
/* RFC 8617 §4.1.2, RFC 6376 §5.4: what servers on the way write, change or take away. */
static const char *const never[] = { "authentication-results", "arc-authentication-results", "arc-message-signature", "arc-seal", "received", "return-path",
	"received-spf", "delivered-to", "bcc", "resent-bcc", "comments", "keywords", NULL };

static bool listed(const char *const *names, struct str name)
{
	for (; *names; names++)
		if (str_ieq(str_from(*names), name))
			return true;
	return false;
}

bool arc_name_ok(struct str name)
{
	for (size_t i = 0; i < name.n; i++)
		if (name.p[i] <= ' ' || name.p[i] > '~' || name.p[i] == ':' || name.p[i] == ';')
			return false;
	return name.n && name.n < LINE_WANT && !listed(never, name);
}

/* -- where it goes */

/* i= of a signature or a seal, 0: none. *cv_fail: a seal that says so. */
static unsigned instance_of(struct str value, bool *cv_fail)
{
	struct dkim_tags t;
	const char *why;
	uint64_t n;
	*cv_fail = false;
	if (value.n > DKIM_FIELD_MAX || dkim_tags_parse(value, &t, &why))
		return 0;
	const struct dkim_tag *i = dkim_tags_get(&t, "i"), *cv = dkim_tags_get(&t, "cv");
	*cv_fail = cv && str_ieq(cv->value, STR("fail"));
	return i && !dkim_number(i->value, &n) && n <= ARC_SETS_MAX ? (unsigned)n : 0;
}

struct arc_place arc_place(struct str headers)
{
	struct arc_place p = { 0 };
	struct mail_field f;
	unsigned highest = 0, failed = 0;
	for (int r; (r = mail_field_next(&headers, &f)) != 0;) {
		struct str rest;
		bool cv_fail = false, seal = r > 0 && str_ieq(f.name, as_name), aar = r > 0 && str_ieq(f.name, aar_name);
		if (!seal && !aar && (r < 0 || !str_ieq(f.name, ams_name)))
			continue;
		unsigned i = aar ? dkim_results_instance(f.value, &rest) : instance_of(f.value, &cv_fail);
		p.any = true;
		highest = i > highest ? i : highest;
		if (seal && cv_fail && i > failed)
			failed = i;
	}
	if (failed && failed == highest)
		p.why = "its chain had failed before, nothing is added to such a one";
	else if (highest >= ARC_SETS_MAX)
		p.why = "its chain has fifty sets";
	else
		p.instance = highest + 1;
	return p;
}

/* -- writing */

/* Tags behind one another, each on a new line where it would pass the end of this one. */
struct tags {
	struct buf *out;
	size_t column;
};

static void put(struct tags *t, struct str text)
{
	buf_adds(t->out, text);
	t->column += text.n;
}

static void tag(struct tags *t, const char *name, struct str value, bool last)
{
	size_t n = strlen(name) + 1 + value.n + 1;
	if (t->column + 1 + n > LINE_WANT) {
		buf_addz(t->out, "\r\n\t");
		t->column = 8;
	} else {
		put(t, STR(" "));
	}
	put(t, str_from(name));
	put(t, STR("="));
	put(t, value);
	if (!last)
		put(t, STR(";"));
}

static void tag_number(struct tags *t, const char *name, uint64_t n, bool last)
{
	struct buf b = BUF_INIT(24);
	buf_addf(&b, "%llu", (unsigned long long)n);
	tag(t, name, buf_str(&b), last);
	t->out->failed |= b.failed;
	buf_free(&b);
}

/* b=: what stands in it is left out when it is hashed, so it may be folded anywhere. */
static void tag_b(struct tags *t, struct str b, bool whole)
{
	if (whole) {
		tag(t, "b", b, false);
		return;
	}
	tag(t, "b", STR_NULL, true);
	for (size_t i = 0; i < b.n;) {
		size_t room = t->column < LINE_WANT - 8 ? LINE_WANT - t->column : 0, n = b.n - i < room ? b.n - i : room;
		put(t, str_n(b.p + i, n));
		if ((i += n) < b.n) {
			buf_addz(t->out, "\r\n\t");
			t->column = 8;
		}
	}
	put(t, STR(";"));
}

/* h=: names with colons, folded behind one. */
static void tag_h(struct tags *t, struct str names, bool whole)
{
	struct str rest = names, name;
	bool more = true, first = true;
	if (whole) {
		tag(t, "h", names, false);
		return;
	}
	tag(t, "h", STR_NULL, true);
	while (dkim_tags_item(&rest, &more, &name)) {
		if (!first)
			put(t, STR(":"));
		if (t->column + name.n + 1 > LINE_WANT) {
			buf_addz(t->out, "\r\n\t");
			t->column = 8;
		}
		put(t, name);
		first = false;
	}
	put(t, STR(";"));
}

static struct str algorithm(const struct arc_seal *s)
{
	return dkim_private_algorithm(s->key) == DKIM_ALG_ED25519 ? STR("ed25519-sha256") : STR("rsa-sha256");
}

static struct str cv_name(enum dkim_result cv)
{
	return str_from(dkim_result_name(cv));
}

static void write_message(const struct arc_seal *s, struct str h, struct str bh, struct str b, struct buf *out)
{
	struct tags t = { .out = out };
	put(&t, ams_name);
	put(&t, STR(":"));
	tag(&t, "a", algorithm(s), false);
	tag_b(&t, b, s->whole);
	tag(&t, "bh", bh, false);
	tag(&t, "c", STR("relaxed/relaxed"), false);
	tag(&t, "d", s->domain, false);
	tag_h(&t, h, s->whole);
	tag_number(&t, "i", s->instance, false);
	tag(&t, "s", s->selector, false);
	tag_number(&t, "t", (uint64_t)s->now, true);
	buf_addz(out, "\r\n");
}

static void write_seal(const struct arc_seal *s, struct str b, struct buf *out)
{
	struct tags t = { .out = out };
	put(&t, as_name);
	put(&t, STR(":"));
	tag(&t, "a", algorithm(s), false);
	tag_b(&t, b, s->whole);
	tag(&t, "cv", cv_name(s->cv), false);
	tag(&t, "d", s->domain, false);
	tag_number(&t, "i", s->instance, false);
	tag(&t, "s", s->selector, false);
	tag_number(&t, "t", (uint64_t)s->now, true);
	buf_addz(out, "\r\n");
}

/* -- hashing */

static int base64(const void *p, size_t n, struct buf *out)
{
	return sasl_base64_encode(str_n(p, n), out);
}

static int body_hash(struct str body, struct buf *out)
{
	struct dkim_bodies b;
	dkim_bodies_init(&b);
	int i = dkim_bodies_want(&b, DKIM_RELAXED, false, false, 0);
	dkim_bodies_add(&b, body.p, body.n);
	dkim_bodies_end(&b);
	int rc = i < 0 || b.hash[i].n_digest != DIGEST ? -1 : base64(b.hash[i].digest, DIGEST, out);
	dkim_bodies_free(&b);
	return rc;
}

/* h=: each name as often as such a field is there, once more where nobody may add one. */
static const char *list_names(const struct arc_seal *s, const struct dkim_fields *f, struct buf *out)
{
	const char *const *names = s->names ? s->names : usual, *const *once = s->oversign ? s->oversign : usual_once;
	size_t fields = 0;
	for (unsigned pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < ARC_SEAL_NAMES_MAX && (pass ? once : names)[i]; i++) {
			struct str name = str_from((pass ? once : names)[i]);
			size_t n = dkim_fields_count(f, name) + (!pass && listed(once, name));
			if (pass && listed(names, name))
				continue;
			n += pass;
			if ((fields += n) > ARC_SEAL_FIELDS_MAX + ARC_SEAL_NAMES_MAX)
				return "it has too many header fields that would be covered";
			while (n--)
				if ((out->n && buf_addc(out, ':')) || buf_adds(out, name))
					return "out of memory";
		}
	return out->n ? NULL : "it has no header field that would be covered";
}

/* The digest that a message signature signs: `block` begins with its field. */
static int message_digest(struct str block, struct arena *a, struct dkim_sig *sig)
{
	struct dkim_fields f;
	if (dkim_fields_index(&f, a, block) || !f.n || dkim_sig_parse(sig, DKIM_ARC_MESSAGE, f.field[0].value, &(struct dkim_policy){ 0 }, a))
		return -1;
	return sig->settled || dkim_sig_hash_fields(sig, &f, 0) || sig->settled ? -1 : 0;
}

/* Which fields are the older sets': three for each instance. False: they are not whole. */
static bool older_sets(const struct arc_seal *s, struct str headers, struct str older[ARC_SETS_MAX][3])
{
	struct mail_field f;
	size_t n = 0;
	for (int r; (r = mail_field_next(&headers, &f)) != 0;) {
		static const struct str *const kinds[3] = { &aar_name, &ams_name, &as_name };
		struct str rest;
		bool cv_fail;
		for (unsigned k = 0; k < 3 && r > 0; k++) {
			if (!str_ieq(f.name, *kinds[k]))
				continue;
			unsigned i = k ? instance_of(f.value, &cv_fail) : dkim_results_instance(f.value, &rest);
			if (!i || i >= s->instance || older[i - 1][k].p)
				return false;
			older[i - 1][k] = f.all;
			n++;
		}
	}
	return n == 3 * ((size_t)s->instance - 1);
}

static void digest_field(struct dkim_out *o, struct str field)
{
	dkim_canon_field(DKIM_RELAXED, field, 0, 0, false, o);
}

/* The digest that a seal signs (§5.1.1): all sets in their order; of a chain that failed the newest alone (§5.1.2). own: the seal's field, whose b= is
 * left out. Returns 0, or -1 and *why. */
static int seal_digest(const struct arc_seal *s, struct str headers, struct str results, struct str message, struct str own, unsigned char out[DIGEST], const char **why)
{
	struct str older[ARC_SETS_MAX][3] = { 0 };
	struct mail_field f;
	struct str rest = own;
	struct dkim_tags t;
	unsigned n = 0;
	*why = "the sets that are there are not whole";
	if (s->cv != DKIM_FAIL && !older_sets(s, headers, older))
		return -1;
	*why = "out of memory";
	if (mail_field_next(&rest, &f) != 1 || dkim_tags_parse(f.value, &t, why))
		return -1;
	const struct dkim_tag *b = dkim_tags_get(&t, "b");
	EVP_MD_CTX *ctx = b ? dkim_digest_new(false) : NULL;
	if (!ctx)
		return -1;
	struct dkim_out o = { .sink = dkim_digest_sink, .arg = ctx };
	for (unsigned i = 0; s->cv != DKIM_FAIL && i + 1 < s->instance; i++)
		for (unsigned k = 0; k < 3; k++)
			digest_field(&o, older[i][k]);
	digest_field(&o, results);
	digest_field(&o, message);
	size_t at = (size_t)(f.value.p - f.all.p);
	dkim_canon_field(DKIM_RELAXED, f.all, at + b->begin, at + b->end, true, &o);
	dkim_out_flush(&o);
	int rc = EVP_DigestFinal_ex(ctx, out, &n) == 1 && n == DIGEST ? 0 : -1;
	EVP_MD_CTX_free(ctx);
	return rc;
}

/* -- the set */

static int sign(const struct arc_seal *s, const unsigned char *digest, struct buf *b)
{
	struct buf raw = BUF_INIT(1024);
	int rc = dkim_private_sign(s->key, digest, &raw) || base64(raw.p, raw.n, b) ? -1 : 0;
	buf_free(&raw);
	return rc;
}

/* Steps with one failure each: texts are made twice, with a b= that says nothing, and with the one that signs that. */
static const char *make(const struct arc_seal *s, struct str headers, struct str body, struct arena *a, struct buf *message, struct buf *seal)
{
	static const struct str blank = STR_INIT("AAAA");
	struct buf h = BUF_INIT(ARC_SEAL_SET_MAX), bh = BUF_INIT(64), b = BUF_INIT(2048), block = BUF_INIT(headers.n + ARC_SEAL_SET_MAX), unsigned_seal = BUF_INIT(2048);
	struct dkim_fields f;
	struct dkim_sig sig;
	unsigned char digest[DIGEST];
	const char *why = "out of memory";
	if (dkim_fields_index(&f, a, headers))
		goto out;
	if (f.too_many) {
		why = "its header block is too large";
		goto out;
	}
	const char *wrong = list_names(s, &f, &h);
	if (wrong) {
		why = wrong;
		goto out;
	}
	if (body_hash(body, &bh))
		goto out;
	write_message(s, buf_str(&h), buf_str(&bh), blank, &block);
	if (block.failed || buf_adds(&block, headers))
		goto out;
	why = "its header fields cannot be hashed";
	if (message_digest(buf_str(&block), a, &sig))
		goto out;
	why = "OpenSSL does not sign";
	if (sign(s, sig.digest, &b))
		goto out;
	write_message(s, buf_str(&h), buf_str(&bh), buf_str(&b), message);
	write_seal(s, blank, &unsigned_seal);
	if (seal_digest(s, headers, s->results, buf_str(message), buf_str(&unsigned_seal), digest, &why))
		goto out;
	buf_reset(&b);
	why = "OpenSSL does not sign";
	if (sign(s, digest, &b))
		goto out;
	write_seal(s, buf_str(&b), seal);
	why = message->failed || seal->failed ? "out of memory" : NULL;
out:
	buf_free(&h);
	buf_free(&bh);
	buf_free(&b);
	buf_free(&block);
	buf_free(&unsigned_seal);
	return why;
}

int arc_seal(const struct arc_seal *s, struct str headers, struct str body, struct buf *out, const char **why)
{
	struct buf message = BUF_INIT(ARC_SEAL_SET_MAX), seal = BUF_INIT(4096);
	struct arena *a = arena_new(SCRATCH_MAX);
	size_t before = out->n;
	*why = "out of memory";
	if (!a)
		return -1;
	if (s->instance < 1 || s->instance > ARC_SETS_MAX || (s->cv == DKIM_NONE) != (s->instance == 1 && s->cv != DKIM_FAIL))
		*why = "what was found on arrival does not fit the sets that are there";
	else {
		ERR_set_mark();
		*why = make(s, headers, body, a, &message, &seal);
		ERR_pop_to_mark();
	}
	if (!*why && (buf_adds(out, buf_str(&seal)) || buf_adds(out, buf_str(&message)) || buf_adds(out, s->results)))
		*why = "out of memory";
	if (!*why && !mail_headers_sendable(str_n(out->p + before, out->n - before)))
		*why = "a set that cannot stand in a header";
	if (*why)
		out->n = before;
	arena_free(a);
	buf_free(&message);
	buf_free(&seal);
	return *why ? -1 : 0;
}

/* -- does it hold? */

static struct dns_answers *answers_of(const struct arc_seal *s, struct str record)
{
	struct buf name = BUF_INIT(600);
	const struct dns_rr rr = { .data = record };
	struct dns_answers *set = dns_answers_new();
	buf_adds(&name, s->selector);
	buf_addz(&name, "._domainkey.");
	buf_adds(&name, s->domain);
	if (!set || name.failed || dns_answers_put(set, dns_answer_new(buf_str(&name), DNS_TXT, DNS_OK, &rr, 1, 60, false))) {
		dns_answers_free(set);
		set = NULL;
	}
	buf_free(&name);
	return set;
}

static bool chain_holds(const struct arc_seal *s, struct dns_answers *keys, struct str all, struct str body)
{
	struct dkim *d = dkim_new(&(struct dkim_policy){ .now = s->now, .rsa_min = 512, .arc = true, .arc_newest = true });
	bool ok = false;
	if (d && !dkim_headers(d, all)) {
		dkim_body_feed(d, body.p, body.n);
		dkim_body_end(d);
		const struct arc_result *r = dkim_evaluate(d, keys) == DNS_DONE ? dkim_arc(d) : NULL;
		ok = r && r->result == DKIM_PASS && r->n == s->instance && str_eq(r->set[r->n - 1].seal_domain, s->domain) && r->set[r->n - 1].cv == s->cv;
	}
	dkim_release(d);
	return ok;
}

/* Of a set that closes a failed chain: the hash of the body, and what its two signatures sign. */
static bool apart_hold(const struct arc_seal *s, struct dns_answers *keys, struct str set, struct str all, struct str headers, struct str body, struct arena *a)
{
	struct mail_field f[3];
	struct str rest = set, block;
	struct dkim_sig sig, seal;
	struct buf bh = BUF_INIT(64);
	const char *why;
	unsigned tries = DKIM_TRIES_MAX;
	const struct dkim_policy policy = { .rsa_min = 512 };
	for (unsigned i = 0; i < 3; i++)
		if (mail_field_next(&rest, &f[i]) != 1)
			return false;
	block = str_skip(all, f[0].all.n); /* from the message signature on */
	bool ok = !message_digest(block, a, &sig) && dkim_sig_key(&sig, &policy, keys, &tries) && sig.keyed && sig.verified && !body_hash(body, &bh);
	ok = ok && sig.body_hash.n == DIGEST;
	if (ok) {
		struct buf mine = BUF_INIT(64);
		ok = !base64(sig.body_hash.p, sig.body_hash.n, &mine) && str_eq(buf_str(&mine), buf_str(&bh));
		buf_free(&mine);
	}
	ok = ok && !dkim_sig_parse(&seal, DKIM_ARC_SEAL, f[0].value, &policy, a) && !seal.settled && seal.cv == DKIM_FAIL &&
	    !seal_digest(s, headers, f[2].all, f[1].all, f[0].all, seal.digest, &why);
	if (ok) {
		seal.n_digest = DIGEST;
		ok = dkim_sig_key(&seal, &policy, keys, &tries) && seal.keyed && seal.verified;
	}
	buf_free(&bh);
	return ok;
}

bool arc_seal_holds(const struct arc_seal *s, struct str record, struct str set, struct str headers, struct str body)
{
	struct buf all = BUF_INIT(set.n + headers.n + 1);
	struct dns_answers *keys = answers_of(s, record);
	struct arena *a = arena_new(SCRATCH_MAX);
	bool ok = false;
	ERR_set_mark();
	if (keys && a && !buf_adds(&all, set) && !buf_adds(&all, headers))
		ok = s->cv == DKIM_FAIL ? apart_hold(s, keys, set, buf_str(&all), headers, body, a) : chain_holds(s, keys, buf_str(&all), body);
	ERR_pop_to_mark();
	arena_free(a);
	dns_answers_free(keys);
	buf_free(&all);
	return ok;
}
