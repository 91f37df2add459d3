/* [token-NAME] of the configuration, with what is known of the great providers filled in. Text only. */
#include "token.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

const char *token_name(const struct config *c, size_t i)
{
	const char *section;
	for (size_t k = 0; (section = config_section(c, k)); k++)
		if (!strncasecmp(section, "token-", 6) && section[6] && i-- == 0)
			return section + 6;
	return NULL;
}

bool token_name_ok(const char *name)
{
	size_t n = strlen(name);
	for (size_t i = 0; i < n; i++) {
		char c = name[i];
		if (!(ascii_is_alnum(c) || c == '-' || c == '_' || (c == '.' && i)))
			return false;
	}
	return n && n <= TOKEN_NAME_MAX;
}

static bool given(const char *s)
{
	return s && *s;
}

int token_settings_read(struct token_settings *s, const struct config *c, const char *name, const char **why)
{
	static const struct {
		const char *name, *token, *authorize, *scope;
		int64_t life;
	} known[] = {
		{ "google", "https://oauth2.googleapis.com/token", "https://accounts.google.com/o/oauth2/v2/auth", "https://mail.google.com/", 0 },
		{ "microsoft", "https://login.microsoftonline.com/%s/oauth2/v2.0/token", "https://login.microsoftonline.com/%s/oauth2/v2.0/authorize",
		    "https://outlook.office.com/SMTP.Send offline_access", 90 * 86400 },
		{ "other", "", "", NULL, 0 },
	};
	char section[TOKEN_NAME_MAX + 8];
	size_t k = 2;
	*s = (struct token_settings){ .scope = NULL };
	*why = "its name is no name of a file: letters, digits, '-', '_' and '.', at most 63";
	if (!token_name_ok(name))
		return -1;
	snprintf(s->name, sizeof s->name, "%s", name);
	snprintf(section, sizeof section, "token-%s", name);
	const char *provider = config_str(c, section, "PROVIDER"), *tenant = config_str(c, section, "TENANT");
	for (size_t i = 0; provider && i < sizeof known / sizeof *known; i++)
		if (!strcasecmp(provider, known[i].name))
			k = i;
	const char *url = config_str(c, section, "TOKEN_URL"), *authorize = config_str(c, section, "AUTHORIZE_URL");
	struct {
		const char *option, *pattern;
		char *to;
	} urls[] = { { url, known[k].token, s->token_url }, { authorize, known[k].authorize, s->authorize_url } };
	for (size_t i = 0; i < 2; i++) {
		const char *mark = strstr(urls[i].pattern, "%s");
		if (given(urls[i].option))
			snprintf(urls[i].to, TOKEN_URL_MAX, "%s", urls[i].option);
		else if (mark)
			snprintf(urls[i].to, TOKEN_URL_MAX, "%.*s%s%s", (int)(mark - urls[i].pattern), urls[i].pattern, given(tenant) ? tenant : "common", mark + 2);
		else
			snprintf(urls[i].to, TOKEN_URL_MAX, "%s", urls[i].pattern);
	}
	s->scope = config_str(c, section, "SCOPE");
	if (!given(s->scope))
		s->scope = known[k].scope;
	s->client_id = config_str(c, section, "CLIENT_ID");
	s->client_secret = config_str(c, section, "CLIENT_SECRET");
	if (!given(s->client_secret))
		s->client_secret = NULL;
	s->ca_file = config_path(c, section, "CA_FILE");
	if (s->ca_file && !*s->ca_file) {
		free(s->ca_file);
		s->ca_file = NULL;
	}
	s->refresh_life_s = config_int(c, section, "REFRESH_LIFETIME");
	if (!config_get(c, section, "REFRESH_LIFETIME"))
		s->refresh_life_s = known[k].life;
	s->renew_before_s = config_int(c, section, "RENEW_BEFORE");
	*why = !given(s->client_id) ? "CLIENT_ID is missing" : !s->token_url[0] ? "TOKEN_URL is missing (or PROVIDER = google, microsoft)" :
	    strncmp(s->token_url, "https://", 8) != 0 ? "TOKEN_URL must be https://…" : NULL;
	return *why ? -1 : 0;
}

void token_settings_done(struct token_settings *s)
{
	free(s->ca_file);
	s->ca_file = NULL;
}
