/* One GET by libcurl, on the event loop (curl_multi_socket_action). No redirects, no proxy, no credentials, no cookies, nothing of the environment;
 * HTTPS alone; sizes and times bounded; and the address of each socket is looked at before it is made, whatever a name led to. */
#include "internal.h"

#include "base/log.h"

#ifndef PEPSI_CURL

const char *fetch_missing(void)
{
	return "this program was built without libcurl (package libcurl4-openssl-dev was not there)";
}

int transfer_start(struct event_base *base, struct reach *reach, const struct transfer_conf *conf)
{
	(void)base;
	(void)reach;
	(void)conf;
	log_error(NULL, "event=fetch-start reason=%s", log_qz(fetch_missing()));
	return -1;
}

struct transfer *transfer_new(const char *domain, const struct reach_address *to, size_t n, transfer_fn fn, void *arg)
{
	(void)domain;
	(void)to;
	(void)n;
	(void)fn;
	(void)arg;
	return NULL;
}

#else

#include "base/library.h"

#include <curl/curl.h>
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECT_S = 5, NAME_MAX_ = DNS_NAME_MAX + 16 };

static struct {
	CURLcode (*global_init)(long);
	CURL *(*easy_init)(void);
	CURLcode (*setopt)(CURL *, CURLoption, ...);
	CURLcode (*getinfo)(CURL *, CURLINFO, ...);
	void (*cleanup)(CURL *);
	const char *(*strerror)(CURLcode);
	struct curl_slist *(*slist_append)(struct curl_slist *, const char *);
	void (*slist_free)(struct curl_slist *);
	CURLM *(*multi_init)(void);
	CURLMcode (*multi_setopt)(CURLM *, CURLMoption, ...);
	CURLMcode (*multi_add)(CURLM *, CURL *);
	CURLMcode (*multi_remove)(CURLM *, CURL *);
	CURLMcode (*multi_socket_action)(CURLM *, curl_socket_t, int, int *);
	CURLMcode (*multi_assign)(CURLM *, curl_socket_t, void *);
	CURLMsg *(*multi_info_read)(CURLM *, int *);
} curl;

static struct {
	struct event_base *base;
	struct event *timer;
	struct reach *reach;
	struct transfer_conf conf;
	CURLM *multi;
} m;

struct transfer {
	CURL *easy;
	struct curl_slist *resolve, *connect;
	struct buf body;
	const char *refused;     /* the address that was to be connected to; why not */
	transfer_fn fn;
	void *arg;
	char error[CURL_ERROR_SIZE];
};

const char *fetch_missing(void)
{
	return NULL;
}

static int load(void)
{
	static const struct library_symbol of[] = { { "curl_global_init", &curl.global_init }, { "curl_easy_init", &curl.easy_init },
		{ "curl_easy_setopt", &curl.setopt }, { "curl_easy_getinfo", &curl.getinfo }, { "curl_easy_cleanup", &curl.cleanup },
		{ "curl_easy_strerror", &curl.strerror }, { "curl_slist_append", &curl.slist_append }, { "curl_slist_free_all", &curl.slist_free },
		{ "curl_multi_init", &curl.multi_init }, { "curl_multi_setopt", &curl.multi_setopt }, { "curl_multi_add_handle", &curl.multi_add },
		{ "curl_multi_remove_handle", &curl.multi_remove }, { "curl_multi_socket_action", &curl.multi_socket_action },
		{ "curl_multi_assign", &curl.multi_assign }, { "curl_multi_info_read", &curl.multi_info_read } };
	return library_need("fetch-start", "libcurl.so.4", "libcurl4", of, sizeof of / sizeof *of);
}

/* -- the loop */

static void free_transfer(struct transfer *t)
{
	if (t->easy)
		curl.cleanup(t->easy);
	curl.slist_free(t->resolve);
	curl.slist_free(t->connect);
	buf_free(&t->body);
	free(t);
}

static void end(struct transfer *t, CURLcode rc)
{
	char why[STS_WIRE_WHY_MAX + 1];
	enum sts_wire_class c = STS_WIRE_FAILED;
	char *type = NULL;
	long status = 0;
	curl.multi_remove(m.multi, t->easy);
	curl.getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
	curl.getinfo(t->easy, CURLINFO_CONTENT_TYPE, &type);
	/* what the head of the answer says is said first: of an answer with a wrong status nobody reads on */
	const char *fault = status ? sts_http_fault((unsigned)status, str_from(type ? type : "")) : NULL;
	if (t->refused) {
		snprintf(why, sizeof why, "an address that is not connected to (%s)", t->refused);
	} else if (fault) {
		snprintf(why, sizeof why, "%s (status %ld, %.60s)", fault, status, type ? type : "no type");
	} else if (rc == CURLE_WRITE_ERROR || rc == CURLE_FILESIZE_EXCEEDED) {
		snprintf(why, sizeof why, "the policy has more than %d octets", STS_POLICY_MAX);
	} else if (rc == CURLE_PEER_FAILED_VERIFICATION) {
		c = STS_WIRE_WEBPKI;
		snprintf(why, sizeof why, "%.150s", *t->error ? t->error : curl.strerror(rc));
	} else if (rc == CURLE_OUT_OF_MEMORY || rc == CURLE_SSL_CACERT_BADFILE || rc == CURLE_FAILED_INIT || rc == CURLE_SSL_ENGINE_INITFAILED) {
		c = STS_WIRE_BUSY; /* our fault, not the domain's */
		snprintf(why, sizeof why, "%.150s", *t->error ? t->error : curl.strerror(rc));
		log_error(NULL, "event=fetch-unable reason=%s", log_qz(why));
	} else if (rc) {
		snprintf(why, sizeof why, "%.150s", *t->error ? t->error : curl.strerror(rc));
	} else {
		c = STS_WIRE_OK;
	}
	t->fn(t->arg, c, c == STS_WIRE_OK ? buf_str(&t->body) : str_from(why));
	free_transfer(t);
}

static void finished(void)
{
	CURLMsg *msg;
	int left;
	while ((msg = curl.multi_info_read(m.multi, &left)))
		if (msg->msg == CURLMSG_DONE) {
			CURLcode rc = msg->data.result;
			char *t = NULL;
			curl.getinfo(msg->easy_handle, CURLINFO_PRIVATE, &t);
			end((struct transfer *)(void *)t, rc);
		}
}

static void act(curl_socket_t s, int what)
{
	int running;
	curl.multi_socket_action(m.multi, s, what, &running);
	finished();
}

static void on_socket(evutil_socket_t fd, short what, void *arg)
{
	(void)arg;
	act(fd, (what & EV_READ ? CURL_CSELECT_IN : 0) | (what & EV_WRITE ? CURL_CSELECT_OUT : 0));
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	act(CURL_SOCKET_TIMEOUT, 0);
}

static int want_socket(CURL *easy, curl_socket_t s, int what, void *arg, void *known)
{
	struct event *ev = known;
	(void)easy;
	(void)arg;
	if (ev)
		event_free(ev);
	ev = what == CURL_POLL_REMOVE ? NULL : event_new(m.base, s, (short)((what & CURL_POLL_IN ? EV_READ : 0) | (what & CURL_POLL_OUT ? EV_WRITE : 0) | EV_PERSIST),
	    on_socket, NULL);
	if (ev)
		event_add(ev, NULL);
	curl.multi_assign(m.multi, s, ev);
	return 0;
}

static int want_timer(CURLM *multi, long ms, void *arg)
{
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	(void)multi;
	(void)arg;
	if (ms < 0)
		event_del(m.timer);
	else
		event_add(m.timer, &tv);
	return 0;
}

int transfer_start(struct event_base *base, struct reach *reach, const struct transfer_conf *conf)
{
	if (load())
		return -1;
	m.base = base;
	m.reach = reach;
	m.conf = *conf;
	m.timer = event_new(base, -1, 0, on_timer, NULL);
	if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !m.timer || !(m.multi = curl.multi_init())) {
		log_error(NULL, "event=fetch-start reason=\"libcurl cannot be set up\"");
		return -1;
	}
	if (conf->ca_file && access(conf->ca_file, R_OK)) {
		log_error(NULL, "event=fetch-start option=CA_FILE path=%s reason=%s hint=\"the account of [pepsi-mta-sts] USER must be able to read it\"",
		    log_qz(conf->ca_file), log_qz(strerror(errno)));
		return -1;
	}
	curl.multi_setopt(m.multi, CURLMOPT_SOCKETFUNCTION, want_socket);
	curl.multi_setopt(m.multi, CURLMOPT_TIMERFUNCTION, want_timer);
	curl.multi_setopt(m.multi, CURLMOPT_MAXCONNECTS, 1L); /* no connection is kept: each fetch sees the certificate anew */
	return 0;
}

/* -- one transfer */

static size_t take(char *p, size_t size, size_t n, void *arg)
{
	struct transfer *t = arg;
	return buf_add(&t->body, p, size * n) ? 0 : size * n; /* beyond the limit: libcurl ends the transfer */
}

/* Behind all names, caches and rules of libcurl: the address a socket is for. */
static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *to)
{
	struct transfer *t = arg;
	const char *why = purpose == CURLSOCKTYPE_IPCXN ? reach_refused_socket(m.reach, &to->addr) : "not asked for";
	if (why) {
		t->refused = why;
		return CURL_SOCKET_BAD;
	}
	return socket(to->family, to->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, to->protocol);
}

static struct curl_slist *resolved(const char *host, const struct reach_address *to, size_t n)
{
	struct buf b = BUF_INIT(4096);
	struct curl_slist *l = NULL;
	reach_resolved(&b, host, m.conf.port, to, n);
	if (!b.failed)
		l = curl.slist_append(NULL, buf_z(&b));
	buf_free(&b);
	return l;
}

struct transfer *transfer_new(const char *domain, const struct reach_address *to, size_t n, transfer_fn fn, void *arg)
{
	char url[DNS_NAME_MAX + 64], host[NAME_MAX_], by[2 * NAME_MAX_ + 32];
	struct transfer *t = sts_url(str_from(domain), url, sizeof url) ? NULL : calloc(1, sizeof *t);
	if (!t)
		return NULL;
	t->body = (struct buf)BUF_INIT(STS_POLICY_MAX);
	t->fn = fn;
	t->arg = arg;
	snprintf(host, sizeof host, "mta-sts.%s", domain);
	snprintf(by, sizeof by, "%s:443:%s:%u", host, host, m.conf.port);
	t->easy = curl.easy_init();
	t->resolve = resolved(host, to, n);
	t->connect = curl.slist_append(NULL, by);
	CURL *c = t->easy;
	if (!c || !t->resolve || !t->connect)
		goto fail;
	if (curl.setopt(c, CURLOPT_URL, url) || curl.setopt(c, CURLOPT_PROTOCOLS_STR, "https") || curl.setopt(c, CURLOPT_FOLLOWLOCATION, 0L) ||
	    curl.setopt(c, CURLOPT_PROXY, "") || curl.setopt(c, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED) || curl.setopt(c, CURLOPT_SSL_VERIFYPEER, 1L) ||
	    curl.setopt(c, CURLOPT_SSL_VERIFYHOST, 2L) || curl.setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket) || curl.setopt(c, CURLOPT_OPENSOCKETDATA, t) ||
	    curl.setopt(c, CURLOPT_RESOLVE, t->resolve) || curl.setopt(c, CURLOPT_CONNECT_TO, t->connect))
		goto fail; /* none of these may be without effect */
	curl.setopt(c, CURLOPT_PRIVATE, t);
	curl.setopt(c, CURLOPT_ERRORBUFFER, t->error);
	curl.setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl.setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
	curl.setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_NONE);
	curl.setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
	curl.setopt(c, CURLOPT_TIMEOUT, (long)m.conf.timeout_s);
	curl.setopt(c, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl.setopt(c, CURLOPT_MAXFILESIZE, (long)STS_POLICY_MAX);
	curl.setopt(c, CURLOPT_FORBID_REUSE, 1L);
	curl.setopt(c, CURLOPT_FRESH_CONNECT, 1L);
	curl.setopt(c, CURLOPT_USERAGENT, "pepsi-mta-sts");
	curl.setopt(c, CURLOPT_WRITEFUNCTION, take);
	curl.setopt(c, CURLOPT_WRITEDATA, t);
	if (m.conf.ca_file) {
		curl.setopt(c, CURLOPT_CAINFO, m.conf.ca_file);
		curl.setopt(c, CURLOPT_CAPATH, NULL); /* these alone */
	}
	if (curl.multi_add(m.multi, c) == CURLM_OK)
		return t;
fail:
	free_transfer(t);
	return NULL;
}

#endif
