/* The words of the report schema (RFC 9990 Appendix A), and what older reports call them. */
#include "proto/report/dmarc.h"

static const char *const lists[][9] = {
	[REPORT_POLICIES] = { "none", "quarantine", "reject" },
	[REPORT_DISPOSITIONS] = { "none", "pass", "quarantine", "reject" },
	[REPORT_ALIGNMENTS] = { "r", "s" },
	[REPORT_DISCOVERIES] = { "psl", "treewalk" },
	[REPORT_TESTING] = { "n", "y" },
	[REPORT_DKIM_RESULTS] = { "none", "pass", "fail", "policy", "neutral", "temperror", "permerror" },
	[REPORT_SPF_RESULTS] = { "none", "pass", "fail", "softfail", "policy", "neutral", "temperror", "permerror" },
	[REPORT_OVERRIDES] = { "local_policy", "mailing_list", "other", "policy_test_mode", "trusted_forwarder" },
};

/* RFC 7489's overrides; "unknown", "error", "hardfail": names of SPF results before RFC 7208 that are still sent. */
static const struct {
	enum report_words list;
	const char *old, *now;
} older[] = {
	{ REPORT_OVERRIDES, "sampled_out", "other" },
	{ REPORT_OVERRIDES, "forwarded", "other" },
	{ REPORT_SPF_RESULTS, "hardfail", "fail" },
	{ REPORT_SPF_RESULTS, "unknown", "permerror" },
	{ REPORT_SPF_RESULTS, "error", "temperror" },
};

struct str report_word(enum report_words list, struct str s)
{
	for (size_t i = 0; lists[list][i]; i++)
		if (str_ieq(s, str_from(lists[list][i])))
			return str_from(lists[list][i]);
	for (size_t i = 0; i < sizeof older / sizeof *older; i++)
		if (older[i].list == list && str_ieq(s, str_from(older[i].old)))
			return str_from(older[i].now);
	return STR_NULL;
}
