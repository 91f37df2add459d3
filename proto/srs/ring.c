/* The text of a key ring, and how it changes (ring.h). */
#include "ring.h"

#include <openssl/crypto.h>
#include <stdio.h>

bool srs_ring_id_ok(struct str id)
{
	for (size_t i = 0; i < id.n; i++)
		if (!((id.p[i] >= 'a' && id.p[i] <= 'z') || (id.p[i] >= '0' && id.p[i] <= '9') || id.p[i] == '-'))
			return false;
	return id.n && id.n <= SRS_RING_ID_MAX;
}

void srs_ring_wipe(struct srs_ring *r)
{
	OPENSSL_cleanse(r, sizeof *r);
}

const struct srs_ring_key *srs_ring_find(const struct srs_ring *r, struct str id)
{
	for (size_t i = 0; i < r->n; i++)
		if (str_eq(str_from(r->key[i].id), id))
			return &r->key[i];
	return NULL;
}

static const struct srs_ring_key *of_state(const struct srs_ring *r, bool retired)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->key[i].retired == retired)
			return &r->key[i];
	return NULL;
}

const struct srs_ring_key *srs_ring_active(const struct srs_ring *r)
{
	return of_state(r, false);
}

const struct srs_ring_key *srs_ring_retired(const struct srs_ring *r)
{
	return of_state(r, true);
}

/* One line that is not empty. NULL, or why it is none. */
static const char *take_line(struct str line, struct srs_ring *r)
{
	struct str id = STR_NULL, state = STR_NULL, since = STR_NULL, key = STR_NULL, more = STR_NULL;
	uint64_t at;
	str_word(&line, " \t\r", &id);
	str_word(&line, " \t\r", &state);
	str_word(&line, " \t\r", &since);
	str_word(&line, " \t\r", &key);
	if (!id.n || id.p[0] == '#')
		return NULL;
	if (!srs_ring_id_ok(id))
		return "the name of a key takes lower case letters, digits and hyphens, at most 31";
	if (r->n == SRS_RING_MAX)
		return "more than two keys";
	if (srs_ring_find(r, id))
		return "a key of that name is there already";
	bool retired = str_eq(state, STR("retired"));
	if (!retired && !str_eq(state, STR("active")))
		return "a key is active or retired";
	if (of_state(r, retired))
		return retired ? "two retired keys" : "two active keys";
	if (!since.n || str_u64(since, INT64_MAX, &at))
		return "no time in seconds since 1970";
	struct srs_ring_key *k = &r->key[r->n];
	*k = (struct srs_ring_key){ .retired = retired, .since = (int64_t)at };
	snprintf(k->id, sizeof k->id, "%.*s", STR_ARG(id));
	if (str_unhex(key, k->key, SRS_RING_KEY) || str_word(&line, " \t\r", &more))
		return "a key is 64 hexadecimal digits, with nothing behind it";
	r->n++;
	return NULL;
}

int srs_ring_parse(struct str text, struct srs_ring *ret, const char **why, unsigned *line)
{
	struct srs_ring r = { .n = 0 };
	*line = 0;
	*why = text.n > SRS_RING_TEXT_MAX ? "the text is too long" : NULL;
	while (!*why && text.n) {
		ptrdiff_t nl = str_chr(text, '\n');
		struct str one = nl < 0 ? text : str_n(text.p, (size_t)nl);
		text = nl < 0 ? STR_NULL : str_skip(text, (size_t)nl + 1);
		++*line;
		*why = take_line(one, &r);
	}
	if (!*why && r.n == SRS_RING_MAX && r.key[0].retired) {
		struct srs_ring_key first = r.key[0];
		r.key[0] = r.key[1];
		r.key[1] = first;
		OPENSSL_cleanse(&first, sizeof first);
	}
	if (!*why)
		*ret = r;
	srs_ring_wipe(&r);
	return *why ? -1 : 0;
}

int srs_ring_write(const struct srs_ring *r, struct buf *out)
{
	static const char digits[] = "0123456789abcdef";
	if (!buf_room(out, 512))
		return -1;
	buf_addz(out, "# written by pepsi-keys: secret\n");
	for (size_t i = 0; i < r->n; i++) {
		buf_addf(out, "%s %s %lld ", r->key[i].id, r->key[i].retired ? "retired" : "active", (long long)r->key[i].since);
		for (size_t j = 0; j < SRS_RING_KEY; j++) {
			buf_addc(out, digits[r->key[i].key[j] >> 4]);
			buf_addc(out, digits[r->key[i].key[j] & 15]);
		}
		buf_addc(out, '\n');
	}
	return out->failed ? -1 : 0;
}

int srs_ring_rotate(struct srs_ring *r, struct str id, const unsigned char key[SRS_RING_KEY], int64_t now)
{
	if (!srs_ring_id_ok(id) || srs_ring_find(r, id))
		return -1;
	const struct srs_ring_key *active = srs_ring_active(r);
	struct srs_ring made = { .n = 1 };
	snprintf(made.key[0].id, sizeof made.key[0].id, "%.*s", STR_ARG(id));
	made.key[0].since = now;
	memcpy(made.key[0].key, key, SRS_RING_KEY);
	if (active) {
		made.key[made.n] = *active;
		made.key[made.n].retired = true;
		made.key[made.n++].since = now;
	} else if (r->n) { /* a retired one alone stays */
		made.key[made.n++] = r->key[0];
	}
	srs_ring_wipe(r);
	*r = made;
	srs_ring_wipe(&made);
	return 0;
}

bool srs_ring_remove(struct srs_ring *r, struct str id)
{
	const struct srs_ring_key *k = srs_ring_find(r, id);
	if (!k)
		return false;
	size_t at = (size_t)(k - r->key);
	memmove(&r->key[at], &r->key[at + 1], (r->n - at - 1) * sizeof *r->key);
	r->n--;
	OPENSSL_cleanse(&r->key[r->n], sizeof *r->key);
	return true;
}
