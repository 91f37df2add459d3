/* The arithmetic of SRS: HMAC over what an address says, its characters, and the day stamp. Knows no addresses; keeps nothing. */
#include "srs_internal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

static const char base32[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"; /* RFC 4648 §6: survives a change of letter case */
/* RFC 4648 §5, as '+' would be a separator and '/' is a surprise to some */
static const char base64url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void add_lower(struct buf *b, struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		buf_addc(b, ascii_lower(s.p[i]));
}

/* A text with its length before it. */
static void add_sized(struct buf *b, struct str s)
{
	buf_addf(b, "%zu:", s.n);
	add_lower(b, s);
}

static void add_covered(const struct srs *s, const struct srs_covered *c, struct buf *b)
{
	if (s->weak) { /* nothing tells where one text ends and the next begins: theirs is so */
		char stamp[SRS_STAMP];
		srs_stamp(c->day, stamp);
		if (c->type == '0')
			add_lower(b, str_n(stamp, sizeof stamp));
		add_lower(b, c->host);
		add_lower(b, c->user);
		return;
	}
	buf_addf(b, "SRS%c%c:%c:%llu:", c->type, c->separator, c->upper ? 'U' : 'l', (unsigned long long)c->day);
	add_sized(b, c->host);
	add_sized(b, c->user);
}

size_t srs_tag_size(const struct srs *s)
{
	return s->weak ? 4 : SRS_TAG_MAX;
}

int srs_tag(const struct srs *s, struct str key, const struct srs_covered *c, char ret[SRS_TAG_MAX])
{
	unsigned char mac[EVP_MAX_MD_SIZE];
	size_t n = 0, want = srs_tag_size(s);
	struct buf b = BUF_INIT(4096);
	unsigned bits = s->weak ? 6 : 5, have = 0, acc = 0;
	add_covered(s, c, &b);
	if (b.failed || !EVP_Q_mac(NULL, "HMAC", NULL, s->weak ? "SHA1" : "SHA256", NULL, key.p, key.n, (const unsigned char *)b.p, b.n,
	    mac, sizeof mac, &n)) {
		buf_free(&b);
		return -1;
	}
	for (size_t i = 0, k = 0; k < want; k++) {
		while (have < bits) {
			acc = acc << 8 | mac[i++];
			have += 8;
		}
		have -= bits;
		ret[k] = (s->weak ? base64url : base32)[acc >> have & ((1u << bits) - 1)];
	}
	OPENSSL_cleanse(mac, sizeof mac);
	buf_free(&b);
	return 0;
}

/* The form in which tags are compared. */
static void fold(bool weak, const char *in, size_t n, char *out)
{
	for (size_t i = 0; i < n; i++)
		out[i] = weak && in[i] == '+' ? '-' : weak && in[i] == '/' ? '_' : ascii_lower(in[i]);
}

int srs_tag_check(const struct srs *s, const struct srs_covered *c, struct str tag)
{
	char got[SRS_TAG_MAX], made[SRS_TAG_MAX];
	size_t n = srs_tag_size(s);
	int good = 0;
	if (tag.n != n)
		return 0;
	fold(s->weak, tag.p, n, got);
	for (size_t i = 0; i < 2; i++) {
		if (!s->keys[i].n)
			continue;
		if (srs_tag(s, s->keys[i], c, made))
			return -1;
		fold(s->weak, made, n, made);
		good |= str_eq_secret(str_n(got, n), str_n(made, n));
	}
	OPENSSL_cleanse(made, sizeof made);
	return good;
}

void srs_stamp(uint64_t day, char ret[SRS_STAMP])
{
	ret[0] = base32[day >> 5 & 31];
	ret[1] = base32[day & 31];
}

int srs_stamp_day(struct str stamp, uint64_t today, uint64_t *ret)
{
	uint64_t value = 0, tomorrow = today + 1;
	if (stamp.n != SRS_STAMP)
		return -1;
	for (size_t i = 0; i < SRS_STAMP; i++) {
		char c = ascii_lower(stamp.p[i]);
		if (c >= 'a' && c <= 'z')
			value = value << 5 | (uint64_t)(c - 'a');
		else if (c >= '2' && c <= '7')
			value = value << 5 | (uint64_t)(c - '2' + 26);
		else
			return -1;
	}
	uint64_t back = (tomorrow - value) % SRS_STAMPS; /* tomorrow is behind us that many days; wraps to the right value */
	if (back > tomorrow)
		return -1;
	*ret = tomorrow - back;
	return 0;
}
