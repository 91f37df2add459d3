/* SPF in header fields; see spf_authres.h. */
#include "proto/auth/spf_authres.h"

#include "proto/mail/header.h"

#include <arpa/inet.h>
#include <stdio.h>

static void client_ip(const struct spf_check *c, char *out, size_t size)
{
	out[0] = 0;
	if (c->ip_n == 4 || c->ip_n == 16)
		inet_ntop(c->ip_n == 4 ? AF_INET : AF_INET6, c->ip, out, (socklen_t)size);
}

void spf_authres(const struct spf_check *c, struct spf_authres *ret)
{
	struct authres_result *r = &ret->result;
	struct buf text = BUF_INIT(AUTHRES_VALUE_MAX);
	*r = (struct authres_result){ .method = STR("spf"), .result = str_from(spf_result_name(c->result)) };
	ret->comment[0] = 0;
	if (spf_text(c, &text) == 0)
		snprintf(ret->comment, sizeof ret->comment, "%s", strstr(buf_z(&text), ": ") + 2);
	buf_free(&text);
	r->comment = str_from(ret->comment);
	r->prop[r->n_props++] = c->by_helo ? (struct authres_prop){ STR("smtp"), STR("helo"), c->helo } :
					     (struct authres_prop){ STR("smtp"), STR("mailfrom"), c->sender };
}

/* -- Received-SPF */

static bool is_dot_atom(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		bool atom = ascii_is_alnum(c) || (c && strchr("!#$%&'*+-/=?^_`{|}~", c));
		bool dot = c == '.' && i && i + 1 < s.n && s.p[i - 1] != '.';
		if (!atom && !dot)
			return false;
	}
	return s.n > 0;
}

static void put_clean(struct buf *b, struct str s, const char *escape)
{
	for (size_t i = 0; i < s.n && i < SPF_VALUE_MAX; i++) {
		char c = s.p[i] < 0x20 || s.p[i] > 0x7e ? '?' : s.p[i];
		if (strchr(escape, c))
			buf_addc(b, '\\');
		buf_addc(b, c);
	}
}

/* key=value and perhaps ";": a dot-atom or a quoted string (§9.1). */
static void put_pair(struct mail_fold *f, const char *key, struct str value, bool last)
{
	struct buf b = BUF_INIT(4096);
	buf_addf(&b, "%s=", key);
	if (is_dot_atom(value)) {
		buf_adds(&b, value);
	} else {
		buf_addc(&b, '"');
		put_clean(&b, value, "\"\\");
		buf_addc(&b, '"');
	}
	if (!last)
		buf_addc(&b, ';');
	f->bad |= b.failed;
	mail_fold_piece(f, buf_str(&b));
	buf_free(&b);
}

int spf_received_write(struct buf *out, const struct spf_check *c, struct str receiver)
{
	struct mail_fold f;
	struct buf text = BUF_INIT(1024), comment = BUF_INIT(4096);
	size_t before = out->n;
	char ip[64];
	bool error = c->result == SPF_TEMPERROR || c->result == SPF_PERMERROR;
	client_ip(c, ip, sizeof ip);
	mail_fold_begin(&f, out, STR("Received-SPF"));
	mail_fold_piece(&f, str_from(spf_result_name(c->result)));
	spf_text(c, &text);
	buf_addc(&comment, '(');
	put_clean(&comment, receiver, "()\\");
	buf_addz(&comment, ": ");
	put_clean(&comment, str_from(strstr(buf_z(&text), ": ") + 2), "()\\");
	buf_addc(&comment, ')');
	struct str rest = buf_str(&comment), word;
	while (str_word(&rest, " ", &word))
		mail_fold_piece(&f, word);
	put_pair(&f, "client-ip", str_from(ip), false);
	put_pair(&f, "envelope-from", c->sender, false);
	put_pair(&f, "helo", c->helo, false);
	put_pair(&f, "identity", c->by_helo ? STR("helo") : STR("mailfrom"), false);
	if (c->term[0])
		put_pair(&f, error ? "problem" : "mechanism", str_from(c->term), false);
	put_pair(&f, "receiver", receiver, true);
	f.bad |= comment.failed || text.failed;
	buf_free(&text);
	buf_free(&comment);
	if (mail_fold_end(&f) == 0)
		return 0;
	if (out->n > before) {
		out->n = before;
		out->p[before] = 0;
	}
	return -1;
}
