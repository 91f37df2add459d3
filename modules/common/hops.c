/* The hosts of a stage, their rests and their order. Time is hop_now_ms(); chance is route_mix(). */
#include "hops.h"

#include "hop_dane.h"
#include "base/log.h"
#include "hop_socket.h"
#include "proto/relay/route.h"
#include "say.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	HANG_MS = 1000,            /* a failed connection that took this long is a hanging host */
	REST_MS = 1000,
	REST_HUNG_MS = 10000,
	REST_REFUSED_MS = 60000,   /* the door, not the house: password, mechanism */
	REST_REFUSED_MAX_MS = 15 * 60000,
	PROBE_MS = 10000,
	MX_MIN_S = 60, MX_MAX_S = 3600, /* bounds of how long an answer is used */
	MX_FAIL_S = 30,
};

struct target {
	struct hop_conf conf;
	struct hop *hop;           /* made when it is first used */
	char name[256], cert_name[256], shown[320], mta[280];
	unsigned weight, rank;     /* rank: position in the list, or preference */
	bool keep;
	int64_t rests_until, tried_at;
	unsigned failures;
	bool refused;              /* it did not let us in: no probes */
	uint64_t token;            /* version of the token file then: a new one ends the rest */
	char text[SMTP_CLIENT_TEXT_MAX + 1];
	/* for people alone */
	uint64_t n_sent, n_refused, n_failed;
	int64_t mean_ms, trouble_at;
	enum trouble trouble;
	char error[TROUBLE_TEXT_MAX + 1], tls[80];
};

struct hops {
	struct hops_conf conf;
	struct target *t[HOPS_MAX];
	size_t n;
	int64_t mx_until;          /* the list holds until then */
	char mx_text[320];         /* why there is none */
	uint64_t chance;
};

bool hops_name_ok(const char *s)
{
	size_t n = strlen(s);
	if (hop_is_numeric(s))
		return true;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] <= 32 || s[i] == 127 || strchr("/:[]<>()\\,;@\"=", s[i]))
			return false;
	return n && n <= 253;
}

int hops_host_parse(struct str text, int port, char room[256], struct hops_host *ret, const char **ret_why)
{
	struct str rest = text, word, name;
	uint64_t n;
	*ret_why = "not a host name or an address in figures; NAME, NAME:PORT or [IPv6]:PORT is wanted";
	if (!str_word(&rest, " \t", &word))
		return -1;
	name = word;
	ptrdiff_t colon = -1;
	if (word.p[0] == '[') {
		ptrdiff_t end = str_chr(word, ']');
		if (end < 0)
			return -1;
		name = str_n(word.p + 1, (size_t)end - 1);
		if (word.n > (size_t)end + 1)
			colon = end + 1;
	} else if ((colon = str_chr(word, ':')) >= 0 && str_chr(str_skip(word, (size_t)colon + 1), ':') >= 0) {
		colon = -1; /* an IPv6 address without a port */
	} else if (colon >= 0) {
		name = str_n(word.p, (size_t)colon);
	}
	if (name.n > 253)
		return -1;
	memcpy(room, name.p, name.n);
	room[name.n] = 0;
	if (strlen(room) != name.n || !hops_name_ok(room))
		return -1;
	*ret = (struct hops_host){ .name = room, .port = port, .weight = 1 };
	if (colon >= 0) {
		*ret_why = "the port is 1 to 65535";
		if (word.p[colon] != ':' || str_u64(str_skip(word, (size_t)colon + 1), 65535, &n) || !n)
			return -1;
		ret->port = (int)n;
	}
	while (str_word(&rest, " \t", &word)) {
		*ret_why = "behind the host only weight=1 to weight=1000 can stand";
		if (!str_istarts(word, STR("weight=")) || str_u64(str_skip(word, 7), HOPS_WEIGHT_MAX, &n) || !n)
			return -1;
		ret->weight = (unsigned)n;
	}
	return 0;
}

int64_t hops_rest_ms(unsigned n, bool hung, bool not_let_in, bool alone, int64_t max)
{
	int64_t rest = not_let_in ? REST_REFUSED_MS : hung ? REST_HUNG_MS : REST_MS;
	if (alone && !not_let_in)
		return hung ? rest : 0;
	if (not_let_in)
		max = REST_REFUSED_MAX_MS;
	for (unsigned i = 1; i < n && rest < max; i++)
		rest *= 2;
	return rest > max ? max : rest;
}

static void drop_target(struct target *t)
{
	if (!t)
		return;
	hop_free(t->hop);
	free(t);
}

/* cert_name: what the certificate must name, NULL: the host. */
static struct target *add_target(struct hops *s, const char *name, int port, unsigned weight, unsigned rank, const char *cert_name)
{
	for (size_t i = 0; i < s->n; i++) {
		struct target *t = s->t[i];
		if (!strcasecmp(t->name, name) && t->conf.port == port && !strcmp(t->cert_name, cert_name ? cert_name : "")) {
			t->rank = rank;
			t->keep = true;
			return t;
		}
	}
	struct target *t = s->n < HOPS_MAX ? calloc(1, sizeof *t) : NULL;
	if (!t)
		return NULL;
	t->conf = s->conf.each;
	t->weight = weight;
	t->rank = rank;
	t->keep = true;
	snprintf(t->name, sizeof t->name, "%s", name);
	if (s->conf.each.socket) {
		snprintf(t->shown, sizeof t->shown, "%s", s->conf.each.socket);
	} else {
		t->conf.host = t->name;
		t->conf.port = port;
		snprintf(t->shown, sizeof t->shown, strchr(name, ':') ? "[%s]:%d" : "%s:%d", name, port);
		snprintf(t->mta, sizeof t->mta, !hop_is_numeric(name) ? "%s" : strchr(name, ':') ? "[IPv6:%s]" : "[%s]", name);
	}
	if (cert_name) {
		snprintf(t->cert_name, sizeof t->cert_name, "%s", cert_name);
		t->conf.cert_name = t->cert_name;
	}
	s->t[s->n++] = t;
	return t;
}

struct hops *hops_new(const struct hops_conf *conf, struct buf *why)
{
	struct hops *s = calloc(1, sizeof *s);
	bool ok = s != NULL;
	if (s) {
		s->conf = *conf;
		s->chance = (uint64_t)hop_now_ms() ^ (uint64_t)(uintptr_t)s << 16;
		for (size_t i = 0; !conf->mx && i < (conf->each.socket ? 1 : conf->n); i++) {
			const struct hops_host *h = &conf->host[i];
			ok = ok && add_target(s, conf->each.socket ? "" : h->name, h->port, h->weight ? h->weight : 1, (unsigned)i, NULL);
		}
		/* what cannot be loaded is told now, not with the first message */
		if (ok && s->n) {
			ok = (s->t[0]->hop = hop_new(&s->t[0]->conf, why));
		} else if (ok) {
			struct hop_conf any = conf->each;
			any.host = "localhost"; /* not connected to */
			struct hop *h = hop_new(&any, why);
			ok = h;
			hop_free(h);
		}
	}
	if (!ok) {
		if (!why->n)
			buf_addz(why, "out of memory");
		hops_free(s);
		return NULL;
	}
	return s;
}

void hops_free(struct hops *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		drop_target(s->t[i]);
	free(s);
}

/* The exchangers of the configured names, as long as the DNS says they hold. */
static void look_up(struct hops *s, const struct pepsi_host *host, struct pepsi_msg *msg, int64_t now)
{
	uint32_t ttl = MX_MAX_S;
	bool failed = false;
	if (!s->conf.mx || now < s->mx_until)
		return;
	for (size_t i = 0; i < s->n; i++)
		s->t[i]->keep = false;
	for (size_t i = 0; i < s->conf.n; i++) {
		const struct hops_host *h = &s->conf.host[i];
		const struct pepsi_dns *a = PEPSI_HAS(host, resolve) ? host->resolve(msg, h->name, PEPSI_DNS_MX) : NULL;
		unsigned base = (unsigned)i << 17;
		if (!a || a->status == PEPSI_DNS_TEMPFAIL) {
			failed = true;
			snprintf(s->mx_text, sizeof s->mx_text, "the mail exchangers of %s cannot be looked up%s%s", h->name, a && a->why ? ": " : "",
			    a && a->why ? a->why : "");
			continue;
		}
		ttl = a->ttl < ttl ? a->ttl : ttl;
		if (a->status != PEPSI_DNS_OK) /* RFC 5321 §5.1: the name itself */
			add_target(s, h->name, h->port, h->weight, base, NULL);
		for (size_t k = 0; a->status == PEPSI_DNS_OK && k < a->n_rr; k++) {
			const struct pepsi_dns_rr *rr = pepsi_dns_at(a, k);
			char name[256];
			if (!rr->data.n || rr->data.n >= sizeof name)
				continue; /* null MX (RFC 7505) */
			memcpy(name, rr->data.p, rr->data.n);
			name[rr->data.n] = 0;
			/* a name that anybody may have put into the DNS vouches for nobody */
			add_target(s, name, h->port, h->weight, base + 1 + rr->preference, a->authenticated ? NULL : h->name);
		}
		snprintf(s->mx_text, sizeof s->mx_text, "%s takes no mail (null MX)", h->name);
	}
	/* those that the DNS no longer names go; where it says nothing, the old ones stay */
	for (size_t i = 0; i < s->n && !failed;) {
		if (s->t[i]->keep) {
			i++;
			continue;
		}
		drop_target(s->t[i]);
		memmove(s->t + i, s->t + i + 1, (--s->n - i) * sizeof *s->t);
	}
	s->mx_until = now + (failed ? MX_FAIL_S : ttl < MX_MIN_S ? MX_MIN_S : ttl) * INT64_C(1000);
}

/* The targets in the order they are to be tried. */
static void arrange(struct hops *s, struct target *order[HOPS_MAX])
{
	uint64_t key[HOPS_MAX];
	unsigned total = 0, left[HOPS_MAX];
	for (size_t i = 0; i < s->n; i++) {
		order[i] = s->t[i];
		/* by rank, equals by chance */
		key[i] = (uint64_t)s->t[i]->rank << 32 | (route_mix(&s->chance) >> 32);
		left[i] = s->t[i]->weight;
		total += left[i];
	}
	if (!s->conf.balance) {
		for (size_t i = 1; i < s->n; i++)
			for (size_t k = i; k && key[k] < key[k - 1]; k--) {
				uint64_t x = key[k];
				struct target *t = order[k];
				key[k] = key[k - 1], order[k] = order[k - 1];
				key[k - 1] = x, order[k - 1] = t;
			}
		return;
	}
	for (size_t i = 0; i < s->n; i++) {
		uint64_t at = total ? route_mix(&s->chance) % total : 0;
		size_t k = 0;
		while (k + 1 < s->n && at >= left[k])
			at -= left[k++];
		order[i] = s->t[k];
		total -= left[k];
		left[k] = 0;
	}
}

static void fail_all(struct smtp_client_msg *m, const char *status, const char *text)
{
	struct smtp_result r = { .outcome = SMTP_OUT_LOST, .phase = SMTP_PHASE_CONNECT, .text = str_from(text) };
	snprintf(r.status, sizeof r.status, "%s", status);
	for (size_t i = 0; i < m->n_rcpts; i++)
		m->rcpts[i].result = r;
}

/* Was it the host that failed, and may another one have the message? Never when this one may have it already. */
static bool may_move_on(const struct smtp_client_msg *m)
{
	for (size_t i = 0; i < m->n_rcpts; i++) {
		const struct smtp_result *r = &m->rcpts[i].result;
		bool gone = r->outcome == SMTP_OUT_LOST || r->outcome == SMTP_OUT_PROTOCOL;
		if (r->maybe || (!gone && !(r->outcome == SMTP_OUT_TRANSIENT && r->phase <= SMTP_PHASE_MAIL)))
			return false;
	}
	return true;
}

static bool let_in(enum smtp_auth_fault f)
{
	return f == SMTP_AUTH_NONE || f == SMTP_AUTH_LOST || f == SMTP_AUTH_LATER;
}

static void rest(struct hops *s, const struct pepsi_host *host, struct pepsi_msg *msg, struct target *t, const struct smtp_client_msg *m,
    const struct hop_report *r, int64_t began)
{
	int64_t now = hop_now_ms();
	struct str text = m->rcpts[0].result.text;
	t->failures++;
	t->refused = !let_in(r->auth_fault);
	t->token = t->conf.auth ? hop_token_version(t->conf.auth->token_file) : 0;
	t->rests_until = now + hops_rest_ms(t->failures, now - began >= HANG_MS, t->refused, s->n == 1, s->conf.backoff_max_ms);
	snprintf(t->text, sizeof t->text, "%.*s", STR_ARG(text));
	if (t->rests_until > now)
		say(host, msg, PEPSI_LOG_WARN, "event=hop-rests hop=%s failures=%u for=%llds fault=%s reason=%s%s", t->shown, t->failures,
		    (long long)(t->rests_until - now + 999) / 1000, r->auth_fault ? smtp_auth_fault_name(r->auth_fault) : "connection", log_qz(t->text),
		    t->refused ? " hint=\"check AUTH_USER, AUTH_PASSWORD, AUTH and TLS of this stage, then pepsi reload\"" : "");
}

/* May it be tried now? */
static bool rested(const struct target *t, int64_t now)
{
	return now >= t->rests_until || (t->refused && t->conf.auth && t->conf.auth->token_file &&
	    hop_token_version(t->conf.auth->token_file) != t->token);
}

/* What people are told of it. */
static void note(struct target *t, const struct smtp_client_msg *m, const struct hop_report *r, int64_t took_ms)
{
	const struct smtp_result *worst = &m->rcpts[0].result;
	bool taken = false;
	for (size_t i = 0; i < m->n_rcpts; i++) {
		taken |= m->rcpts[i].result.outcome == SMTP_OUT_OK;
		worst = traffic_worse(worst, &m->rcpts[i].result);
	}
	++*(!r->connected ? &t->n_failed : taken ? &t->n_sent : &t->n_refused);
	if (r->connected) {
		t->mean_ms = t->n_sent + t->n_refused == 1 ? took_ms : t->mean_ms + (took_ms - t->mean_ms) / 8;
		snprintf(t->tls, sizeof t->tls, "%s", r->tls && r->tls_text ? r->tls_text : "");
	}
	enum trouble of = trouble_of(worst);
	if (of == TROUBLE_NONE)
		return;
	t->trouble = let_in(r->auth_fault) ? of : TROUBLE_POLICY;
	t->trouble_at = hop_now_ms();
	trouble_text(worst, t->error);
}

bool hops_view(const struct hops *s, size_t i, struct traffic_view *ret)
{
	if (i >= s->n)
		return false;
	const struct target *t = s->t[i];
	int64_t now = hop_now_ms();
	bool rests = t->rests_until > now;
	*ret = (struct traffic_view){ .key = t->shown, .window = !rests, .concurrency = 1, .idle = t->hop && hop_is_open(t->hop),
		.state = rests ? TRAFFIC_WAITING : t->failures ? TRAFFIC_PROBING : t->n_sent + t->n_refused ? TRAFFIC_GOOD : TRAFFIC_NEW,
		.backoff_ms = rests ? t->rests_until - now : 0, .mean_ms = t->mean_ms, .trouble = t->trouble,
		.trouble_ms = t->trouble == TROUBLE_NONE ? 0 : now - t->trouble_at, .error = t->error, .tls = t->tls, .sent = t->n_sent,
		.refused = t->n_refused, .failed = t->n_failed };
	return true;
}

static struct target *probe(struct target *const order[], size_t n, int64_t now)
{
	struct target *best = NULL;
	for (size_t i = 0; i < n; i++)
		if (!order[i]->refused && (!best || order[i]->rests_until < best->rests_until))
			best = order[i];
	return best && n > 1 && now - best->tried_at >= PROBE_MS ? best : NULL;
}

void hops_send(struct hops *s, const struct pepsi_host *host, struct pepsi_msg *msg, struct smtp_client_msg *m, int64_t until,
    struct hops_report *ret)
{
	struct target *order[HOPS_MAX], *only;
	int64_t now = hop_now_ms();
	*ret = (struct hops_report){ .name = "" };
	look_up(s, host, msg, now);
	if (!s->n) {
		ret->name = s->conf.n ? s->conf.host[0].name : "";
		ret->tried = true;
		fail_all(m, "4.4.3", s->mx_text);
		return;
	}
	arrange(s, order);
	size_t n_rested = 0;
	for (size_t i = 0; i < s->n; i++)
		n_rested += rested(order[i], now);
	only = n_rested ? NULL : probe(order, s->n, now);
	for (size_t i = 0; i < s->n; i++) {
		struct target *t = order[i];
		struct buf why = BUF_INIT(SMTP_CLIENT_TEXT_MAX);
		if (n_rested ? !rested(t, now) : t != only)
			continue;
		if (ret->tried && hop_now_ms() >= until)
			break;
		if (!t->hop && !(t->hop = hop_new(&t->conf, &why))) {
			snprintf(t->text, sizeof t->text, "%s", why.n ? why.p : "out of memory");
			buf_free(&why);
			fail_all(m, "4.3.0", t->text);
			continue;
		}
		buf_free(&why);
		int64_t began = hop_now_ms();
		hop_for(t->hop, host, msg);
		hop_send(t->hop, m, until, &ret->hop);
		t->tried_at = began;
		note(t, m, &ret->hop, hop_now_ms() - began);
		ret->tried = true;
		ret->used = t->hop;
		ret->name = t->shown;
		ret->remote_mta = t->mta[0] ? t->mta : NULL;
		if (ret->hop.no_secret)
			return; /* the other hosts want the same token */
		if (!ret->hop.connected)
			*(ret->hop.auth_fault ? &ret->signin : &ret->failed) += 1;
		bool another = may_move_on(m);
		if (ret->hop.connected && t->failures && !another) {
			say(host, msg, PEPSI_LOG_INFO, "event=hop-is-back hop=%s failures=%u", t->shown, t->failures);
			t->failures = 0;
			t->refused = false;
		}
		if (!ret->hop.connected || (another && m->rcpts[0].result.outcome != SMTP_OUT_TRANSIENT && !ret->hop.kept))
			rest(s, host, msg, t, m, &ret->hop, began);
		if (!another)
			return;
		if (i + 1 < s->n)
			say(host, msg, PEPSI_LOG_INFO, "event=next-hop after=%s phase=%s reason=%s", t->shown,
			    smtp_phase_name(m->rcpts[0].result.phase), log_q(m->rcpts[0].result.text));
	}
	if (!ret->tried) { /* all rest */
		struct target *first = order[0];
		for (size_t i = 1; i < s->n; i++)
			if (order[i]->rests_until < first->rests_until)
				first = order[i];
		ret->name = first->shown;
		ret->remote_mta = first->mta[0] ? first->mta : NULL;
		fail_all(m, first->refused ? "4.7.0" : "4.4.1", first->text);
	}
}
