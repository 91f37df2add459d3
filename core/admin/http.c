/* The HTTP door: connections with total deadlines around the request engine of proto/http, and the routes /healthz and
 * /metrics. One request at a time per connection; pipelined ones wait in the buffer. Every response leaves through
 * respond(). */
#include "admin_internal.h"
#include "base/clock.h"
#include "base/log.h"
#include "proto/http/request.h"
#include "proto/http/response.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	HEAD_MS = 10 * 1000,    /* the whole header, from the connection or from its first octet */
	BODY_MS = 30 * 1000,    /* the whole content */
	IDLE_MS = 75 * 1000,    /* between requests; a scraper comes every 15 to 60 seconds */
	WRITE_MS = 30 * 1000,   /* until the peer has taken a response */
	SCRAPE_MS = 2 * 1000,   /* how long a scrape waits for the database */
	REQUESTS_MAX = 1000,    /* per connection */
	IN_MAX = 128 * 1024,    /* two reads of net_conn; reading stops while a request is being answered */
	OUT_MAX = 4 * 1024 * 1024,
};

struct http_peer {
	struct admin_peer p; /* first */
	struct http_request r;
	uint64_t address;
	int64_t quiet_since;   /* no request of it is being answered since then (monotonic) */
	enum http_phase phase; /* whose deadline runs */
	unsigned served;
	bool busy;             /* a request is being answered */
	bool waiting;          /* … and waits for the database */
	bool last;             /* close after the answer */
};

static void go(struct http_peer *h);

static void respond(struct http_peer *h, unsigned status, const char *type, const char *allow, struct str content)
{
	struct http_response r = {
		.status = status,
		.type = type,
		.allow = allow,
		.content = content,
		.now = clock_wall_us() / US_PER_S,
		.head = str_eq(h->r.method, STR("HEAD")),
		.minor = h->r.minor,
	};
	if (!h->r.keep_alive || h->p.eof || ++h->served >= REQUESTS_MAX)
		h->last = true;
	r.keep_alive = !h->last;
	h->waiting = false;
	h->p.a->http_requests++;
	if (http_response_write(&h->p.out, &r)) {
		admin_peer_close(&h->p);
		return;
	}
	admin_peer_deadline(&h->p, WRITE_MS);
}

static void respond_text(struct http_peer *h, unsigned status, const char *text)
{
	char line[512];
	snprintf(line, sizeof line, "%s\n", text);
	respond(h, status, NULL, NULL, str_from(line));
}

static void respond_metrics(struct http_peer *h, const struct store_counts *counts)
{
	struct buf text = BUF_INIT(OUT_MAX / 2);
	admin_metrics_write(h->p.a, counts, &text);
	if (text.failed)
		respond_text(h, 500, "out of memory");
	else
		respond(h, 200, "text/plain; version=0.0.4; charset=utf-8", NULL, buf_str(&text));
	buf_free(&text);
}

static void on_counts(struct admin_peer *p, const struct store_counts *counts)
{
	struct http_peer *h = (struct http_peer *)p;
	if (!h->waiting)
		return;
	respond_metrics(h, counts);
	go(h);
}

static void get_metrics(struct http_peer *h)
{
	if (admin_counts_ask(&h->p, on_counts)) {
		respond_metrics(h, NULL);
		return;
	}
	h->waiting = true;
	admin_peer_deadline(&h->p, SCRAPE_MS);
}

static void get_healthz(struct http_peer *h)
{
	char reason[256];
	if (admin_healthy(h->p.a, reason, sizeof reason))
		respond_text(h, 200, "ok");
	else
		respond_text(h, 503, reason);
}

static const struct route {
	const char *path;
	void (*get)(struct http_peer *h);
} routes[] = {
	{ "/healthz", get_healthz },
	{ "/metrics", get_metrics },
};

static void route(struct http_peer *h)
{
	for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
		if (!str_eq(h->r.path, str_from(routes[i].path)))
			continue;
		if (str_eq(h->r.method, STR("GET")) || str_eq(h->r.method, STR("HEAD")))
			routes[i].get(h);
		else
			respond(h, 405, NULL, "GET, HEAD", STR("method not allowed\n"));
		return;
	}
	respond_text(h, 404, "not found");
}

/* The deadline of the phase the request is in; a phase's time is total, so it starts once. */
static void set_deadline(struct http_peer *h)
{
	enum http_phase phase = http_request_phase(&h->r);
	if (phase == h->phase)
		return;
	/* the first request's header has its time from the connection on */
	if (phase == HTTP_IN_HEAD && h->served)
		admin_peer_deadline(&h->p, HEAD_MS);
	else if (phase == HTTP_IN_BODY)
		admin_peer_deadline(&h->p, BODY_MS);
	else if (phase == HTTP_IDLE)
		admin_peer_deadline(&h->p, IDLE_MS);
	h->phase = phase;
}

/* A response is on its way. True: it is out and the next request may be looked at. */
static bool answered(struct http_peer *h)
{
	if (h->waiting || !admin_peer_send(&h->p))
		return false;
	if (h->last) {
		admin_peer_finish(&h->p);
		return false;
	}
	http_request_next(&h->r);
	h->busy = false;
	h->quiet_since = clock_mono_us();
	set_deadline(h);
	admin_peer_read(&h->p, true);
	return true;
}

static void refuse(struct http_peer *h, unsigned status, const char *error)
{
	h->busy = true;
	h->last = true;
	h->r.method = STR_NULL;
	h->p.a->http_refused++;
	respond_text(h, status, error);
}

static void go(struct http_peer *h)
{
	while (!h->p.dead && !h->p.lingering) {
		if (h->busy && !answered(h))
			return;
		size_t used = 0;
		enum http_event ev = http_request_feed(&h->r, buf_str(&h->p.in), &used);
		buf_consume(&h->p.in, used);
		switch (ev) {
		case HTTP_MORE:
			if (h->p.eof)
				admin_peer_close(&h->p);
			else
				set_deadline(h);
			return;
		case HTTP_CONTINUE:
			set_deadline(h);
			if (http_response_continue(&h->p.out))
				admin_peer_close(&h->p);
			admin_peer_send(&h->p);
			if (!h->p.in.n)
				return;
			break;
		case HTTP_REQUEST:
			h->busy = true;
			h->phase = HTTP_COMPLETE;
			admin_peer_read(&h->p, false);
			route(h);
			break;
		case HTTP_ERROR:
			admin_peer_read(&h->p, false);
			refuse(h, h->r.status, h->r.error);
			break;
		}
	}
}

static void on_input(struct admin_peer *p)
{
	struct http_peer *h = (struct http_peer *)p;
	if (!h->busy)
		go(h);
}

static void on_eof(struct admin_peer *p)
{
	struct http_peer *h = (struct http_peer *)p;
	h->last = true;
	if (!h->busy)
		admin_peer_close(p);
}

static void on_drained(struct admin_peer *p)
{
	struct http_peer *h = (struct http_peer *)p;
	if (h->busy)
		go(h);
}

static void on_expired(struct admin_peer *p)
{
	struct http_peer *h = (struct http_peer *)p;
	if (h->waiting) {
		admin_counts_forget(p);
		respond_metrics(h, NULL);
		go(h);
	} else if (!h->busy && http_request_phase(&h->r) != HTTP_IDLE) {
		refuse(h, 408, "the request took too long");
		go(h);
	} else {
		admin_peer_close(p);
	}
}

static void on_release(struct admin_peer *p)
{
	struct http_peer *h = (struct http_peer *)p;
	http_request_done(&h->r);
	free(h);
}

static bool make_room(struct admin *a, uint64_t address);

static void on_accept(void *arg, int fd, const struct net_addr *peer)
{
	static const struct admin_peer_calls calls = {
		.input = on_input,
		.eof = on_eof,
		.drained = on_drained,
		.expired = on_expired,
		.release = on_release,
	};
	struct admin *a = arg;
	uint64_t address = net_addr_key(peer);
	if (!make_room(a, address)) {
		a->http_refused++;
		log_debug(NULL, "event=http-refused client=%s reason=connections", peer->text);
		close(fd);
		return;
	}
	struct http_peer *h = calloc(1, sizeof *h);
	if (!h || admin_peer_init(&h->p, a, fd, &calls, IN_MAX, OUT_MAX, &a->http_peers)) {
		if (!h)
			close(fd);
		free(h);
		return;
	}
	h->address = address;
	h->quiet_since = clock_mono_us();
	http_request_init(&h->r, a->hosts);
	admin_peer_deadline(&h->p, HEAD_MS);
}

/* A place for one more. Who only sits there must not keep out who asks: where all places (of this address, or at all) are taken, the
 * connection that has been without a request for longest gives way. No more peers are walked than there may be. */
static bool make_room(struct admin *a, uint64_t address)
{
	struct http_peer *longest = NULL, *longest_of_address = NULL;
	unsigned all = 0, of_address = 0;
	struct admin_peer *p;
	size_t pos = 0;
	uint64_t key;
	while ((p = map_next(&a->peers, &pos, &key))) {
		struct http_peer *h = (struct http_peer *)p;
		if (p->count != &a->http_peers || p->dead)
			continue;
		bool same = h->address == address;
		all++;
		of_address += same;
		if (h->busy || p->lingering)
			continue;
		if (!longest || h->quiet_since < longest->quiet_since)
			longest = h;
		if (same && (!longest_of_address || h->quiet_since < longest_of_address->quiet_since))
			longest_of_address = h;
	}
	if (all < ADMIN_HTTP_MAX && of_address < ADMIN_HTTP_PER_ADDRESS)
		return true;
	struct http_peer *gives_way = of_address >= ADMIN_HTTP_PER_ADDRESS ? longest_of_address : longest;
	/* those that gave way are there until the loop turns */
	if (!gives_way || a->http_peers >= 2 * ADMIN_HTTP_MAX)
		return false;
	a->http_evicted++;
	admin_peer_close(&gives_way->p);
	return true;
}

static int bind_one(struct admin *a, struct str word, const struct config_value *v, struct config_faults *faults)
{
	char host[80], err[256];
	uint16_t port;
	const char *file = v ? v->file : "";
	unsigned line = v ? v->line : 0;
	if (config_parse_hostport(word, host, sizeof host, &port)) {
		config_fault_add(faults, file, line, false, "[pepsi-httpd] BIND: \"%.*s\" is not ADDRESS:PORT", STR_ARG(word));
		return -1;
	}
	if (a->n_http == ADMIN_BIND_MAX) {
		config_fault_add(faults, file, line, false, "[pepsi-httpd] BIND: more than %d addresses", ADMIN_BIND_MAX);
		return -1;
	}
	int fd = net_listen(host, port, err, sizeof err);
	if (fd < 0) {
		config_fault_add(faults, file, line, false, "[pepsi-httpd] BIND: cannot listen on %.*s: %s",
		    STR_ARG(word), err);
		return -1;
	}
	a->http_fds[a->n_http++] = fd;
	return 0;
}

int admin_http_bind(struct admin *a, const struct config *c, struct config_faults *faults)
{
	const char *bind = config_str(c, "pepsi-httpd", "BIND"), *name = config_str(c, "pepsi", "HOSTNAME"),
		   *more = config_str(c, "pepsi-httpd", "HOSTS");
	struct buf hosts = BUF_INIT(64 * 1024);
	struct str rest = str_from(bind), word;
	int rc = 0;
	/* names a browser may ask for; others could be a foreign name made to point here */
	buf_addf(&hosts, "localhost %s %s", name ? name : "", more ? more : "");
	a->hosts = hosts.failed ? NULL : str_dupz(buf_str(&hosts));
	buf_free(&hosts);
	if (!a->hosts)
		return -1;
	while (str_word(&rest, " \t,", &word) && !str_ieq(word, STR("none")))
		rc |= bind_one(a, word, config_get(c, "pepsi-httpd", "BIND"), faults);
	return rc;
}

int admin_http_start(struct admin *a)
{
	for (size_t i = 0; i < a->n_http; i++) {
		a->http[i] = net_listener_new(a->base, a->http_fds[i], on_accept, a);
		if (!a->http[i])
			return -1;
	}
	return 0;
}
