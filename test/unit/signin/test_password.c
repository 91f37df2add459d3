/* Passwords: which are taken, that digests fit their password and no other, and that what costs too much is not computed. */
#include "signin/password.h"

#include "proto/sasl/scram.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void rules(void **st)
{
	static char long_one[1026];
	static const struct {
		struct str in;
		const char *fault; /* part of it; NULL: taken */
	} of[] = {
		{ STR_INIT("x"), NULL },
		{ STR_INIT("correct horse battery staple"), NULL },
		{ STR_INIT("p\xc3\xa4ssw\xc3\xb6rd"), NULL },
		{ STR_INIT("\xf0\x9f\x94\x91"), NULL },
		{ STR_INIT(""), "empty" },
		{ STR_INIT("a\xff"), "UTF-8" },
		{ STR_INIT("a\0b"), "character" },
		{ STR_INIT("a\tb"), "character" },
		{ STR_INIT("\xd7\x90z"), "character" }, /* both directions */
	};
	(void)st;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		const char *f = password_fault(of[i].in);
		if ((f == NULL) != (of[i].fault == NULL) || (f && !strstr(f, of[i].fault)))
			fail_msg("password %zu: %s", i, f ? f : "taken");
	}
	memset(long_one, 'x', sizeof long_one);
	assert_null(password_fault(str_n(long_one, 1024)));
	assert_non_null(strstr(password_fault(str_n(long_one, 1025)), "1024"));
}

static void digest(void **st)
{
	struct buf a = BUF_INIT(600), b = BUF_INIT(600), s = BUF_INIT(600);
	struct scram_verifier v;
	char dummy[PASSWORD_PHC_MAX], other[PASSWORD_PHC_MAX];
	(void)st;
	assert_int_equal(password_hash(STR("secret"), &a), 0);
	assert_int_equal(password_hash(STR("secret"), &b), 0);
	assert_true(str_starts(buf_str(&a), STR("$argon2id$v=19$m=19456,t=2,p=1$")));
	assert_false(str_eq(buf_str(&a), buf_str(&b))); /* the salt */
	assert_int_equal(password_verify(buf_str(&a), STR("secret")), 1);
	assert_int_equal(password_verify(buf_str(&a), STR("Secret")), 0);
	assert_int_equal(password_verify(buf_str(&a), STR("")), 0);
	assert_int_equal(password_dummy(dummy), 0);
	assert_int_equal(password_dummy(other), 0);
	assert_string_not_equal(dummy, other);
	assert_int_equal(strlen(dummy), a.n); /* the same cost and form */
	assert_memory_equal(dummy, a.p, sizeof "$argon2id$v=19$m=19456,t=2,p=1$" - 1);
	assert_int_equal(password_verify(str_from(dummy), STR("secret")), 0);
	assert_int_equal(password_scram(STR("secret"), &s), 0);
	assert_int_equal(scram_verifier_parse(buf_str(&s), &v), 0);
	assert_int_equal(scram_verifier_check(&v, STR("secret")), 1);
	assert_int_equal(scram_verifier_check(&v, STR("secret2")), 0);
	buf_free(&a);
	buf_free(&b);
	buf_free(&s);
}

static void refused(void **st)
{
	static const char *const bad[] = {
		"", "secret", "$argon2id$", "$argon2i$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNo", "$2y$10$abcdefghijklmnopqrstuv",
		"$argon2id$v=19$m=4194304,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNo", "$argon2id$v=19$m=19456,t=1000,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNo",
		"$argon2id$v=19$m=19456,t=2,p=400$c2FsdHNhbHQ$aGFzaGhhc2hoYXNo", "$argon2id$v=19$m=-1,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNo",
		"$argon2id$v=19$m=19456,t=2,p=1$", "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ", "$argon2id$v=19$t=2,m=19456,p=1$c2FsdHNhbHQ$aGFz",
		"$argon2id$v=19$m=0,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNo", "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$****",
	};
	char big[PASSWORD_PHC_MAX + 8];
	(void)st;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (password_verify(str_from(bad[i]), STR("secret")) != -1)
			fail_msg("%s was computed", bad[i]);
	memset(big, 'A', sizeof big);
	memcpy(big, "$argon2id$v=19$m=19456,t=2,p=1$", 31);
	assert_int_equal(password_verify(str_n(big, sizeof big), STR("secret")), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(rules), cmocka_unit_test(digest), cmocka_unit_test(refused) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
