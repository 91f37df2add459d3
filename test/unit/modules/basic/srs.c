/* The SRS stage without a database: what is forwarded and what is not, what a bounce's way home is, what is refused; keys that change or are no
 * secret. Nothing is counted here (BOUNCES = 0); the books are tested by sql/srs and e2e/srs. */
#include "stage.h"

#include "proto/smtp/address.h"
#include "proto/srs/srs.h"

#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define K1 "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define K2 "f00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define OUTSIDE "{\"origin\":{\"listener\":\"mx\",\"ip\":\"198.51.100.7\"}}"
#define QUESTION "{\"question\":\"recipient\"}"

static void put_keys(struct stage *s, const char *text, mode_t mode)
{
	char path[256];
	stage_file(s, "keys", text);
	snprintf(path, sizeof path, "%s/keys", s->dir);
	assert_int_equal(chmod(path, mode), 0);
}

/* old: NULL, or what stands in the file old. */
static void begin_with(struct stage *s, const char *more, const char *old, mode_t mode)
{
	char text[1000], path[256];
	snprintf(s->dir, sizeof s->dir, "/tmp/pepsi-unit-XXXXXX");
	assert_non_null(mkdtemp(s->dir));
	if (old) {
		stage_file(s, "old", old);
		snprintf(path, sizeof path, "%s/old", s->dir);
		assert_int_equal(chmod(path, mode), 0);
	}
	put_keys(s, "one active 1700000000 " K1 "\n", 0600);
	snprintf(text, sizeof text, "DOMAIN = Local.TEST\nKEY_DIR = %%s\nNEXT_STAGE = next\nBOUNCE_STAGE = bounce\nBOUNCES = 0\n%s%s", strstr(more, "NETWORKS") ? "" : "NETWORKS = 192.0.2.0/24\n", more);
	assert_int_equal(stage_open(s, "pepsi-stage-srs", text), PEPSI_OK);
	assert_string_equal(s->found, "");
}

static void begin(struct stage *s, const char *more)
{
	begin_with(s, more, NULL, 0);
}

/* The sender the message, or the rows split off it, leave with; "": as it was. */
static const char *sender(struct stage *s)
{
	static char text[400];
	text[0] = 0;
	for (size_t i = 0; i < s->msg.pass.n_ops; i++) {
		const struct store_op *op = &s->msg.pass.ops[i];
		if (op->touched & STORE_SET_MAIL_FROM)
			snprintf(text, sizeof text, "%.*s", STR_ARG(op->mail_from));
		for (size_t k = 0; k < op->n_clones; k++)
			if (op->clones[k].mail_from)
				snprintf(text, sizeof text, "%.*s", STR_ARG(*op->clones[k].mail_from));
	}
	return text;
}

static void who_is_forwarded(void **st)
{
	static const struct {
		const char *from, *to, *state, *want;
		bool changed;
	} cases[] = {
		/* from outside, to somebody outside: who else led it there than we */
		{ "a@far.test", "b@away.test", OUTSIDE, "move next {\"srs\":{\"sender\":\"a@far.test\"}}", true },
		{ "a@far.test", "b@example.test", OUTSIDE, "move next", false },
		{ "a@far.test", "b@example.test c@away.test d@local.test e@away.test", OUTSIDE, "split:0,2 +next:1,3; move next", true },
		{ "a@example.test", "b@away.test", OUTSIDE, "move next", false }, /* ours, or says so: DMARC's business */
		{ "a@LOCAL.test", "b@away.test", OUTSIDE, "move next", false },
		{ "a@sub.example.test", "b@away.test", OUTSIDE, "move next {\"srs\":{\"sender\":\"a@sub.example.test\"}}", true },
		{ "a@exempt.test", "b@away.test", OUTSIDE, "move next", false },
		{ "vip@far.test", "b@away.test", OUTSIDE, "move next", false },
		{ "", "b@away.test", OUTSIDE, "move next", false },
		/* submitted, relayed for a network of ours, made here: not forwarded */
		{ "a@far.test", "b@away.test", "{\"origin\":{\"listener\":\"sub\",\"ip\":\"198.51.100.7\",\"account\":\"joe\"}}", "move next", false },
		{ "a@far.test", "b@away.test", "{\"origin\":{\"listener\":\"mx\",\"ip\":\"192.0.2.9\"}}", "move next", false },
		{ "a@far.test", "b@away.test", "{}", "move next", false },
		/* unless an alias led it out; the others of the message stay as they are */
		{ "a@far.test", "b@away.test", "{\"origin\":{\"listener\":\"mx\",\"ip\":\"192.0.2.9\"},\"forwarded\":[\"B@away.test\"]}",
		    "move next {\"srs\":{\"sender\":\"a@far.test\"}}", true },
		{ "a@far.test", "x@away.test b@away.test", "{\"forwarded\":[\"b@away.test\"]}", "split:0 +next:1; move next", true },
		{ "a@far.test", "b@away.test", "{\"origin\":{\"account\":\"joe\",\"listener\":\"s\"},\"forwarded\":[\"b@away.test\"]}", "move next", false },
		{ "a@far.test", "b@away.test", "{\"forwarded\":{\"b@away.test\":1}}", "move next", false },
		{ "a@far.test", "b@away.test", "{\"forwarded\":[1,null,[\"b@away.test\"]]}", "move next", false },
	};
	struct stage s = { .dir = "" };
	(void)st;
	begin(&s, "EXEMPT = exempt.test vip@far.test\n");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		stage_pass(&s, cases[i].from, cases[i].to, cases[i].state);
		if (strcmp(stage_outcome(&s), cases[i].want) != 0 || !!*sender(&s) != cases[i].changed)
			fail_msg("%zu: %s to %s gives %s from %s", i, cases[i].from, cases[i].to, stage_outcome(&s), sender(&s));
		if (cases[i].changed && strncmp(sender(&s), "SRS0=", 5) != 0)
			fail_msg("%zu: %s", i, sender(&s));
	}
	stage_pass(&s, "a@far.test", "b@away.test", "{\"origin\":{\"listener\":\"front\",\"ip\":\"unix\"}}"); /* by a unix socket that nobody trusts */
	assert_non_null(strstr(sender(&s), "SRS0="));
	stage_close(&s);
	begin(&s, "NETWORKS = UNIX 192.0.2.1\n");
	stage_pass(&s, "a@far.test", "b@away.test", "{\"origin\":{\"listener\":\"front\",\"ip\":\"unix\"}}");
	assert_string_equal(stage_outcome(&s), "move next");
	stage_close(&s);
}

/* There and home again: plain, chained, quoted, international, folded; nothing of what a sender writes gets out of its place. */
static void there_and_back(void **st)
{
	static const char *const senders[] = { "User.Name@far.test", "\"a@b\"@far.test", "a=b+c-d@far.test", "SRS0=aaaa=bb=far.test=joe@relay.test",
		"SRS1=xxxx=far.test==aaaa=bb=joe@relay.test", ("gr\xc3\xbc\xc3\x9f" "e@far.test"), "\"x\\\"y\"@far.test", "j@xn--4ca.test", "some-longer-name@a.long-name.test" };
	struct stage s = { .dir = "" };
	(void)st;
	begin(&s, "");
	for (size_t i = 0; i < sizeof senders / sizeof *senders; i++) {
		char as[400], want[500], home[400];
		struct smtp_address a;
		stage_pass(&s, senders[i], "b@away.test", OUTSIDE);
		snprintf(as, sizeof as, "%s", sender(&s));
		assert_int_equal(smtp_address_parse(str_from(as), true, &a), 0);
		assert_true(a.local.n <= 64 && str_eq(a.domain, STR("local.test")));
		/* a second time here: it is ours by now */
		stage_pass(&s, as, "b@away.test", OUTSIDE);
		assert_string_equal(stage_outcome(&s), "move next");
		stage_pass(&s, "", as, OUTSIDE);
		snprintf(home, sizeof home, "%s", i == 4 ? "SRS0=aaaa=bb=joe@far.test" : senders[i]);
		snprintf(want, sizeof want, "move next %s", home);
		assert_string_equal(stage_outcome(&s), want);
		stage_pass(&s, "", as, QUESTION);
		assert_string_equal(stage_outcome(&s), want);
		/* somebody's mail is no bounce, whatever the address */
		stage_pass(&s, "spam@far.test", as, OUTSIDE);
		assert_non_null(strstr(stage_outcome(&s), "move bounce {\"last_error\":\"This is a return address"));
		stage_pass(&s, "spam@far.test", as, QUESTION);
		assert_non_null(strstr(stage_outcome(&s), "\"enhanced_status\":\"5.7.1\""));
	}
	stage_close(&s);
}

static void refused(struct stage *s, const char *to, const char *text)
{
	stage_pass(s, "", to, QUESTION);
	if (!strstr(stage_outcome(s), text) || strncmp(stage_outcome(s), "move bounce ", 12) != 0)
		fail_msg("%s: %s", to, stage_outcome(s));
}

static void what_is_refused(void **st)
{
	char as[400], bent[400], list[1000];
	struct stage s = { .dir = "" };
	(void)st;
	begin(&s, "");
	stage_pass(&s, "user@far.test", "b@away.test", OUTSIDE);
	snprintf(as, sizeof as, "%s", sender(&s));
	/* every bit of the local part */
	for (size_t bit = 0; bit < 8 * strcspn(as, "@"); bit++) {
		struct smtp_address a;
		snprintf(bent, sizeof bent, "%s", as);
		bent[bit / 8] = (char)(bent[bit / 8] ^ 1 << bit % 8);
		if (smtp_address_parse(str_from(bent), true, &a) || strchr(bent, ' '))
			continue;
		stage_pass(&s, "", bent, QUESTION);
		if (strncmp(stage_outcome(&s), "move bounce", 11) != 0 && strcmp(stage_outcome(&s), "move next") != 0) /* no SRS address any more: others decide */
			fail_msg("bit %zu of %s: %s", bit, as, stage_outcome(&s));
	}
	refused(&s, "SRS0=AAAAAAAAAAAAAAAA=G3=far.test=user@local.test", "No such return address");
	refused(&s, "SRS0=@local.test", "No such return address");
	/* another day's stamp, another domain of ours, no SRS at all */
	stage_pass(&s, "", "SRS0=x@example.test", QUESTION);
	assert_string_equal(stage_outcome(&s), "move next");
	stage_pass(&s, "", "postmaster@local.test", QUESTION);
	assert_string_equal(stage_outcome(&s), "move next");
	/* in the queue: the bad ones part, the others come again without them */
	snprintf(list, sizeof list, "x@example.test SRS0=@local.test %s", as);
	stage_pass(&s, "", list, OUTSIDE);
	assert_string_equal(stage_outcome(&s), "split:0,2 +bounce:1; move here");
	snprintf(list, sizeof list, "x@example.test %s", as);
	stage_pass(&s, "", list, OUTSIDE);
	assert_string_equal(stage_outcome(&s), "move next x@example.test user@far.test");
	/* forwarded and refused in one message */
	snprintf(list, sizeof list, "%s b@away.test", as);
	stage_pass(&s, "a@far.test", list, OUTSIDE);
	assert_string_equal(stage_outcome(&s), "split:1 +bounce:0; move here");
	stage_close(&s);
}

static void keys(void **st)
{
	char as[400];
	struct stage s = { .dir = "" };
	(void)st;
	begin(&s, "");
	stage_pass(&s, "user@far.test", "b@away.test", OUTSIDE);
	snprintf(as, sizeof as, "%s", sender(&s));
	/* a new key makes, the old one still takes; noticed at once */
	put_keys(&s, "two active 1700000001 " K2 "\none retired 1700000001 " K1 "\n", 0600);
	stage_pass(&s, "", as, QUESTION);
	assert_string_equal(stage_outcome(&s), "move next user@far.test");
	stage_pass(&s, "user@far.test", "b@away.test", OUTSIDE);
	assert_string_not_equal(sender(&s), as);
	put_keys(&s, "two active 1700000001 " K2 "\n", 0600);
	refused(&s, as, "No such return address");
	/* what cannot be used: mail waits, nothing is refused */
	static const struct {
		const char *text;
		mode_t mode;
	} bad[] = { { "two active 1700000001 " K2 "\n", 0640 }, { "two active 1700000001 " K2 "\n", 0604 }, { "two active 1 00\n", 0600 }, { "", 0600 },
		{ "two retired 1700000001 " K2 "\n", 0600 }, { "a active 1 " K1 "\nb active 1 " K2 "\n", 0600 }, { "two active x " K2 "\n", 0600 } };
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		put_keys(&s, bad[i].text, bad[i].mode);
		stage_pass(&s, "", as, QUESTION);
		if (strncmp(stage_outcome(&s), "pause", 5) != 0)
			fail_msg("keys %zu: %s", i, stage_outcome(&s));
		stage_pass(&s, "user@far.test", "b@away.test", OUTSIDE);
		assert_memory_equal(stage_outcome(&s), "pause", 5);
		/* what needs no keys goes its way */
		stage_pass(&s, "user@far.test", "b@example.test", OUTSIDE);
		assert_string_equal(stage_outcome(&s), "move next");
	}
	char path[256], to[256];
	snprintf(path, sizeof path, "%s/keys", s.dir);
	snprintf(to, sizeof to, "%s/elsewhere", s.dir);
	put_keys(&s, "one active 1700000000 " K1 "\n", 0600);
	assert_int_equal(rename(path, to), 0);
	stage_pass(&s, "", as, QUESTION);
	assert_memory_equal(stage_outcome(&s), "pause", 5);
	assert_int_equal(symlink(to, path), 0); /* never through a link */
	stage_pass(&s, "", as, QUESTION);
	assert_memory_equal(stage_outcome(&s), "pause", 5);
	assert_int_equal(remove(path) || rename(to, path), 0);
	stage_pass(&s, "", as, QUESTION);
	assert_string_equal(stage_outcome(&s), "move next user@far.test");
	stage_close(&s);
}

/* What another program made before: taken home until its day is over, when its secret can be read. */
static void made_before(void **st)
{
	static const struct srs old = { .domain = STR_INIT("local.test"), .keys = { STR_INIT("the old secret") }, .weak = true };
	static const struct {
		const char *more;
		mode_t mode;
		const char *want; /* how the outcome begins */
	} cases[] = {
		{ "BEFORE = %s/old\nBEFORE_UNTIL = 2100-01-01\n", 0600, "move next user@far.test" },
		{ "BEFORE = %s/old\nBEFORE_UNTIL = 2020-01-01\n", 0600, "move bounce" },
		{ "BEFORE = %s/old\nBEFORE_UNTIL = 2100-01-01\n", 0640, "pause" },
		{ "BEFORE = %s/none\nBEFORE_UNTIL = 2100-01-01\n", 0600, "pause" },
		{ "", 0600, "move bounce" },
	};
	static const char *const files[] = { "the old secret\n", "a newer one\r\nthe old secret\r\n" };
	struct buf as = BUF_INIT(300);
	(void)st;
	assert_int_equal(srs_forward(&old, STR("user@far.test"), time(NULL), &as), SRS_OK);
	for (size_t k = 0; k < 2; k++)
		for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
			struct stage s = { .dir = "" };
			char path[256];
			begin_with(&s, cases[i].more, files[k], cases[i].mode);
			snprintf(path, sizeof path, "%s", buf_z(&as));
			stage_pass(&s, "", path, QUESTION);
			if (strncmp(stage_outcome(&s), cases[i].want, strlen(cases[i].want)) != 0)
				fail_msg("%zu: %s", i, stage_outcome(&s));
			/* ours is ours in any case, and none of the old kind is made */
			stage_pass(&s, "user@far.test", "b@away.test", OUTSIDE);
			snprintf(path, sizeof path, "%s", sender(&s));
			assert_int_equal(strcspn(path + 5, "="), 16);
			stage_pass(&s, "", path, QUESTION);
			assert_string_equal(stage_outcome(&s), "move next user@far.test");
			stage_close(&s);
		}
	buf_free(&as);
}

/* A sender that does not fit: without a database it waits; where none may be kept it leaves as it is. */
static void long_ones(void **st)
{
	static const char from[] = "bounces+1234567-0a1b-user=example.com@em1234.a-long-name.far.test";
	struct stage s = { .dir = "" };
	(void)st;
	begin(&s, "");
	stage_pass(&s, from, "b@away.test", OUTSIDE);
	assert_memory_equal(stage_outcome(&s), "pause", 5);
	stage_close(&s);
	begin(&s, "MOST_KEPT = 0\n");
	stage_pass(&s, from, "b@away.test", OUTSIDE);
	assert_string_equal(stage_outcome(&s), "move next");
	stage_close(&s);
}

static void options(void **st)
{
	static const struct {
		const char *text, *found;
	} cases[] = {
		{ "DOMAIN = example.test\nKEY_DIR = %s\nNEXT_STAGE = next\nBOUNCE_STAGE = bounce\n", "" },
		{ "DOMAIN = far.test\nKEY_DIR = %s\nNEXT_STAGE = next\nBOUNCE_STAGE = bounce\n", "DOMAIN: far.test is none of LOCAL_DOMAINS: bounces to it would be refused as relaying\n" },
		{ "DOMAIN = a..b\nKEY_DIR = %s\nNEXT_STAGE = next\nBOUNCE_STAGE = bounce\n", "DOMAIN: \"a..b\" is no domain\n" },
		{ "DOMAIN = example.test\nKEY_DIR = %s\nLOCAL = a@b.test *\nEXEMPT = * x@*\nNETWORKS = 1.2.3\n", "LOCAL: \"a@b.test\" is no domain\nLOCAL: \"*\" is no domain\n"
		    "EXEMPT: \"*\" is no sender or domain\nEXEMPT: \"x@*\" is no sender or domain\nNETWORKS: \"1.2.3\" is no address and no network\n"
		    "-: NEXT_STAGE must be set: the stage that delivers, or tells who does\n"
		    "-: BOUNCE_STAGE must be set: for recipients that are no return addresses of ours\n" },
		{ "DOMAIN = example.test\nKEY_DIR = %s\nNEXT_STAGE = next\nBOUNCE_STAGE = bounce\nBEFORE = %s/old\nBEFORE_UNTIL = 2027-02-31x\n",
		    "BEFORE_UNTIL: \"2027-02-31x\" is no day, such as 2027-01-31\n" },
		{ "DOMAIN = example.test\nKEY_DIR = %s\nNEXT_STAGE = next\nBOUNCE_STAGE = bounce\nBEFORE = %s/old\n",
		    "BEFORE_UNTIL: must be set with BEFORE: until when bounces to the other program's addresses are taken, such as 2027-01-31; its tags can be guessed\n" },
		{ "DOMAIN = example.test\nKEY_DIR = %s\nNEXT_STAGE = next\nBOUNCE_STAGE = bounce\nBEFORE_UNTIL = 2027-01-31\n", "BEFORE_UNTIL: says nothing without BEFORE\n" },
	};
	(void)st;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct stage s = { .dir = "" };
		stage_open(&s, "pepsi-stage-srs", cases[i].text);
		assert_string_equal(s.found, cases[i].found);
		stage_close(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(who_is_forwarded), cmocka_unit_test(there_and_back), cmocka_unit_test(what_is_refused), cmocka_unit_test(keys),
		cmocka_unit_test(made_before),
		cmocka_unit_test(long_ones), cmocka_unit_test(options) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
