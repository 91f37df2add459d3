/* Bounces on their way home: recipients of our SRS domain become the senders they were made of. Only mail of the null sender gets here, only what one
 * of our keys made is taken, and only so many an hour; anything else would make a relay of us. */
#include "books.h"
#include "homeward.h"
#include "say.h"
#include "base/log.h"
#include "srs.h"

#include <stdlib.h>

enum { WHY_MAX = 600 };

/* One recipient. 1: *out is where it leads; 0: *why says why nowhere; -1: cannot be told now (logged). */
static int one(const struct pass *p, struct str rcpt, struct buf *out, const struct return_refusal **why)
{
	struct buf fault = BUF_INIT(WHY_MAX), back = BUF_INIT(RETURN_ADDRESS_MAX); /* an address, or a reference */
	int64_t now = p->h->now_us() / 1000000;
	int r = srs_reverse(&p->w->path.srs, rcpt, now, &back), ret = 0;
	buf_reset(out);
	if (r == SRS_FORGED || r == SRS_MALFORMED) { /* not by a key of ours: by the one before? */
		int b = before_reverse(&p->w->before, &p->w->path.srs, rcpt, now, &back);
		if (b == SRS_OK || b == SRS_EXPIRED || b == SRS_KEY || b == SRS_MEMORY)
			r = b;
		if (b == SRS_OK)
			count(p, "before", 1);
		if (b == SRS_OK && !p->question)
			say(p->h, p->m, PEPSI_LOG_INFO, "srs at=%s was made by the program before", log_address(rcpt));
	}
	switch (r) {
	case SRS_OK:
		ret = buf_adds(out, buf_str(&back)) ? -1 : 1;
		break;
	case SRS_KEPT:
		ret = books_kept(p->h->database(p->w->path.conf), buf_str(&back), out, &fault);
		*why = &return_expired;
		break;
	case SRS_EXPIRED:
		*why = &return_expired;
		break;
	case SRS_MALFORMED:
	case SRS_FORGED:
	case SRS_NOT_SRS:
	case SRS_BAD_ADDRESS:
		*why = &return_forged;
		break;
	default:
		buf_addz(&fault, srs_result_text(r));
		ret = -1;
	}
	if (ret < 0)
		say(p->h, p->m, PEPSI_LOG_WARN, "srs cannot tell where a bounce belongs: %s", fault.n ? buf_z(&fault) : "out of memory");
	if (ret)
		*why = NULL;
	buf_free(&back);
	buf_free(&fault);
	return ret;
}

/* The targets, each once: counted together. */
struct targets {
	struct str *t;
	size_t n;
};

static void lower(char *z)
{
	for (; *z; z++)
		*z = *z >= 'A' && *z <= 'Z' ? (char)(*z + 32) : *z;
}

static int by_text(const void *a, const void *b)
{
	const struct str *x = a, *y = b;
	int r = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
	return r ? r : x->n < y->n ? -1 : x->n > y->n;
}

/* 0 and *ret_wait (0: they may go now), or -1: the books cannot be asked (logged). */
static int may(const struct pass *p, char **list, int *ret_wait)
{
	struct targets t = { calloc(p->n, sizeof *t.t), 0 };
	char **folded = calloc(p->n, sizeof *folded);
	struct buf why = BUF_INIT(WHY_MAX);
	size_t kept = 0;
	int r = -1;
	*ret_wait = 0;
	for (size_t i = 0; t.t && folded && i < p->n; i++)
		if (list[i] && (folded[t.n] = str_dupz(str_from(list[i])))) {
			lower(folded[t.n]);
			t.t[t.n] = str_from(folded[t.n]);
			t.n++;
		}
	if (t.t && folded) {
		qsort(t.t, t.n, sizeof *t.t, by_text);
		for (size_t i = 0; i < t.n; i++)
			if (!kept || !str_eq(t.t[kept - 1], t.t[i]))
				t.t[kept++] = t.t[i];
		r = books_take(p->h->database(p->w->path.conf), t.t, kept, p->w->each, p->w->all, !p->question, ret_wait, &why);
	}
	if (r)
		say(p->h, p->m, PEPSI_LOG_WARN, "srs cannot count bounces: %s", why.n ? buf_z(&why) : "out of memory");
	for (size_t i = 0; i < t.n; i++)
		free(folded[i]);
	free(folded);
	free(t.t);
	buf_free(&why);
	return r;
}

/* Too many within the hour: it waits, and at RCPT the client keeps it. */
static int32_t wait(const struct pass *p, int seconds)
{
	count(p, "capped", 1);
	say(p->h, p->m, PEPSI_LOG_WARN, "srs bounces over the cap (BOUNCES_EACH, BOUNCES) wait_s=%d", seconds);
	return p->h->pause(p->m, "{\"last_error\":\"more bounces of forwarded mail within the hour than BOUNCES_EACH or BOUNCES allow\"}", (uint32_t)seconds);
}

static int32_t send_home(const struct pass *p, char *const *list)
{
	for (size_t i = 0; i < p->n; i++) {
		if (list[i] && !p->question)
			say(p->h, p->m, PEPSI_LOG_INFO, "srs bounce at=%s home=%s", log_address(from_host(p->h->rcpt(p->m, i))), log_address(str_from(list[i])));
		count(p, "home", list[i] != NULL);
	}
	return homeward(p->h, p->m, list);
}

int32_t home(const struct pass *p)
{
	const struct return_refusal **why = calloc(p->n, sizeof *why);
	char **list = calloc(p->n, sizeof *list);
	struct buf to = BUF_INIT(RETURN_ADDRESS_MAX);
	bool any = false, bad = false;
	int32_t r = why && list ? PEPSI_OK : PEPSI_RETRY;
	int seconds = 0;
	for (size_t i = 0; r == PEPSI_OK && i < p->n; i++) {
		struct str rcpt = from_host(p->h->rcpt(p->m, i));
		if (!srs_is(rcpt, p->w->path.srs.domain))
			continue;
		if (!any && (r = return_ready(&p->w->path, p->h, p->m)) != PEPSI_OK)
			break;
		any = true;
		int k = one(p, rcpt, &to, &why[i]);
		bad |= why[i] != NULL;
		if (k < 0 || (k > 0 && !(list[i] = str_dupz(buf_str(&to)))))
			r = PEPSI_RETRY;
	}
	if (r == PEPSI_OK && !any)
		r = p->h->advance(p->m);
	else if (r == PEPSI_OK && bad)
		r = refuse(p, why);
	else if (r == PEPSI_OK && p->w->all && may(p, list, &seconds))
		r = PEPSI_RETRY;
	else if (r == PEPSI_OK)
		r = seconds ? wait(p, seconds) : send_home(p, list);
	for (size_t i = 0; list && i < p->n; i++)
		free(list[i]);
	free(list);
	free(why);
	buf_free(&to);
	return r;
}
