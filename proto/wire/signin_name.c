/* The one form of an account name, see signin.h. Unicode comes from libunistring; a name of ASCII alone never reaches it. */
#include "signin.h"

#include <stdlib.h>
#include <string.h>
#include <unicase.h>
#include <unictype.h>
#include <uninorm.h>
#include <unistr.h>

/* Octets of the input at most: each character of the result costs at least one. Bounds what libunistring is given. */
enum { INPUT_MAX = 4 * WIRE_SIGNIN_NAME_MAX };

static bool plain(unsigned char c)
{
	return c > 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static bool allowed(ucs4_t c)
{
	if (c < 0x80)
		return plain((unsigned char)c);
	/* letters, marks, numbers, punctuation and symbols, but no blanks, controls, formats (bidi), surrogates, private use,
	 * nor what has no meaning yet */
	return !uc_is_general_category(c, UC_CATEGORY_Z) && !uc_is_general_category(c, UC_CATEGORY_C);
}

/* In form, too: what comes out of lower-casing and composing must itself be a fixed point. */
static ptrdiff_t fold(const uint8_t *in, size_t n, char *out)
{
	size_t got = WIRE_SIGNIN_NAME_MAX;
	uint8_t *to = (uint8_t *)out, *r = u8_tolower(in, n, NULL, UNINORM_NFC, to, &got);
	if (!r)
		return -1;
	if (r != to) { /* longer than the room: libunistring has made its own */
		free(r);
		return -1;
	}
	return (ptrdiff_t)got;
}

/* "uid:1000" is what a user of this machine is called who never signed in (state.origin.account, sender_key). */
static bool reserved(const char *name)
{
	return !strncmp(name, WIRE_SIGNIN_NAME_RESERVED, sizeof WIRE_SIGNIN_NAME_RESERVED - 1);
}

int wire_signin_name(struct str name, char *out)
{
	size_t n = 0;
	if (!name.n || name.n > INPUT_MAX || !str_is_utf8(name))
		return -1;
	if (str_is_ascii(name)) {
		if (name.n > WIRE_SIGNIN_NAME_MAX)
			return -1;
		for (n = 0; n < name.n; n++) {
			unsigned char c = (unsigned char)name.p[n];
			if (!plain(c))
				return -1;
			out[n] = ascii_lower(c);
		}
		out[n] = 0;
		return reserved(out) ? -1 : (int)n;
	}
	ptrdiff_t got = fold((const uint8_t *)name.p, name.n, out);
	if (got <= 0)
		return -1;
	for (ptrdiff_t at = 0; at < got;) {
		ucs4_t c;
		int step = u8_mbtoucr(&c, (const uint8_t *)out + at, (size_t)(got - at));
		if (step <= 0 || !allowed(c))
			return -1;
		at += step;
	}
	char again[WIRE_SIGNIN_NAME_MAX + 1];
	if (fold((const uint8_t *)out, (size_t)got, again) != got || memcmp(again, out, (size_t)got) != 0)
		return -1;
	out[got] = 0;
	return reserved(out) ? -1 : (int)got;
}
