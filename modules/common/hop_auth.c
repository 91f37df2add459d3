/* Secrets for one sign-in: read, checked, wiped. */
#include "hop_auth.h"

#include "proto/sasl/base64.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NONCE = 18 };

/* b64token of RFC 6750 §2.1, and what providers make of it: printable, no blanks. */
static bool token_ok(struct str t)
{
	for (size_t i = 0; i < t.n; i++)
		if (t.p[i] <= ' ' || t.p[i] > '~')
			return false;
	return t.n > 0;
}

int hop_token_parse(struct str text, struct buf *token, int64_t *ret_expires, const char **ret_why)
{
	struct str rest = text, line, key, found = STR_NULL;
	uint64_t expires = 0;
	size_t lines = 0;
	while (str_word(&rest, "\n", &line)) {
		struct str value = str_trim(line);
		if (!value.n || value.p[0] == '#')
			continue;
		lines++;
		if (token_ok(value) && lines == 1 && !str_trim(rest).n) {
			found = value;
			break;
		}
		str_word(&value, " \t", &key);
		value = str_trim(value);
		if (str_eq(key, STR("access_token")))
			found = value;
		else if (str_eq(key, STR("expires_at")) && str_u64(value, INT64_MAX / 2, &expires)) {
			*ret_why = "expires_at is no number of seconds";
			return -1;
		}
	}
	if (!token_ok(found)) {
		*ret_why = found.n ? "the token holds blanks or other than printable ASCII" : "there is no token in it";
		return -1;
	}
	if (buf_adds(token, found)) {
		*ret_why = "the token is too long";
		return -1;
	}
	*ret_expires = (int64_t)expires;
	return 0;
}

int hop_token_read(const char *path, struct buf *token, int64_t *ret_expires, struct buf *why)
{
	struct buf text = BUF_INIT(HOP_TOKEN_FILE_MAX);
	const char *reason = "not a file, or too long for a token";
	struct stat st;
	int r = -1, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		buf_addf(why, "there is no access token to sign in with: %s: %s", path, strerror(errno));
		return -1;
	}
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size < HOP_TOKEN_FILE_MAX && buf_room(&text, (size_t)st.st_size + 1)) {
		ssize_t n;
		do
			n = read(fd, text.p, (size_t)st.st_size);
		while (n < 0 && errno == EINTR);
		if (n >= 0) {
			text.n = (size_t)n;
			r = hop_token_parse(buf_str(&text), token, ret_expires, &reason);
		} else {
			reason = strerror(errno);
		}
	}
	close(fd);
	buf_free_secret(&text);
	if (r)
		buf_addf(why, "%s: %s", path, reason);
	return r;
}

uint64_t hop_token_version(const char *path)
{
	struct stat st;
	if (!path || stat(path, &st))
		return 0;
	return ((uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec) ^ ((uint64_t)st.st_ino << 20) ^ 1;
}

int hop_secret_get(const struct hop_auth *a, int64_t now, struct hop_secret *s, struct smtp_client_auth *ret, struct buf *why)
{
	unsigned char raw[NONCE];
	int64_t expires = 0;
	s->token = BUF_INIT(SASL_BLOB_MAX / 2);
	s->nonce = BUF_INIT(SASL_NONCE_MAX);
	*ret = (struct smtp_client_auth){ .name = str_from(a->user), .password = str_from(a->password), .external = a->external,
		.mechs = a->mechs, .without_tls = a->insecure };
	if (RAND_bytes(raw, sizeof raw) == 1 && sasl_base64_encode(str_n((const char *)raw, sizeof raw), &s->nonce) == 0)
		ret->nonce = buf_str(&s->nonce);
	if (!a->token_file && !ret->password.n && !a->external) {
		buf_addz(why, "there is no password: AUTH_PASSWORD is not set, or in a file of secrets.d that the account of this stage cannot read");
		return -1;
	}
	if (!a->token_file)
		return 0;
	buf_room(&s->token, SASL_BLOB_MAX / 2);
	if (hop_token_read(a->token_file, &s->token, &expires, why))
		return -1;
	if (expires && expires <= now) {
		char at[32];
		time_t t = (time_t)expires;
		struct tm tm;
		strftime(at, sizeof at, "%Y-%m-%d %H:%M:%S", gmtime_r(&t, &tm));
		buf_addf(why, "%s: the access token expired at %s UTC", a->token_file, at);
		return -1;
	}
	ret->token = buf_str(&s->token);
	return 0;
}

void hop_secret_done(struct hop_secret *s)
{
	buf_free_secret(&s->token);
	buf_free_secret(&s->nonce);
	OPENSSL_cleanse(s->binding, sizeof s->binding);
}
