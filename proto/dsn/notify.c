/* The rules about NOTIFY; see notify.h. */
#include "notify.h"

unsigned dsn_notify(struct str text)
{
	static const struct {
		struct str word;
		unsigned bit;
	} known[] = { { STR_INIT("NEVER"), DSN_NOTIFY_NEVER }, { STR_INIT("SUCCESS"), DSN_NOTIFY_SUCCESS },
		{ STR_INIT("FAILURE"), DSN_NOTIFY_FAILURE }, { STR_INIT("DELAY"), DSN_NOTIFY_DELAY } };
	unsigned bits = 0;
	struct str word;
	while (str_word(&text, ", ", &word))
		for (size_t i = 0; i < sizeof known / sizeof *known; i++)
			if (str_ieq(word, known[i].word))
				bits |= known[i].bit;
	return bits & ~(unsigned)DSN_NOTIFY_NEVER ? bits & ~(unsigned)DSN_NOTIFY_NEVER : bits;
}

const char *dsn_notify_text(unsigned notify)
{
	static const char *const texts[8] = { "", "SUCCESS", "FAILURE", "SUCCESS,FAILURE", "DELAY", "SUCCESS,DELAY", "FAILURE,DELAY",
		"SUCCESS,FAILURE,DELAY" };
	unsigned wishes = notify >> 1 & 7;
	return !wishes && notify & DSN_NOTIFY_NEVER ? "NEVER" : texts[wishes];
}

bool dsn_owed(unsigned notify, enum dsn_kind outcome, bool hop_dsn, bool null_sender)
{
	if (null_sender)
		return false; /* §6.1, RFC 5321 §4.5.5 */
	switch (outcome) {
	case DSN_FAILED:
		return !notify || notify & DSN_NOTIFY_FAILURE; /* §5.2.6 */
	case DSN_DELAYED:
		return !notify || notify & DSN_NOTIFY_DELAY; /* §5.2.5; without NOTIFY we may, and do */
	case DSN_DELIVERED:
	case DSN_RELAYED:
		return notify & DSN_NOTIFY_SUCCESS && !hop_dsn;
	case DSN_EXPANDED:
		return notify & DSN_NOTIFY_SUCCESS;
	}
	return false;
}

unsigned dsn_notify_onward(unsigned notify, enum dsn_kind outcome)
{
	if (outcome != DSN_EXPANDED || !(notify & DSN_NOTIFY_SUCCESS))
		return notify;
	notify &= ~(unsigned)DSN_NOTIFY_SUCCESS;
	return notify ? notify : DSN_NOTIFY_NEVER; /* nothing would mean that failures are told */
}
