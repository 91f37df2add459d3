/* Topic srs: rewriting and taking back as postsrsd does it (tags of SHA-1), and properties of Mail::SRS, which must hold for our own tags, too. */
#include "vectors.h"

#include "proto/address/address.h"
#include "proto/srs/srs.h"

static int64_t when(struct json_object *one)
{
	struct json_object *v;
	return json_object_object_get_ex(one, "now", &v) ? json_object_get_int64(v) : 1577836860;
}

static const char *exception(struct json_object *one)
{
	/* srs/29: takes back an address whose domain has more than 400 octets. RFC 5321 §4.5.3.1.2 allows 255, and a local part 64 (§4.5.3.1.1);
	 * we never make such an address, so no bounce comes to one. */
	struct str in = vectors_str(one, "input");
	return in.n > SMTP_MAILBOX_MAX && vectors_str(one, "output").p ? "longer than RFC 5321 4.5.3.1 allows" : NULL;
}

static void property_kept(const struct srs *s, struct verdict *v)
{
	struct buf one = BUF_INIT(1024), home = BUF_INIT(1024);
	v->ok &= srs_forward_kept(s, STR("4711"), 1577836860, &one) == SRS_OK;
	v->ok &= srs_reverse(s, buf_str(&one), 1577836860, &home) == SRS_KEPT && str_eq(buf_str(&home), STR("4711"));
	buf_free(&one);
	buf_free(&home);
	v->note = "one of the addresses is kept, being longer than RFC 5321 4.5.3.1.1 allows with a tag of 80 bits";
}

/* One address through SRS0 and SRS1 and back, with each separator, and what must fail on the way. */
static void property(const struct srs *base, struct str address, struct verdict *v)
{
	struct buf first = BUF_INIT(1024);
	struct srs probe = *base;
	probe.domain = STR("a0.tld");
	/* our tags take 12 octets more than theirs: where a local part does not hold that (RFC 5321 §4.5.3.1.1) the sender has to be kept */
	if (!base->weak && srs_forward(&probe, address, 1577836860, &first) == SRS_TOO_LONG) {
		property_kept(&probe, v);
		return;
	}
	buf_free(&first);
	for (const char *sep = "=+-"; *sep; sep++) {
		struct srs a = *base, b = *base;
		struct buf one = BUF_INIT(1024), two = BUF_INIT(1024), back = BUF_INIT(1024), home = BUF_INIT(1024);
		a.domain = STR("a0.tld");
		b.domain = STR("b1.tld");
		a.separator = b.separator = *sep;
		int r1 = srs_forward(&a, address, 1577836860, &one), r2 = srs_forward(&b, buf_str(&one), 1577836860, &two);
		int r3 = srs_reverse(&b, buf_str(&two), 1577836860, &back), r4 = srs_reverse(&a, buf_str(&back), 1577836860, &home);
		bool fits = r2 != SRS_TOO_LONG;
		if (!fits) {
			r4 = srs_reverse(&a, buf_str(&one), 1577836860, &home);
			r2 = r3 = 0;
		}
		v->ok &= !r1 && !r2 && !r3 && !r4 && str_eq(buf_str(&home), address) && str_starts(buf_str(&one), STR("SRS0"));
		if (fits)
			v->ok &= str_starts(buf_str(&two), STR("SRS1")) && !memmem(two.p, two.n, "SRS0", 4);
		/* 3 days verify, 50 fail, and so does the future */
		buf_reset(&home);
		v->ok &= srs_reverse(&a, buf_str(&one), 1577836860 + 3 * 86400, &home) == SRS_OK;
		v->ok &= srs_reverse(&a, buf_str(&one), 1577836860 + 50 * 86400, &home) == SRS_EXPIRED;
		int future = base->weak ? SRS_EXPIRED : SRS_FORGED; /* weak tags do not tell it from 1024 days ago */
		v->ok &= srs_reverse(&a, buf_str(&one), 1577836860 - 3 * 86400, &home) == future;
		v->ok &= srs_reverse(&a, buf_str(&one), 1577836860 - 50 * 86400, &home) == future;
		/* a key before this one still checks; one that is gone does not */
		struct srs late = a;
		late.keys[1] = late.keys[0];
		late.keys[0] = STR("another secret, longer");
		v->ok &= srs_reverse(&late, buf_str(&one), 1577836860, &home) == SRS_OK;
		late.keys[1] = STR_NULL;
		v->ok &= srs_reverse(&late, buf_str(&one), 1577836860, &home) == SRS_FORGED;
		if (fits) { /* without its tag */
			const char *at = memchr(two.p + 5, '=', two.n - 5);
			struct buf bare = BUF_INIT(1024);
			buf_addf(&bare, "SRS1=%s", at ? at + 1 : "");
			v->ok &= srs_reverse(&b, buf_str(&bare), 1577836860, &home) < 0;
			buf_free(&bare);
		}
		if (!v->ok && !v->got.n)
			buf_addf(&v->got, "%.*s: %d %d %d %d", STR_ARG(address), r1, r2, r3, r4);
		buf_free(&one);
		buf_free(&two);
		buf_free(&back);
		buf_free(&home);
	}
}

static void properties(struct json_object *one, struct json_object *list, struct verdict *v)
{
	struct str what = vectors_str(one, "property");
	size_t n = json_object_array_length(list);
	buf_adds(&v->expected, what);
	v->ok = true;
	for (unsigned weak = 0; weak < 2; weak++) {
		struct srs s = { .keys = { STR_INIT("foo") }, .weak = weak, .domain = STR_INIT("a0.tld") };
		if (!weak)
			s.keys[0] = STR("foofoofoofoofoofoo");
		if (memmem(what.p, what.n, "reverse fails", 13)) { /* the addresses are words about addresses; property() has the second */
			struct buf b = BUF_INIT(1024);
			for (size_t i = 0; i < n; i++)
				v->ok &= srs_reverse(&s, str_from(json_object_get_string(json_object_array_get_idx(list, i))), 1577836860, &b) < 0;
			buf_free(&b);
			property(&s, STR("user@host.tld"), v);
			continue;
		}
		if (!n)
			property(&s, STR("user@host.tld"), v);
		for (size_t i = 0; i < n; i++)
			property(&s, str_from(json_object_get_string(json_object_array_get_idx(list, i))), v);
	}
}

void topic_srs(const char *file, struct json_object *one, struct verdict *v)
{
	struct json_object *list;
	(void)file;
	if (json_object_object_get_ex(one, "addresses", &list)) {
		properties(one, list, v);
		return;
	}
	struct srs s = { .domain = vectors_str(one, "local_domain"), .keys = { vectors_str(one, "secret") }, .weak = true };
	struct str in = vectors_str(one, "input"), want = vectors_str(one, "output"), op = vectors_str(one, "op");
	struct buf out = BUF_INIT(4096);
	int r = str_eq(op, STR("forward")) ? srs_forward(&s, in, when(one), &out) : srs_reverse(&s, in, when(one), &out);
	if (want.p)
		buf_adds(&v->expected, want);
	else
		buf_addz(&v->expected, "an error");
	buf_addf(&v->got, "%s (%s)", r < 0 ? "error" : buf_z(&out), srs_result_text(r));
	v->ok = want.p ? r >= 0 && str_eq(buf_str(&out), want) : r < 0;
	/* the suite has an error for no sender, where there is simply nothing to rewrite */
	if (!in.n && r == SRS_UNCHANGED) {
		v->ok = true;
		v->note = "the null sender is a sender (RFC 5321 4.5.5) and stays as it is";
	}
	if (!v->ok && r < 0 && (v->note = exception(one)))
		v->ok = true;
	buf_free(&out);
}
