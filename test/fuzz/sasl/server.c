/* Each mechanism of the server with messages that anybody may send. First octet: mechanism and the backend's answers; the
 * messages are separated by 0xff 0xff. Checked: the order of states, what a backend may rely on of names and passwords, that
 * nobody comes in whom no backend let in, and that everything ends. */
#include "base/check.h"
#include "proto/sasl/server.h"

#include <stdint.h>

#define VERIFIER "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(struct str name, bool may_be_empty)
{
	must(name.n ? name.n <= SASL_NAME_MAX && str_is_utf8(name) : may_be_empty);
	for (size_t i = 0; i < name.n; i++)
		must((unsigned char)name.p[i] >= 0x20 && name.p[i] != 0x7f);
}

struct run {
	struct sasl_server *s;
	unsigned answers; /* 2 bits each */
	bool said_yes, said_no, said_later;
};

static enum sasl_answer next_answer(struct run *r)
{
	unsigned a = r->answers & 3;
	r->answers >>= 2;
	r->said_yes = a < 2;
	r->said_no = r->said_no || a == 2;
	r->said_later = r->said_later || a == 3;
	return a < 2 ? SASL_YES : a == 2 ? SASL_NO : SASL_LATER;
}

/* Answers until a message is wanted, or it is over. */
static enum sasl_server_state decide(struct run *r, enum sasl_server_state st)
{
	struct scram_verifier v;
	struct str p;
	for (unsigned i = 0; i < 8; i++)
		switch (st) {
		case SASL_NEED_PASSWORD:
			check_name(sasl_server_name(r->s), false);
			p = sasl_server_password(r->s);
			must(p.n && p.n <= SASL_PASSWORD_MAX && str_is_utf8(p) && !memchr(p.p, 0, p.n));
			must(sasl_server_password_raw(r->s).n);
			st = sasl_server_answer(r->s, next_answer(r), STR_NULL);
			break;
		case SASL_NEED_TOKEN:
			check_name(sasl_server_name(r->s), true);
			p = sasl_server_token(r->s);
			must(p.n && str_is_ascii(p) && str_chr(p, ' ') < 0);
			st = sasl_server_answer(r->s, next_answer(r), STR("token@example.test"));
			break;
		case SASL_NEED_CERTIFICATE:
			check_name(sasl_server_name(r->s), true);
			st = sasl_server_answer(r->s, next_answer(r), STR("cert@example.test"));
			break;
		case SASL_NEED_VERIFIER:
			check_name(sasl_server_name(r->s), false);
			must(!scram_verifier_parse(STR(VERIFIER), &v));
			if ((r->answers & 3) == 3) {
				next_answer(r);
				st = sasl_server_answer(r->s, SASL_LATER, STR_NULL);
			} else {
				st = sasl_server_verifier(r->s, (r->answers & 3) == 2 ? NULL : &v);
				r->answers >>= 2;
			}
			break;
		case SASL_NEED_ACCOUNT:
			st = sasl_server_answer(r->s, next_answer(r), STR_NULL);
			break;
		case SASL_CHALLENGE:
			must(sasl_server_challenge(r->s).n <= SASL_BLOB_MAX);
			return st;
		case SASL_OK:
			must(r->said_yes && !r->said_no && !r->said_later);
			check_name(sasl_server_account(r->s), false);
			must(!sasl_server_password(r->s).n && !sasl_server_token(r->s).n);
			return st;
		case SASL_FAIL:
			must(sasl_server_failure(r->s) && *sasl_server_reason(r->s));
			return st;
		}
	must(false);
	return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 3)
		return 0;
	struct sasl_server_conf conf = {
		.mech = (enum sasl_mech)(data[0] % SASL_MECHS),
		.nonce = STR("%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"),
		.dummy_key = STR("0123456789abcdef"),
		.bindings = { { STR("tls-exporter"), STR("abcdefghijklmnopqrstuvwxyz012345") } },
		.n_bindings = 1,
		.plus_offered = data[1] & 1,
		.scope = STR("mail"),
	};
	struct run r = { .s = sasl_server_make(&conf), .answers = data[2] };
	must(r.s);
	enum sasl_server_state st = SASL_CHALLENGE;
	size_t at = 3;
	bool first = true;
	for (unsigned i = 0; i < 6 && at <= size && st == SASL_CHALLENGE; i++) {
		size_t end = at;
		while (end < size && !(data[end] == 0xff && end + 1 < size && data[end + 1] == 0xff))
			end++;
		bool has = !(first && data[1] & 2);
		st = decide(&r, sasl_server_feed(r.s, has, str_n((const char *)data + at, end - at)));
		if (has)
			at = end + 2;
		first = false;
	}
	sasl_server_free(r.s);
	return 0;
}
