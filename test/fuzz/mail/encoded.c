/* Fuzz: encoded words and charsets. Whatever comes in, what comes out is clean UTF-8 of bounded length; text that is encoded reads back
 * as it was; the pieces a text is read in do not matter at blanks. */
#include "base/check.h"
#include "proto/mail/charset.h"
#include "proto/mail/encoded.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void clean(const struct buf *b, size_t in)
{
	must(!b->n || str_is_utf8(buf_str(b)));
	must(b->n <= 3 * in + 3);
	for (size_t i = 0; i < b->n; i++)
		must((unsigned char)b->p[i] >= 0x20 && b->p[i] != 0x7f);
}

/* Clean text, encoded, decoded. */
static void round_trip(struct str text)
{
	struct buf words = BUF_INIT(1 << 22), back = BUF_INIT(1 << 22);
	struct str rest = text;
	size_t from = 0;
	while (mail_encoded_next(&rest, &words)) {
		must(words.n - from <= 75 && mail_encoded_span(str_skip(buf_str(&words), from)) == words.n - from);
		buf_addc(&words, ' ');
		from = words.n;
	}
	must(!rest.n && mail_encoded_decode(buf_str(&words), &back) == 0 && str_eq(buf_str(&back), text));
	buf_free(&words);
	buf_free(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = str_n((const char *)data, size);
	if (size > 1 << 14)
		return 0;
	must(mail_encoded_span(text) <= size);
	struct buf b = BUF_INIT(1 << 20), again = BUF_INIT(1 << 20);
	must(mail_encoded_decode(text, &b) == 0);
	clean(&b, size);
	buf_reset(&b);
	must(mail_charset_clean(text, &b) == 0);
	clean(&b, size);
	must(mail_charset_clean(buf_str(&b), &again) == 0 && str_eq(buf_str(&b), buf_str(&again)));
	if (b.n && b.p[0] != ' ' && b.p[b.n - 1] != ' ')
		round_trip(buf_str(&b));
	for (size_t i = 0; i < mail_charsets_n; i++) {
		buf_reset(&b);
		must(mail_charset_to_utf8(str_from(mail_charsets[i].name), text, &b) == 0 && (!b.n || str_is_utf8(buf_str(&b))));
		must(b.n >= size && b.n <= 3 * size);
	}
	static const char *const wide[] = { "iso-2022-jp", "euc-jp", "shift_jis", "gb18030", "big5" };
	for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
		buf_reset(&b);
		must(mail_charset_to_utf8(str_from(wide[i]), text, &b) == 0 && (!b.n || str_is_utf8(buf_str(&b))) && b.n <= 3 * size);
	}
	/* a charset of any name: known, or nothing is appended */
	ptrdiff_t colon = str_chr(text, ':');
	if (colon >= 0) {
		buf_reset(&b);
		int rc = mail_charset_to_utf8(str_n(text.p, (size_t)colon), str_skip(text, (size_t)colon + 1), &b);
		must(rc >= 0 && (rc == 0 || !b.n) && (!b.n || str_is_utf8(buf_str(&b))));
	}
	/* in two pieces, cut before a blank */
	for (size_t i = 1; i < size && i < 64; i++) {
		if (text.p[i] != ' ')
			continue;
		struct buf one = BUF_INIT(1 << 20), two = BUF_INIT(1 << 20);
		struct mail_decoder d1 = { .out = &one }, d2 = { .out = &two };
		must(mail_decoder_add(&d1, text, true) == 0);
		must(mail_decoder_add(&d2, str_n(text.p, i), true) == 0 && mail_decoder_add(&d2, str_skip(text, i), true) == 0);
		must(str_eq(buf_str(&one), buf_str(&two)));
		buf_free(&one);
		buf_free(&two);
	}
	buf_free(&b);
	buf_free(&again);
	return 0;
}
