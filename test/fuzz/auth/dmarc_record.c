/* Fuzz: DMARC records. Whatever the text: addresses lie within it, and a record without faults reads the same without its blanks. */
#include "proto/auth/dmarc.h"

#include "base/buf.h"
#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void inside(struct str text, const struct dmarc_uri *u, size_t n)
{
	must(n <= DMARC_URIS_MAX);
	for (size_t i = 0; i < n; i++)
		must(u[i].uri.n > 2 && u[i].uri.p >= text.p && u[i].uri.p + u[i].uri.n <= text.p + text.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = str_n((const char *)data, size);
	struct dmarc_record r, again;
	struct buf b = BUF_INIT(DMARC_RECORD_MAX + 16);
	if (dmarc_record_parse(text, &r)) {
		must(size > DMARC_RECORD_MAX || !dmarc_record_is(text));
		return 0;
	}
	must(dmarc_record_is(text));
	inside(text, r.rua, r.n_rua);
	inside(text, r.ruf, r.n_ruf);
	must(r.p <= DMARC_REJECT && r.sp <= DMARC_REJECT && r.np <= DMARC_REJECT && (r.psd == 'y' || r.psd == 'n' || r.psd == 'u'));
	must(r.usable || (r.p == DMARC_NONE && r.sp == DMARC_NONE && r.np == DMARC_NONE && !r.n_rua));
	for (size_t i = 0; i < size; i++)
		if (text.p[i] != ' ' && text.p[i] != '\t')
			buf_addc(&b, text.p[i]);
	if (!r.faults && dmarc_record_parse(buf_str(&b), &again) == 0 && !again.faults)
		must(again.p == r.p && again.sp == r.sp && again.np == r.np && again.psd == r.psd && again.t == r.t && again.fo == r.fo &&
		    again.n_rua == r.n_rua && again.adkim_strict == r.adkim_strict && again.aspf_strict == r.aspf_strict);
	buf_free(&b);
	return 0;
}
