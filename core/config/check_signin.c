/* schema_check(), [pepsi-signin]: what one option demands of another. Looks at text only. */
#include "check_internal.h"

#include <stdio.h>

static bool has_word(const char *list, const char *word)
{
	struct str rest = str_from(list), w;
	while (str_word(&rest, " \t,", &w))
		if (str_ieq(w, str_from(word)))
			return true;
	return false;
}

static bool url_ok(const char *url)
{
	return (!strncmp(url, "https://", 8) && url[8]) || !strncmp(url, "http://127.0.0.1:", 17) || !strncmp(url, "http://127.0.0.1/", 17) ||
	    !strncmp(url, "http://[::1]:", 13) || !strncmp(url, "http://[::1]/", 13);
}

static void check_url(struct check *k, const struct config_section *s, const char *option, bool file_too)
{
	const struct config_entry *e = check_entry(s, option);
	if (!e || (file_too && !strstr(e->v.value, "://")))
		return;
	if (!url_ok(e->v.value))
		check_fault(k, s, e, false, "%s: wanted is https://…%s, or http:// to 127.0.0.1 or [::1]", option, file_too ? ", a file" : "");
	else if (strpbrk(e->v.value, " \t@#"))
		check_fault(k, s, e, false, "%s: blanks, @ and # have no place here; passwords go into OAUTH_CLIENT_SECRET", option);
}

void check_signin_listener(struct check *k, const struct config_section *listener)
{
	const struct config_entry *e = check_entry(listener, "BACKENDS");
	const char *all = config_str(k->c, "pepsi-signin", "BACKENDS");
	struct str rest = e ? str_from(e->v.value) : STR_NULL, w;
	bool any = false;
	while (str_word(&rest, " \t,", &w)) {
		char name[64];
		any = true;
		snprintf(name, sizeof name, "%.*s", STR_ARG(w));
		if (!has_word(all ? all : "", name))
			check_fault(k, listener, e, false, "BACKENDS: %s is not one of BACKENDS in [pepsi-signin], so nobody has set it up", name);
	}
	if (e && !any)
		check_fault(k, listener, e, false, "BACKENDS is empty: nobody could sign in; leave it out for all, or say AUTH = without a mechanism");
}

void check_signin(struct check *k, const struct config_section *s)
{
	const struct config_entry *backends = check_entry(s, "BACKENDS"), *keys = check_entry(s, "OAUTH_KEYS"),
				  *ask = check_entry(s, "OAUTH_INTROSPECTION_URL"), *at = backends;
	struct str rest = backends ? str_from(backends->v.value) : STR_NULL, w;
	if (backends && !str_word(&rest, " \t,", &w))
		check_fault(k, s, backends, false, "BACKENDS is empty: nobody could sign in");
	check_url(k, s, "OAUTH_INTROSPECTION_URL", false);
	check_url(k, s, "OAUTH_KEYS", true);
	check_url(k, s, "OAUTH_DISCOVERY", false);
	if (!backends || !has_word(backends->v.value, "oauth")) {
		at = keys ? keys : ask;
		if (at)
			check_fault(k, s, at, true, "%s has no effect: BACKENDS has no oauth", at->option);
		return;
	}
	if (keys && ask)
		check_fault(k, s, ask, false, "OAUTH_INTROSPECTION_URL and OAUTH_KEYS exclude each other");
	else if (!keys && !ask)
		check_fault(k, s, at, false, "BACKENDS = oauth needs OAUTH_KEYS or OAUTH_INTROSPECTION_URL");
	/* a signed token is good for whomever it was made for: without these, one for another service would do here */
	if (keys && !check_entry(s, "OAUTH_ISSUER"))
		check_fault(k, s, keys, false, "OAUTH_KEYS needs OAUTH_ISSUER: whose tokens are meant");
	if (keys && !check_entry(s, "OAUTH_AUDIENCE"))
		check_fault(k, s, keys, false, "OAUTH_KEYS needs OAUTH_AUDIENCE: tokens made for other services must not do here");
	if (ask && !check_entry(s, "OAUTH_CLIENT_ID"))
		check_fault(k, s, ask, true, "OAUTH_INTROSPECTION_URL without OAUTH_CLIENT_ID: most servers answer only clients they know");
}
