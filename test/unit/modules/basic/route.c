/* discard, if and route: where messages go, and what their configuration may not say. */
#include "stage.h"

static void discard(void **st)
{
	(void)st;
	struct stage s = { .dir = "" };
	assert_int_equal(stage_open(&s, "pepsi-stage-discard", ""), PEPSI_OK);
	stage_pass(&s, "a@b.test", "x@y.test", "{}");
	assert_string_equal(stage_outcome(&s), "finish discarded");
	stage_close(&s);
}

static void conditions(void **st)
{
	(void)st;
	static const struct {
		const char *condition, *from, *to, *state, *want;
	} cases[] = {
		{ "CONDITION = null-sender", "", "x@y.test", "{}", "out" },
		{ "CONDITION = null-sender", "a@b.test", "x@y.test", "{}", "next" },
		{ "CONDITION = not null-sender", "a@b.test", "x@y.test", "{}", "out" },
		{ "CONDITION = sender a@b.test c@d.test", "A@B.TEST", "x@y.test", "{}", "out" },
		{ "CONDITION = sender a@b.test", "aa@b.test", "x@y.test", "{}", "next" },
		{ "CONDITION = sender *", "", "x@y.test", "{}", "next" },
		{ "CONDITION = sender-domain b.test", "z@B.test", "x@y.test", "{}", "out" },
		{ "CONDITION = sender-domain b.test", "z@sub.b.test", "x@y.test", "{}", "next" },
		{ "CONDITION = sender-domain *.b.test", "z@sub.b.test", "x@y.test", "{}", "out" },
		{ "CONDITION = recipient x@y.test", "a@b.test", "w@y.test x@y.test", "{}", "out" },
		{ "CONDITION = every-recipient x@y.test", "a@b.test", "w@y.test x@y.test", "{}", "next" },
		{ "CONDITION = recipient-domain y.test", "a@b.test", "q@z.test w@y.test", "{}", "out" },
		{ "CONDITION = state origin.tls", "a@b.test", "x@y.test", "{\"origin\":{\"tls\":false}}", "out" },
		{ "CONDITION = state origin.tls", "a@b.test", "x@y.test", "{\"origin\":{}}", "next" },
		{ "CONDITION = state origin.listener mx sub", "a@b.test", "x@y.test", "{\"origin\":{\"listener\":\"sub\"}}", "out" },
		{ "CONDITION = state origin.listener mx", "a@b.test", "x@y.test", "{\"origin\":{\"listener\":\"sub\"}}", "next" },
		{ "CONDITION_1 = null-sender\nCONDITION_2 = recipient *", "a@b.test", "x@y.test", "{}", "next" },
		{ "CONDITION_1 = null-sender\nCONDITION_2 = recipient *\nMATCH = any", "a@b.test", "x@y.test", "{}", "out" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct stage s = { .dir = "" };
		char text[512], want[32];
		snprintf(text, sizeof text, "NEXT_STAGE = next\nTHEN = out\n%s\n", cases[i].condition);
		assert_int_equal(stage_open(&s, "pepsi-stage-if", text), PEPSI_OK);
		assert_string_equal(s.found, "");
		stage_pass(&s, cases[i].from, cases[i].to, cases[i].state);
		snprintf(want, sizeof want, "move %s", cases[i].want);
		if (strcmp(stage_outcome(&s), want) != 0)
			fail_msg("case %zu: %s gives %s", i, cases[i].condition, stage_outcome(&s));
		stage_close(&s);
	}
}

static void wrong_conditions(void **st)
{
	(void)st;
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "THEN = out\nELSE = out\nCONDITION = recipent x@y\n", "unknown condition recipent; did you mean recipient" },
		{ "THEN = out\nELSE = out\nCONDITION = sender\n", "sender wants at least one pattern" },
		{ "THEN = out\nELSE = out\nCONDITION = null-sender x\n", "takes no words" },
		{ "THEN = out\nELSE = out\nCONDITION = state\n", "state wants a path" },
		{ "THEN = out\nELSE = out\nCONDITION = not\n", "an empty condition" },
		{ "THEN = out\nELSE = out\nCONDITION = sender-domain a@b\n", "a@b is no domain" },
		{ "THEN = out\nELSE = out\nCONDITION = sender @b.test\n", "@b.test is no address pattern" },
		{ "THEN = out\nCONDITION = null-sender\n", "neither ELSE nor NEXT_STAGE" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct stage s = { .dir = "" };
		assert_int_equal(stage_open(&s, "pepsi-stage-if", cases[i].text), PEPSI_PERMANENT);
		if (!strstr(s.found, cases[i].says))
			fail_msg("case %zu: %s", i, s.found);
		s.env.state = NULL;
		stage_close(&s);
	}
}

static const char rules[] = "ROUTE_1 = postmaster@* boss@example.test local\nROUTE_2 = example.test NEXT\n"
			    "ROUTE_3 = *.example.test out\nDEFAULT = bounce\nBOUNCE_STAGE = bounce\n";
#define REFUSED                                                                                                        \
	"{\"bounce\":{\"kind\":\"permanent\",\"enhanced_status\":\"5.4.4\",\"phase\":\"route\",\"diagnostic\":\"no way leads to "   \
	"this recipient from here\"}}"

static void routing(void **st)
{
	(void)st;
	static const struct {
		const char *to, *want;
	} cases[] = {
		{ "x@example.test", "move next" },
		{ "x@EXAMPLE.test y@example.test", "move next" },
		{ "Boss@example.test", "move local" },
		{ "postmaster@anywhere.test", "move local" },
		{ "x@a.b.example.test", "move out" },
		{ "x@other.test", "move bounce " REFUSED },
		{ "x@example.test boss@example.test y@example.test z@sub.example.test", "split:0,2 +local:1 +out:3; move next" },
		{ "q@other.test x@example.test", "split:0 +next:1; move bounce " REFUSED },
		{ "no-domain", "move bounce " REFUSED },
	};
	struct stage s = { .dir = "" };
	assert_int_equal(stage_open(&s, "pepsi-stage-route", rules), PEPSI_OK);
	assert_string_equal(s.found, "");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		stage_pass(&s, "a@b.test", cases[i].to, "{}");
		if (strcmp(stage_outcome(&s), cases[i].want) != 0)
			fail_msg("%s gives %s", cases[i].to, stage_outcome(&s));
	}
	/* a group that is refused carries the reason on its own row */
	stage_pass(&s, "a@b.test", "x@example.test q@other.test", "{}");
	assert_string_equal(s.msg.pass.ops[0].clones[0].state, REFUSED);
	stage_close(&s);
}

static void wrong_rules(void **st)
{
	(void)st;
	struct stage s = { .dir = "" };
	assert_int_equal(stage_open(&s, "pepsi-stage-route", "ROUTE_1 = example.test nowhere\nROUTE_2 = local\nROUTE_3 = a@ local\n"),
	    PEPSI_PERMANENT);
	assert_non_null(strstr(s.found, "ROUTE_1: there is no section [stage-nowhere]\n"));
	assert_non_null(strstr(s.found, "ROUTE_2: expected one or more patterns and a stage"));
	assert_non_null(strstr(s.found, "ROUTE_3: a@ is no address pattern"));
	assert_non_null(strstr(s.found, "DEFAULT: neither DEFAULT nor NEXT_STAGE nor a rule for *"));
	s.env.state = NULL;
	stage_close(&s);
}

int main(void)
{
	log_setup(LOG_LV_ERROR, "test");
	const struct CMUnitTest tests[] = { cmocka_unit_test(discard), cmocka_unit_test(conditions),
		cmocka_unit_test(wrong_conditions), cmocka_unit_test(routing), cmocka_unit_test(wrong_rules) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
