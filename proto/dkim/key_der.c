/* Reads the two DER forms an RSA key comes in: SubjectPublicKeyInfo (RFC 5280 §4.1, what everybody publishes) and RSAPublicKey
 * (RFC 8017 §A.1.1, what RFC 6376 §3.6.1 says). Not a general decoder: other algorithms, with parameters that cost the
 * reader, cannot be reached. */
#include "dkim_internal.h"

struct der {
	const unsigned char *p;
	size_t n;
};

/* Takes one element of that tag off the front. Definite lengths of up to two octets. 0, or -1. */
static int take(struct der *d, unsigned char tag, struct der *ret)
{
	size_t head = 2, len;
	if (d->n < 2 || d->p[0] != tag)
		return -1;
	len = d->p[1];
	if (len == 0x81 || len == 0x82) {
		size_t octets = len & 3;
		if (d->n < 2 + octets)
			return -1;
		len = octets == 1 ? d->p[2] : (size_t)(d->p[2] << 8 | d->p[3]);
		head += octets;
	} else if (len >= 0x80) {
		return -1;
	}
	if (d->n - head < len)
		return -1;
	*ret = (struct der){ d->p + head, len };
	d->p += head + len;
	d->n -= head + len;
	return 0;
}

static int take_number(struct der *d, struct str *ret)
{
	struct der v;
	if (take(d, 0x02, &v) || !v.n || v.p[0] & 0x80)
		return -1;
	while (v.n > 1 && !v.p[0])
		v.p++, v.n--;
	*ret = str_n((const char *)v.p, v.n);
	return 0;
}

static int take_rsa(struct der d, struct str *modulus, struct str *exponent)
{
	struct der seq;
	if (take(&d, 0x30, &seq) || d.n)
		return -1;
	return take_number(&seq, modulus) || take_number(&seq, exponent) || seq.n ? -1 : 0;
}

int dkim_key_rsa(const unsigned char *der, size_t n, struct str *ret_modulus, struct str *ret_exponent)
{
	static const unsigned char rsa[] = { 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01 };
	struct der d = { der, n }, outer, id, oid, bits;
	if (take(&d, 0x30, &outer) || d.n)
		return -1;
	if (outer.n && outer.p[0] == 0x02)
		return take_rsa((struct der){ der, n }, ret_modulus, ret_exponent);
	if (take(&outer, 0x30, &id) || take(&id, 0x06, &oid) || oid.n != sizeof rsa || memcmp(oid.p, rsa, sizeof rsa) != 0)
		return -1;
	if (take(&outer, 0x03, &bits) || outer.n || !bits.n || bits.p[0] != 0)
		return -1;
	return take_rsa((struct der){ bits.p + 1, bits.n - 1 }, ret_modulus, ret_exponent);
}
