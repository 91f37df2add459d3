/* Lines of Dovecot's authentication protocol; see dovecot.h. */
#include "dovecot.h"

#include "proto/sasl/base64.h"

static bool take_field(struct str *rest, struct str *ret)
{
	if (!rest->p)
		return false;
	ptrdiff_t tab = str_chr(*rest, '\t');
	*ret = tab < 0 ? *rest : str_n(rest->p, (size_t)tab);
	*rest = tab < 0 ? STR_NULL : str_skip(*rest, (size_t)tab + 1);
	return true;
}

/* "key=value": the value, else false. */
static bool keyed(struct str f, const char *key, struct str *ret)
{
	size_t n = strlen(key);
	if (f.n <= n || memcmp(f.p, key, n) != 0 || f.p[n] != '=')
		return false;
	*ret = str_skip(f, n + 1);
	return true;
}

static int parse_reply(struct str rest, struct dovecot_line *l)
{
	struct str f, v;
	if (!take_field(&rest, &f) || str_u64(f, UINT64_MAX, &l->id))
		return -1;
	if (l->kind == DOVECOT_CONT) {
		if (take_field(&rest, &f))
			l->blob = f;
		return 0;
	}
	while (take_field(&rest, &f)) {
		if (keyed(f, "user", &v))
			l->user = v;
		else if (keyed(f, "reason", &v))
			l->reason = v;
		else if (keyed(f, "resp", &v))
			l->blob = v;
		else if (str_eq(f, STR("temp")) || str_eq(f, STR("code=temp_fail")))
			l->temp = true;
		else if (str_eq(f, STR("user_disabled")) || str_eq(f, STR("code=user_disabled")))
			l->disabled = true;
		else if (str_eq(f, STR("pass_expired")) || str_eq(f, STR("code=pass_expired")))
			l->expired = true;
		else if (str_eq(f, STR("nologin")))
			l->nologin = true;
	}
	return l->kind == DOVECOT_OK && !l->user.n ? -1 : 0;
}

int dovecot_parse(struct str line, struct dovecot_line *ret)
{
	struct str rest = line, f;
	memset(ret, 0, sizeof *ret);
	if (line.n > DOVECOT_LINE_MAX || str_chr(line, 0) >= 0 || str_chr(line, '\n') >= 0 || !take_field(&rest, &f))
		return -1;
	if (str_eq(f, STR("VERSION"))) {
		ret->kind = DOVECOT_VERSION;
		return take_field(&rest, &f) && !str_u64(f, 1000000, &ret->major) && take_field(&rest, &f) && !str_u64(f, 1000000, &ret->minor) ?
			       0 : -1;
	}
	if (str_eq(f, STR("MECH"))) {
		ret->kind = DOVECOT_MECH;
		if (!take_field(&rest, &ret->mech) || !ret->mech.n || ret->mech.n >= DOVECOT_MECH_MAX)
			return -1;
		for (size_t i = 0; i < ret->mech.n; i++) {
			char c = ret->mech.p[i];
			if (!((c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_'))
				return -1;
		}
		while (take_field(&rest, &f))
			ret->anonymous |= str_eq(f, STR("anonymous"));
		return 0;
	}
	ret->kind = str_eq(f, STR("DONE")) ? DOVECOT_DONE :
	    str_eq(f, STR("CONT")) ? DOVECOT_CONT :
	    str_eq(f, STR("OK")) ? DOVECOT_OK :
	    str_eq(f, STR("FAIL")) ? DOVECOT_FAIL : DOVECOT_OTHER;
	return ret->kind >= DOVECOT_CONT ? parse_reply(rest, ret) : 0;
}

int dovecot_unescape(struct str in, struct buf *out)
{
	for (size_t i = 0; i < in.n; i++) {
		char c = in.p[i];
		if (c == 1) {
			if (++i == in.n)
				return -1;
			switch (in.p[i]) {
			case '0':
				c = 0;
				break;
			case '1':
				c = 1;
				break;
			case 't':
				c = '\t';
				break;
			case 'r':
				c = '\r';
				break;
			case 'n':
				c = '\n';
				break;
			default:
				return -1;
			}
		}
		if (buf_addc(out, c))
			return -1;
	}
	return 0;
}

static void escape(struct buf *out, struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		switch (s.p[i]) {
		case 0:
			buf_add(out, "\0010", 2);
			break;
		case 1:
			buf_add(out, "\0011", 2);
			break;
		case '\t':
			buf_add(out, "\001t", 2);
			break;
		case '\r':
			buf_add(out, "\001r", 2);
			break;
		case '\n':
			buf_add(out, "\001n", 2);
			break;
		default:
			buf_addc(out, s.p[i]);
		}
}

static void field(struct buf *out, const char *key, struct str v)
{
	if (!v.n)
		return;
	buf_addc(out, '\t');
	buf_addz(out, key);
	buf_addc(out, '=');
	escape(out, v);
}

int dovecot_request_put(struct buf *out, const struct dovecot_request *r)
{
	if (!buf_room(out, 1024 + SASL_BASE64_SIZE(r->initial.n))) /* at once: growing leaves copies */
		return -1;
	buf_addf(out, "AUTH\t%llu\t", (unsigned long long)r->id);
	escape(out, r->mechanism);
	field(out, "service", r->service);
	if (r->tls) {
		buf_addz(out, "\tsecured=tls");
		field(out, "tls_protocol", r->tls_version);
		field(out, "tls_cipher", r->tls_cipher);
	}
	if (r->cert_verified)
		buf_addz(out, "\tvalid-client-cert");
	buf_addz(out, "\tno-penalty"); /* throttling by address is the reactor's */
	field(out, "lip", r->local);
	field(out, "rip", r->client);
	if (r->has_initial) { /* it must be last */
		buf_addz(out, "\tresp=");
		if (sasl_base64_encode(r->initial, out))
			out->failed = true;
	}
	buf_addc(out, '\n');
	return out->failed ? -1 : 0;
}

int dovecot_cont_put(struct buf *out, uint64_t id, struct str blob)
{
	if (!buf_room(out, 64 + SASL_BASE64_SIZE(blob.n)))
		return -1;
	buf_addf(out, "CONT\t%llu\t", (unsigned long long)id);
	if (sasl_base64_encode(blob, out))
		out->failed = true;
	buf_addc(out, '\n');
	return out->failed ? -1 : 0;
}

int dovecot_cancel_put(struct buf *out, uint64_t id)
{
	return buf_addf(out, "CANCEL\t%llu\n", (unsigned long long)id);
}
