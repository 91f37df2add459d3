/* The drop file: what is written is read again; what is not whole is refused with a reason; how it is laid down. */
#include "submit/submit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY "0123456789abcdef0123456789abcdef"

static void both_ways(void **state)
{
	struct smtp_client_rcpt rcpts[] = { { .address = STR("a@b.test"), .notify = STR("NEVER") }, { .address = STR("c d@\xc3\xbc.test") } };
	const struct smtp_client_msg in = { .once = STR(KEY), .mail_from = STR("x@y.test"), .ret = STR("FULL"), .envid = STR("i"), .body_8bit = true,
		.smtputf8 = true, .rcpts = rcpts, .n_rcpts = 2, .headers = STR("Subject: x\r\n"), .body = STR("a\r\n.\r\nto e@f.test\r\n") };
	struct smtp_client_msg out;
	struct buf text = BUF_INIT(65536);
	char err[200] = "";
	(void)state;
	assert_int_equal(submit_drop_compose(&text, &in), 0);
	assert_int_equal(submit_drop_parse(buf_str(&text), &out, err, sizeof err), 0);
	assert_true(str_eq(out.once, in.once) && str_eq(out.mail_from, in.mail_from) && str_eq(out.ret, in.ret) && str_eq(out.envid, in.envid));
	assert_true(out.body_8bit && out.smtputf8 && out.n_rcpts == 2 && str_eq(out.headers, in.headers) && str_eq(out.body, in.body));
	assert_true(str_eq(out.rcpts[0].address, STR("a@b.test")) && str_eq(out.rcpts[0].notify, STR("NEVER")));
	assert_true(str_eq(out.rcpts[1].address, rcpts[1].address) && !out.rcpts[1].notify.n);
	free(out.rcpts);
	/* every shorter one is none */
	for (size_t n = 0; n < text.n; n++) {
		assert_int_equal(submit_drop_parse(str_n(text.p, n), &out, err, sizeof err), -1);
		assert_true(err[0]);
		free(out.rcpts);
	}
	buf_addc(&text, 'x');
	assert_int_equal(submit_drop_parse(buf_str(&text), &out, err, sizeof err), -1);
	free(out.rcpts);
	buf_free(&text);
}

static void none(void **state)
{
#define HEAD "pepsi-drop 1\nonce " KEY "\nfrom \nto a@b.test\n"
	static const struct {
		struct str in;
		const char *why;
	} cases[] = {
		{ STR_INIT("garbage"), "does not begin" },
		{ STR_INIT("pepsi-drop 2\n"), "does not begin" },
		{ STR_INIT("pepsi-drop 1\nto a@b.test\ncontent 0 0\n"), "no key" },
		{ STR_INIT("pepsi-drop 1\nonce short\nto a@b.test\ncontent 0 0\n"), "no key" },
		{ STR_INIT("pepsi-drop 1\nonce " KEY "\nfrom x\ncontent 0 0\n"), "no recipient" },
		{ STR_INIT(HEAD "evil x\ncontent 0 0\n"), "\"evil\"" },
		{ STR_INIT(HEAD "utf8 x\ncontent 0 0\n"), "\"utf8\"" },
		{ STR_INIT(HEAD "to a@b.test\r\ncontent 0 0\n"), "NUL or CR" },
		{ STR_INIT(HEAD "to a\0b\ncontent 0 0\n"), "NUL or CR" },
		{ STR_INIT(HEAD "content 0\n"), "two lengths" },
		{ STR_INIT(HEAD "content -1 1\n"), "two lengths" },
		{ STR_INIT(HEAD "content 0 99999999999999999999\n"), "two lengths" },
		{ STR_INIT(HEAD "content 4294967295 4294967295\n"), "promises" },
		{ STR_INIT(HEAD "content 0 3\nab"), "promises" },
		{ STR_INIT(HEAD "content 0 3\na\nb"), "bare" },
		{ STR_INIT(HEAD "content 5 0\nX: y\n"), "bare" },
	};
	char err[200];
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct smtp_client_msg m;
		err[0] = 0;
		assert_int_equal(submit_drop_parse(cases[i].in, &m, err, sizeof err), -1);
		free(m.rcpts);
		if (!strstr(err, cases[i].why))
			fail_msg("case %zu: %s", i, err);
	}
}

static void laid_down(void **state)
{
	char folder[] = "/tmp/unit-drop-XXXXXX", path[128];
	struct stat st;
	(void)state;
	assert_non_null(mkdtemp(folder));
	assert_int_equal(submit_drop_write(folder, STR("text"), KEY), 0);
	snprintf(path, sizeof path, "%s/m" KEY, folder);
	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISREG(st.st_mode) && st.st_size == 4 && (st.st_mode & 0777) == 0600);
	/* not over what is there, and nothing is left of the attempt */
	assert_int_equal(submit_drop_write(folder, STR("other"), KEY), -1);
	assert_int_equal(errno, EEXIST);
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_size, 4);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0);
	assert_int_equal(submit_drop_write(folder, STR("text"), KEY), -1);
	assert_true(submit_drop_name_done("m" KEY) && !submit_drop_name_done("t" KEY) && submit_drop_name_begun("t" KEY));
	assert_false(submit_drop_name_done("m") || submit_drop_name_done("m" KEY "0") || submit_drop_name_done("m/" KEY) || submit_drop_name_begun(".."));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(both_ways), cmocka_unit_test(none), cmocka_unit_test(laid_down) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
