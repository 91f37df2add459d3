/* schema_check(): one file with every kind of mistake against what must be said about it, smaller cases, the tables
 * themselves, typed getters, and config_show(). */
#include "support.h"

static char *check(const char *file, schema_module_fn module)
{
	struct config_faults *f = config_faults_new();
	struct config *c = config_load(file, f);
	assert_non_null(c);
	schema_check(c, module, NULL, f);
	char *ret = support_faults(f);
	config_free(c);
	config_faults_free(f);
	return ret;
}

static char *read_file(const char *path)
{
	struct buf b = BUF_INIT(1 << 20);
	FILE *f = fopen(path, "rb");
	assert_non_null(f);
	for (char *at; (at = buf_room(&b, 4096));) {
		size_t n = fread(at, 1, 4096, f);
		b.n += n;
		if (!n)
			break;
	}
	fclose(f);
	char *ret = str_dupz(buf_str(&b));
	buf_free(&b);
	return ret;
}

static void every_mistake(void **state)
{
	(void)state;
	unsetenv("PEPSI_T_NONE");
	assert_int_equal(chdir(PEPSI_SOURCE_DIR "/test/unit/config/data"), 0);
	char *want = read_file("mistakes.txt"), *got = check("mistakes.conf", support_module);
	assert_int_equal(chdir(support_dir), 0);
	if (strcmp(want, got) != 0) {
		/* the whole of it, to be compared by eye or taken over */
		fputs(got, stderr);
		fail_msg("the findings are not those of test/unit/config/data/mistakes.txt");
	}
	free(want);
	free(got);
}

static void no_file(void **state)
{
	(void)state;
	char *got = check("none.conf", support_module);
	assert_string_equal(got, "none.conf: cannot be read: No such file or directory\n");
	free(got);
}

#define REST "[listener-mx]\nBIND = 127.0.0.1:2525\n[stage-init]\nPROGRAM = pepsi-stage-discard\n"

static void cases(void **state)
{
	(void)state;
	static const struct {
		const char *text, *faults;
	} t[] = {
		{ REST, "" },
		{ "", "t.conf: warning: there is no [listener-NAME]: no mail can come in\n"
		      "t.conf: there is no [stage-init], where all mail begins\n" },
		{ REST "[pepsi]\nHOSTNAME = mx\n", "t.conf:6: warning: HOSTNAME = mx has no dot: other servers expect a full name such "
						  "as mx.example.org\n" },
		{ REST "[pepsi]\nHOSTNAME = mx.münchen.example\nLOCAL_DOMAINS =\n", "" },
		{ REST "[pepsi-httpd]\nBIND = none\n", "" },
		{ REST "[pepsi-httpd]\nBIND = 127.0.0.1:8025 [::1]:8025\n", "" },
		{ REST "[pepsi-httpd]\nBIND = none [::1]:8025\n",
		    "t.conf:6: BIND: expected ADDRESS:PORT such as 127.0.0.1:25 or [::1]:25, found \"none\"\n" },
		{ REST "[pepsi-httpd]\nBIND = 127.0.0.1:2525\n",
		    "t.conf:6: BIND = 127.0.0.1:2525 is taken: [listener-mx] has 127.0.0.1:2525 at t.conf:2\n" },
		{ REST "[listener-b]\nBIND = [::]:2525 127.0.0.2:2525\n", "" },
		{ REST "[listener-b]\nBIND = 127.0.0.2:2600 127.0.0.2:2600\n",
		    "t.conf:6: BIND = 127.0.0.2:2600 is taken: [listener-b] has 127.0.0.2:2600 at t.conf:6\n" },
		{ REST "[listener-b]\nBIND = [0::0]:2600 [::1]:2600\n",
		    "t.conf:6: BIND = [::1]:2600 is taken: [listener-b] has [0::0]:2600 at t.conf:6\n" },
		/* a stage's module that nobody described is not guessed at */
		{ REST "[stage-x]\nPROGRAM = mine\nODD = 1\nODD = 2\n", "" },
		{ REST "[pepsi-failure-bouncer]\nBOUNCE_STAGE = init\n",
		    "t.conf:6: warning: BOUNCE_STAGE = init: [stage-init] runs pepsi-stage-discard, which makes no bounces "
		    "(pepsi-stage-bounce does)\n" },
		{ REST "[pepsi]\nMAIL_LOG = YES\n", "t.conf:6: warning: MAIL_LOG has no effect yet in this version\n" },
		/* nothing is changed behind a signature, whatever way leads there */
		{ REST "[stage-s]\nPROGRAM = pepsi-stage-sign\nNEXT_STAGE = r\n[stage-r]\nPROGRAM = pepsi-stage-route\nROUTE_1 = example.test w\n"
		       "DEFAULT = init\n[stage-w]\nPROGRAM = pepsi-stage-change\nNEXT_STAGE = init\n",
		    "t.conf:13: [stage-w] runs pepsi-stage-change, which may change messages, but [stage-s] has signed them by then: what is changed behind a signature "
		    "breaks it; put [stage-s] last, before delivery\n" },
		{ REST "[stage-s]\nPROGRAM = pepsi-stage-sign\nNEXT_STAGE = init\n[stage-w]\nPROGRAM = pepsi-stage-change\nNEXT_STAGE = s\n", "" },
		/* a bounce is another message, and another signature changes nothing */
		{ REST "[stage-s]\nPROGRAM = pepsi-stage-sign\nNEXT_STAGE = t\n[stage-t]\nPROGRAM = pepsi-stage-sign\nNEXT_STAGE = b\n"
		       "[stage-b]\nPROGRAM = pepsi-stage-bounce\nNEXT_STAGE = w\n[stage-w]\nPROGRAM = pepsi-stage-change\nNEXT_STAGE = init\n", "" },
		{ REST "[stage-a]\nPROGRAM = pepsi-stage-discard\nNEXT_STAGE = b\n[stage-b]\nPROGRAM = pepsi-stage-discard\n"
		       "NEXT_STAGE = c\n[stage-c]\nPROGRAM = pepsi-stage-discard\nNEXT_STAGE = b\n",
		    "t.conf:10: a loop of NEXT_STAGEs without a way out: b → c → b\n" },
		/* bounce → init → … is no loop: init goes on by itself */
		{ REST "[stage-bounce]\nPROGRAM = pepsi-stage-bounce\nNEXT_STAGE = init\n", "" },
		{ REST "[stage-x]\nPROGRAM = pepsi-stage-rout\n", "t.conf:6: PROGRAM = pepsi-stage-rout: not found; did you mean "
								  "pepsi-stage-route?\n" },
		{ REST "[postgres]\nX = 1\n", "t.conf:5: unknown section [postgres]\n" },
		{ REST "[pepsi-dispach]\nX = 1\n", "t.conf:5: unknown section [pepsi-dispach]; did you mean [pepsi-dispatch]?\n" },
		{ REST "[pepsi-ingress]\nRECIPIENTS = any\n", "t.conf:6: unknown option RECIPIENTS in [pepsi-ingress]; it belongs to [pepsi] or [domain-NAME]\n" },
		/* senders are rewritten behind aliases, and return addresses judged at RCPT */
		{ REST "[stage-srs]\nPROGRAM = pepsi-stage-srs\nDOMAIN = s.x.test\nNEXT_STAGE = a\n[stage-a]\nPROGRAM = pepsi-stage-aliases\nNEXT_STAGE = init\n"
		       "[domain-S.x.test]\nRECIPIENTS = any stage:SRS\n",
		    "t.conf:10: warning: [stage-a] is behind [stage-srs]: what its aliases lead outside leaves with its sender as it is, and fails SPF; put [stage-srs] behind the aliases\n" },
		{ REST "[stage-srs]\nPROGRAM = pepsi-stage-srs\nDOMAIN = s.x.test\nNEXT_STAGE = b\n[stage-b]\nPROGRAM = pepsi-stage-bounce\nNEXT_STAGE = a\n"
		       "[stage-a]\nPROGRAM = pepsi-stage-aliases\nNEXT_STAGE = init\n[domain-s.x.test]\nRECIPIENTS = table\n[domain-other.test]\nRECIPIENTS = stage:srs\n",
		    "t.conf:7: warning: [domain-s.x.test] has no RECIPIENTS = stage:srs: forged and expired return addresses are accepted and lost, instead of refused\n" },
		/* a stage that is asked about recipients: there, one, and one that can answer before anything is accepted */
		{ REST "[domain-x.test]\nRECIPIENTS = any stage:D\n[stage-d]\nPROGRAM = pepsi-stage-discard\nNEXT_STAGE = init\n", "" },
		{ REST "[domain-x.test]\nRECIPIENTS = stage:dd\n[stage-d]\nPROGRAM = pepsi-stage-discard\nNEXT_STAGE = init\n",
		    "t.conf:6: RECIPIENTS: there is no [stage-dd]; did you mean d?\n" },
		{ REST "[domain-x.test]\nRECIPIENTS = stage:b stage:init\n[stage-b]\nPROGRAM = pepsi-stage-bounce\nNEXT_STAGE = init\n",
		    "t.conf:6: RECIPIENTS: [stage-b] runs pepsi-stage-bounce, which makes bounces: nothing may be sent before the message is accepted\n"
		    "t.conf:6: RECIPIENTS: init is where accepted mail begins; make a section of its own with the same PROGRAM\n"
		    "t.conf:6: RECIPIENTS names several stages; one is asked\n" },
		{ REST "[domain-x.test]\nRECIPIENTS = stage:\n", "t.conf:6: RECIPIENTS: \"stage:\" is no source of recipients; write any, table, aliases, system, "
		    "file:/PATH or stage:NAME\n" },
		{ REST "[pepsi-ingress]\nPARALLELISM = 2\n", "t.conf:6: unknown option PARALLELISM in [pepsi-ingress]; it belongs to [stage-NAME]\n" },
	};
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		support_write("t.conf", str_from(t[i].text));
		char *got = check("t.conf", support_module);
		assert_string_equal(got, t[i].faults);
		free(got);
	}
}

/* Each default of the tables must pass the table's own check, each option must say what it is. */
static void tables(void **state)
{
	(void)state;
	size_t n;
	const struct schema_section *s = schema_sections(&n);
	support_write("t.conf", STR(""));
	struct config *c = config_load("t.conf", NULL);
	assert_true(n > 0);
	for (size_t i = 0; i < n; i++) {
		assert_ptr_equal(schema_find(s[i].name), &s[i]);
		assert_non_null(s[i].help);
		for (size_t j = 0; j < s[i].n_options; j++) {
			const struct pepsi_option *o = &s[i].options[j];
			struct buf why = BUF_INIT(1024);
			int64_t v = 0;
			assert_true(o->help && *o->help);
			assert_ptr_equal(schema_option(s[i].name, o->name), o);
			if (o->def && schema_value(c, o, o->def, &v, &why))
				fail_msg("[%s] %s = %s: %s", s[i].name, o->name, o->def, buf_z(&why));
			for (const char *p = o->name; *p; p++)
				assert_true((*p >= 'A' && *p <= 'Z') || *p == '_');
			for (size_t k = 0; k < j; k++)
				assert_string_not_equal(o->name, s[i].options[k].name);
			buf_free(&why);
		}
	}
	config_free(c);
	assert_null(schema_find("listener-"));
	assert_null(schema_find("listener"));
	assert_non_null(schema_find("LISTENER-x"));
	struct pepsi_option multi = { .name = "ROUTE*", .type = PEPSI_OPT_MULTI };
	assert_true(schema_covers(&multi, "route_1"));
	assert_true(schema_covers(&multi, "ROUTE"));
	assert_false(schema_covers(&multi, "ROUT"));
}

static void getters(void **state)
{
	(void)state;
	support_write("t.conf", STR("[listener-mx]\nMESSAGE_SIZE_LIMIT = 1 MiB\nMAX_HOPS = many\nPROTOCOL = SMTP\n"
				    "[pepsi-ingress]\nDISPATCH_WAKE_INTERVAL = 2 ms\n[pepsi-dispatch]\nMAX_RUNTIME = 7 min\n"
				    "[stage-a]\nNEXT_STAGE = Other\n[stage-b]\nMAX_RUNTIME = 1 s\n[stage-c]\nMAX_RUNTIME = x\n[stage-d]\nQUEUE_LIMIT = 7\n"));
	struct config *c = config_load("t.conf", NULL);
	static const struct {
		const char *section, *option;
		int64_t v;
	} t[] = {
		{ "listener-mx", "MESSAGE_SIZE_LIMIT", 1048576 }, { "listener-mx", "message_size_limit", 1048576 },
		{ "listener-mx", "MAX_HOPS", 50 }, { "listener-other", "MESSAGE_SIZE_LIMIT", 52428800 },
		{ "pepsi-ingress", "DISPATCH_WAKE_INTERVAL", 2000 }, { "pepsi", "ALLOW_FUSION", 1 },
		{ "pepsi-postgres", "DURABLE_COMPLETION", 0 }, { "pepsi-dispatch", "POLL_INTERVAL", 30 },
		{ "stage-a", "MAX_RUNTIME", 420 }, { "stage-b", "MAX_RUNTIME", 1 }, { "stage-c", "MAX_RUNTIME", 420 },
		{ "stage-a", "MAX_LIFETIME", 432000 }, { "stage-a", "NO_SUCH", 0 }, { "nowhere", "X", 0 },
	};
	for (size_t i = 0; i < sizeof t / sizeof *t; i++)
		if (config_int(c, t[i].section, t[i].option) != t[i].v)
			fail_msg("[%s] %s = %lld", t[i].section, t[i].option, (long long)config_int(c, t[i].section, t[i].option));
	/* what fits one kind of stage does not fit the other; what is said holds for both */
	assert_int_equal(config_queue_limit(c, "stage-a", false), 50);
	assert_int_equal(config_queue_limit(c, "stage-a", true), 1000);
	assert_int_equal(config_queue_limit(c, "stage-d", false), 7);
	assert_int_equal(config_queue_limit(c, "stage-d", true), 7);
	assert_int_equal(config_max_runtime(c, "stage-a", true), 420);
	assert_int_equal(config_max_runtime(c, "stage-b", true), 1);
	assert_string_equal(config_str(c, "listener-mx", "PROTOCOL"), "smtp");
	assert_string_equal(config_str(c, "stage-a", "NEXT_STAGE"), "other");
	assert_string_equal(config_str(c, "pepsi", "RELAY_NETWORKS"), "127.0.0.0/8 ::1");
	assert_null(config_str(c, "pepsi", "HOSTNAME"));
	char *p = config_path(c, "pepsi", "STATE_DIR");
	assert_string_equal(p, "/var/lib/pepsi");
	free(p);
	assert_null(config_path(c, "listener-mx", "TLS_CERT"));
	config_free(c);
	support_write("t.conf", STR("[stage-a]\nQUEUE_LIMIT = none\n[stage-b]\nMAX_RUNTIME = 9 s\n"));
	c = config_load("t.conf", NULL);
	assert_int_equal(config_max_runtime(c, "stage-a", false), 300);
	assert_int_equal(config_max_runtime(c, "stage-a", true), 2400);
	assert_int_equal(config_max_runtime(c, "stage-b", true), 9);
	assert_int_equal(config_queue_limit(c, "stage-a", true), 1000);
	config_free(c);
}

static void show(void **state)
{
	(void)state;
	support_write("t.conf", STR("[pepsi-postgres]\nCONFIG = postgres://me:geheim@db/pepsi\n[stage-init]\nprogram = "
				    "pepsi-stage-relay\nHOST = \" a # b\"\nPASSWORD = geheim\n[odd]\nX = 1\n"));
	struct config *c = config_load("t.conf", NULL), *again;
	struct buf text = BUF_INIT(1 << 20), json = BUF_INIT(1 << 20), tiny = BUF_INIT(100);
	assert_int_equal(config_set(c, "pepsi", "STATE_DIR", "/s"), 0);
	assert_int_equal(config_show(c, support_module, NULL, false, &text), 0);
	assert_int_equal(config_show(c, support_module, NULL, true, &json), 0);
	assert_int_equal(config_show(c, support_module, NULL, true, &tiny), -1);
	assert_null(strstr(buf_z(&text), "geheim"));
	assert_null(strstr(buf_z(&json), "geheim"));
	static const char *const lines[] = {
		"CONFIG = postgres://me:********@db/pepsi    # t.conf:2\n",
		("\n[stage-init]\nPROGRAM = pepsi-stage-relay                 # t.conf:4\nHOST = \" a # b\"                           "
		 "  # t.conf:5\nPASSWORD = ********                         # t.conf:6\n"),
		"\nTLS = may                                   # default\n",
		"\nSTATE_DIR = /s                              # set\n",
		"\n[odd]\nX = ********                                # t.conf:8\n", /* what nobody knows may be a secret, misspelt */
		"\nMAX_MESSAGES = 10000                        # default\n",
	};
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
		if (!strstr(buf_z(&text), lines[i]))
			fail_msg("missing: %sin:\n%s", lines[i], buf_z(&text));
	assert_non_null(strstr(buf_z(&json), "{\"name\":\"HOST\",\"value\":\" a # b\",\"source\":\"file\",\"file\":\"t.conf\",\"line\":5,"
					     "\"secret\":false}"));
	/* without its module nobody knows which of a stage's options are secret */
	buf_reset(&json);
	assert_int_equal(config_show(c, NULL, NULL, true, &json), 0);
	assert_null(strstr(buf_z(&json), "geheim"));
	assert_null(strstr(buf_z(&json), " a # b"));
	assert_non_null(strstr(buf_z(&json), "\"value\":\"pepsi-stage-relay\""));
	assert_non_null(strstr(buf_z(&json), "{\"name\":\"X\",\"value\":\"********\""));
	/* what it prints can be read again, and says the same */
	support_write("u.conf", buf_str(&text));
	struct config_faults *f = config_faults_new();
	again = config_load("u.conf", f);
	assert_int_equal(config_faults_n(f, true), 0);
	assert_string_equal(config_get(again, "stage-init", "HOST")->value, " a # b");
	assert_string_equal(config_get(again, "pepsi-dispatch", "MAX_RUNTIME")->value, "5 min");
	config_faults_free(f);
	config_free(again);
	static const struct {
		const char *in, *out;
	} masks[] = {
		{ "host=db password=geheim user=me", "********" }, { "host=db user=me", "host=db user=me" },
		{ "postgres:///pepsi", "postgres:///pepsi" }, { "postgres://me@db:5432/x", "postgres://me@db:5432/x" },
		{ "postgres://me:ge@heim@db/x", "postgres://me:********@db/x" }, { "postgres://db/x?password=geheim", "********" },
	};
	for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
		char want[128];
		assert_int_equal(config_set(c, "pepsi-postgres", "CONFIG", masks[i].in), 0);
		buf_reset(&text);
		assert_int_equal(config_show(c, NULL, NULL, false, &text), 0);
		snprintf(want, sizeof want, "CONFIG = %s ", masks[i].out);
		if (!strstr(buf_z(&text), want))
			fail_msg("%s", masks[i].in);
	}
	buf_free(&text);
	buf_free(&json);
	buf_free(&tiny);
	config_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_mistake),
		cmocka_unit_test(no_file),
		cmocka_unit_test(cases),
		cmocka_unit_test(tables),
		cmocka_unit_test(getters),
		cmocka_unit_test(show),
	};
	return cmocka_run_group_tests(tests, support_enter, support_leave);
}
