/* relay-to-maildir: octets on disk, names that are refused, links that are not followed, and each mixture of outcomes. */
#include "stage.h"

#include "base/clock.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONF "MAILDIR = %s/mail/${domain}/${local}\nBOUNCE_STAGE = bounce\n"

static int read_one(struct stage *s, const char *below, char *out, size_t size)
{
	char path[512];
	struct dirent *e;
	int n = 0;
	snprintf(path, sizeof path, "%s/mail/%s/new", s->dir, below);
	DIR *d = opendir(path);
	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "%s/mail/%s/new/%s", s->dir, below, e->d_name);
		struct stat st;
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_mode & 07777, 0600);
		FILE *f = fopen(path, "r");
		out[fread(out, 1, size - 1, f)] = 0;
		fclose(f);
		n++;
	}
	if (d)
		closedir(d);
	snprintf(path, sizeof path, "%s/mail/%s/tmp", s->dir, below);
	if (d && rmdir(path)) /* nothing may be left there */
		fail_msg("tmp is not empty");
	return n;
}

static void opened(struct stage *s, const char *text)
{
	memset(s, 0, sizeof *s);
	s->received_at = clock_wall_us();
	assert_int_equal(stage_open(s, "pepsi-stage-relay-to-maildir", text), PEPSI_OK);
	assert_string_equal(s->found, "");
}

static void octet_for_octet(void **st)
{
	(void)st;
	static const struct {
		const char *conf, *headers, *body, *want;
	} cases[] = {
		{ CONF, "Subject: x\r\n", ".dot\r\n\xff\xe4 8bit\r\n", "Return-Path: <s@x.test>\r\nDelivered-To: Ann@Example.test\r\n"
		    "Subject: x\r\n\r\n.dot\r\n\xff\xe4 8bit\r\n" },
		{ CONF, "Subject: x\r\n", "", "Return-Path: <s@x.test>\r\nDelivered-To: Ann@Example.test\r\nSubject: x\r\n\r\n" },
		{ CONF, "Subject: x\r\n", "no final newline", "Return-Path: <s@x.test>\r\nDelivered-To: Ann@Example.test\r\n"
		    "Subject: x\r\n\r\nno final newline" },
		{ CONF "NEWLINE = lf\n", "A: b\r\n", "x\r\n\r\ny\r\n", "Return-Path: <s@x.test>\nDelivered-To: Ann@Example.test\nA: b\n\nx\n\ny\n" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct stage s;
		char text[4096];
		opened(&s, cases[i].conf);
		stage_pass_full(&s, "s@x.test", "Ann@Example.test", "{}", str_from(cases[i].headers), str_from(cases[i].body));
		assert_string_equal(stage_outcome(&s), "finish delivered");
		assert_int_equal(read_one(&s, "example.test/ann", text, sizeof text), 1);
		assert_string_equal(text, cases[i].want);
		stage_close(&s);
	}
}

static void names(void **st)
{
	(void)st;
	static const struct {
		const char *to, *below; /* NULL: refused */
	} cases[] = {
		{ "a@x.test", "x.test/a" }, { "\"quoted\"@x.test", "x.test/quoted" }, { "m\xc3\xbc@x.test", "x.test/m\xc3\xbc" },
		{ "a+b@x.test", "x.test/a+b" }, { "a/b@x.test", NULL }, { "\"../../etc\"@x.test", NULL }, { "\".hidden\"@x.test", NULL },
		{ "\"\"@x.test", NULL }, { "nodomain", NULL }, { "a@..", NULL }, { "a@x.test/y", NULL }, { "\"..\"@x.test", NULL },
	};
	struct stage s;
	char text[4096];
	opened(&s, CONF);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		stage_pass(&s, "s@x.test", cases[i].to, "{}");
		if (cases[i].below) {
			assert_string_equal(stage_outcome(&s), "finish delivered");
			assert_int_equal(read_one(&s, cases[i].below, text, sizeof text), 1);
		} else {
			if (strncmp(stage_outcome(&s), "move bounce", 11) != 0 || !strstr(stage_outcome(&s), "\"enhanced_status\":\"5.1.3\""))
				fail_msg("%s gives %s", cases[i].to, stage_outcome(&s));
		}
	}
	stage_close(&s);
}

static void links_are_not_followed(void **st)
{
	(void)st;
	struct stage s;
	char path[512], target[512], text[64];
	opened(&s, CONF);
	snprintf(target, sizeof target, "%s/elsewhere", s.dir);
	mkdir(target, 0700);
	static const char *const at[] = { "mail/l1.test", "mail/x.test/l2", "mail/x.test/l3/new", "mail/x.test/l4/tmp", "mail/x.test/l5/cur" };
	static const char *const to[] = { "a@l1.test", "l2@x.test", "l3@x.test", "l4@x.test", "l5@x.test" };
	for (size_t i = 0; i < 5; i++) {
		snprintf(path, sizeof path, "%s/%s", s.dir, at[i]);
		for (char *p = path + strlen(s.dir) + 1; (p = strchr(p, '/')); p++) { /* the folders above it */
			*p = 0;
			mkdir(path, 0700);
			*p = '/';
		}
		assert_int_equal(symlink(target, path), 0);
		stage_pass(&s, "s@x.test", to[i], "{}");
		assert_string_equal(stage_outcome(&s), "pause");
	}
	assert_int_equal(rmdir(target), 0); /* still empty */
	/* a file in the way */
	snprintf(path, sizeof path, "mail/x.test/l6");
	stage_file(&s, path, "not a folder");
	stage_pass(&s, "s@x.test", "l6@x.test", "{}");
	assert_string_equal(stage_outcome(&s), "pause");
	assert_int_equal(read_one(&s, "x.test/l6", text, sizeof text), 0);
	stage_close(&s);
}

static void create_off(void **st)
{
	(void)st;
	struct stage s;
	char path[512], text[4096];
	opened(&s, CONF "CREATE = NO\n");
	snprintf(path, sizeof path, "%s/mail", s.dir);
	mkdir(path, 0700);
	snprintf(path, sizeof path, "%s/mail/x.test", s.dir);
	mkdir(path, 0700);
	snprintf(path, sizeof path, "%s/mail/x.test/a", s.dir);
	mkdir(path, 0700);
	stage_pass(&s, "s@x.test", "a@x.test", "{}");
	assert_string_equal(stage_outcome(&s), "finish delivered");
	assert_int_equal(read_one(&s, "x.test/a", text, sizeof text), 1);
	stage_pass(&s, "s@x.test", "b@x.test", "{}");
	assert_non_null(strstr(stage_outcome(&s), "\"enhanced_status\":\"5.1.1\""));
	stage_close(&s);
}

/* What RECIPIENT_DELIMITER made us take for ann goes to ann, and not where nobody reads; a Maildir that is there wins. */
static void details(void **st)
{
	(void)st;
	static const struct {
		const char *to, *below; /* NULL: refused */
	} cases[] = {
		{ "Ann+lists@x.test", "x.test/ann" }, { "ben-a+b@x.test", "x.test/ben" }, { "own+box@x.test", "x.test/own+box" },
		{ "+all@x.test", "x.test/+all" }, { "\"cy+q\"@x.test", "x.test/cy+q" }, { "dee+../y@x.test", "x.test/dee" },
		{ "eve+@x.test", "x.test/eve" }, { ".f+x@x.test", NULL },
	};
	struct stage s;
	char path[512], text[4096], want[128];
	opened(&s, CONF "RECIPIENT_DELIMITER = +-\n");
	snprintf(path, sizeof path, "%s/mail", s.dir);
	mkdir(path, 0700);
	snprintf(path, sizeof path, "%s/mail/x.test", s.dir);
	mkdir(path, 0700);
	snprintf(path, sizeof path, "%s/mail/x.test/own+box", s.dir);
	mkdir(path, 0700);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		stage_pass(&s, "s@x.test", cases[i].to, "{}");
		if (!cases[i].below) {
			assert_non_null(strstr(stage_outcome(&s), "\"enhanced_status\":\"5.1.3\""));
			continue;
		}
		assert_string_equal(stage_outcome(&s), "finish delivered");
		if (read_one(&s, cases[i].below, text, sizeof text) != 1)
			fail_msg("%s is not in %s", cases[i].to, cases[i].below);
		snprintf(want, sizeof want, "Delivered-To: %s\r\n", cases[i].to);
		assert_non_null(strstr(text, want)); /* filters see the detail there */
	}
	stage_close(&s);
	/* where nothing is made, either folder will do, and without both nobody lives there */
	opened(&s, CONF "RECIPIENT_DELIMITER = +\nCREATE = NO\n");
	snprintf(path, sizeof path, "%s/mail", s.dir);
	mkdir(path, 0700);
	stage_pass(&s, "s@x.test", "no+body@x.test", "{}");
	assert_non_null(strstr(stage_outcome(&s), "\"enhanced_status\":\"5.1.1\""));
	stage_close(&s);
}

/* One is delivered, one refused, one waits: each on a row of its own. */
static void mixtures(void **st)
{
	(void)st;
	struct stage s;
	char path[512], text[4096];
	opened(&s, CONF);
	stage_pass(&s, "s@x.test", "ok@x.test .bad@x.test", "{}");
	assert_string_equal(stage_outcome(&s), "finish delivered +bounce:1");
	snprintf(path, sizeof path, "mail/x.test/later");
	stage_file(&s, path, "in the way");
	stage_pass(&s, "s@x.test", "ok2@x.test .bad@x.test later@x.test", "{}");
	assert_string_equal(stage_outcome(&s), "pause:2 +bounce:1");
	assert_non_null(strstr(s.msg.pass.ops[0].state, "\"attempts\":1"));
	assert_int_equal(read_one(&s, "x.test/ok2", text, sizeof text), 1);
	/* and a success report for who asked */
	stage_pass(&s, "s@x.test", "ok3@x.test", "{\"dsn\":{\"rcpt\":[{\"notify\":\"SUCCESS\"}]}}");
	assert_string_equal(stage_outcome(&s), "finish delivered +bounce:0");
	/* the end of the lifetime */
	s.env.lifetime_s = -1;
	stage_pass(&s, "s@x.test", "later@x.test", "{}");
	assert_memory_equal(stage_outcome(&s), "move bounce", 11);
	assert_non_null(strstr(stage_outcome(&s), "delivery time expired"));
	stage_close(&s);
}

static void configuration(void **st)
{
	(void)st;
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "", "MAILDIR: must be set" },
		{ "MAILDIR = mail/${local}\n", "must be an absolute path" },
		{ "MAILDIR = /var/mail/all\n", "all recipients would share one mailbox" },
		{ "MAILDIR = /var/mail/${user}\n", "unknown variable at \"${user}\"" },
		{ "MAILDIR = /var/mail/${local}/../x\n", "must not hold the folders . or .." },
		{ "MAILDIR = /var/mail/${local}\nHOME_MAILDIR = Maildir\n", "HOME_MAILDIR: delivery to system users is not available" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct stage s = { .dir = "" };
		assert_int_equal(stage_open(&s, "pepsi-stage-relay-to-maildir", cases[i].text), PEPSI_PERMANENT);
		if (!strstr(s.found, cases[i].says))
			fail_msg("case %zu: %s", i, s.found);
		s.env.state = NULL;
		stage_close(&s);
	}
}

int main(void)
{
	log_setup(LOG_LV_ERROR, "test");
	const struct CMUnitTest tests[] = { cmocka_unit_test(octet_for_octet), cmocka_unit_test(names),
		cmocka_unit_test(links_are_not_followed), cmocka_unit_test(create_off), cmocka_unit_test(details), cmocka_unit_test(mixtures),
		cmocka_unit_test(configuration) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
