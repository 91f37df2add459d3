/* Answers of token endpoints, forms, the folder of tokens, alarms, [token-NAME]. */
#include "token/token.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void test_answers(void **state)
{
	static const struct {
		const char *body;
		long status;
		const char *access, *refresh; /* access NULL: an error */
		int64_t life, refresh_life;
		bool refused;
		const char *error;
	} cases[] = {
		{ "{\"access_token\":\"a.b-c\",\"token_type\":\"Bearer\",\"expires_in\":3599}", 200, "a.b-c", "", 3599, 0, false, NULL },
		{ "{\"access_token\":\"a\",\"token_type\":\"bearer\",\"expires_in\":\"60\",\"refresh_token\":\"r\",\"refresh_token_expires_in\":604800}", 200, "a", "r", 60,
		    604800, false, NULL },
		{ "{\"access_token\":\"a\"}", 200, "a", "", 3600, 0, false, NULL },
		{ "{\"access_token\":\"a\",\"expires_in\":-5}", 200, "a", "", 3600, 0, false, NULL },
		{ "{\"access_token\":\"a\",\"expires_in\":99999999999}", 200, "a", "", 366 * 86400, 0, false, NULL },
		{ "{\"access_token\":\"\"}", 200, NULL, NULL, 0, 0, false, "the provider's answer holds no access token" },
		{ "{\"access_token\":7}", 200, NULL, NULL, 0, 0, false, "the provider's answer holds no access token" },
		{ "{\"access_token\":\"a\\nb\"}", 200, NULL, NULL, 0, 0, false, "the provider's answer holds no access token" },
		{ "{\"access_token\":\"a\",\"token_type\":\"mac\"}", 200, NULL, NULL, 0, 0, false, "the provider's token is not of the kind \"bearer\"" },
		{ "{\"access_token\":\"a\",\"refresh_token\":\"r r\"}", 200, NULL, NULL, 0, 0, false, "the provider's refresh token cannot be kept: its form is not known" },
		{ "[]", 200, NULL, NULL, 0, 0, false, "the provider's answer holds no access token" },
		{ "", 200, NULL, NULL, 0, 0, false, "the provider's answer holds no access token" },
		{ "{\"access_token\":\"a\"", 200, NULL, NULL, 0, 0, false, "the provider's answer holds no access token" },
		{ "{\"access_token\":\"a\"}", 201, NULL, NULL, 0, 0, false, "the provider answers with HTTP status 201" },
		{ "<html>", 502, NULL, NULL, 0, 0, false, "the provider answers with HTTP status 502" },
		{ "{\"error\":\"invalid_grant\",\"error_description\":\"Token has been expired or revoked.\"}", 400, NULL, NULL, 0, 0, true,
		    "invalid_grant: Token has been expired or revoked." },
		{ "{\"error\":\"invalid_client\"}", 401, NULL, NULL, 0, 0, true,
		    "invalid_client: the provider does not know the application, or its secret is another one (CLIENT_ID, CLIENT_SECRET)" },
		{ "{\"error\":\"temporarily_unavailable\"}", 503, NULL, NULL, 0, 0, false, "temporarily_unavailable" },
		{ "{\"error\":\"x\",\"error_description\":\"a\\u0000\\u001b[2J\\u00e9\"}", 400, NULL, NULL, 0, 0, false, NULL },
		{ "{\"error\":[1],\"error_description\":{}}", 400, NULL, NULL, 0, 0, false, "the provider answers with HTTP status 400" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct token_answer a;
		int r = token_answer_parse(str_from(cases[i].body), cases[i].status, &a);
		if ((r == 0) != (cases[i].access != NULL))
			print_error("%s: %s\n", cases[i].body, a.error);
		assert_int_equal(r, cases[i].access ? 0 : -1);
		if (cases[i].access) {
			assert_string_equal(buf_z(&a.access), cases[i].access);
			assert_string_equal(buf_z(&a.refresh), cases[i].refresh);
			assert_int_equal(a.life_s, cases[i].life);
			assert_int_equal(a.refresh_life_s, cases[i].refresh_life);
		} else {
			assert_true(a.refused == cases[i].refused);
			if (cases[i].error)
				assert_string_equal(a.error, cases[i].error);
			for (const char *p = a.error; *p; p++)
				assert_true(*p >= 32 && *p < 127);
		}
		token_answer_done(&a);
	}
}

static void test_forms(void **state)
{
	struct buf b = BUF_INIT(1000);
	(void)state;
	token_form_add(&b, "a", STR("x y&=+%\n/~-._"));
	token_form_add(&b, "b", STR("\xc3\xa9"));
	token_form_add(&b, "c", STR_NULL);
	token_form_add(&b, "d", str_n("\0z", 2));
	assert_string_equal(buf_z(&b), "a=x%20y%26%3D%2B%25%0A%2F~-._&b=%C3%A9&c=&d=%00z");
	buf_free(&b);
}

static void test_names(void **state)
{
	static const char *const good[] = { "a", "office-365", "a.b_C9" }, *const bad[] = { "", ".a", "a/b", "..", "a b", "\xc3\xa9", "a\nb" };
	char longest[TOKEN_NAME_MAX + 2];
	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		assert_true(token_name_ok(good[i]));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_false(token_name_ok(bad[i]));
	memset(longest, 'a', sizeof longest);
	longest[TOKEN_NAME_MAX + 1] = 0;
	assert_false(token_name_ok(longest));
	longest[TOKEN_NAME_MAX] = 0;
	assert_true(token_name_ok(longest));
}

static void test_alarms(void **state)
{
	static const int64_t now = 2000000000, day = 86400;
	const struct {
		struct token_state s;
		const char *alarm;
	} cases[] = {
		{ { .access_expires = now + 100, .refreshed_at = now - 100 }, NULL },
		{ { .access_expires = now + 100, .refreshed_at = now - 100, .refresh_expires = now + 15 * day }, NULL },
		{ { .access_expires = now + 100, .refreshed_at = now - 100, .refresh_expires = now + 14 * day }, "it expires soon" },
		{ { .access_expires = now + 100, .refreshed_at = now - 100, .refresh_expires = now }, "it has expired" },
		{ { .access_expires = now + 100, .refused = true, .error_at = now }, "the provider refuses it" },
		{ { .access_expires = now + 100, .refreshed_at = now - 100, .error_at = now - 1, .failures = 1 }, NULL },
		{ { .access_expires = now, .refreshed_at = now - 100, .error_at = now - 1, .failures = 1 }, "there is no valid access token" },
		{ { .access_expires = now + 100, .refreshed_at = now - 3 * 3600, .error_at = now - 1, .failures = 5 }, "it cannot be refreshed" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *a = token_alarm(&cases[i].s, now);
		if (cases[i].alarm) {
			assert_non_null(a);
			assert_memory_equal(a, cases[i].alarm, strlen(cases[i].alarm));
		} else {
			assert_null(a);
		}
	}
}

static void test_files(void **state)
{
	char dir[] = "/tmp/pepsi-unit-XXXXXX", path[200], other[200];
	struct token_dir d, second;
	struct token_state s = { .access_expires = 5, .refreshed_at = 4, .refresh_obtained = 3, .refresh_expires = 6, .error_at = 7, .failures = 8, .refused = true,
		.error = "\"quoted\" \\ text" }, got;
	struct buf b = BUF_INIT(TOKEN_MAX);
	struct stat st;
	(void)state;
	assert_non_null(mkdtemp(dir));
	mode_t old = umask(077);
	assert_int_equal(token_dir_make(dir, geteuid(), getegid()), 0);
	assert_int_equal(token_dir_make(dir, geteuid(), getegid()), 0);
	snprintf(path, sizeof path, "%s/tokens", dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0751);
	assert_int_equal(token_state_read(dir, "x", &got), 1);
	assert_int_equal(token_state_read(dir, "../x", &got), -1);
	assert_int_equal(token_dir_open(&d, dir, "x", true), 0);
	assert_int_equal(token_dir_open(&second, dir, "x", false), 1); /* one at a time */
	assert_int_equal(token_file_write(&d, "x", "access", 0640, STR("one")), 0);
	assert_int_equal(token_file_write(&d, "x", "access", 0640, STR("two")), 0);
	assert_int_equal(token_file_read(&d, "x", "access", &b), 0);
	assert_string_equal(buf_z(&b), "two");
	snprintf(path, sizeof path, "%s/tokens/x.access", dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	/* what a run that was cut short left, and a link somebody laid, are in nobody's way */
	snprintf(other, sizeof other, "%s/tokens/x.access.new", dir);
	assert_int_equal(symlink("/nonexistent/elsewhere", other), 0);
	assert_int_equal(token_file_write(&d, "x", "access", 0640, STR("three")), 0);
	assert_int_equal(lstat(other, &st), -1);
	unlink(path);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	buf_reset(&b);
	assert_int_equal(token_file_read(&d, "x", "access", &b), -1);
	assert_int_equal(token_file_remove(&d, "x", "access"), 0);
	assert_int_equal(token_state_write(&d, "x", &s), 0);
	assert_int_equal(token_state_read(dir, "x", &got), 0);
	assert_int_equal(got.access_expires, 5);
	assert_int_equal(got.refresh_expires, 6);
	assert_int_equal(got.failures, 8);
	assert_true(got.refused);
	assert_string_equal(got.error, s.error);
	assert_int_equal(token_file_write(&d, "x", "state", 0644, STR("[1]")), 0);
	assert_int_equal(token_state_read(dir, "x", &got), -1);
	assert_int_equal(token_file_write(&d, "x", "state", 0644, STR("{\"access_expires\":\"soon\",\"failures\":-3,\"error\":7}")), 0);
	assert_int_equal(token_state_read(dir, "x", &got), 0);
	assert_int_equal(got.access_expires, 0);
	assert_int_equal(got.failures, 0);
	token_file_remove(&d, "x", "state");
	token_file_remove(&d, "x", "lock");
	token_dir_close(&d);
	token_dir_close(&d);
	umask(old);
	snprintf(path, sizeof path, "%s/tokens", dir);
	rmdir(path);
	assert_int_equal(rmdir(dir), 0);
	buf_free(&b);
}

static void settings(const char *text, const char *url, const char *scope, int64_t life, const char *fault)
{
	char path[] = "/tmp/pepsi-unit-XXXXXX";
	int fd = mkstemp(path);
	struct config_faults *faults = config_faults_new();
	struct token_settings s;
	const char *why = NULL;
	assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	struct config *c = config_load(path, faults);
	assert_non_null(c);
	assert_string_equal(token_name(c, 0), "t");
	assert_null(token_name(c, 1));
	int r = token_settings_read(&s, c, "t", &why);
	if (fault) {
		assert_int_equal(r, -1);
		assert_memory_equal(why, fault, strlen(fault));
	} else {
		assert_int_equal(r, 0);
		assert_string_equal(s.token_url, url);
		if (scope)
			assert_string_equal(s.scope, scope);
		else
			assert_null(s.scope);
		assert_int_equal(s.refresh_life_s, life);
	}
	token_settings_done(&s);
	config_free(c);
	config_faults_free(faults);
	unlink(path);
}

static void test_settings(void **state)
{
	(void)state;
	settings("[token-t]\nPROVIDER = google\nCLIENT_ID = x\n", "https://oauth2.googleapis.com/token", "https://mail.google.com/", 0, NULL);
	settings("[token-t]\nPROVIDER = microsoft\nCLIENT_ID = x\n", "https://login.microsoftonline.com/common/oauth2/v2.0/token",
	    "https://outlook.office.com/SMTP.Send offline_access", 90 * 86400, NULL);
	settings("[token-t]\nPROVIDER = microsoft\nTENANT = example.org\nCLIENT_ID = x\nREFRESH_LIFETIME = 0\nSCOPE = y\n",
	    "https://login.microsoftonline.com/example.org/oauth2/v2.0/token", "y", 0, NULL);
	settings("[token-t]\nTOKEN_URL = https://a.example/t\nCLIENT_ID = x\nREFRESH_LIFETIME = 7 d\n", "https://a.example/t", NULL, 7 * 86400, NULL);
	settings("[token-t]\nTOKEN_URL = http://a.example/t\nCLIENT_ID = x\n", NULL, NULL, 0, "TOKEN_URL must be https://");
	settings("[token-t]\nTOKEN_URL = https://a.example/t\n", NULL, NULL, 0, "CLIENT_ID is missing");
	settings("[token-t]\nCLIENT_ID = x\n", NULL, NULL, 0, "TOKEN_URL is missing");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers), cmocka_unit_test(test_forms), cmocka_unit_test(test_names), cmocka_unit_test(test_alarms),
		cmocka_unit_test(test_files), cmocka_unit_test(test_settings),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
