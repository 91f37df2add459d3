/* Signatures (seal.h). The only file that calls libopendkim. */
#include "seal.h"
#include "proto/mail/header.h"

#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include <opendkim/dkim.h>

/* What readers see and what says how to read it (RFC 6376 §5.4.1), and what lists and programs act upon. */
static const char headers_default[] = "From Sender Reply-To To Cc Subject Date Message-ID In-Reply-To References MIME-Version Content-Type "
	"Content-Transfer-Encoding Content-ID Content-Description Content-Disposition Resent-From Resent-Sender Resent-To Resent-Cc Resent-Date Resent-Message-ID "
	"List-Id List-Help List-Unsubscribe List-Unsubscribe-Post List-Subscribe List-Post List-Owner List-Archive Auto-Submitted Feedback-ID";
/* Fields that stand once at most: one more, and readers would see it instead of ours. Not Sender and List-*: mailing lists add those rightfully. */
static const char oversign_default[] = "From Reply-To To Cc Subject Date Message-ID In-Reply-To References MIME-Version Content-Type "
	"Content-Transfer-Encoding Content-ID Content-Description Content-Disposition";
/* What others write or change on the way (RFC 6376 §5.4), and signatures. */
static const char *const never[] = { "Return-Path", "Received", "Received-SPF", "Comments", "Keywords", "Bcc", "Resent-Bcc", "DKIM-Signature", "DomainKey-Signature",
	"Authentication-Results", "ARC-Seal", "ARC-Message-Signature", "ARC-Authentication-Results", "Delivered-To" };

struct seal {
	DKIM_LIB *lib;
	char *text, *over_text;                /* what the names below point into */
	const char *name[SEAL_NAMES_MAX + 1];  /* NULL behind the last, as libopendkim wants it */
	const char *over[SEAL_NAMES_MAX + 1];
	dkim_canon_t headers, body;
};

/* -- memory that is wiped when it is given back: libopendkim copies private keys */

enum { FRONT = 16 }; /* octets before what is handed out; keeps the alignment of malloc() */

static void *take(void *closure, size_t n)
{
	size_t *p;
	(void)closure;
	if (n > SIZE_MAX - FRONT || !(p = malloc(n + FRONT)))
		return NULL;
	*p = n;
	return (char *)p + FRONT;
}

static void give(void *closure, void *v)
{
	(void)closure;
	if (!v)
		return;
	char *p = (char *)v - FRONT;
	explicit_bzero(v, *(size_t *)(void *)p);
	free(p);
}

/* -- the terms */

static bool listed(const char *const *names, struct str name)
{
	for (; *names; names++)
		if (str_ieq(str_from(*names), name))
			return true;
	return false;
}

static bool name_ok(struct str w)
{
	for (size_t i = 0; i < w.n; i++)
		if (w.p[i] <= ' ' || w.p[i] > '~' || strchr(":;|*()[]{}^$+?\\.", w.p[i])) /* libopendkim makes an expression of it */
			return false;
	for (size_t i = 0; i < sizeof never / sizeof *never; i++)
		if (str_ieq(str_from(never[i]), w))
			return false;
	return w.n < 78;
}

const char *seal_names_wrong(const char *names, size_t *ret_n)
{
	struct str rest = str_from(names), w;
	size_t n = 0;
	*ret_n = 0;
	while (str_word(&rest, " \t,:", &w)) {
		if (!name_ok(w)) {
			*ret_n = w.n;
			return w.p;
		}
		if (++n >= SEAL_NAMES_MAX / 2)
			return "more names than a signature may have";
	}
	return NULL;
}

/* Cuts text into words, in place, and adds those that are not there yet. */
static void split(char *text, const char **names, size_t *n)
{
	char *save = NULL;
	for (char *w = strtok_r(text, " \t,:", &save); w; w = strtok_r(NULL, " \t,:", &save))
		if (*n < SEAL_NAMES_MAX && name_ok(str_from(w)) && !listed(names, str_from(w)))
			names[(*n)++] = w;
}

static bool set(DKIM_LIB *lib, dkim_opts_t o, void *p, size_t n)
{
	return dkim_options(lib, DKIM_OP_SETOPT, o, p, n) == DKIM_STAT_OK;
}

int seal_new(const struct seal_terms *t, struct seal **ret, const char **why)
{
	struct seal *s = calloc(1, sizeof *s);
	size_t n = 0, m = 0;
	uint64_t ttl = (uint64_t)(t->expire_s > 0 ? t->expire_s : 0);
	*why = "out of memory";
	if (!s || !(s->text = strdup(t->headers ? t->headers : headers_default)) || !(s->over_text = strdup(t->oversign ? t->oversign : oversign_default)) ||
	    !(s->lib = dkim_init(take, give)))
		goto fail;
	s->headers = t->simple_headers ? DKIM_CANON_SIMPLE : DKIM_CANON_RELAXED;
	s->body = t->simple_body ? DKIM_CANON_SIMPLE : DKIM_CANON_RELAXED;
	s->over[m++] = s->name[n++] = "From"; /* RFC 6376 §5.4; and nobody may add another author */
	split(s->text, s->name, &n);
	split(s->over_text, s->over, &m);
	for (size_t i = 0; i < m && n < SEAL_NAMES_MAX; i++)
		if (!listed(s->name, str_from(s->over[i])))
			s->name[n++] = s->over[i];
	*why = "libopendkim does not take the terms";
	if (!set(s->lib, DKIM_OPTS_SIGNHDRS, (void *)s->name, sizeof(char **)) || !set(s->lib, DKIM_OPTS_OVERSIGNHDRS, (void *)s->over, sizeof(char **)) ||
	    (ttl && !set(s->lib, DKIM_OPTS_SIGNATURETTL, &ttl, sizeof ttl)))
		goto fail;
	*why = "this libopendkim was built without what is needed (SHA-256, oversigning, Ed25519)";
	if (!dkim_libfeature(s->lib, DKIM_FEATURE_SHA256) || !dkim_libfeature(s->lib, DKIM_FEATURE_OVERSIGN) || !dkim_libfeature(s->lib, DKIM_FEATURE_ED25519))
		goto fail;
	*ret = s;
	return 0;
fail:
	seal_free(s);
	return -1;
}

void seal_free(struct seal *s)
{
	if (!s)
		return;
	if (s->lib)
		dkim_close(s->lib);
	free(s->text);
	free(s->over_text);
	free(s);
}

/* -- signing */

const char *seal_unsignable(const struct seal *s, struct str headers)
{
	struct mail_field f;
	size_t n = 0;
	for (int r; (r = mail_field_next(&headers, &f)) != 0;)
		if (r > 0 && listed(s->name, f.name) && ++n > SEAL_FIELDS_MAX)
			return "it has too many header fields that would be signed";
	return NULL;
}

/* What libopendkim is told of the header block. */
static DKIM_STAT feed_headers(const struct seal *s, DKIM *d, struct str headers)
{
	struct mail_field f;
	for (int r; (r = mail_field_next(&headers, &f)) != 0;) {
		struct str all = f.all;
		if (r < 0 || !listed(s->name, f.name))
			continue;
		if (all.n > 2 && all.p[all.n - 1] == '\n' && all.p[all.n - 2] == '\r')
			all.n -= 2;
		DKIM_STAT st = dkim_header(d, (u_char *)(uintptr_t)all.p, all.n);
		if (st != DKIM_STAT_OK)
			return st;
	}
	return dkim_eoh(d);
}

static DKIM_STAT feed_body(DKIM *d, struct str body)
{
	static const char crlf[] = "\r\n";
	bool ended = !body.n || (body.n >= 2 && !memcmp(body.p + body.n - 2, crlf, 2));
	DKIM_STAT st = body.n ? dkim_body(d, (u_char *)(uintptr_t)body.p, body.n) : DKIM_STAT_OK;
	/* RFC 6376 §3.4.3, §3.4.4: a body that does not end so is taken as if it did; libopendkim wants it done */
	if (st == DKIM_STAT_OK && !ended)
		st = dkim_body(d, (u_char *)(uintptr_t)crlf, 2);
	return st == DKIM_STAT_OK ? dkim_eom(d, NULL) : st;
}

int seal_sign(struct seal *s, const struct seal_job *job, struct str headers, struct str body, struct buf *out, struct buf *why)
{
	const struct keydir_key *k = job->key;
	DKIM_STAT st = DKIM_STAT_OK;
	u_char *text = NULL;
	size_t n = 0, before = out->n;
	int rc = -1;
	DKIM *d = dkim_sign(s->lib, (const unsigned char *)"pepsi", NULL, (dkim_sigkey_t)k->pem.p, (const unsigned char *)k->selector, (const unsigned char *)job->domain,
	    s->headers, s->body, k->algorithm == DKIM_ALG_ED25519 ? DKIM_SIGN_ED25519SHA256 : DKIM_SIGN_RSASHA256, -1, &st);
	if (d)
		st = feed_headers(s, d, headers);
	if (d && st == DKIM_STAT_OK)
		st = feed_body(d, body);
	if (d && st == DKIM_STAT_OK)
		st = dkim_getsighdr_d(d, sizeof "DKIM-Signature: " - 1, &text, &n);
	if (d && st == DKIM_STAT_OK && !buf_addz(out, "DKIM-Signature: ") && !buf_add(out, text, n) && !buf_addz(out, "\r\n") &&
	    mail_headers_sendable(str_n(out->p + before, out->n - before)))
		rc = 0;
	if (rc) {
		const char *detail = d ? dkim_geterror(d) : NULL;
		out->n = before;
		buf_addf(why, "libopendkim: %s%s%s", st == DKIM_STAT_OK ? "a signature that cannot stand in a header" : dkim_getresultstr(st), detail ? ": " : "", detail ? detail : "");
	}
	if (d)
		dkim_free(d);
	return rc;
}
