/* SRS: there and back, chains, what is refused, age, keys; ten thousand forgeries by one bit. The public suite is vectors/srs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proto/address/address.h"
#include "proto/srs/srs.h"

#define DAY 86400
static const int64_t now = 1700000000;
static const struct srs ours = { .domain = STR_INIT("f.test"), .keys = { STR_INIT("0123456789abcdef") } };
static const struct srs other = { .domain = STR_INIT("second.example"), .keys = { STR_INIT("abcdefghijklmnop") } };
static const struct srs third = { .domain = STR_INIT("third.example"), .keys = { STR_INIT("ABCDEFGHIJKLMNOP") } };

static struct buf forward(const struct srs *s, const char *sender)
{
	struct buf b = BUF_INIT(1024);
	assert_int_equal(srs_forward(s, str_from(sender), now, &b), SRS_OK);
	return b;
}

static void reversed(const struct srs *s, struct str address, const char *want)
{
	struct buf b = BUF_INIT(1024);
	assert_int_equal(srs_reverse(s, address, now, &b), SRS_OK);
	assert_string_equal(buf_z(&b), want);
	buf_free(&b);
}

static void refused(const struct srs *s, struct str address, int64_t at, int want)
{
	struct buf b = BUF_INIT(1024);
	buf_addz(&b, "x");
	assert_int_equal(srs_reverse(s, address, at, &b), want);
	assert_string_equal(buf_z(&b), "x");
	buf_free(&b);
}

static void round_trip(void **state)
{
	static const char *const senders[] = { "user@host.example", "User.Name@host.example", "a=b=c+d-e@d-ash.example", "\"a b\"@host.example",
		"\"a@b\"@host.example", "u@[192.0.2.1]", "u@[ipv6:2001:db8::1]", "u%v!w&x=@h.example", "srs@h.example", "SRS2=x@h.example",
		"\"\\\"\\\\\"@h.example", "\"\\\"\\\"\"@h.example", "\xc3\xa4@xn--4ca.example", "SRS0@h.example", "=@h.example" };
	(void)state;
	for (size_t i = 0; i < sizeof senders / sizeof *senders; i++)
		for (const char *sep = "=+-"; *sep; sep++) {
			struct srs s = ours;
			struct smtp_address a;
			s.separator = *sep;
			struct buf b = forward(&s, senders[i]);
			assert_int_equal(smtp_address_parse(buf_str(&b), true, &a), 0);
			assert_true(srs_is(buf_str(&b), s.domain) && !srs_is(buf_str(&b), other.domain));
			reversed(&ours, buf_str(&b), senders[i]);
			refused(&other, buf_str(&b), now, SRS_NOT_SRS);
			buf_free(&b);
		}
	/* the domain comes back as A-labels in lower case */
	struct buf b = forward(&ours, "u@\xc3\xa4.EXAMPLE");
	reversed(&ours, buf_str(&b), "u@xn--4ca.example");
	buf_free(&b);
}

static void form(void **state)
{
	(void)state;
	struct buf b = forward(&ours, "user@host.example"), out = BUF_INIT(1024);
	/* as printf "SRS0=:l:19675:12:host.example4:user" | openssl dgst -sha256 -hmac 0123456789abcdef | … base32 gives it */
	assert_string_equal(buf_z(&b), "SRS0=AJFICNODKVWME2JW=G3=host.example=user@f.test");
	buf_free(&b);
	assert_int_equal(srs_forward(&ours, STR(""), now, &out), SRS_UNCHANGED);
	assert_int_equal(out.n, 0);
	assert_int_equal(srs_forward(&ours, STR("Me@F.test"), now, &out), SRS_UNCHANGED);
	assert_string_equal(buf_z(&out), "Me@F.test");
	assert_int_equal(srs_forward(&ours, STR("nobody"), now, &out), SRS_BAD_ADDRESS);
	assert_int_equal(srs_forward(&ours, STR("a@b@c"), now, &out), SRS_BAD_ADDRESS);
	assert_int_equal(srs_forward(&ours, STR("\"\"@h.example"), now, &out), SRS_BAD_ADDRESS);
	assert_int_equal(srs_forward(&ours, STR("SRS0=@h.example"), now, &out), SRS_OK);
	assert_int_equal(srs_forward(&ours, STR("a\r\nRCPT TO:<x@y>@c"), now, &out), SRS_BAD_ADDRESS);
	buf_free(&out);
}

static void chains(void **state)
{
	(void)state;
	struct buf one = forward(&ours, "u@h.example"), two = forward(&other, buf_z(&one)), three = forward(&third, buf_z(&two));
	assert_true(str_starts(buf_str(&two), STR("SRS1=")) && str_starts(buf_str(&three), STR("SRS1=")));
	assert_null(strstr(buf_z(&two), "SRS0"));
	reversed(&other, buf_str(&two), buf_z(&one));
	reversed(&third, buf_str(&three), buf_z(&one)); /* past the second, straight to the first */
	reversed(&ours, buf_str(&one), "u@h.example");
	refused(&other, buf_str(&two), now + 22 * DAY, SRS_EXPIRED); /* SRS1 expires, too */
	refused(&other, buf_str(&two), now - 2 * DAY, SRS_FORGED);
	buf_free(&two);
	buf_free(&three);
	buf_free(&one);
	/* what only looks like a link of a chain is an ordinary sender */
	static const char *const plain[] = { "SRS1=x@h.example", "SRS1=x=h.example=y@h.example", "SRS1=x=a b==y@h.example", "SRS1=x=UP.example==y@h.example" };
	for (size_t i = 0; i < 4; i++) {
		struct buf b = BUF_INIT(1024);
		if (srs_forward(&ours, str_from(plain[i]), now, &b) == SRS_OK) {
			assert_true(str_starts(buf_str(&b), STR("SRS0=")));
			reversed(&ours, buf_str(&b), plain[i]);
		} else {
			assert_int_equal(i, 2);
		}
		buf_free(&b);
	}
}

static void long_ones(void **state)
{
	(void)state;
	struct buf b = BUF_INIT(1024), back = BUF_INIT(1024);
	/* 26 octets are ours, 38 are left for host and user */
	assert_int_equal(srs_forward(&ours, STR("12345678901234567890123456@host.example"), now, &b), SRS_OK);
	assert_int_equal(str_chr(buf_str(&b), '@'), SMTP_LOCAL_MAX);
	buf_reset(&b);
	assert_int_equal(srs_forward(&ours, STR("123456789012345678901234567@host.example"), now, &b), SRS_TOO_LONG);
	assert_int_equal(b.n, 0);
	assert_int_equal(srs_forward_kept(&ours, STR("q-8271"), now, &b), SRS_OK);
	assert_int_equal(srs_reverse(&ours, buf_str(&b), now + 21 * DAY, &back), SRS_KEPT);
	assert_string_equal(buf_z(&back), "q-8271");
	refused(&ours, buf_str(&b), now + 22 * DAY, SRS_EXPIRED);
	/* another forwarder takes it for any SRS0 address, and folding to one case does no harm */
	struct buf two = forward(&other, buf_z(&b));
	reversed(&other, buf_str(&two), buf_z(&b));
	for (size_t i = 0; i < b.n; i++)
		b.p[i] = b.p[i] >= 'a' && b.p[i] <= 'z' ? (char)(b.p[i] - 32) : b.p[i];
	buf_reset(&back);
	assert_int_equal(srs_reverse(&ours, buf_str(&b), now, &back), SRS_KEPT);
	assert_string_equal(buf_z(&back), "q-8271");
	buf_reset(&b);
	assert_int_equal(srs_forward_kept(&ours, STR("no.dots"), now, &b), SRS_BAD_ADDRESS);
	assert_int_equal(srs_forward_kept(&ours, STR(""), now, &b), SRS_BAD_ADDRESS);
	assert_int_equal(srs_forward_kept(&ours, STR("123456789012345678901234567890123456789"), now, &b), SRS_BAD_ADDRESS);
	assert_int_equal(srs_forward_kept(&ours, STR("12345678901234567890123456789012345678"), now, &b), SRS_OK);
	buf_free(&two);
	buf_free(&b);
	buf_free(&back);
}

static void age(void **state)
{
	struct srs s = ours;
	(void)state;
	struct buf b = forward(&s, "u@h.example"), back = BUF_INIT(1024);
	for (int d = -1; d <= 2100; d++) {
		int want = d <= 21 ? SRS_OK : d < 1023 ? SRS_EXPIRED : SRS_FORGED; /* and never again */
		buf_reset(&back);
		assert_int_equal(srs_reverse(&s, buf_str(&b), now + d * (int64_t)DAY, &back), want);
	}
	refused(&s, buf_str(&b), now - 2 * DAY, SRS_FORGED);
	refused(&s, buf_str(&b), now - 50 * DAY, SRS_FORGED);
	refused(&s, buf_str(&b), -1, SRS_KEY);
	s.max_age = 3;
	refused(&s, buf_str(&b), now + 4 * DAY, SRS_EXPIRED);
	s.max_age = SRS_MAX_AGE_MAX + 1;
	refused(&s, buf_str(&b), now, SRS_KEY);
	buf_free(&back);
	buf_free(&b);
}

static void keys(void **state)
{
	struct srs s = ours;
	(void)state;
	struct buf old = forward(&s, "u@h.example");
	s.keys[1] = s.keys[0];
	s.keys[0] = STR("a newer, better key");
	reversed(&s, buf_str(&old), "u@h.example");
	struct buf fresh = forward(&s, "u@h.example");
	assert_string_not_equal(buf_z(&old), buf_z(&fresh));
	reversed(&s, buf_str(&fresh), "u@h.example");
	s.keys[1] = STR_NULL;
	refused(&s, buf_str(&old), now, SRS_FORGED);
	refused(&ours, buf_str(&fresh), now, SRS_FORGED);
	s.keys[0] = STR("fifteen octets!");
	refused(&s, buf_str(&fresh), now, SRS_KEY);
	s.keys[0] = STR_NULL;
	refused(&s, buf_str(&fresh), now, SRS_KEY);
	s = ours;
	s.keys[1] = STR("short");
	refused(&s, buf_str(&fresh), now, SRS_KEY);
	s = ours;
	s.separator = '_';
	refused(&s, buf_str(&fresh), now, SRS_KEY);
	s = ours;
	s.domain = STR("not a domain");
	refused(&s, buf_str(&fresh), now, SRS_KEY);
	buf_free(&old);
	buf_free(&fresh);
}

static void letter_case(void **state)
{
	(void)state;
	struct buf b = forward(&ours, "User@h.example"), c = BUF_INIT(1024);
	buf_adds(&c, buf_str(&b));
	for (size_t i = 0; i < c.n; i++)
		c.p[i] = c.p[i] >= 'A' && c.p[i] <= 'Z' ? (char)(c.p[i] + 32) : c.p[i];
	reversed(&ours, buf_str(&c), "user@h.example");
	c.p[0] = 'S';
	refused(&ours, buf_str(&c), now, SRS_FORGED); /* half folded: nobody does that */
	for (size_t i = 0; i < c.n; i++)
		c.p[i] = c.p[i] >= 'a' && c.p[i] <= 'z' ? (char)(c.p[i] - 32) : c.p[i];
	reversed(&ours, buf_str(&c), "USER@H.EXAMPLE");
	buf_free(&b);
	buf_free(&c);
}

static void malformed(void **state)
{
	static const struct { const char *address; int want; } table[] = {
		{ "SRS0=@f.test", SRS_MALFORMED }, { "SRS0=AAAAAAAAAAAAAAAA@f.test", SRS_MALFORMED },
		{ "SRS0=AAAAAAAAAAAAAAAA=G3@f.test", SRS_MALFORMED }, { "SRS0=AAAAAAAAAAAAAAAA=G3=h.example@f.test", SRS_MALFORMED },
		{ "SRS0=AAAAAAAAAAAAAAAA=G3=h.example=@f.test", SRS_MALFORMED }, { "SRS0=AAAAAAAAAAAAAAA=G3=h=u@f.test", SRS_MALFORMED },
		{ "SRS0=AAAA=G3=h.example=u@f.test", SRS_MALFORMED }, { "SRS0=AAAAAAAAAAAAAAAA=G3=h.example=u@f.test", SRS_FORGED },
		{ "SRS0=AAAAAAAAAAAAAAAA=G1=h.example=u@f.test", SRS_FORGED }, { "SRS0=AAAAAAAAAAAAAAAA=G=h.example=u@f.test", SRS_FORGED },
		{ "SRS0=AAAAAAAAAAAAAAAA=G3==u@f.test", SRS_FORGED }, { "SRS1=AAAAAAAAAAAAAAAAG3=h.example==u@f.test", SRS_FORGED },
		{ "SRS1=AAAAAAAAAAAAAAAA=h.example==u@f.test", SRS_MALFORMED }, { "SRS1=AAAAAAAAAAAAAAAAG3=h.example=u@f.test", SRS_MALFORMED },
		{ "SRS1=AAAAAAAAAAAAAAAAG3===u@f.test", SRS_MALFORMED }, { "SRS1=AAAAAAAAAAAAAAAAG3=h.example==@f.test", SRS_MALFORMED },
		{ "SRS2=x@f.test", SRS_NOT_SRS }, { "SRS0.x@f.test", SRS_NOT_SRS }, { "SRS0@f.test", SRS_NOT_SRS },
		{ "postmaster@f.test", SRS_NOT_SRS }, { "garbage", SRS_NOT_SRS }, { "", SRS_NOT_SRS }, { "SRS0=x@other.example", SRS_NOT_SRS },
		{ "SRS0=a\r\nb@f.test", SRS_NOT_SRS },
	};
	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		refused(&ours, str_from(table[i].address), now, table[i].want);
}

/* Octets cannot be moved over the border of host and user, nor from one type to another. */
static void borders(void **state)
{
	(void)state;
	struct buf b = forward(&ours, "mtest@otherdomain.co"), c = BUF_INIT(1024);
	buf_addf(&c, "%.*sotherdomain.com=test@f.test", (int)(strstr(buf_z(&b), "otherdomain") - b.p), b.p);
	refused(&ours, buf_str(&c), now, SRS_FORGED);
	buf_free(&b);
	buf_free(&c);
}

static uint32_t random_next(uint32_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 17;
	return *x ^= *x << 5;
}

static struct buf random_sender(uint32_t *x)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789+-=_";
	struct buf b = BUF_INIT(200);
	size_t n = 1 + random_next(x) % 18;
	for (size_t i = 0; i < n; i++)
		buf_addc(&b, letters[random_next(x) % (sizeof letters - 1)]);
	buf_addf(&b, "@h%u.example", random_next(x) % 100000);
	return b;
}

/* One bit of the local part is turned over, wherever: none of them is taken. */
static void forgeries(void **state)
{
	uint32_t x = 2463534242u;
	unsigned accepted = 0;
	(void)state;
	for (unsigned i = 0; i < 10000; i++) {
		struct buf sender = random_sender(&x), one = forward(&ours, buf_z(&sender)), back = BUF_INIT(1024);
		const struct srs *s = &ours;
		if (i % 2) {
			struct buf two = BUF_INIT(1024);
			if (srs_forward(&other, buf_str(&one), now, &two) == SRS_OK) {
				s = &other;
				buf_free(&one);
				one = two;
			} else {
				buf_free(&two);
			}
		}
		assert_int_equal(srs_reverse(s, buf_str(&one), now, &back), SRS_OK);
		size_t at = random_next(&x) % (size_t)str_chr(buf_str(&one), '@');
		one.p[at] = (char)(one.p[at] ^ 1 << random_next(&x) % 8);
		accepted += srs_reverse(s, buf_str(&one), now, &back) >= 0;
		buf_free(&sender);
		buf_free(&one);
		buf_free(&back);
	}
	assert_int_equal(accepted, 0);
}

/* Where the sender wrote capitals, only the case of his own name may differ: the mailbox stays the same. */
static void forgeries_of_capitals(void **state)
{
	(void)state;
	struct buf b = forward(&ours, "Some.User-Name@host.example"), back = BUF_INIT(1024);
	size_t local = (size_t)str_chr(buf_str(&b), '@');
	for (size_t bit = 0; bit < local * 8; bit++) {
		b.p[bit / 8] = (char)(b.p[bit / 8] ^ 1 << bit % 8);
		buf_reset(&back);
		if (srs_reverse(&ours, buf_str(&b), now, &back) >= 0)
			assert_true(bit / 8 > local - 15 && bit % 8 == 5 && str_ieq(buf_str(&back), STR("Some.User-Name@host.example")));
		b.p[bit / 8] = (char)(b.p[bit / 8] ^ 1 << bit % 8);
	}
	buf_free(&b);
	buf_free(&back);
}

static void texts(void **state)
{
	(void)state;
	for (int r = SRS_MEMORY; r <= SRS_KEPT; r++)
		for (int k = SRS_MEMORY; k < r; k++)
			assert_string_not_equal(srs_result_text(r), srs_result_text(k));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trip), cmocka_unit_test(form), cmocka_unit_test(chains), cmocka_unit_test(long_ones), cmocka_unit_test(age),
		cmocka_unit_test(keys), cmocka_unit_test(letter_case), cmocka_unit_test(malformed), cmocka_unit_test(borders),
		cmocka_unit_test(forgeries), cmocka_unit_test(forgeries_of_capitals), cmocka_unit_test(texts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
