/* The POST of post.h, by one easy handle. */
#include "post.h"

#include "proto/dns/answers.h"

#include <stdio.h>
#include <string.h>

int post_url_read(struct str uri, struct post_url *ret, const char **ret_why)
{
	char text[POST_HOST_MAX];
	uint64_t port = 443;
	size_t n = 0;
	*ret_why = "no https URI";
	if (!str_istarts(uri, STR("https://")))
		return -1;
	for (size_t i = 0; i < uri.n; i++)
		if (uri.p[i] <= ' ' || uri.p[i] >= 0x7f)
			return -1;
	struct str host = str_skip(uri, 8);
	while (n < host.n && !strchr("/?#", host.p[n]))
		n++;
	host.n = n;
	ptrdiff_t colon = str_chr(host, ':');
	if (colon >= 0) {
		*ret_why = "its port is not 443"; /* a stranger's record could have us knock at any door of others */
		if (str_u64(str_skip(host, (size_t)colon + 1), 65535, &port) || port != 443)
			return -1;
		host.n = (size_t)colon;
	}
	*ret_why = "its host is no domain name";
	if (!host.n || host.n >= sizeof text || str_chr(host, '@') >= 0 || host.p[0] == '[' || dns_name_fold(host, text) < 0 || !strpbrk(text, "abcdefghijklmnopqrstuvwxyz"))
		return -1;
	snprintf(ret->host, sizeof ret->host, "%s", text);
	ret->port = (unsigned)port;
	return 0;
}

#ifndef PEPSI_CURL

int post_send(const struct post *p, char *why, size_t why_size)
{
	(void)p;
	snprintf(why, why_size, "this program was built without libcurl (package libcurl4-openssl-dev was not there)");
	return -1;
}

#else

#include "base/library.h"

#include <curl/curl.h>
#include <sys/socket.h>

enum { CONNECT_S = 10, ANSWER_MAX = 64 * 1024 };

static struct {
	CURLcode (*global_init)(long);
	CURL *(*easy_init)(void);
	CURLcode (*setopt)(CURL *, CURLoption, ...);
	CURLcode (*getinfo)(CURL *, CURLINFO, ...);
	CURLcode (*perform)(CURL *);
	void (*cleanup)(CURL *);
	const char *(*strerror)(CURLcode);
	struct curl_slist *(*slist_append)(struct curl_slist *, const char *);
	void (*slist_free)(struct curl_slist *);
	bool up;
} curl;

static int load(char *why, size_t size)
{
	static const struct library_symbol of[] = { { "curl_global_init", &curl.global_init }, { "curl_easy_init", &curl.easy_init },
		{ "curl_easy_setopt", &curl.setopt }, { "curl_easy_getinfo", &curl.getinfo }, { "curl_easy_perform", &curl.perform },
		{ "curl_easy_cleanup", &curl.cleanup }, { "curl_easy_strerror", &curl.strerror }, { "curl_slist_append", &curl.slist_append },
		{ "curl_slist_free_all", &curl.slist_free } };
	const char *text;
	if (curl.up)
		return 0;
	int rc = library_bind("libcurl.so.4", of, sizeof of / sizeof *of, &text);
	if (rc)
		snprintf(why, size, rc < 0 ? "libcurl.so.4 cannot be loaded (package libcurl4): %.100s" : "libcurl.so.4 lacks %.100s", text);
	else if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		snprintf(why, size, "libcurl cannot be set up");
	else
		curl.up = true;
	return curl.up ? 0 : -1;
}

struct answer {
	const struct post *p;
	const char *refused;
	size_t octets;
};

static size_t take(char *p, size_t size, size_t n, void *arg)
{
	struct answer *a = arg;
	(void)p;
	a->octets += size * n;
	return a->octets > ANSWER_MAX ? 0 : size * n; /* nobody reads it */
}

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *to)
{
	struct answer *a = arg;
	a->refused = purpose == CURLSOCKTYPE_IPCXN ? reach_refused_socket(a->p->reach, &to->addr) : "not asked for";
	return a->refused ? CURL_SOCKET_BAD : socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

static int set_up(CURL *c, const struct post *p, struct answer *a, struct curl_slist *headers, struct curl_slist *resolve, struct curl_slist *connect, char *error)
{
	if (curl.setopt(c, CURLOPT_URL, p->uri) || curl.setopt(c, CURLOPT_PROTOCOLS_STR, "https") || curl.setopt(c, CURLOPT_FOLLOWLOCATION, 0L) ||
	    curl.setopt(c, CURLOPT_PROXY, "") || curl.setopt(c, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED) || curl.setopt(c, CURLOPT_SSL_VERIFYPEER, 1L) ||
	    curl.setopt(c, CURLOPT_SSL_VERIFYHOST, 2L) || curl.setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket) || curl.setopt(c, CURLOPT_OPENSOCKETDATA, a) ||
	    curl.setopt(c, CURLOPT_RESOLVE, resolve) || (connect && curl.setopt(c, CURLOPT_CONNECT_TO, connect)) ||
	    curl.setopt(c, CURLOPT_POSTFIELDS, p->body.p) || curl.setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)p->body.n) ||
	    curl.setopt(c, CURLOPT_HTTPHEADER, headers))
		return -1; /* none of these may be without effect */
	curl.setopt(c, CURLOPT_ERRORBUFFER, error);
	curl.setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl.setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_NONE);
	curl.setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
	curl.setopt(c, CURLOPT_TIMEOUT, (long)p->timeout_s);
	curl.setopt(c, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl.setopt(c, CURLOPT_USERAGENT, "pepsi-tlsrpt");
	curl.setopt(c, CURLOPT_WRITEFUNCTION, take);
	curl.setopt(c, CURLOPT_WRITEDATA, a);
	if (p->ca_file && *p->ca_file) {
		curl.setopt(c, CURLOPT_CAINFO, p->ca_file);
		curl.setopt(c, CURLOPT_CAPATH, NULL); /* these alone */
	}
	return 0;
}

int post_send(const struct post *p, char *why, size_t why_size)
{
	struct answer a = { .p = p };
	struct buf line = BUF_INIT(4096), by = BUF_INIT(2000), type = BUF_INIT(300);
	struct curl_slist *headers = NULL, *resolve = NULL, *connect = NULL;
	char error[CURL_ERROR_SIZE] = "";
	long status = 0;
	int rc = -1;
	CURL *c = NULL;
	if (load(why, why_size))
		return -1;
	snprintf(why, why_size, "out of memory");
	reach_resolved(&line, p->url->host, p->port ? p->port : p->url->port, p->to, p->n_to);
	buf_addf(&by, "%s:%u:%s:%u", p->url->host, p->url->port, p->url->host, p->port);
	buf_addf(&type, "Content-Type: %s", p->type);
	if (!line.failed && !by.failed && !type.failed) {
		resolve = curl.slist_append(NULL, buf_z(&line));
		headers = curl.slist_append(NULL, buf_z(&type));
		connect = p->port ? curl.slist_append(NULL, buf_z(&by)) : NULL;
		c = curl.easy_init();
	}
	if (c && resolve && headers && (connect || !p->port) && !set_up(c, p, &a, headers, resolve, connect, error)) {
		CURLcode got = curl.perform(c);
		curl.getinfo(c, CURLINFO_RESPONSE_CODE, &status);
		if (a.refused)
			snprintf(why, why_size, "an address that is not connected to (%s)", a.refused);
		else if (status >= 200 && status < 300)
			rc = 0;
		else if (status)
			snprintf(why, why_size, "the server says %ld", status);
		else
			snprintf(why, why_size, "%.150s", *error ? error : curl.strerror(got));
	}
	if (c)
		curl.cleanup(c);
	curl.slist_free(resolve);
	curl.slist_free(headers);
	curl.slist_free(connect);
	buf_free(&line);
	buf_free(&by);
	buf_free(&type);
	return rc;
}

#endif
