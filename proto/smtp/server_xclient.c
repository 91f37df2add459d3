/* XCLIENT (Postfix's XCLIENT_README): "attribute=xtext" words by which a trusted proxy tells who its client is. Every value is
 * checked for what it claims to be; the caller decides what it means. */
#include "proto/address/address.h"
#include "command.h"
#include "server_internal.h"
#include "xtext.h"

enum { VALUE_MAX = 255 };

static bool set_name(struct smtp_xclient *x, struct str v)
{
	x->name = v;
	return smtp_helo_check(v) && v.p[0] != '[';
}

/* 192.0.2.1 or IPV6:2001:db8::1, by the grammar of address literals; the tag is taken off. */
static bool address(struct str *v)
{
	char literal[64];
	static const struct str tag = STR_INIT("IPV6:");
	if (v->n + 2 > sizeof literal)
		return false;
	literal[0] = '[';
	memcpy(literal + 1, v->p, v->n);
	literal[v->n + 1] = ']';
	if (smtp_literal_check(str_n(literal, v->n + 2)))
		return false;
	if (str_istarts(*v, tag))
		*v = str_skip(*v, tag.n);
	return true;
}

static bool set_addr(struct smtp_xclient *x, struct str v)
{
	bool ok = address(&v);
	x->addr = v;
	return ok;
}

static bool set_destaddr(struct smtp_xclient *x, struct str v)
{
	bool ok = address(&v);
	x->destaddr = v;
	return ok;
}

static bool port(struct str v, uint16_t *ret)
{
	uint64_t n;
	if (str_u64(v, 65535, &n))
		return false;
	*ret = (uint16_t)n;
	return true;
}

static bool set_port(struct smtp_xclient *x, struct str v)
{
	return port(v, &x->port);
}

static bool set_destport(struct smtp_xclient *x, struct str v)
{
	return port(v, &x->destport);
}

static bool set_proto(struct smtp_xclient *x, struct str v)
{
	x->esmtp = str_ieq(v, STR("ESMTP"));
	return x->esmtp || str_ieq(v, STR("SMTP"));
}

static bool set_helo(struct smtp_xclient *x, struct str v)
{
	x->helo = v; /* what a client said, right or wrong */
	return true;
}

static bool set_login(struct smtp_xclient *x, struct str v)
{
	x->login = v;
	return true;
}

static const struct attribute {
	struct str name;
	size_t is; /* offset of its enum smtp_xclient_state */
	bool (*set)(struct smtp_xclient *x, struct str v);
} attributes[] = {
	{ STR_INIT("NAME"), offsetof(struct smtp_xclient, name_is), set_name },
	{ STR_INIT("ADDR"), offsetof(struct smtp_xclient, addr_is), set_addr },
	{ STR_INIT("PORT"), offsetof(struct smtp_xclient, port_is), set_port },
	{ STR_INIT("PROTO"), offsetof(struct smtp_xclient, proto_is), set_proto },
	{ STR_INIT("HELO"), offsetof(struct smtp_xclient, helo_is), set_helo },
	{ STR_INIT("LOGIN"), offsetof(struct smtp_xclient, login_is), set_login },
	{ STR_INIT("DESTADDR"), offsetof(struct smtp_xclient, destaddr_is), set_destaddr },
	{ STR_INIT("DESTPORT"), offsetof(struct smtp_xclient, destport_is), set_destport },
};

static const struct attribute *find(struct str name)
{
	for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
		if (str_ieq(name, attributes[i].name))
			return &attributes[i];
	return NULL;
}

/* One word; decoded text goes to s->xclient_text, which is large enough not to move. */
static bool take(struct smtp_server *s, struct str word)
{
	struct buf *text = &s->xclient_text;
	ptrdiff_t eq = str_chr(word, '=');
	const struct attribute *a = eq > 0 ? find(str_n(word.p, (size_t)eq)) : NULL;
	if (!a)
		return false;
	enum smtp_xclient_state *is = (enum smtp_xclient_state *)(void *)((char *)&s->xclient + a->is);
	size_t at = text->n;
	if (*is || smtp_xtext_decode(str_skip(word, (size_t)eq + 1), text))
		return false;
	struct str v = str_n(text->p + at, text->n - at);
	if (v.n > VALUE_MAX)
		return false;
	if (str_ieq(v, STR("[UNAVAILABLE]"))) {
		*is = SMTP_XCLIENT_UNAVAILABLE;
		return true;
	}
	if (str_ieq(v, STR("[TEMPUNAVAIL]"))) {
		*is = SMTP_XCLIENT_TEMPUNAVAIL;
		return true;
	}
	*is = SMTP_XCLIENT_GIVEN;
	return a->set(&s->xclient, v);
}

bool smtp_server_xclient_check(struct smtp_server *s, struct str args)
{
	struct str word;
	bool ok;
	s->xclient = (struct smtp_xclient){ 0 };
	buf_reset(&s->xclient_text);
	ok = buf_room(&s->xclient_text, args.n + 1);
	if (!ok) {
		smtp_server_fail(s, 421, "4.3.0", "Insufficient system resources");
		return false;
	}
	while (ok && str_word(&args, " ", &word))
		ok = take(s, word);
	if (!ok)
		smtp_server_refuse(s, 501, "5.5.4", "Bad XCLIENT attribute");
	return ok;
}
