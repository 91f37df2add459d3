/* Fuzz: Authentication-Results. What reads well is written and read back the same; after stripping, no field that reads well has our id. */
#include "proto/auth/authres.h"

#include "base/check.h"
#include "proto/mail/header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct str ours = STR_INIT("mx.a");

static void same(const struct authres *a, const struct authres *b)
{
	must(!b->bad && str_eq(a->id, b->id) && a->n == b->n);
	for (size_t i = 0; i < a->n; i++) {
		const struct authres_result *x = &a->result[i], *y = &b->result[i];
		must(str_eq(x->method, y->method) && str_eq(x->result, y->result) && x->n_props == y->n_props);
		must((x->version ? x->version : 1) == y->version);
		for (size_t k = 0; k < x->n_props; k++)
			must(str_eq(x->prop[k].name, y->prop[k].name) && str_eq(x->prop[k].ptype, y->prop[k].ptype));
	}
}

/* Written values lose nothing when they are printable and short; keywords have a bound of their own. */
static bool plain(const struct authres *a)
{
	for (size_t i = 0; i < a->n; i++) {
		if (a->result[i].method.n > 60 || a->result[i].result.n > 60)
			return false;
		for (size_t k = 0; k < a->result[i].n_props; k++)
			if (a->result[i].prop[k].value.n > AUTHRES_VALUE_MAX || a->result[i].prop[k].name.n > 60 || a->result[i].prop[k].ptype.n > 60)
				return false;
	}
	return true;
}

static void strip(struct str block)
{
	struct buf out = BUF_INIT(1 << 20), twice = BUF_INIT(1 << 20);
	struct mail_field f;
	size_t removed, again;
	must(authres_strip(&out, block, &ours, 1, &removed) == 0);
	must(authres_strip(&twice, buf_str(&out), &ours, 1, &again) == 0 && again == 0 && str_eq(buf_str(&out), buf_str(&twice)));
	must((removed == 0) == (out.n == block.n));
	for (size_t n = 0; mail_field_find(buf_str(&out), STR("Authentication-Results"), n, &f) == 0; n++) {
		struct authres a;
		must(authres_parse(&a, f.value) == 0);
		must(!str_ieq(a.id, ours));
		authres_free(&a);
	}
	buf_free(&out);
	buf_free(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = str_n((const char *)data, size);
	struct authres a, back;
	struct mail_field f;
	if (size > 65536)
		return 0;
	must(authres_parse(&a, text) == 0);
	must(a.n <= AUTHRES_RESULTS_MAX);
	must(a.bad || a.none || a.n);
	struct buf b = BUF_INIT(1 << 20);
	if (!a.bad && plain(&a) && authres_write(&b, a.id, a.result, a.n, true) == 0) {
		struct str rest = buf_str(&b);
		must(mail_headers_sendable(rest) && mail_field_next(&rest, &f) == 1 && !rest.n);
		must(authres_parse(&back, f.value) == 0);
		same(&a, &back);
		must(authres_claims(f.value, a.id));
		authres_free(&back);
	}
	authres_free(&a);
	buf_reset(&b);
	buf_addz(&b, "Authentication-Results: ");
	buf_adds(&b, text);
	buf_addz(&b, "\r\n");
	strip(buf_str(&b));
	buf_free(&b);
	return 0;
}
