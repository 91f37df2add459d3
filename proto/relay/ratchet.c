/* What is remembered of a domain's protection, and when it is worth a warning; see ratchet.h. */
#include "proto/relay/ratchet.h"

static const char *const names[] = { "unknown", "plain", "tls", "authenticated", "sts-enforce", "dane" };

const char *ratchet_level_name(enum ratchet_level l)
{
	return (unsigned)l < sizeof names / sizeof *names ? names[l] : "";
}

int ratchet_level_parse(struct str s, enum ratchet_level *ret)
{
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (str_eq(s, str_from(names[i]))) {
			*ret = (enum ratchet_level)i;
			return 0;
		}
	return -1;
}

enum ratchet_level ratchet_level(const struct tls_rules *rules, const struct tls_seen *seen, const struct tls_verdict *verdict)
{
	if (!seen || !seen->tls)
		return RATCHET_PLAIN;
	/* verdict.authenticated: by DANE with MX records that were validated, or by an enforced policy */
	if (verdict->authenticated && rules->dane == DANE_USABLE && rules->mx_secure)
		return RATCHET_DANE;
	if (verdict->authenticated)
		return RATCHET_STS;
	/* a match, or a valid certificate, at a host that could have been forged into the MX records, or that nobody vouched for in earnest */
	if (rules->dane == DANE_USABLE && seen->dane == DANE_MATCHED)
		return RATCHET_AUTHENTICATED;
	if (rules->sts == STS_TESTING && rules->sts_covers && seen->pkix_error == 0)
		return RATCHET_AUTHENTICATED;
	return RATCHET_TLS;
}

enum ratchet_event ratchet_note(struct ratchet *r, enum ratchet_level level, int64_t now)
{
	if (r->best && now - r->best_at > RATCHET_KEEP) {
		/* what is so old binds nobody: the best is what was seen last */
		r->best = r->last;
		r->best_at = r->last_at;
		r->told = RATCHET_UNKNOWN;
	}
	enum ratchet_level best = r->best;
	r->last = level;
	r->last_at = now;
	if (level >= best) {
		bool told = r->told != RATCHET_UNKNOWN;
		r->best = level;
		r->best_at = now;
		r->told = RATCHET_UNKNOWN;
		return told ? RATCHET_RECOVERED : level > best ? RATCHET_STRONGER : RATCHET_SAME;
	}
	if (r->told && r->told <= level && now - r->told_at < RATCHET_AGAIN && now >= r->told_at)
		return RATCHET_SAME;
	r->told = level;
	r->told_at = now;
	return RATCHET_WEAKER;
}

void ratchet_merge(struct ratchet *into, const struct ratchet *other)
{
	if (other->best > into->best || (other->best == into->best && other->best_at > into->best_at)) {
		into->best = other->best;
		into->best_at = other->best_at;
	}
	if (other->last_at > into->last_at) {
		into->last = other->last;
		into->last_at = other->last_at;
	}
	if (other->told_at > into->told_at) {
		into->told = other->told;
		into->told_at = other->told_at;
	}
}
