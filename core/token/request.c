/* One POST to a token endpoint by libcurl. HTTPS alone, the certificate by name, no redirects, no proxy, no cookies, nothing of the environment;
 * size and time bounded. What is sent and what comes back is not shown to anybody but the caller. */
#include "token.h"

#include <curl/curl.h>
#include <stdio.h>

enum { CONNECT_S = 10, WHOLE_S = 30 };

static size_t take(char *p, size_t size, size_t n, void *arg)
{
	struct buf *b = arg;
	return buf_add(b, p, size * n) ? 0 : size * n;
}

int token_request(const struct token_settings *s, struct str form, struct buf *body, long *ret_status, char why[TOKEN_ERROR_MAX + 1])
{
	char error[CURL_ERROR_SIZE] = "";
	CURL *c = curl_easy_init();
	struct curl_slist *h = c ? curl_slist_append(NULL, "Accept: application/json") : NULL;
	CURLcode r = h ? CURLE_OK : CURLE_OUT_OF_MEMORY;
#define SET(option, value)                                                                                             \
	do {                                                                                                               \
		if (r == CURLE_OK)                                                                                             \
			r = curl_easy_setopt(c, option, value);                                                                    \
	} while (0)
	SET(CURLOPT_ERRORBUFFER, error);
	SET(CURLOPT_URL, s->token_url);
	SET(CURLOPT_PROTOCOLS_STR, "https");
	SET(CURLOPT_FOLLOWLOCATION, 0L);
	SET(CURLOPT_PROXY, "");
	SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	SET(CURLOPT_SSL_VERIFYPEER, 1L);
	SET(CURLOPT_SSL_VERIFYHOST, 2L);
	SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (s->ca_file) {
		SET(CURLOPT_CAINFO, s->ca_file);
		SET(CURLOPT_CAPATH, NULL);
	}
	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
	SET(CURLOPT_TIMEOUT, (long)WHOLE_S);
	SET(CURLOPT_MAXFILESIZE, (long)TOKEN_ANSWER_MAX);
	SET(CURLOPT_HTTPHEADER, h);
	SET(CURLOPT_POST, 1L);
	SET(CURLOPT_POSTFIELDSIZE, (long)form.n);
	SET(CURLOPT_POSTFIELDS, form.p); /* not copied */
	SET(CURLOPT_WRITEFUNCTION, take);
	SET(CURLOPT_WRITEDATA, body);
	SET(CURLOPT_USERAGENT, "pepsi-helper-token-refresh");
	if (r == CURLE_OK)
		r = curl_easy_perform(c);
	if (r == CURLE_OK)
		r = curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, ret_status);
	if (r != CURLE_OK)
		snprintf(why, TOKEN_ERROR_MAX + 1, "%s", body->failed ? "the provider's answer is too long" : error[0] ? error : curl_easy_strerror(r));
	curl_slist_free_all(h);
	if (c)
		curl_easy_cleanup(c);
	return r == CURLE_OK ? 0 : -1;
#undef SET
}
