/* Fuzz: MTA-STS. Up to the first NUL a TXT record, behind it a policy. */
#include "proto/relay/sts.h"

#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct sts_policy p;
	struct str all = str_n((const char *)data, size), txt = all, body, id = STR_NULL;
	const char *why = NULL;
	ptrdiff_t nul = str_chr(all, 0);
	if (nul >= 0)
		txt.n = (size_t)nul;
	body = str_skip(all, txt.n + 1);
	if (sts_record_parse(txt, &id, &why) == 0)
		must(sts_record_is(txt) && id.n >= 1 && id.n <= STS_ID_MAX && id.p >= txt.p && id.p + id.n <= txt.p + txt.n);
	else
		must(why);
	why = NULL;
	if (sts_policy_parse(body, &p, &why)) {
		must(why);
		return 0;
	}
	must(p.max_age <= STS_AGE_MAX && p.n_mx <= STS_MX_MAX && (p.n_mx || p.mode == STS_NONE) && body.n <= STS_POLICY_MAX);
	for (size_t i = 0; i < p.n_mx; i++) {
		must(p.mx[i].n && p.mx[i].p >= body.p && p.mx[i].p + p.mx[i].n <= body.p + body.n);
		/* what a pattern without wildcard names is covered, and a wildcard does not cover itself without its label */
		bool wild = str_starts(p.mx[i], STR("*."));
		must(wild || sts_policy_covers(&p, p.mx[i]));
		must(!wild || !sts_mx_match(p.mx[i], str_skip(p.mx[i], 2)));
	}
	return 0;
}
