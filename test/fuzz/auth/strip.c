/* Fuzz: a whole header block from which forged Authentication-Results are taken. First line: the authserv-ids that are ours; the rest is the
 * block. What stays is what stood there, in order, without any field that a reader could take for ours. */
#include "base/check.h"
#include "proto/auth/authres.h"
#include "proto/mail/header.h"
#include "proto/mail/split.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { IDS_MAX = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct str field = STR_INIT("Authentication-Results");
	struct str all = str_n((const char *)data, size), ids[IDS_MAX], words, word;
	size_t n = 0, removed, again, left = 0;
	struct mail_split s;
	struct mail_field f;
	if (size > 1 << 15)
		return 0;
	ptrdiff_t end = str_chr(all, '\n');
	words = str_n(all.p, end < 0 ? size : (size_t)end);
	while (n < IDS_MAX && str_word(&words, " ", &word))
		if (word.n < 256)
			ids[n++] = word;
	mail_split(str_skip(all, end < 0 ? size : (size_t)end + 1), &s);
	struct buf out = BUF_INIT(1 << 17), twice = BUF_INIT(1 << 17);
	must(authres_strip(&out, s.headers, ids, n, &removed) == 0);
	must(authres_strip(&twice, buf_str(&out), ids, n, &again) == 0 && again == 0 && str_eq(buf_str(&out), buf_str(&twice)));
	must((removed == 0) == (out.n == s.headers.n));
	/* field by field: either it is the next of what stayed, or it was ours */
	struct str rest = s.headers, stayed = buf_str(&out);
	int rc;
	while ((rc = mail_field_next(&rest, &f))) {
		if (stayed.n >= f.all.n && memcmp(stayed.p, f.all.p, f.all.n) == 0) {
			stayed = str_skip(stayed, f.all.n);
			left++;
			continue;
		}
		must(rc > 0 && str_ieq(f.name, field));
		removed--;
	}
	must(!stayed.n && removed == 0);
	for (size_t i = 0; i < 32 && mail_field_find(buf_str(&out), field, i, &f) == 0; i++)
		for (size_t k = 0; k < n; k++) {
			struct authres a;
			must(!authres_claims(f.value, ids[k]) && authres_parse(&a, f.value) == 0);
			must(!a.id.n || !str_ieq(a.id, ids[k]));
			authres_free(&a);
		}
	buf_free(&out);
	buf_free(&twice);
	return 0;
}
