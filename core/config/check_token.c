/* schema_check(), [token-NAME]: what a token needs. Looks at text only. */
#include "check_internal.h"

static bool given(const struct config_entry *e)
{
	return e && e->v.value[0];
}

void check_token(struct check *k, const struct config_section *s)
{
	static const char *const urls[] = { "TOKEN_URL", "AUTHORIZE_URL" };
	const char *name = s->name + strlen("token-");
	const struct config_entry *provider = check_entry(s, "PROVIDER");
	size_t n = strspn(name, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_.");
	if (name[n] || n > 63 || name[0] == '.')
		check_fault(k, s, NULL, false, "[%s]: the name is a file's, too: letters, digits, '-', '_' and '.', at most 63", s->name);
	for (size_t i = 0; i < 2; i++) {
		const struct config_entry *e = check_entry(s, urls[i]);
		if (given(e) && (!str_starts(str_from(e->v.value), STR("https://")) || e->v.value[8] == 0 || strpbrk(e->v.value, " \t@#")))
			check_fault(k, s, e, false, "%s: wanted is https://…, without blanks, user names or #", urls[i]);
	}
	if (!given(check_entry(s, "TOKEN_URL")) && (!given(provider) || str_ieq(str_from(provider->v.value), STR("other"))))
		check_fault(k, s, provider, false, "[%s]: PROVIDER = google or microsoft, or TOKEN_URL, says where tokens come from", s->name);
	for (size_t i = 0; i < k->c->n; i++) {
		const struct config_entry *e = check_is_stage(&k->c->s[i]) ? check_entry(&k->c->s[i], "AUTH_TOKEN") : NULL;
		if (e && str_ieq(str_from(e->v.value), str_from(name)))
			return;
	}
	check_fault(k, s, NULL, true, "[%s] is refreshed and used by no stage (AUTH_TOKEN = %s)", s->name, name);
}
