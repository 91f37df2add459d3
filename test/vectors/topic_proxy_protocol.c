/* Topic proxy-protocol: the header of versions 1 and 2. The input is fed octet by octet and whole; what follows the header must
 * be left alone. */
#include "vectors.h"

#include "proto/proxy/header.h"

#include <arpa/inet.h>

static int number(struct json_object *o, const char *key)
{
	struct json_object *v;
	return json_object_object_get_ex(o, key, &v) ? json_object_get_int(v) : 0;
}

/* Two texts of one address, or two equal paths. */
static bool same(struct str want, const char *got)
{
	unsigned char a[16], b[16];
	char *z = str_dupz(want);
	bool ret = z && strcmp(z, got) == 0;
	for (int af = AF_INET; z && !ret; af = AF_INET6) {
		ret = inet_pton(af, z, a) == 1 && inet_pton(af, got, b) == 1 && memcmp(a, b, af == AF_INET ? 4 : 16) == 0;
		if (af == AF_INET6)
			break;
	}
	free(z);
	return ret;
}

static const char *family_name(const struct proxy_header *h)
{
	static const char *const names[] = { "UNKNOWN", "TCP4", "TCP6", "UDP4", "UDP6", "UNIX-STREAM", "UNIX-DGRAM" };
	return names[h->family];
}

static bool tlvs_fit(struct json_object *one, const struct proxy_header *h)
{
	struct json_object *list = NULL;
	struct str rest = h->tlvs, value;
	unsigned type;
	bool error = false;
	size_t n = 0;
	vectors_bool(one, "tlv_error", &error);
	if (error != h->tlv_error)
		return false;
	if (json_object_object_get_ex(one, "tlvs", &list))
		n = json_object_array_length(list);
	for (size_t i = 0; i < n; i++) {
		struct json_object *t = json_object_array_get_idx(list, i);
		struct buf want = BUF_INIT(1 << 16);
		bool ok = !vectors_unhex(vectors_str(t, "value_hex"), &want) && proxy_tlv(&rest, &type, &value) == 1 &&
		    type == (unsigned)number(t, "type") && str_eq(value, buf_str(&want));
		buf_free(&want);
		if (!ok)
			return false;
	}
	return true;
}

static bool header_fits(struct json_object *one, const struct proxy_header *h)
{
	struct str family = vectors_str(one, "family"), command = vectors_str(one, "command");
	if (command.p && str_eq(command, STR("LOCAL")) != h->local)
		return false;
	if (h->local)
		return true;
	if (family.p && !str_eq(family, str_from(family_name(h))))
		return false;
	return same(vectors_str(one, "src"), h->src) && same(vectors_str(one, "dst"), h->dst) && number(one, "sport") == h->sport &&
	    number(one, "dport") == h->dport && tlvs_fit(one, h);
}

/* Feeds in pieces of that size. 1: accepted, *ret_rest is what remains; 0: more would be needed; -1: refused. */
static int feed(struct str in, size_t piece, struct proxy_parser *p, struct str *ret_rest)
{
	*p = PROXY_PARSER_INIT;
	while (in.n) {
		size_t used = 0;
		int r = proxy_feed(p, in.p, in.n < piece ? in.n : piece, &used);
		in = str_skip(in, used);
		*ret_rest = in;
		if (r)
			return r;
	}
	return 0;
}

void topic_proxy_protocol(const char *file, struct json_object *one, struct verdict *v)
{
	static struct proxy_parser whole, single;
	struct buf in = BUF_INIT(1 << 16), rest_hex = BUF_INIT(1 << 16);
	struct str rest = STR_NULL, rest2 = STR_NULL, want_rest = vectors_str(one, "rest");
	struct proxy_header h = { 0 };
	bool valid = false;
	(void)file;
	vectors_bool(one, "valid", &valid);
	if (vectors_str(one, "hex").p)
		vectors_unhex(vectors_str(one, "hex"), &in);
	else
		buf_adds(&in, vectors_str(one, "data"));
	if (vectors_str(one, "rest_hex").p && !vectors_unhex(vectors_str(one, "rest_hex"), &rest_hex))
		want_rest = buf_str(&rest_hex);
	int r = feed(buf_str(&in), SIZE_MAX, &whole, &rest), r2 = feed(buf_str(&in), 1, &single, &rest2);
	bool accepted = r > 0 && proxy_header(&whole, &h) == 0;
	v->ok = r == r2 && (r <= 0 || str_eq(rest, rest2)) && accepted == valid && (!valid || (header_fits(one, &h) && str_eq(rest, want_rest)));
	buf_addz(&v->expected, valid ? "a header as told" : "no header");
	buf_addf(&v->got, "%s (%d, by octets %d) %s %s %s %u %u, %zu octets left%s", accepted ? "a header" : "no header", r, r2,
	    h.local ? "LOCAL" : family_name(&h), h.src, h.dst, h.sport, h.dport, rest.n, h.tlv_error ? ", TLVs malformed" : "");
	buf_free(&in);
	buf_free(&rest_hex);
}
