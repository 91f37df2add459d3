/* Jobs: their messages, and those that only compute. See job.h. */
#include "job.h"

#include "jwt.h"
#include "password.h"
#include "proto/wire/walk.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void walk_job(struct walk *w, struct job_msg *m)
{
	uint64_t what = m->what;
	walk_number(w, &m->id, 8);
	walk_number(w, &what, 1);
	m->what = (uint32_t)what;
	walk_number(w, &m->number, 8);
	walk_count(w, &m->n, JOB_FIELDS);
	for (size_t i = 0; i < m->n; i++)
		walk_string(w, &m->f[i], JOB_FIELD_MAX);
}

int job_put(struct buf *out, const struct job_msg *m)
{
	struct job_msg copy = *m;
	struct walk w = { .mode = WALK_COUNT };
	walk_job(&w, &copy);
	if (w.bad || w.n > JOB_DATAGRAM_MAX || out->n)
		return -1;
	char *at = buf_room(out, w.n);
	if (!at)
		return -1;
	w = (struct walk){ .mode = WALK_WRITE, .at = at };
	walk_job(&w, &copy);
	out->n = w.n;
	out->p[out->n] = 0;
	return 0;
}

int job_get(struct str datagram, struct job_msg *ret)
{
	struct walk w = { .mode = WALK_READ, .in = datagram };
	memset(ret, 0, sizeof *ret);
	walk_job(&w, ret);
	return w.bad || w.in.n ? -1 : 0;
}

unsigned job_seconds(uint32_t kind)
{
	switch (kind) {
	case JOB_PAM:
		return 30; /* directories and tokens behind it have their own patience */
	case JOB_INTROSPECT:
	case JOB_FETCH:
		return 15;
	default:
		return 20; /* a loaded machine; a digest takes 43 ms on a quiet one */
	}
}

void job_answer(struct job_msg *out, struct buf *text, enum job_code code, struct str field)
{
	out->what = code;
	out->n = 0;
	if (buf_adds(text, field)) {
		out->what = JOB_AWAY;
		return;
	}
	out->f[0] = buf_str(text);
	out->n = 1;
}

static void hash(const struct job_msg *in, struct job_msg *out, struct buf *text)
{
	size_t cut = 0;
	if (password_hash(in->f[0], text) || (cut = text->n, password_scram(in->f[0], text))) {
		text->n = 0;
		job_answer(out, text, JOB_AWAY, STR("the digest could not be computed (memory?)"));
		return;
	}
	out->what = JOB_YES;
	out->f[0] = str_n(text->p, cut);
	out->f[1] = str_n(text->p + cut, text->n - cut);
	out->n = 2;
}

static void verify(const struct job_msg *in, struct job_msg *out, struct buf *text)
{
	switch (password_verify(in->f[0], in->f[1])) {
	case 1:
		job_answer(out, text, JOB_YES, STR(""));
		break;
	case 0:
		job_answer(out, text, JOB_NO, STR("wrong password"));
		break;
	default:
		job_answer(out, text, JOB_AWAY, STR("the digest in the database cannot be used, or memory is out"));
	}
}

static void jwt(const struct job_msg *in, struct job_msg *out, struct buf *text)
{
	struct jwt_policy p = { .issuer = in->f[2], .audiences = in->f[3], .scope = in->f[4], .name_claim = in->f[5], .unstated = in->number == 1,
		.algorithms = in->f[6], .now = time(NULL) };
	struct jwt_result r = { .name = BUF_INIT(1024) };
	const char *bad = jwt_verify(in->f[0], in->f[1], &p, &r);
	job_answer(out, text, bad ? JOB_NO : JOB_YES, bad ? str_from(bad) : buf_str(&r.name));
	out->number = bad ? (uint64_t)(r.unknown_key ? 1 : 0) : (uint64_t)r.expires;
	buf_free(&r.name);
}

/* Through the switch of names (NSS), which may ask a directory somewhere and take its time. */
static void system_account(const struct job_msg *in, struct job_msg *out, struct buf *text)
{
	enum { ROOM = 64 * 1024 };
	struct passwd pw, *found = NULL;
	char *name = memchr(in->f[0].p, 0, in->f[0].n) ? NULL : str_dupz(in->f[0]), *room = malloc(ROOM);
	int e = name && room ? getpwnam_r(name, &pw, room, ROOM, &found) : ENOMEM;
	/* some modules say by these that there is no such name, getpwnam(3); any other is no answer */
	bool unknown = !found && (e == 0 || e == ENOENT || e == ESRCH);
	free(name);
	free(room);
	job_answer(out, text, found ? JOB_YES : unknown ? JOB_NO : JOB_AWAY, STR(""));
}

void job_run(const struct job_msg *in, struct job_msg *out, struct buf *text)
{
	static const unsigned char fields[] = { [JOB_HASH] = 1, [JOB_VERIFY] = 2, [JOB_PAM] = 4, [JOB_JWT] = 7, [JOB_INTROSPECT] = 9,
		[JOB_FETCH] = 2, [JOB_SYSTEM] = 1 };
	if (in->what < JOB_HASH || in->what > JOB_SYSTEM || in->n != fields[in->what]) {
		job_answer(out, text, JOB_AWAY, STR("no such job"));
		return;
	}
	switch ((enum job_kind)in->what) {
	case JOB_HASH:
		hash(in, out, text);
		break;
	case JOB_VERIFY:
		verify(in, out, text);
		break;
	case JOB_PAM:
		job_pam(in, out, text);
		break;
	case JOB_JWT:
		jwt(in, out, text);
		break;
	case JOB_INTROSPECT:
		job_introspect(in, out, text);
		break;
	case JOB_FETCH:
		job_fetch(in, out, text);
		break;
	case JOB_SYSTEM:
		system_account(in, out, text);
		break;
	}
}
