/* The HTTPS jobs: a token asked about at its server (RFC 7662), and a key set fetched (RFC 7517). libcurl, loaded at run time into the
 * keeper alone. To the one URL of the configuration, never to one from a token; no redirects, no proxies of the environment,
 * certificates verified, sizes and times bounded. */
#include "job.h"

#include "jwt.h"
#include "base/library.h"
#include "proto/wire/signin.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

bool job_url_ok(const char *url)
{
	static const char *const near[] = { "http://127.0.0.1:", "http://127.0.0.1/", "http://[::1]:", "http://[::1]/" };
	if (!strncmp(url, "https://", 8))
		return url[8] && !strpbrk(url, " \t@#");
	for (size_t i = 0; i < sizeof near / sizeof *near; i++)
		if (!strncmp(url, near[i], strlen(near[i])))
			return !strpbrk(url, " \t@#");
	return false;
}

#ifdef PEPSI_CURL
#include <curl/curl.h>

static struct {
	CURLcode (*global_init)(long);
	CURL *(*easy_init)(void);
	CURLcode (*setopt)(CURL *, CURLoption, ...);
	CURLcode (*perform)(CURL *);
	CURLcode (*getinfo)(CURL *, CURLINFO, ...);
	void (*cleanup)(CURL *);
	const char *(*strerror)(CURLcode);
	struct curl_slist *(*slist_append)(struct curl_slist *, const char *);
	void (*slist_free)(struct curl_slist *);
} curl;

const char *job_http_load(void)
{
	static const struct library_symbol of[] = { { "curl_global_init", &curl.global_init }, { "curl_easy_init", &curl.easy_init },
		{ "curl_easy_setopt", &curl.setopt }, { "curl_easy_perform", &curl.perform }, { "curl_easy_getinfo", &curl.getinfo },
		{ "curl_easy_cleanup", &curl.cleanup }, { "curl_easy_strerror", &curl.strerror }, { "curl_slist_append", &curl.slist_append },
		{ "curl_slist_free_all", &curl.slist_free } };
	const char *why;
	int rc = library_bind("libcurl.so.4", of, sizeof of / sizeof *of, &why);
	if (rc)
		return rc < 0 ? "libcurl.so.4 cannot be loaded (package libcurl4)" : "libcurl.so.4 lacks a function";
	return curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? NULL : "libcurl cannot be set up";
}

static size_t take(char *p, size_t size, size_t n, void *arg)
{
	return buf_add(arg, p, size * n) ? 0 : size * n; /* beyond the limit: libcurl ends the transfer */
}

/* NULL, or why not. form: what to POST, NULL: GET. */
static const char *ask(const char *url, const char *ca, const char *user, const char *password, const char *form, struct buf *body)
{
	static char why[CURL_ERROR_SIZE + 64];
	long status = 0;
	CURL *c = curl.easy_init ? curl.easy_init() : NULL;
	struct curl_slist *headers = c ? curl.slist_append(NULL, "Accept: application/json") : NULL;
	if (!headers) {
		if (c)
			curl.cleanup(c);
		return "libcurl is not loaded, or memory is out";
	}
	curl.setopt(c, CURLOPT_URL, url);
	curl.setopt(c, CURLOPT_PROTOCOLS_STR, "http,https"); /* http: loopback only, see job_url_ok() */
	curl.setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	curl.setopt(c, CURLOPT_PROXY, "");
	curl.setopt(c, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	curl.setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl.setopt(c, CURLOPT_CONNECTTIMEOUT, 5L);
	curl.setopt(c, CURLOPT_TIMEOUT, (long)job_seconds(JOB_FETCH) - 3);
	curl.setopt(c, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl.setopt(c, CURLOPT_SSL_VERIFYPEER, 1L);
	curl.setopt(c, CURLOPT_SSL_VERIFYHOST, 2L);
	curl.setopt(c, CURLOPT_HTTPHEADER, headers);
	curl.setopt(c, CURLOPT_WRITEFUNCTION, take);
	curl.setopt(c, CURLOPT_WRITEDATA, body);
	if (ca && *ca)
		curl.setopt(c, CURLOPT_CAINFO, ca);
	if (user && *user) {
		curl.setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
		curl.setopt(c, CURLOPT_USERNAME, user);
		curl.setopt(c, CURLOPT_PASSWORD, password ? password : "");
	}
	if (form)
		curl.setopt(c, CURLOPT_POSTFIELDS, form);
	CURLcode r = curl.perform(c);
	if (r == CURLE_OK)
		curl.getinfo(c, CURLINFO_RESPONSE_CODE, &status);
	curl.cleanup(c);
	curl.slist_free(headers);
	if (r == CURLE_WRITE_ERROR)
		return "the answer is too long";
	if (r != CURLE_OK)
		return curl.strerror(r);
	if (status == 200)
		return NULL;
	snprintf(why, sizeof why, "the server answered with status %ld", status);
	return why;
}

void job_fetch(const struct job_msg *in, struct job_msg *out, struct buf *text)
{
	struct buf body = BUF_INIT(JWT_KEYS_MAX);
	char *url = str_dupz(in->f[0]), *ca = str_dupz(in->f[1]);
	const char *bad = url && ca ? ask(url, ca, NULL, NULL, NULL, &body) : "out of memory";
	job_answer(out, text, bad ? JOB_AWAY : JOB_YES, bad ? str_from(bad) : buf_str(&body));
	buf_free(&body);
	free(url);
	free(ca);
}

/* application/x-www-form-urlencoded: whatever is not a letter or digit as %XX. */
static void form_value(struct buf *out, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if (ascii_is_alnum(c) || c == '-' || c == '_' || c == '.')
			buf_addc(out, (char)c);
		else
			buf_addf(out, "%%%02X", c);
	}
}

void job_introspect(const struct job_msg *in, struct job_msg *out, struct buf *text)
{
	struct jwt_policy p = { .issuer = in->f[5], .audiences = in->f[6], .scope = in->f[7], .name_claim = in->f[8],
		.unstated = in->number == 1, .now = time(NULL) };
	struct jwt_result r = { .name = BUF_INIT(1024) };
	struct buf form = BUF_INIT(4 * JWT_TOKEN_MAX), body = BUF_INIT(JWT_KEYS_MAX);
	char *url = str_dupz(in->f[0]), *id = str_dupz(in->f[1]), *secret = str_dupz(in->f[2]), *ca = str_dupz(in->f[3]);
	const char *bad = "out of memory";
	buf_addz(&form, "token_type_hint=access_token&token=");
	form_value(&form, in->f[4]);
	if (url && id && secret && ca && !form.failed)
		bad = ask(url, ca, id, secret, buf_z(&form), &body);
	if (bad) {
		job_answer(out, text, JOB_AWAY, str_from(bad));
	} else {
		bad = jwt_introspection(buf_str(&body), &p, &r);
		job_answer(out, text, bad ? JOB_NO : JOB_YES, bad ? str_from(bad) : buf_str(&r.name));
		out->number = bad ? 0 : (uint64_t)r.expires;
	}
	buf_free(&r.name);
	buf_free_secret(&form);
	buf_free_secret(&body);
	if (secret)
		wire_signin_wipe(secret, strlen(secret));
	free(url);
	free(id);
	free(secret);
	free(ca);
}

#else

const char *job_http_load(void)
{
	return "this program was built without libcurl (package libcurl4-openssl-dev was not there)";
}

void job_fetch(const struct job_msg *in, struct job_msg *out, struct buf *text)
{
	(void)in;
	job_answer(out, text, JOB_AWAY, str_from(job_http_load()));
}

void job_introspect(const struct job_msg *in, struct job_msg *out, struct buf *text)
{
	(void)in;
	job_answer(out, text, JOB_AWAY, str_from(job_http_load()));
}

#endif
