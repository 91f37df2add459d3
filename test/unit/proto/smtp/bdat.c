/* BDAT (RFC 3030): chunks cut anywhere, the line ends of what is not binary, and every confusion of its state: the right reply,
 * nothing queued, and never an octet of a chunk taken for a command. */
#include "script.h"

#define EHLO S("EHLO c.example\r\n")
#define GREETED                                                                                                        \
	"EV HELO esmtp name=<c.example>\n250-mx.example.test\n250-PIPELINING\n250-SIZE 1000\n250-CHUNKING\n250 BINARYMIME\n"
#define MAIL_A "EV MAIL from=<a@b.example> domain=<b.example>\n250 Ok\n"
#define RCPT_C "EV RCPT to=<c@d.example> local=<c> domain=<d.example>\n250 Ok\n"
#define ENV "MAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\n"
#define ENVELOPE MAIL_A RCPT_C
#define MESSAGE(text) "EV MESSAGE from=<a@b.example> to=<c@d.example> text=<" text ">\n250 queued as 1\n"
#define NOOP "NOOP\r\n"
#define OK "250 Ok\n"
#define SYNTAX "501 Syntax: BDAT size [LAST]\nEV CLOSE text=<Syntax: BDAT size [LAST]>\n"
#define ABORT(why) "EV ABORT text=<" why ">\n"

static const struct smtp_server_conf conf = {
	.hostname = S("mx.example.test"),
	.extensions = SMTP_EXT_PIPELINING | SMTP_EXT_SIZE | SMTP_EXT_CHUNKING | SMTP_EXT_BINARYMIME,
	.size_limit = 1000,
	.max_recipients = 3,
	.max_errors = 10,
};
static const struct smtp_server_conf none = {
	.hostname = S("mx.example.test"),
	.extensions = SMTP_EXT_PIPELINING | SMTP_EXT_BINARYMIME, /* the latter not without CHUNKING */
	.max_errors = 10,
};
static const struct smtp_server_conf budget = {
	.hostname = S("mx.example.test"),
	.extensions = SMTP_EXT_CHUNKING,
	.max_errors = 2,
};

static const struct script scripts[] = {
	{ "one chunk", &conf, { EHLO, S(ENV "BDAT 6 LAST\r\nhello\n" NOOP) },
	    GREETED ENVELOPE "EV DATA chunked\n" ABORT("Message has a bare LF") "550 Message has a bare LF\n" OK, false },
	{ "one sound chunk", &conf, { EHLO, S(ENV "BDAT 7 LAST\r\nhello\r\n" NOOP) },
	    GREETED ENVELOPE "EV DATA chunked\n" MESSAGE("hello\\r\\n") OK, false },
	{ "chunks cut in a line, between CR and LF, with dots, LAST of nothing", &conf,
	    { EHLO, S(ENV "BDAT 8\r\n.\r\nQUIT\rBDAT 0\r\nBDAT 4\r\n\n.\r\nBDAT 0 LAST\r\n" NOOP) },
	    GREETED ENVELOPE "EV DATA chunked\n250 8 octets so far\n250 8 octets so far\n250 12 octets so far\n"
			     MESSAGE(".\\r\\nQUIT\\r\\n.\\r\\n") OK, false },
	{ "LAST alone of nothing at all is an empty message", &conf, { EHLO, S(ENV "bdat 0 last\r\n" NOOP) },
	    GREETED ENVELOPE "EV DATA chunked\n" MESSAGE("") OK, false },
	{ "no line end at the end", &conf, { EHLO, S(ENV "BDAT 1 LAST\r\nx" NOOP) },
	    GREETED ENVELOPE "EV DATA chunked\n" MESSAGE("x") OK, false },
	{ "two messages in one go", &conf,
	    { EHLO, S(ENV "BDAT 3 LAST\r\na\r\n" ENV "BDAT 1\r\nbBDAT 2 LAST\r\n\r\nQUIT\r\n") },
	    GREETED ENVELOPE "EV DATA chunked\n" MESSAGE("a\\r\\n") ENVELOPE "EV DATA chunked\n250 1 octets so far\n"
	    "EV MESSAGE from=<a@b.example> to=<c@d.example> text=<b\\r\\n>\n250 queued as 2\n221 Bye\nEV QUIT\n", false },
	/* line ends */
	{ "bare CR at the end of the message", &conf, { EHLO, S(ENV "BDAT 2\r\nx\rBDAT 0 LAST\r\n" NOOP) },
	    GREETED ENVELOPE "EV DATA chunked\n250 2 octets so far\n550 Message has a bare CR\n" ABORT("Message has a bare CR") OK, false },
	{ "bare CR over a chunk's end", &conf, { EHLO, S(ENV "BDAT 2\r\nx\rBDAT 1 LAST\r\ny" NOOP) },
	    GREETED ENVELOPE "EV DATA chunked\n250 2 octets so far\n" ABORT("Message has a bare CR") "550 Message has a bare CR\n" OK, false },
	{ "CR CR LF", &conf, { EHLO, S(ENV "BDAT 4 LAST\r\nx\r\r\n" NOOP) },
	    GREETED ENVELOPE "EV DATA chunked\n" ABORT("Message has a bare CR") "550 Message has a bare CR\n" OK, false },
	{ "NUL", &conf, { EHLO, S(ENV "BDAT 3 LAST\r\nx\0y" NOOP) },
	    GREETED ENVELOPE "EV DATA chunked\n" ABORT("Message has a NUL octet") "550 Message has a NUL octet\n" OK, false },
	{ "what is smuggled in a faulty chunk is no command, nor in the chunks behind it", &conf,
	    { EHLO, S(ENV "BDAT 13\r\nx\n.\r\nNOOP\r\n\r\nBDAT 12\r\nNOOP\r\nNOOP\r\nBDAT 6 LAST\r\nNOOP\r\n" NOOP) },
	    GREETED ENVELOPE "EV DATA chunked\n" ABORT("Message has a bare LF") "550 Message has a bare LF\n"
			     "503 The message was refused\n503 The message was refused\n" OK, false },
	{ "BINARYMIME: anything, kept as it is", &conf,
	    { EHLO, S("MAIL FROM:<a@b.example> BODY=BINARYMIME\r\nRCPT TO:<c@d.example>\r\nBDAT 9\r\nA:\r\n\r\n\n\r\0BDAT 2 LAST\r\n.\r" NOOP) },
	    GREETED "EV MAIL from=<a@b.example> domain=<b.example> binary\n250 Ok\n" RCPT_C
		    "EV DATA chunked\n250 9 octets so far\n" MESSAGE("A:\\r\\n\\r\\n\\n\\r@.\\r") OK, false },
	{ "BINARYMIME: not in the headers", &conf,
	    { EHLO, S("MAIL FROM:<a@b.example> BODY=BINARYMIME\r\nRCPT TO:<c@d.example>\r\nBDAT 6\r\nA:\r\n\n\nBDAT 2 LAST\r\nxy" NOOP) },
	    GREETED "EV MAIL from=<a@b.example> domain=<b.example> binary\n250 Ok\n" RCPT_C
		    "EV DATA chunked\n" ABORT("Message has a bare LF") "550 Message has a bare LF\n503 The message was refused\n" OK, false },
	{ "BINARYMIME: headers without an end", &conf,
	    { EHLO, S("MAIL FROM:<a@b.example> BODY=BINARYMIME\r\nRCPT TO:<c@d.example>\r\nBDAT 5 LAST\r\nA:\r\n\r" NOOP) },
	    GREETED "EV MAIL from=<a@b.example> domain=<b.example> binary\n250 Ok\n" RCPT_C
		    "EV DATA chunked\n550 Message has a bare CR\n" ABORT("Message has a bare CR") OK, false },
	{ "BINARYMIME and DATA", &conf,
	    { EHLO, S("MAIL FROM:<a@b.example> BODY=BINARYMIME\r\nRCPT TO:<c@d.example>\r\nDATA\r\n"), S("BDAT 0 LAST\r\n") },
	    GREETED "EV MAIL from=<a@b.example> domain=<b.example> binary\n250 Ok\n" RCPT_C
		    "503 BODY=BINARYMIME needs BDAT\nEV DATA chunked\n" MESSAGE(""), false },
	/* the size */
	{ "negative", &conf, { EHLO, S(ENV "BDAT -1\r\nQUIT\r\n") }, GREETED ENVELOPE SYNTAX, false },
	{ "signed", &conf, { EHLO, S(ENV "BDAT +6\r\nQUIT\r\n") }, GREETED ENVELOPE SYNTAX, false },
	{ "hexadecimal", &conf, { EHLO, S(ENV "BDAT 0x6\r\nQUIT\r\n") }, GREETED ENVELOPE SYNTAX, false },
	{ "no size", &conf, { EHLO, S(ENV "BDAT\r\nQUIT\r\n") }, GREETED ENVELOPE SYNTAX, false },
	{ "LAST and no size", &conf, { EHLO, S(ENV "BDAT LAST\r\nQUIT\r\n") }, GREETED ENVELOPE SYNTAX, false },
	{ "another word", &conf, { EHLO, S(ENV "BDAT 6 FIRST\r\nQUIT\r\n") }, GREETED ENVELOPE SYNTAX, false },
	{ "a word too many", &conf, { EHLO, S(ENV "BDAT 6 LAST LAST\r\nQUIT\r\n") }, GREETED ENVELOPE SYNTAX, false },
	{ "a tab", &conf, { EHLO, S(ENV "BDAT\t6\r\nQUIT\r\n") }, GREETED ENVELOPE SYNTAX, false },
	{ "glued", &conf, { EHLO, S(ENV "BDAT6\r\nQUIT\r\n") }, GREETED ENVELOPE SYNTAX, false },
	{ "a control octet", &conf, { EHLO, S(ENV "BDAT 6\x01\r\nQUIT\r\n") }, GREETED ENVELOPE SYNTAX, false },
	{ "64 bits and one", &conf, { EHLO, S(ENV "BDAT 18446744073709551622\r\nQUIT\r\n") }, GREETED ENVELOPE SYNTAX, false },
	{ "63 bits and one", &conf, { EHLO, S(ENV "BDAT 9223372036854775808\r\nQUIT\r\n") }, GREETED ENVELOPE SYNTAX, false },
	{ "many digits", &conf, { EHLO, S(ENV "BDAT 000000000000000000006\r\nQUIT\r\n") }, GREETED ENVELOPE SYNTAX, false },
	{ "leading zeros", &conf, { EHLO, S(ENV "BDAT 00006 LAST\r\nNOOP\r\n" NOOP) },
	    GREETED ENVELOPE "EV DATA chunked\n" MESSAGE("NOOP\\r\\n") OK, false },
	{ "above the limit, with one chunk", &conf, { EHLO, S(ENV "BDAT 1001 LAST\r\nNOOP\r\n") },
	    GREETED ENVELOPE "552 Message size exceeds the limit\nEV RESET\n", false },
	{ "above the limit and too large to be read over", &conf, { EHLO, S(ENV "BDAT 9223372036854775807 LAST\r\nNOOP\r\n") },
	    GREETED ENVELOPE "552 Message size exceeds the limit\nEV RESET\nEV CLOSE text=<a refused chunk too large to be read over>\n",
	    false },
	{ "above the limit, with the second chunk", &conf,
	    { EHLO, S(ENV "BDAT 6\r\nNOOP\r\nBDAT 995\r\nNOOP\r\n") },
	    GREETED ENVELOPE "EV DATA chunked\n250 6 octets so far\n552 Message size exceeds the limit\n"
			     ABORT("Message size exceeds the limit"), false },
	/* the order of commands */
	{ "before EHLO: the chunk is read over", &conf, { S("BDAT 6\r\nQUIT\r\n" NOOP) }, "503 Send EHLO first\n" OK, false },
	{ "after HELO", &conf, { S("HELO c.example\r\n"), S("BDAT 6 LAST\r\nQUIT\r\n" NOOP) },
	    "EV HELO smtp name=<c.example>\n250 mx.example.test\n503 BDAT is not offered\n" OK, false },
	{ "not offered, nor BINARYMIME", &none,
	    { EHLO, S("MAIL FROM:<a@b.example> BODY=BINARYMIME\r\n" ENV "BDAT 6 LAST\r\nQUIT\r\n" NOOP) },
	    "EV HELO esmtp name=<c.example>\n250-mx.example.test\n250 PIPELINING\n"
	    "555 Parameter not recognized or not implemented: BODY\n" ENVELOPE "503 BDAT is not offered\n" OK, false },
	{ "without MAIL", &conf, { EHLO, S("BDAT 6\r\nQUIT\r\n" NOOP) }, GREETED "503 Need MAIL first\n" OK, false },
	{ "without RCPT", &conf, { EHLO, S("MAIL FROM:<a@b.example>\r\nBDAT 6\r\nQUIT\r\nRCPT TO:<c@d.example>\r\n") },
	    GREETED MAIL_A "503 No valid recipients\n" RCPT_C, false },
	{ "DATA, MAIL, RCPT, EHLO's reset and STARTTLS behind BDAT", &conf,
	    { EHLO, S(ENV "BDAT 3\r\na\r\nMAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\nVRFY c\r\nDATA\r\n"),
		S("EHLO c.example\r\n"), S("BDAT 3 LAST\r\na\r\n") },
	    GREETED ENVELOPE "EV DATA chunked\n250 3 octets so far\n503 Only BDAT or RSET may follow BDAT\n"
			     "503 Only BDAT or RSET may follow BDAT\nEV VRFY text=<c>\n252 Cannot verify, but will try to deliver\n"
			     "503 Only BDAT or RSET may follow BDAT\n" GREETED ABORT("EHLO") "503 Need MAIL first\n", false },
	{ "BDAT behind DATA is text", &conf, { EHLO, S(ENV "DATA\r\n"), S("BDAT 6 LAST\r\n.\r\n" NOOP) },
	    GREETED ENVELOPE "EV DATA\n354 End data with <CR><LF>.<CR><LF>\n" MESSAGE("BDAT 6 LAST\\r\\n") OK, false },
	{ "RSET in between", &conf, { EHLO, S(ENV "BDAT 3\r\na\r\nRSET\r\nBDAT 6 LAST\r\nQUIT\r\n" NOOP) },
	    GREETED ENVELOPE "EV DATA chunked\n250 3 octets so far\n250 Ok\n" ABORT("RSET") "503 Need MAIL first\n" OK, false },
	{ "QUIT in between", &conf, { EHLO, S(ENV "BDAT 3\r\na\r\nQUIT\r\n") },
	    GREETED ENVELOPE "EV DATA chunked\n250 3 octets so far\n221 Bye\n" ABORT("QUIT") "EV QUIT\n", false },
	{ "bare LF in a command between chunks", &conf, { EHLO, S(ENV "BDAT 3\r\na\r\nBDAT 3\n") },
	    GREETED ENVELOPE "EV DATA chunked\n250 3 octets so far\n500 Lines end with CR LF, neither may stand alone\n"
			     ABORT("Lines end with CR LF, neither may stand alone")
			     "EV CLOSE text=<Lines end with CR LF, neither may stand alone>\n", false },
	{ "the caller wants no message: the rest of it is read over, and none is made of it", &conf,
	    { EHLO, S("MAIL FROM:<nodata@b.example>\r\nRCPT TO:<c@d.example>\r\nBDAT 6\r\nQUIT\r\nBDAT 6 LAST\r\nQUIT\r\n" NOOP) },
	    GREETED "EV MAIL from=<nodata@b.example> domain=<b.example>\n250 Ok\n" RCPT_C "EV DATA chunked\n451 Not now\nEV RESET\n"
		    "503 The message was refused\n" OK, false },
	{ "the caller wants no message, which was the whole", &conf,
	    { EHLO, S("MAIL FROM:<nodata@b.example>\r\nRCPT TO:<c@d.example>\r\nBDAT 6 LAST\r\nQUIT\r\nBDAT 6 LAST\r\nQUIT\r\n" NOOP) },
	    GREETED "EV MAIL from=<nodata@b.example> domain=<b.example>\n250 Ok\n" RCPT_C "EV DATA chunked\n451 Not now\nEV RESET\n"
		    "503 Need MAIL first\n" OK, false },
	{ "the caller refuses the message", &conf, { EHLO, S(ENV "BDAT 6 LAST\r\nrefuse" NOOP) },
	    GREETED ENVELOPE "EV DATA chunked\nEV MESSAGE from=<a@b.example> to=<c@d.example> text=<refuse>\n554 Message refused\n" OK,
	    false },
	{ "a client that never gives up", &budget, { EHLO, S("BDAT 1\r\nxBDAT 1\r\nxNOOP\r\n") },
	    "EV HELO esmtp name=<c.example>\n250-mx.example.test\n250 CHUNKING\n503 Need MAIL first\n503 Need MAIL first\n"
	    "421 Too many errors\nEV CLOSE text=<Too many errors>\n", false },
};

static void test_scripts(void **state)
{
	(void)state;
	script_run_whole(scripts, COUNT(scripts));
}

static void test_every_split(void **state)
{
	(void)state;
	script_run_split(scripts, COUNT(scripts));
}

/* A line too long is skipped and refused; one that begins as BDAT ends the session, since its chunk would run as commands. */
static void test_long_line(void **state)
{
	static const size_t steps[] = { 1, 7, 4096, 65536 };
	struct buf line = BUF_INIT(1 << 16);
	(void)state;
	buf_addz(&line, "EHLO c.example\r\n");
	size_t greeting = line.n;
	buf_addz(&line, "bDaT 6");
	while (line.n < 6000)
		buf_addc(&line, ' ');
	buf_addz(&line, "\r\nQUIT\r\n");
	for (size_t i = 0; i < COUNT(steps); i++) {
		struct driver d;
		driver_start(&d, &conf);
		driver_send(&d, str_n(line.p, greeting));
		for (size_t at = greeting; at < line.n; at += steps[i])
			driver_send(&d, str_n(line.p + at, steps[i] < line.n - at ? steps[i] : line.n - at));
		assert_string_equal(driver_log(&d), GREETED "500 Line too long\nEV CLOSE text=<Line too long>\n");
		driver_stop(&d);
	}
	buf_free(&line);
}

/* The connection ends in a chunk, or between two. */
static void test_eof(void **state)
{
	static const char *const sent[] = { ENV "BDAT 9\r\na\r\n", ENV "BDAT 3\r\na\r\n" };
	(void)state;
	for (size_t i = 0; i < COUNT(sent); i++) {
		struct driver d;
		driver_start(&d, &conf);
		driver_send(&d, STR("EHLO c.example\r\n"));
		driver_send(&d, str_from(sent[i]));
		assert_string_equal(smtp_server_state_name(d.s), "bdat");
		assert_false(smtp_server_idle(d.s));
		buf_reset(&d.log);
		smtp_server_eof(d.s);
		driver_pump(&d);
		assert_string_equal(driver_log(&d), ABORT("connection closed by the peer") "EV CLOSE text=<connection closed by the peer>\n");
		driver_stop(&d);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scripts),
		cmocka_unit_test(test_every_split),
		cmocka_unit_test(test_long_line),
		cmocka_unit_test(test_eof),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
