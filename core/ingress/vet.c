/* The way of one message through its authentication; see vet.h. What follows from the verdict is vet_judge.c. */
#include "vet_internal.h"

#include "base/clock.h"
#include "base/json.h"
#include "proto/auth/dmarc_psl.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	OCTETS = 32 * 1024,         /* what the evaluation of a common message takes */
	LOG_MAX = 2048,
	ASIDE_US = 5 * 1000000,     /* a message waits so long at most for what only an ARC chain or a domain's words for a refusal ask for */
};

static void on_kick(evutil_socket_t fd, short what, void *arg);
static void go_on(struct vet *v);

/* --- beginning and end */

static bool is_trusted(const struct session *s)
{
	const struct vet_terms *t = &s->terms->vet;
	return t->exempt ? config_networks_has(t->exempt, s->peer.text) : s->relay;
}

static bool is_wanted(const struct session *s)
{
	const struct vet_terms *t = &s->terms->vet;
	return (t->spf || t->dkim || t->arc || t->dmarc) && s->in->dns && !s->login.n && !s->user_known && !is_trusted(s);
}

static void charge(struct vet *v, size_t octets)
{
	v->s->in->house.used += octets - v->charged; /* modular */
	v->charged = octets;
}

static void close_groups(struct vet *v)
{
	unsigned before = v->queries;
	for (unsigned i = 0; i < VET_PARTS; i++) {
		if (v->group[i])
			v->queries += net_dns_group_queries(v->group[i]);
		net_dns_group_free(v->group[i]);
		v->group[i] = NULL;
	}
	v->open = 0;
	if (!v->s->exempt) /* what comes at the same time is bounded by MAX_CONNECTIONS_PER_ADDRESS */
		limits_add(v->s->in->limits, &v->s->terms->abuse.rates, &v->s->peer, LIMIT_QUERIES, v->queries - before, clock_mono_us());
}

void vet_free(struct session *s)
{
	struct vet *v = s->vet;
	if (!v)
		return;
	s->vet = NULL;
	close_groups(v);
	if (v->kick)
		event_free(v->kick);
	dns_answers_free(v->set);
	verify_free(v->v);
	charge(v, 0);
	free(v);
}

bool vet_waits(const struct session *s)
{
	return s->vet && s->vet->waiting;
}

void vet_begin(struct session *s, struct str mail_from)
{
	const struct vet_terms *t = &s->terms->vet;
	struct vet *v;
	if (s->vet || !is_wanted(s) || !(v = calloc(1, sizeof *v)))
		return; /* no memory: vet_message() tries again, and says so */
	struct verify_policy p = { .spf = t->spf, .dkim = t->dkim, .arc = t->arc, .dmarc = t->dmarc,
		.dkim_policy = { .now = clock_wall_us() / US_PER_S, .keys = s->in->vet->keys }, .sealers = t->sealers, .n_sealers = t->n_sealers,
		.fallback = t->psl ? dmarc_psl_org : NULL, .fallback_arg = t->psl };
	struct verify_envelope e = { .helo = buf_str(&s->helo), .mail_from = mail_from, .receiver = str_from(s->terms->hostname) };
	if (net_addr_is_ip(&s->peer)) {
		memcpy(e.ip, s->peer.ip, sizeof e.ip);
		e.ip_n = s->peer.family == AF_INET ? 4 : 16;
	}
	v->s = s;
	s->vet = v;
	charge(v, OCTETS);
	v->v = verify_new(&p);
	v->set = dns_answers_new();
	v->kick = event_new(s->in->base, -1, 0, on_kick, v);
	if (!v->v || !v->set || !v->kick || verify_envelope(v->v, &e)) {
		vet_free(s);
		return;
	}
	event_active(v->kick, EV_TIMEOUT, 0); /* not inside the engine's turn */
}

/* --- questions */

static void answered(void *arg, const struct dns_answer *a)
{
	struct vet *v = arg;
	v->open--;
	dns_answers_put(v->set, dns_answer_ref(a));
	event_active(v->kick, EV_TIMEOUT, 0);
}

static struct net_dns_group *group_now(struct vet *v)
{
	unsigned used = v->queries;
	int64_t timeout = v->s->terms->vet.timeout_us;
	enum vet_part part = verify_only_arc(v->v) ? VET_CHAIN : v->part;
	struct net_dns_group **g = &v->group[part];
	for (unsigned i = 0; !*g && i < VET_PARTS; i++)
		used += v->group[i] ? net_dns_group_queries(v->group[i]) : 0;
	const struct session *s = v->s;
	if (!*g && !s->exempt && !limits_may(s->in->limits, &s->terms->abuse.rates, &s->peer, LIMIT_QUERIES, clock_mono_us())) {
		s->in->vet->unasked += !v->unasked;
		v->unasked = true;
		return NULL;
	}
	if (!*g && used < VERIFY_QUERIES)
		*g = net_dns_group_new(v->s->in->dns, part > VET_END && timeout > ASIDE_US ? ASIDE_US : timeout, VERIFY_QUERIES - used);
	return *g;
}

/* What was asked for since the last time. How much of it will have an answer. */
static unsigned ask(struct vet *v)
{
	struct str name;
	enum dns_type type;
	const struct dns_answer *a;
	unsigned n = 0;
	for (; dns_answers_at(v->set, v->looked, &name, &type, &a); v->looked++) {
		struct net_dns_group *g = a ? NULL : group_now(v);
		if (a)
			continue;
		if (g && net_dns_query(g, name, type, answered, v)) {
			v->open++;
			n++;
		} else if (dns_answers_put(v->set, dns_answer_fail(name, type, g ? "out of memory" : v->unasked ? "too many questions for this client" : "query budget used up")) == 0) {
			event_active(v->kick, EV_TIMEOUT, 0);
			n++;
		}
	}
	return n;
}

/* Everything that can go on does. */
static void evaluate(struct vet *v)
{
	int rc = verify_done(v->v) ? DNS_DONE : verify_evaluate(v->v, v->set);
	unsigned asked = rc == DNS_MORE ? ask(v) : 0;
	if (!verify_done(v->v) && !asked && !v->open && (rc == DNS_MORE || v->part >= VET_END)) {
		v->abandoned = true; /* nothing will come any more: an answer got lost for want of memory */
		verify_abandon(v->v, "out of memory");
	}
}

/* Is it refused for SPF, and does the domain have words of its own for that? */
static bool explains(struct vet *v)
{
	const struct vet_terms *t = &v->s->terms->vet;
	struct vet_decision d;
	if (v->part != VET_END || v->abandoned || !t->explain || !verify_done(v->v))
		return false;
	vet_decide(t, verify_verdict(v->v), v->s->peer.text, &d);
	return d.action == VET_REFUSES && d.method == VERIFY_MAILFROM && verify_explain(v->v);
}

static void run(struct vet *v)
{
	int64_t began = clock_mono_us();
	evaluate(v);
	if (explains(v)) {
		v->part = VET_EXPLANATION;
		evaluate(v);
	}
	v->spent_us += clock_mono_us() - began;
}

static void on_kick(evutil_socket_t fd, short what, void *arg)
{
	struct vet *v = arg;
	(void)fd;
	(void)what;
	run(v);
	if (v->waiting && verify_done(v->v))
		go_on(v); /* frees v, perhaps its session */
}

/* --- the content */

static void give_headers(struct vet *v, struct str headers)
{
	int64_t began = clock_mono_us();
	v->headers = true;
	v->part = VET_HEADERS;
	charge(v, OCTETS + 2 * headers.n);
	verify_headers(v->v, headers); /* no memory: temperror */
	v->spent_us += clock_mono_us() - began;
	event_active(v->kick, EV_TIMEOUT, 0);
}

static void give_body(struct vet *v, struct str body)
{
	if (!body.n || !verify_wants_body(v->v))
		return;
	int64_t began = clock_mono_us();
	verify_body(v->v, body.p, body.n);
	v->spent_us += clock_mono_us() - began;
}

void vet_content(struct session *s, struct str chunk)
{
	struct vet *v = s->vet;
	struct spool *sp = &s->message.spool;
	if (!v || sp->fault || !sp->in_body)
		return;
	if (!v->headers) {
		/* the end of the headers was in this chunk, and all of the body so far */
		size_t n = (size_t)spool_body_size(sp);
		give_headers(v, buf_str(&sp->head));
		chunk = str_skip(chunk, chunk.n - (n < chunk.n ? n : chunk.n));
	}
	give_body(v, chunk);
}

/* A message without an empty line was not cut before its end. */
static int give_rest(struct vet *v)
{
	struct spool *sp = &v->s->message.spool;
	struct str body;
	give_headers(v, buf_str(&sp->head));
	if (spool_map(sp, &body))
		return -1;
	give_body(v, body);
	spool_unmap(sp, body);
	return 0;
}

/* --- the verdict */

static int keep(struct vet *v, bool quarantine)
{
	struct message *m = &v->s->message;
	struct buf *log = &m->vetted;
	m->auth = BUF_INIT(VERIFY_JSON_MAX + 32);
	*log = BUF_INIT(LOG_MAX);
	if (verify_json(v->v, &m->auth) || verify_log(v->v, log))
		return -1;
	if (quarantine) {
		m->auth.n--; /* the brace */
		json_put_bool(&m->auth, "quarantine", true);
		buf_addc(&m->auth, '}');
	}
	buf_addf(log, "%s queries=%u us=%lld wait_ms=%lld", quarantine ? " quarantine=1" : "", v->queries, (long long)v->spent_us,
	    (long long)((clock_mono_us() - v->ended_us) / 1000));
	return m->auth.failed || log->failed ? -1 : 0;
}

static void no_room(struct vet_refusal *ret, enum spool_fault f)
{
	bool large = f == SPOOL_HEADERS_LONG || f == SPOOL_HEADERS_MANY;
	ret->why = large ? REFUSED_HEADERS : REFUSED_MEMORY;
	ret->reply = large ? (struct smtp_reply){ 554, "5.6.0", "Message header is too large" } :
			     (struct smtp_reply){ 452, "4.3.1", "Too much mail at once; try again later" };
}

/* True: refused. v is gone either way. */
static bool conclude(struct vet *v, struct vet_refusal *ret)
{
	struct session *s = v->s;
	struct vet_counts *n = s->in->vet;
	const struct verify_verdict *r = verify_verdict(v->v);
	bool quarantine = false;
	size_t forged = 0;
	close_groups(v);
	vet_count(n, v);
	bool refused = vet_judge(s, r, ret, &quarantine);
	enum spool_fault f = SPOOL_OK;
	verify_applied(v->v, vet_applied(&ret->decision));
	if (!refused || ret->reply.code >= 500) { /* else it comes again, and counts then */
		vet_tally(s, r, refused, quarantine);
		vet_failure(s, v->v, refused, quarantine);
	}
	if (refused)
		vet_settled(s->in, &s->message);
	if (!refused && ((f = vet_fields(s, v->v, &forged)) || keep(v, quarantine))) {
		no_room(ret, f);
		refused = true;
	} else if (refused) {
		struct buf log = BUF_INIT(LOG_MAX);
		verify_log(v->v, &log);
		ingress_refused(s->in, s, ret->why, "at=DATA from=%s code=%u %s queries=%u us=%lld text=%s", log_q(s->message.mail_from),
		    ret->reply.code, buf_z(&log), v->queries, (long long)v->spent_us, log_qz(ret->reply.text));
		buf_free(&log);
	} else {
		n->passed++;
		n->quarantined += quarantine;
		if (quarantine && s->terms->vet.quarantine)
			snprintf(s->message.stage, sizeof s->message.stage, "%s", s->terms->vet.quarantine);
	}
	n->forged += forged;
	vet_free(s);
	return refused;
}

static void go_on(struct vet *v)
{
	struct session *s = v->s;
	struct vet_refusal no;
	v->waiting = false;
	s->in->vet->wait_us += (uint64_t)(clock_mono_us() - v->ended_us);
	s->awaiting = false;
	if (!conclude(v, &no)) {
		if (policy_vetted(s) == 0)
			return;
		no_room(&no, SPOOL_OK);
	}
	if (s->conn)
		smtp_server_reject(s->engine, &no.reply);
	session_settled(s);
}

/* Nothing of it is ours to say: only that nobody else says it in our name. */
static enum vet_says unvetted(struct session *s, struct vet_refusal *no)
{
	size_t forged = 0;
	enum spool_fault f = is_trusted(s) ? SPOOL_OK : vet_fields(s, NULL, &forged);
	s->in->vet->forged += forged;
	if (!f)
		return VET_PASS;
	no_room(no, f);
	return VET_REFUSED;
}

enum vet_says vet_message(struct session *s)
{
	struct vet_refusal no;
	enum vet_says says = VET_PASS;
	if (!s->vet)
		vet_begin(s, s->message.mail_from);
	struct vet *v = s->vet;
	if (!v && is_wanted(s)) {
		no_room(&no, SPOOL_OK);
		says = VET_REFUSED;
	} else if (!v) {
		says = unvetted(s, &no);
	} else {
		v->ended_us = clock_mono_us();
		if (!v->headers && give_rest(v)) {
			v->abandoned = true;
			verify_abandon(v->v, "the body could not be read");
		}
		v->part = VET_END;
		int64_t began = clock_mono_us();
		verify_body_end(v->v);
		v->spent_us += clock_mono_us() - began;
		run(v);
		v->waiting = !verify_done(v->v);
		if (v->waiting) {
			s->awaiting = true;
			return VET_WAIT;
		}
		says = conclude(v, &no) ? VET_REFUSED : VET_PASS;
	}
	if (says == VET_REFUSED)
		policy_refuse_vetted(s, &no.reply);
	return says;
}
