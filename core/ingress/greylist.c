/* Questions to the greylist; see greylist.h. */
#include "greylist.h"

#include "base/clock.h"
#include "base/log.h"

#include <event2/event.h>
#include <openssl/evp.h>
#include <stdlib.h>

enum { BATCH_MAX = 200, SWEEP_S = 600, HASHED_MAX = 2048,
	SWEEP_MANY = 1000, SWEEP_AGAIN_S = 5 }; /* a sweep that found so many did not find all: the next one comes soon */

struct greylist_ask {
	struct greylist_ask *next;   /* not sent yet */
	struct greylist *g;
	struct store_greylist_key key;
	greylist_fn fn;              /* NULL: nobody waits any more */
	void *arg;
};

struct batch {
	struct batch *next;
	struct greylist *g;          /* NULL: gone */
	size_t n;
	struct greylist_ask *of[BATCH_MAX];
};

struct greylist {
	struct event *flush;
	struct greylist_backend be;
	struct store_greylist_terms terms;
	struct greylist_ask *head, **tail;
	struct batch *batches;
	int64_t swept_us;
	bool sweeping;
	uint64_t passed, waited, away;
};

void greylist_hash(const struct net_addr *from, struct str sender, struct str rcpt, struct store_greylist_key *ret)
{
	unsigned char in[HASHED_MAX], md[EVP_MAX_MD_SIZE];
	size_t n = 0, net_n;
	bool extension = false, in_local = true;
	in[n++] = 'g';
	in[n++] = (unsigned char)from->family;
	net_n = from->family == AF_INET ? 3 : 8; /* the /24, the /64 */
	memcpy(in + n, from->ip, net_n);
	n += net_n;
	if (EVP_Digest(in, n, md, NULL, EVP_sha256(), NULL) != 1)
		memset(md, 0, sizeof md); /* the library is broken: all are one */
	memcpy(ret->net, md, sizeof ret->net);
	in[0] = 't';
	for (size_t i = 0; i < sender.n && n < HASHED_MAX / 2; i++) {
		unsigned char c = (unsigned char)sender.p[i];
		if (c == '@')
			in_local = extension = false;
		if (in_local && c == '+')
			extension = true;
		if (extension)
			continue;
		if (in_local && c >= '0' && c <= '9') { /* a run of digits is one */
			if (in[n - 1] != '#')
				in[n++] = '#';
			continue;
		}
		in[n++] = (unsigned char)ascii_lower((char)c);
	}
	in[n++] = 0;
	for (size_t i = 0; i < rcpt.n && n < HASHED_MAX; i++)
		in[n++] = (unsigned char)ascii_lower(rcpt.p[i]);
	if (EVP_Digest(in, n, md, NULL, EVP_sha256(), NULL) != 1)
		memset(md, 0, sizeof md);
	memcpy(ret->triplet, md, sizeof ret->triplet);
}

struct greylist_ask *greylist_ask(struct greylist *g, const struct net_addr *from, struct str sender, struct str rcpt, greylist_fn fn, void *arg)
{
	struct greylist_ask *a = g->be.up(g->be.ctx) ? calloc(1, sizeof *a) : NULL;
	if (!a) {
		g->away++;
		return NULL;
	}
	a->g = g;
	greylist_hash(from, sender, rcpt, &a->key);
	a->fn = fn;
	a->arg = arg;
	*g->tail = a;
	g->tail = &a->next;
	event_active(g->flush, EV_TIMEOUT, 0);
	return a;
}

void greylist_cancel(struct greylist_ask *a)
{
	if (a)
		a->fn = NULL; /* freed with its answer */
}

static void on_answer(void *arg, enum store_rc rc, const int32_t *wait_s, size_t n)
{
	struct batch *b = arg;
	struct greylist *g = b->g;
	(void)n;
	if (g) {
		struct batch **at = &g->batches;
		while (*at != b)
			at = &(*at)->next;
		*at = b->next;
	}
	for (size_t i = 0; i < b->n; i++) {
		struct greylist_ask *a = b->of[i];
		greylist_fn fn = g ? a->fn : NULL;
		void *of = a->arg;
		int32_t wait = rc == STORE_OK ? wait_s[i] : 0;
		free(a);
		if (g)
			*(rc != STORE_OK ? &g->away : wait > 0 ? &g->waited : &g->passed) += 1;
		if (fn)
			fn(of, wait > 0 ? wait : 0);
	}
	free(b);
}

static void on_flush(evutil_socket_t fd, short what, void *arg)
{
	struct greylist *g = arg;
	struct store_greylist_key keys[BATCH_MAX];
	(void)fd;
	(void)what;
	while (g->head) {
		struct batch *b = calloc(1, sizeof *b);
		if (!b) { /* nobody is kept waiting for memory */
			struct greylist_ask *a = g->head;
			greylist_fn fn = a->fn;
			void *of = a->arg;
			if (!(g->head = a->next))
				g->tail = &g->head;
			free(a);
			g->away++;
			if (fn)
				fn(of, 0);
			continue;
		}
		while (g->head && b->n < BATCH_MAX) {
			struct greylist_ask *a = g->head;
			if (!(g->head = a->next))
				g->tail = &g->head;
			if (!a->fn) {
				free(a);
				continue;
			}
			keys[b->n] = a->key;
			b->of[b->n++] = a;
		}
		if (!b->n) {
			free(b);
			return;
		}
		b->g = g;
		b->next = g->batches;
		g->batches = b;
		g->be.ask(g->be.ctx, keys, b->n, &g->terms, on_answer, b);
	}
}

static void on_swept(void *arg, enum store_rc rc, int64_t n)
{
	struct greylist *g = arg;
	g->sweeping = false;
	if (rc == STORE_OK && n >= SWEEP_MANY)
		g->swept_us -= (SWEEP_S - SWEEP_AGAIN_S) * US_PER_S;
	if (rc == STORE_OK && n)
		log_debug(NULL, "event=greylist-swept rows=%lld", (long long)n);
}

void greylist_tick(struct greylist *g, int64_t now_us)
{
	if (g->sweeping || now_us - g->swept_us < SWEEP_S * US_PER_S || !g->be.up(g->be.ctx))
		return;
	g->swept_us = now_us;
	g->sweeping = true;
	g->be.sweep(g->be.ctx, on_swept, g);
}

void greylist_terms(struct greylist *g, const struct store_greylist_terms *t)
{
	g->terms = *t;
}

struct greylist *greylist_new(struct event_base *base, const struct greylist_backend *be)
{
	struct greylist *g = calloc(1, sizeof *g);
	if (!g)
		return NULL;
	g->be = *be;
	g->tail = &g->head;
	g->flush = event_new(base, -1, 0, on_flush, g);
	if (!g->flush) {
		free(g);
		return NULL;
	}
	return g;
}

void greylist_free(struct greylist *g)
{
	struct greylist_ask *a;
	if (!g)
		return;
	for (struct batch *b = g->batches; b; b = b->next)
		b->g = NULL;
	while ((a = g->head)) {
		g->head = a->next;
		free(a);
	}
	event_free(g->flush);
	free(g);
}

void greylist_metrics(const struct greylist *g, struct buf *out)
{
	buf_addf(out, "# HELP pepsi_greylist_total Triplets that greylisting was asked about, by answer; away: the database was\n"
		      "# TYPE pepsi_greylist_total counter\npepsi_greylist_total{answer=\"pass\"} %llu\npepsi_greylist_total{answer=\"wait\"} %llu\n"
		      "pepsi_greylist_total{answer=\"away\"} %llu\n",
	    (unsigned long long)g->passed, (unsigned long long)g->waited, (unsigned long long)g->away);
}
