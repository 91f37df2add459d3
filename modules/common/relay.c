/* One message through a relay stage: row to engine message, one or more rounds over the hop, then the decision. */
#include "relay.h"

#include "base/arena.h"
#include "base/log.h"
#include "hop_socket.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	MARGIN_MS = 3000,      /* left of MAX_RUNTIME for writing the outcome */
	TEXTS_MAX = 1024 * 1024,
	LOG_RCPTS_MAX = 20,    /* recipients of one message that get a log line */
};

static void say(const struct pepsi_host *host, struct pepsi_msg *msg, int32_t level, const struct buf *b)
{
	host->log(msg, level, buf_z(b));
}

/* The hosts, as they are after this message. */
static void tell(const struct relay *r)
{
	struct traffic_view v[HOPS_MAX];
	size_t n = 0;
	while (n < HOPS_MAX && hops_view(r->hops, n, &v[n]))
		n++;
	relay_measure_destinations(&r->measure, v, n);
}

int32_t relay_open(const struct pepsi_host *host, const struct pepsi_conf *conf, bool lmtp, void **ret_worker)
{
	struct relay *r = calloc(1, sizeof *r);
	struct buf why = BUF_INIT(1024);
	if (!r)
		return PEPSI_RETRY;
	relay_downgrade_open(&r->downgrade, host, conf);
	r->chunking = relay_chunking(host, conf);
	if (relay_configure(r, host, conf, lmtp, &why) == 0)
		r->hops = hops_new(&r->conf, &why);
	relay_measure_open(&r->measure, host, conf, true);
	r->policy.measure = &r->measure;
	if (!r->hops) {
		host->log(NULL, PEPSI_LOG_ERROR, why.n ? why.p : "out of memory");
		buf_free(&why);
		relay_close(r);
		return PEPSI_PERMANENT;
	}
	tell(r);
	*ret_worker = r;
	return PEPSI_OK;
}

void relay_close(void *worker)
{
	struct relay *r = worker;
	if (!r)
		return;
	hops_free(r->hops);
	relay_unconfigure(r);
	free(r);
}

static struct str get(const struct pepsi_host *host, struct pepsi_msg *msg, const char *path)
{
	struct pepsi_str s;
	return host->state_get(msg, path, &s) == PEPSI_OK ? str_n(s.p, s.n) : STR_NULL;
}

static bool number(struct str s, int64_t *ret)
{
	uint64_t n;
	bool negative = s.n && s.p[0] == '-';
	if (str_u64(negative ? str_skip(s, 1) : s, INT64_MAX, &n))
		return false;
	*ret = negative ? -(int64_t)n : (int64_t)n;
	return true;
}

/* What the sender asked of all hops (RFC 2852, RFC 6710). A row without these keys costs one look at its text. */
static void load_wishes(const struct pepsi_host *host, struct pepsi_msg *msg, struct smtp_client_msg *m)
{
	struct pepsi_str state = host->state(msg);
	int64_t n;
	if (!state.n)
		return;
	m->require_tls = memmem(state.p, state.n, "\"require_tls\"", 13) && str_eq(get(host, msg, "require_tls"), STR("true"));
	if (memmem(state.p, state.n, "\"priority\"", 10) && number(get(host, msg, "priority"), &n) && n >= -9 && n <= 9) {
		m->has_priority = true;
		m->priority = (int)n;
	}
	if (!memmem(state.p, state.n, "\"deliver_by\"", 12) || !number(get(host, msg, "deliver_by.at"), &n))
		return;
	struct str mode = get(host, msg, "deliver_by.mode");
	m->deliver_mode = str_eq(mode, STR("R")) ? 'R' : str_eq(mode, STR("N")) ? 'N' : 0;
	m->deliver_by = n - host->now_us() / 1000000;
	m->deliver_trace = str_eq(get(host, msg, "deliver_by.trace"), STR("true"));
}

int32_t relay_load(const struct pepsi_host *host, struct pepsi_msg *msg, struct smtp_client_msg *m)
{
	struct pepsi_str h, b, from = host->mail_from(msg), dsn;
	int32_t r = host->headers(msg, &h);
	if (r == PEPSI_OK)
		r = host->body(msg, &b);
	if (r != PEPSI_OK)
		return r;
	m->headers = str_n(h.p, h.n);
	m->body = str_n(b.p, b.n);
	m->mail_from = str_n(from.p, from.n);
	m->smtputf8 = str_eq(get(host, msg, "origin.smtputf8"), STR("true"));
	load_wishes(host, msg, m);
	struct str body = get(host, msg, "origin.body");
	m->body_8bit = str_eq(body, STR("8BITMIME"));
	m->body_binary = str_eq(body, STR("BINARYMIME"));
	bool has_dsn = host->state_get(msg, "dsn", &dsn) == PEPSI_OK;
	if (has_dsn) {
		m->ret = get(host, msg, "dsn.ret");
		m->envid = get(host, msg, "dsn.envid");
	}
	for (size_t i = 0; i < m->n_rcpts; i++) {
		struct pepsi_str a = host->rcpt(msg, i);
		char path[64];
		m->rcpts[i].address = str_n(a.p, a.n);
		if (!has_dsn)
			continue;
		snprintf(path, sizeof path, "dsn.rcpt.%zu.notify", i);
		m->rcpts[i].notify = get(host, msg, path);
		snprintf(path, sizeof path, "dsn.rcpt.%zu.orcpt", i);
		m->rcpts[i].orcpt = get(host, msg, path);
	}
	return PEPSI_OK;
}

bool relay_too_many(const struct smtp_result *r)
{
	if (r->outcome != SMTP_OUT_TRANSIENT || r->phase != SMTP_PHASE_RCPT || (r->code && r->code != 452 && r->code != 552))
		return false;
	return r->status[0] ? !strcmp(r->status + 1, ".5.3") : r->code != 0;
}

/* Sends; recipients the peer only had no room for go in further transactions, as long as each takes some. */
static void rounds(struct relay *r, const struct pepsi_host *host, struct pepsi_msg *msg, struct smtp_client_msg *m, int64_t until,
    struct arena *texts, struct hops_report *rep)
{
	hops_send(r->hops, host, msg, m, until, rep);
	struct smtp_client_rcpt *some = NULL;
	while (rep->used) {
		size_t n = 0, ok = 0;
		for (size_t i = 0; i < m->n_rcpts; i++) {
			n += relay_too_many(&m->rcpts[i].result);
			ok += m->rcpts[i].result.outcome == SMTP_OUT_OK;
		}
		if (!n || !ok || hop_now_ms() >= until)
			break;
		if (!some)
			some = calloc(n, sizeof *some);
		if (!some)
			break;
		struct smtp_client_msg part = *m;
		struct hop_report again;
		size_t k = 0, taken = 0;
		for (size_t i = 0; i < m->n_rcpts; i++) {
			struct smtp_result *res = &m->rcpts[i].result;
			struct str copy = arena_str(texts, res->text); /* the engine's live until its next message only */
			res->text = copy.p ? copy : STR("");
			if (relay_too_many(res))
				some[k++] = m->rcpts[i];
		}
		part.rcpts = some;
		part.n_rcpts = n;
		hop_send(rep->used, &part, until, &again);
		k = 0;
		for (size_t i = 0; i < m->n_rcpts; i++)
			if (relay_too_many(&m->rcpts[i].result)) {
				m->rcpts[i].result = some[k].result;
				m->rcpts[i].dsn_passed = some[k].dsn_passed;
				taken += !relay_too_many(&some[k++].result);
			}
		if (!taken || !again.connected)
			break;
	}
	free(some);
}

static void log_results(const struct relay *r, const struct pepsi_host *host, struct pepsi_msg *msg,
    const struct smtp_client_msg *m, const struct hop_report *rep)
{
	struct buf b = BUF_INIT(4096);
	for (size_t i = 0; i < m->n_rcpts && i < LOG_RCPTS_MAX; i++) {
		const struct smtp_client_rcpt *to = &m->rcpts[i];
		enum relay_verdict v = relay_judge(&to->result);
		buf_reset(&b);
		buf_addf(&b, "%s to=%s hop=%s%s%s%s%s%s phase=%s code=%u status=%s reply=%s%s",
		    v == RELAY_OK ? "relayed" : v == RELAY_RETRY ? "deferred" : "refused", log_address(to->address), r->policy.hop,
		    rep->tls ? " tls=" : "", rep->tls ? rep->tls_text : "", rep->auth ? " auth=" : "", rep->auth ? rep->auth : "", m->chunked ? " chunked=yes" : "",
		    smtp_phase_name(to->result.phase), to->result.code, to->result.status[0] ? to->result.status : "-", log_q(to->result.text),
		    to->result.maybe ? " maybe_delivered=yes" : "");
		say(host, msg, v == RELAY_OK ? PEPSI_LOG_INFO : PEPSI_LOG_WARN, &b);
	}
	if (m->n_rcpts > LOG_RCPTS_MAX) {
		buf_reset(&b);
		buf_addf(&b, "and %zu more recipients", m->n_rcpts - LOG_RCPTS_MAX);
		say(host, msg, PEPSI_LOG_INFO, &b);
	}
	buf_free(&b);
}

/* The sessions of a message. */
static void measure(const struct relay *r, const struct hops_report *rep)
{
	const struct hop_conf *c = &r->conf.each;
	for (unsigned i = 0; i < rep->failed; i++)
		relay_measure_session(&r->measure, "failed");
	for (unsigned i = 0; i < rep->signin; i++)
		relay_measure_session(&r->measure, "signin");
	if (!rep->used || !rep->hop.connected)
		return;
	relay_measure_session(&r->measure, rep->hop.kept ? "reused" : "opened");
	if (!rep->hop.kept)
		relay_measure_tls(&r->measure, !rep->hop.tls ? "plain" : c->tls == HOP_TLS_DANE ? "dane" :
		    (c->tls == HOP_TLS_REQUIRE || c->tls == HOP_TLS_IMPLICIT) && c->tls_verify ? "pkix" : "opportunistic");
}

int32_t relay_process(void *worker, const struct pepsi_host *host, struct pepsi_msg *msg)
{
	struct relay *r = worker;
	struct smtp_client_msg m = { .n_rcpts = host->n_rcpt(msg) };
	struct hops_report rep = { 0 };
	int64_t now = hop_now_ms(), left = host->runtime_left_ms(msg);
	if (!m.n_rcpts)
		return PEPSI_PERMANENT;
	m.rcpts = calloc(m.n_rcpts, sizeof *m.rcpts);
	r->policy.room = calloc(m.n_rcpts, RELAY_ROOM * sizeof *r->policy.room);
	struct arena *texts = arena_new(TEXTS_MAX);
	int32_t ret = PEPSI_RETRY;
	if (m.rcpts && texts && r->policy.room)
		ret = relay_load(host, msg, &m);
	if (!m.rcpts || !texts || !r->policy.room || ret != PEPSI_OK)
		goto out;
	m.downgrade = r->downgrade.policy;
	m.chunking = r->chunking;
	rounds(r, host, msg, &m, now + (left > 2 * MARGIN_MS ? left - MARGIN_MS : left / 2), texts, &rep);
	measure(r, &rep);
	tell(r);
	r->policy.hop = rep.name;
	r->policy.remote_mta = rep.remote_mta;
	/* by-trace: the sender hears of a hop that does not know of his deadline (RFC 2852 §4.1.5) */
	m.deliver_trace = m.deliver_trace && rep.hop.connected && !rep.hop.deliver_by && !r->conf.each.lmtp;
	if (rep.hop.connected)
		relay_downgrade_tell(&r->downgrade, host, msg, &m, rep.name);
	log_results(r, host, msg, &m, &rep.hop);
	/* who takes mail by LMTP delivers it (RFC 2033) */
	ret = relay_decide(&r->policy, host, msg, &m, rep.hop.dsn ? PEPSI_DSN_THERE : r->conf.each.lmtp ? PEPSI_DSN_DELIVERED : PEPSI_DSN_RELAYED, rep.tried);
out:
	free(m.rcpts);
	free(r->policy.room);
	r->policy.room = NULL;
	arena_free(texts);
	return ret;
}
