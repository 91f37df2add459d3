/* Each extension: what EHLO says of it, what it brings, and that neither is there when it is switched off; LMTP, PRDR and
 * XCLIENT as dialogues; dates. */
#include "script.h"

#include "proto/smtp/datetime.h"
#include "proto/smtp/params.h"

#define EHLO S("EHLO c.example\r\n")
#define HELLO "EV HELO esmtp name=<c.example>\n250-mx.example.test\n"
#define MAIL_A "EV MAIL from=<a@b.example> domain=<b.example>\n250 Ok\n"
#define RCPT(who) "EV RCPT to=<" who "@d.example> local=<" who "> domain=<d.example>\n250 Ok\n"

#define CONF(NAME, BITS, ...) static const struct smtp_server_conf NAME = { .hostname = S("mx.example.test"), .extensions = BITS, .max_errors = 20, __VA_ARGS__ }
CONF(bare, 0, .max_recipients = 3);
CONF(limits, SMTP_EXT_LIMITS, .max_recipients = 3, .max_transactions = 2);
CONF(deliverby, SMTP_EXT_DELIVERBY, .deliver_by_min = 60);
CONF(hold, SMTP_EXT_FUTURERELEASE, .hold_max = 86400, .hold_all = true);
CONF(hold_trusted, SMTP_EXT_FUTURERELEASE, .hold_max = 86400);
CONF(no_hold, SMTP_EXT_FUTURERELEASE, .hold_max = 0);
CONF(priority, SMTP_EXT_MT_PRIORITY | SMTP_EXT_ENHANCEDSTATUSCODES, .priority_profile = S("MIXER"));
CONF(requiretls, SMTP_EXT_REQUIRETLS | SMTP_EXT_STARTTLS, .lmtp = false);
CONF(prdr, SMTP_EXT_PRDR | SMTP_EXT_CHUNKING, .max_recipients = 3);
CONF(expn, SMTP_EXT_EXPN | SMTP_EXT_8BITMIME | SMTP_EXT_SMTPUTF8, .lmtp = false);
CONF(xclient, SMTP_EXT_XCLIENT, .lmtp = false);
CONF(lmtp, SMTP_EXT_PIPELINING | SMTP_EXT_CHUNKING | SMTP_EXT_PRDR | SMTP_EXT_HELP, .lmtp = true, .size_limit = 20);

#define GREET_LMTP "EV HELO esmtp name=<c.example>\n250-mx.example.test\n250-PIPELINING\n250-CHUNKING\n250 HELP\n"
#define RCPT3 "RCPT TO:<c@d.example>\r\nRCPT TO:<full@d.example>\r\nRCPT TO:<e@d.example>\r\n"
#define THREE RCPT("c") RCPT("full") RCPT("e")
#define TO3 "EV MESSAGE from=<a@b.example> to=<c@d.example> to=<full@d.example> to=<e@d.example> text=<"
#define GO "EV DATA\n354 End data with <CR><LF>.<CR><LF>\n"

static const struct script scripts[] = {
	{ "nothing that was not switched on", &bare,
	    { EHLO, S("MAIL FROM:<a@b.example> REQUIRETLS\r\nMAIL FROM:<a@b.example> BY=5;R\r\nMAIL FROM:<a@b.example> HOLDFOR=5\r\n"
		      "MAIL FROM:<a@b.example> MT-PRIORITY=5\r\nMAIL FROM:<a@b.example> PRDR\r\nMAIL FROM:<a@b.example> SMTPUTF8\r\n"
		      "EXPN x\r\nHELP\r\n"), S("XCLIENT NAME=x\r\n"), S("STARTTLS\r\n"), S("LHLO c\r\n") },
	    "EV HELO esmtp name=<c.example>\n250 mx.example.test\n"
	    "555 Parameter not recognized or not implemented: REQUIRETLS\n555 Parameter not recognized or not implemented: BY\n"
	    "555 Parameter not recognized or not implemented: HOLDFOR\n555 Parameter not recognized or not implemented: MT-PRIORITY\n"
	    "555 Parameter not recognized or not implemented: PRDR\n555 Parameter not recognized or not implemented: SMTPUTF8\n"
	    "502 EXPN is not offered\n502 HELP is not offered\n502 XCLIENT is not offered\n502 STARTTLS is not offered\n"
	    "500 This is not LMTP\n", false },
	{ "LIMITS", &limits,
	    { EHLO, S("MAIL FROM:<a@b.example>\r\nRSET\r\nMAIL FROM:<a..b>\r\nMAIL FROM:<refuse@b.example>\r\nMAIL FROM:<a@b.example>\r\n"
		      "RSET\r\nMAIL FROM:<a@b.example>\r\n") },
	    HELLO "250 LIMITS MAILMAX=2 RCPTMAX=3\n" MAIL_A "250 Ok\nEV RESET\n501 Bad sender address: bad local part\n"
		  "EV MAIL from=<refuse@b.example> domain=<b.example>\n550-No such user\n550 here\n" MAIL_A
		  "250 Ok\nEV RESET\n421 Too many messages in one session\nEV CLOSE text=<Too many messages in one session>\n", false },
	{ "DELIVERBY", &deliverby,
	    { EHLO, S("MAIL FROM:<a@b.example> BY=59;R\r\nMAIL FROM:<a@b.example> by=60;rt\r\nRSET\r\nMAIL FROM:<a@b.example> BY=-5;N\r\n") },
	    HELLO "250 DELIVERBY 60\n555 Less time than delivery takes\n"
		  "EV MAIL from=<a@b.example> domain=<b.example> by=60/1783600260;RT\n250 Ok\n250 Ok\nEV RESET\n"
		  "EV MAIL from=<a@b.example> domain=<b.example> by=-5/1783600195;N\n250 Ok\n", false },
	{ "FUTURERELEASE", &hold,
	    { EHLO, S("MAIL FROM:<a@b.example> HOLDFOR=86401\r\nMAIL FROM:<a@b.example> HOLDUNTIL=2026-07-10T12:30:01Z\r\n"
		      "MAIL FROM:<a@b.example> HOLDFOR=86400\r\nRSET\r\nMAIL FROM:<a@b.example> HOLDUNTIL=2026-07-10T12:30:00Z\r\nRSET\r\n"
		      "MAIL FROM:<a@b.example> HOLDUNTIL=2020-01-01t00:00:00.5z\r\n") },
	    HELLO "250 FUTURERELEASE 86400 2026-07-10T12:30:00Z\n501 Longer than a message may be held\n501 Longer than a message may be held\n"
		  "EV MAIL from=<a@b.example> domain=<b.example> hold=86400/1783686600\n250 Ok\n250 Ok\nEV RESET\n"
		  "EV MAIL from=<a@b.example> domain=<b.example> hold=0/1783686600\n250 Ok\n250 Ok\nEV RESET\n"
		  "EV MAIL from=<a@b.example> domain=<b.example> hold=0/1577836800\n250 Ok\n", false },
	{ "FUTURERELEASE of a client who may not", &hold_trusted, { EHLO, S("MAIL FROM:<a@b.example> HOLDFOR=1\r\n") },
	    "EV HELO esmtp name=<c.example>\n250 mx.example.test\n555 Parameter not recognized or not implemented: HOLDFOR\n", false },
	{ "FUTURERELEASE without a longest hold", &no_hold, { EHLO, S("MAIL FROM:<a@b.example> HOLDFOR=1\r\n") },
	    "EV HELO esmtp name=<c.example>\n250 mx.example.test\n555 Parameter not recognized or not implemented: HOLDFOR\n", false },
	{ "MT-PRIORITY of a client that may not ask for more", &priority,
	    { EHLO, S("MAIL FROM:<a@b.example> MT-PRIORITY=6\r\nRCPT TO:<c@d.example>\r\nDATA\r\n"), S(".\r\nMAIL FROM:<a@b.example> MT-PRIORITY=-3\r\n") },
	    HELLO "250-ENHANCEDSTATUSCODES\n250 MT-PRIORITY MIXER\nEV MAIL from=<a@b.example> domain=<b.example> priority=0/6\n250 2.1.0 Ok\n"
		  "EV RCPT to=<c@d.example> local=<c> domain=<d.example>\n250 2.1.5 Ok\n" GO
		  "EV MESSAGE from=<a@b.example> to=<c@d.example> text=<>\n250 2.3.6 0 queued as 1\n"
		  "EV MAIL from=<a@b.example> domain=<b.example> priority=-3/-3\n250 2.1.0 Ok\n", false },
	{ "REQUIRETLS outside TLS", &requiretls, { EHLO, S("MAIL FROM:<a@b.example> REQUIRETLS\r\n") },
	    HELLO "250 STARTTLS\n555 Parameter not recognized or not implemented: REQUIRETLS\n", false },
	{ "PRDR", &prdr,
	    { EHLO, S("MAIL FROM:<a@b.example> PRDR\r\n" RCPT3 "DATA\r\n"),
		S(".\r\nMAIL FROM:<a@b.example> PRDR\r\n" RCPT3 "BDAT 0 LAST\r\nMAIL FROM:<a@b.example> PRDR\r\nRCPT TO:<full@d.example>\r\nDATA\r\n"),
		S("\r\n.\r\nMAIL FROM:<a@b.example> PRDR\r\n" RCPT3 "DATA\r\n"), S("refuse\r\n.\r\n") },
	    HELLO "250-CHUNKING\n250 PRDR\n"
		  "EV MAIL from=<a@b.example> domain=<b.example> prdr\n250 Ok\n" THREE GO TO3 ">\n"
		  "353 Content analysed, a reply per recipient follows\n250 queued as 1\n452 Mailbox full\n250 queued as 1\n250 queued as 1\n"
		  "EV MAIL from=<a@b.example> domain=<b.example> prdr\n250 Ok\n" THREE "EV DATA chunked\n" TO3 ">\n"
		  "353 Content analysed, a reply per recipient follows\n250 queued as 2\n452 Mailbox full\n250 queued as 2\n250 queued as 2\n"
		  "EV MAIL from=<a@b.example> domain=<b.example> prdr\n250 Ok\n" RCPT("full") GO
		  "EV MESSAGE from=<a@b.example> to=<full@d.example> text=<\\r\\n>\n250 queued as 3\n"
		  "EV MAIL from=<a@b.example> domain=<b.example> prdr\n250 Ok\n" THREE GO TO3 "refuse\\r\\n>\n554 Message refused\n", false },
	{ "VRFY and EXPN", &expn,
	    { EHLO, S("VRFY x SMTPUTF8\r\nVRFY \xc3\xa9\r\nVRFY \xc3\xa9 smtputf8\r\nVRFY \xff SMTPUTF8\r\nEXPN\r\nEXPN all\r\nEXPN refuse SMTPUTF8\r\nVRFY SMTPUTF8\r\n") },
	    HELLO "250-8BITMIME\n250-SMTPUTF8\n250 EXPN\nEV VRFY utf8 text=<x>\n252 Cannot verify, but will try to deliver\n"
		  "553 Not ASCII: SMTPUTF8 needed\nEV VRFY utf8 text=<\xc3\xa9>\n252 Cannot verify, but will try to deliver\n"
		  "553 Not valid UTF-8\n501 Syntax: EXPN list\nEV EXPN text=<all>\n252 Cannot verify, but will try to deliver\n"
		  "EV EXPN utf8 text=<refuse>\n550 Refused\nEV VRFY text=<SMTPUTF8>\n252 Cannot verify, but will try to deliver\n", false },
	{ "XCLIENT of a stranger", &xclient, { EHLO, S("XCLIENT NAME=x.example\r\n"), S("NOOP\r\n") },
	    "EV HELO esmtp name=<c.example>\n250 mx.example.test\n550 Not authorized to use XCLIENT\n250 Ok\n", false },
	/* RFC 2033 */
	{ "LMTP: a reply per recipient at the end, and only there", &lmtp,
	    { S("EHLO c.example\r\n"), S("HELO c.example\r\n"), S("MAIL FROM:<a@b.example>\r\n"), S("LHLO c.example\r\n"),
		S("MAIL FROM:<a@b.example> PRDR\r\nMAIL FROM:<a@b.example>\r\nDATA\r\n"), S(RCPT3 "DATA\r\n"), S("x\r\n.\r\nHELP\r\nNOOP\r\n") },
	    "500 This is LMTP: send LHLO\n500 This is LMTP: send LHLO\n503 Send LHLO first\n" GREET_LMTP
	    "555 Parameter not recognized or not implemented: PRDR\n" MAIL_A "503 No valid recipients\n" THREE GO TO3 "x\\r\\n>\n"
	    "250 queued as 1\n452 Mailbox full\n250 queued as 1\n214 Commands: RCPT MAIL DATA BDAT LHLO QUIT RSET NOOP VRFY HELP\n250 Ok\n",
	    false },
	{ "LMTP: refusals at the end are one per recipient, too; before it they are not", &lmtp,
	    { S("LHLO c.example\r\n"), S("MAIL FROM:<a@b.example>\r\n" RCPT3 "DATA\r\n"), S("refuse\r\n.\r\nMAIL FROM:<a@b.example>\r\n" RCPT3 "DATA\r\n"),
		S("a\n\r\n.\r\nMAIL FROM:<a@b.example>\r\n" RCPT3 "DATA\r\n"), S("012345678901234567890\r\n.\r\nMAIL FROM:<nodata@b.example>\r\n" RCPT3 "DATA\r\n"),
		S("NOOP\r\n") },
	    GREET_LMTP MAIL_A THREE GO TO3 "refuse\\r\\n>\n554 Message refused\n554 Message refused\n554 Message refused\n"
	    MAIL_A THREE GO "EV ABORT text=<Message has a bare LF>\n550 Message has a bare LF\n550 Message has a bare LF\n550 Message has a bare LF\n"
	    MAIL_A THREE GO "EV ABORT text=<Message size exceeds the limit>\n552 Message size exceeds the limit\n"
	    "552 Message size exceeds the limit\n552 Message size exceeds the limit\n"
	    "EV MAIL from=<nodata@b.example> domain=<b.example>\n250 Ok\n" THREE "EV DATA\n451 Not now\n250 Ok\n", false },
	{ "LMTP: chunks", &lmtp,
	    { S("LHLO c.example\r\n"), S("MAIL FROM:<a@b.example>\r\n" RCPT3 "BDAT 1\r\naBDAT 0 LAST\r\nMAIL FROM:<a@b.example>\r\n" RCPT3
		"BDAT 1\r\n\nBDAT 1 LAST\r\nxMAIL FROM:<a@b.example>\r\n" RCPT3 "BDAT 1 LAST\r\n\nMAIL FROM:<a@b.example>\r\n" RCPT3 "BDAT 21 LAST\r\n") },
	    GREET_LMTP MAIL_A THREE "EV DATA chunked\n250 1 octets so far\n" TO3 "a>\n250 queued as 1\n452 Mailbox full\n250 queued as 1\n"
	    MAIL_A THREE "EV DATA chunked\nEV ABORT text=<Message has a bare LF>\n550 Message has a bare LF\n503 The message was refused\n"
	    MAIL_A THREE "EV DATA chunked\nEV ABORT text=<Message has a bare LF>\n550 Message has a bare LF\n550 Message has a bare LF\n"
	    "550 Message has a bare LF\n" MAIL_A THREE "552 Message size exceeds the limit\n552 Message size exceeds the limit\n"
	    "552 Message size exceeds the limit\nEV RESET\n", false },
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

/* The names the configuration knows are the table's, and those of the default among them. */
static void test_names(void **state)
{
	struct str rest = STR(SMTP_EXT_NAMES), word, unknown;
	unsigned all = 0, usual = 0, seen = 0, bits;
	size_t n = 0;
	(void)state;
	assert_int_equal(smtp_extensions_parse(STR(SMTP_EXT_NAMES), &all, &unknown), 0);
	assert_int_equal(smtp_extensions_parse(STR(SMTP_EXT_DEFAULT_NAMES), &usual, &unknown), 0);
	assert_int_equal(usual & ~all, 0);
	/* no names of users for strangers */
	assert_int_equal(usual, all & ~SMTP_EXT_EXPN);
	while (str_word(&rest, " ", &word))
		n++;
	assert_int_equal(n, smtp_extensions_n);
	for (size_t i = 0; i < smtp_extensions_n; i++) {
		const struct smtp_extension *x = &smtp_extensions[i];
		assert_int_equal(seen & x->bit, 0);
		assert_int_equal(x->needs & ~seen, 0); /* rows above */
		seen |= x->bit;
		assert_ptr_equal(smtp_extension_find(x->keyword), x);
	}
	assert_int_equal(seen, all);
	assert_int_equal(smtp_extensions_parse(STR("Size,\tDSN"), &bits, NULL), 0);
	assert_int_equal(bits, SMTP_EXT_SIZE | SMTP_EXT_DSN);
	assert_int_equal(smtp_extensions_parse(STR("size sise dsn"), &bits, &unknown), -1);
	CHECK(str_eq(unknown, STR("sise")), "%.*s", STR_ARG(unknown));
}

static void test_tls(void **state)
{
	struct driver d;
	(void)state;
	driver_start(&d, &requiretls);
	driver_send(&d, STR("EHLO c.example\r\n"));
	driver_send(&d, STR("STARTTLS\r\n"));
	smtp_server_tls_started(d.s);
	buf_reset(&d.log);
	driver_send(&d, STR("EHLO c.example\r\n"));
	driver_send(&d, STR("STARTTLS\r\n"));
	driver_send(&d, STR("MAIL FROM:<a@b.example> REQUIRETLS\r\nRSET\r\nMAIL FROM:<a@b.example> REQUIRETLS=1\r\n"));
	assert_string_equal(driver_log(&d), HELLO "250 REQUIRETLS\n503 TLS is up already\n"
	    "EV MAIL from=<a@b.example> domain=<b.example> requiretls\n250 Ok\n250 Ok\nEV RESET\n501 Bad value of parameter REQUIRETLS\n");
	driver_stop(&d);
	/* TLS before the first octet */
	driver_start(&d, &requiretls);
	smtp_server_tls_started(d.s);
	driver_send(&d, STR("EHLO c.example\r\n"));
	assert_string_equal(driver_log(&d), HELLO "250 REQUIRETLS\n");
	smtp_server_tls_started(d.s); /* a second time changes nothing */
	driver_send(&d, STR("MAIL FROM:<a@b.example> REQUIRETLS\r\n"));
	assert_string_equal(driver_log(&d), HELLO "250 REQUIRETLS\nEV MAIL from=<a@b.example> domain=<b.example> requiretls\n250 Ok\n");
	driver_stop(&d);
}

static void test_trusted_priority(void **state)
{
	struct driver d;
	(void)state;
	driver_start(&d, &priority);
	smtp_server_trust(d.s, SMTP_TRUST_PRIORITY);
	driver_send(&d, STR("EHLO c.example\r\n"));
	driver_send(&d, STR("MAIL FROM:<a@b.example> MT-PRIORITY=9\r\nRCPT TO:<c@d.example>\r\nDATA\r\n"));
	buf_reset(&d.log);
	driver_send(&d, STR(".\r\n"));
	assert_string_equal(driver_log(&d), "EV MESSAGE from=<a@b.example> to=<c@d.example> text=<>\n250 2.6.0 queued as 1\n");
	driver_stop(&d);
}

/* Time decides of FUTURERELEASE and DELIVERBY: unknown, they are not there. */
static void test_no_time(void **state)
{
	static const struct smtp_server_conf *const confs[] = { &hold, &deliverby };
	(void)state;
	for (size_t i = 0; i < COUNT(confs); i++) {
		struct driver d;
		driver_start(&d, confs[i]);
		smtp_server_time(d.s, 0);
		driver_send(&d, STR("EHLO c.example\r\n"));
		assert_string_equal(driver_log(&d), "EV HELO esmtp name=<c.example>\n250 mx.example.test\n");
		driver_stop(&d);
	}
}

#define XHELLO HELLO "250 XCLIENT NAME ADDR PORT PROTO HELO LOGIN DESTADDR DESTPORT\n"

static void test_xclient(void **state)
{
	static const struct {
		const char *args, *log; /* NULL: 501 */
	} cases[] = {
		{ "NAME=spike.porcupine.org ADDR=168.100.189.2", "name=<spike.porcupine.org> addr=<168.100.189.2>" },
		{ "NAME=[UNAVAILABLE] ADDR=IPV6:2001:db8::1", "name=<unavailable> addr=<2001:db8::1>" },
		{ "name=[tempunavail] port=65535", "name=<tempunavail> port=65535" },
		{ "PROTO=ESMTP HELO=a+2Bb+20c LOGIN=user+40d", "helo=<a+b c> login=<user@d> proto=esmtp" },
		{ "PROTO=smtp DESTADDR=192.0.2.1 DESTPORT=25", "destaddr=<192.0.2.1> destport=25 proto=smtp" },
		{ "ADDR=[UNAVAILABLE] PORT=[UNAVAILABLE] LOGIN=[UNAVAILABLE]", "addr=<unavailable> login=<unavailable> port=0" },
		{ "ADDR=2001:db8::1", NULL },
		{ "ADDR=IPV6:192.0.2.1", NULL },
		{ "ADDR=300.1.2.3", NULL },
		{ "ADDR=1.2.3.4]", NULL },
		{ "PORT=65536", NULL },
		{ "PORT=-1", NULL },
		{ "PORT=0x19", NULL },
		{ "PROTO=LMTP", NULL },
		{ "NAME=a b", NULL },
		{ "NAME=[192.0.2.1]", NULL },
		{ "NAME=a_b-.example", NULL },
		{ "HELO=a+0Ab", NULL },
		{ "HELO=a+0D", NULL },
		{ "HELO=a+7F", NULL },
		{ "HELO=a+2", NULL },
		{ "HELO=a+2b", NULL },
		{ "HELO=", NULL },
		{ "HELO", NULL },
		{ "=x", NULL },
		{ "FOO=x", NULL },
		{ "HELO=x HELO=x", NULL },
		{ "HELO=\xc3\xa9", NULL },
	};
	struct buf want = BUF_INIT(4096);
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct driver d;
		driver_start(&d, &xclient);
		smtp_server_trust(d.s, SMTP_TRUST_XCLIENT);
		buf_reset(&want);
		buf_addz(&want, "XCLIENT ");
		buf_addz(&want, cases[i].args);
		buf_addz(&want, "\r\n");
		driver_send(&d, buf_str(&want));
		buf_reset(&want);
		if (cases[i].log)
			buf_addf(&want, "EV XCLIENT %s\n220 mx.example.test ESMTP Pepsi\n", cases[i].log);
		else
			buf_addz(&want, "501 Bad XCLIENT attribute\n");
		CHECK(!strcmp(driver_log(&d), buf_z(&want)), "%s: %s", cases[i].args, driver_log(&d));
		driver_stop(&d);
	}
	buf_free(&want);
}

/* The session begins anew; not within a transaction; nothing may be behind it. */
static void test_xclient_session(void **state)
{
	struct driver d;
	(void)state;
	driver_start(&d, &xclient);
	smtp_server_trust(d.s, SMTP_TRUST_XCLIENT);
	driver_send(&d, STR("EHLO c.example\r\n"));
	driver_send(&d, STR("MAIL FROM:<a@b.example>\r\nXCLIENT NAME=x.example\r\n"));
	driver_send(&d, STR("RSET\r\n"));
	driver_send(&d, STR("XCLIENT LOGIN=refused\r\n"));
	driver_send(&d, STR("XCLIENT NAME=x.example\r\n"));
	driver_send(&d, STR("MAIL FROM:<a@b.example>\r\n"));
	driver_send(&d, STR("XCLIENT NAME=y.example\r\nEHLO y.example\r\n"));
	assert_string_equal(driver_log(&d),
	    XHELLO MAIL_A "503 A transaction is open\n250 Ok\nEV RESET\nEV XCLIENT login=<refused>\n550 Refused\n"
			  "EV XCLIENT name=<x.example>\n220 mx.example.test ESMTP Pepsi\n503 Send EHLO or HELO first\n"
			  "503 Wait for the reply before you go on\nEV CLOSE text=<Wait for the reply before you go on>\n");
	driver_stop(&d);
	/* trust taken away with the answer is gone at once */
	driver_start(&d, &xclient);
	smtp_server_trust(d.s, SMTP_TRUST_XCLIENT);
	d.hold = true;
	driver_send(&d, STR("XCLIENT NAME=x.example\r\n"));
	smtp_server_trust(d.s, 0);
	smtp_server_accept(d.s, NULL);
	driver_send(&d, STR("XCLIENT NAME=x.example\r\n"));
	assert_string_equal(driver_log(&d), "EV XCLIENT name=<x.example>\n220 mx.example.test ESMTP Pepsi\n550 Not authorized to use XCLIENT\n");
	driver_stop(&d);
}

static void test_answer_rcpt(void **state)
{
	struct driver d;
	(void)state;
	driver_start(&d, &prdr);
	assert_int_equal(smtp_server_answer_rcpt(d.s, 0, &(struct smtp_reply){ 250, NULL, NULL }), -1);
	driver_send(&d, STR("EHLO c.example\r\n"));
	driver_send(&d, STR("MAIL FROM:<a@b.example> PRDR\r\nRCPT TO:<a@d.example>\r\nRCPT TO:<b@d.example>\r\nDATA\r\n"));
	buf_reset(&d.log);
	d.hold = true;
	driver_send(&d, STR(".\r\n"));
	buf_reset(&d.log);
	assert_int_equal(smtp_server_answer_rcpt(d.s, 2, &(struct smtp_reply){ 250, NULL, NULL }), -1);
	assert_int_equal(smtp_server_answer_rcpt(d.s, 0, &(struct smtp_reply){ 354, NULL, "go" }), 0);
	assert_int_equal(smtp_server_answer_rcpt(d.s, 0, &(struct smtp_reply){ 100, NULL, "go" }), 0);
	assert_int_equal(smtp_server_answer_rcpt(d.s, 1, &(struct smtp_reply){ 550, "5.1.1", "no\nsuch" }), 0);
	smtp_server_accept(d.s, NULL);
	driver_pump(&d);
	assert_string_equal(driver_log(&d), "353 Content analysed, a reply per recipient follows\n250 Ok\n550-no\n550 such\n250 Ok\n");
	driver_stop(&d);
}

static void test_params(void **state)
{
	static const struct {
		const char *in;
		enum smtp_param_fault fault;
	} cases[] = {
		{ " BODY=BINARYMIME", 0 },
		{ " BODY=BINARYMIME BODY=8BITMIME", SMTP_PARAM_DUPLICATE },
		{ " HOLDFOR=1", 0 },
		{ " HOLDFOR=999999999", 0 },
		{ " HOLDFOR=1000000000", SMTP_PARAM_VALUE },
		{ " HOLDFOR=0", SMTP_PARAM_VALUE },
		{ " HOLDFOR=01", SMTP_PARAM_VALUE },
		{ " HOLDFOR=-1", SMTP_PARAM_VALUE },
		{ " HOLDFOR=+1", SMTP_PARAM_VALUE },
		{ " HOLDFOR", SMTP_PARAM_VALUE },
		{ " HOLDFOR=1 HOLDUNTIL=2030-01-01T00:00:00Z", SMTP_PARAM_VALUE },
		{ " HOLDUNTIL=2030-01-01T00:00:00Z HOLDFOR=1", SMTP_PARAM_VALUE },
		{ " HOLDUNTIL=2030-01-01T00:00:00Z HOLDUNTIL=2030-01-01T00:00:00Z", SMTP_PARAM_DUPLICATE },
		{ " HOLDUNTIL=tomorrow", SMTP_PARAM_VALUE },
		{ " BY=1;R", 0 },
		{ " BY=+1;R", 0 },
		{ " BY=0;N", 0 },
		{ " BY=-999999999;NT", 0 },
		{ " BY=0;R", SMTP_PARAM_VALUE },
		{ " BY=-1;R", SMTP_PARAM_VALUE },
		{ " BY=1", SMTP_PARAM_VALUE },
		{ " BY=1;", SMTP_PARAM_VALUE },
		{ " BY=;R", SMTP_PARAM_VALUE },
		{ " BY=-;N", SMTP_PARAM_VALUE },
		{ " BY=1;X", SMTP_PARAM_VALUE },
		{ " BY=1;RX", SMTP_PARAM_VALUE },
		{ " BY=1;RTT", SMTP_PARAM_VALUE },
		{ " BY=1000000000;R", SMTP_PARAM_VALUE },
		{ " BY=1;R BY=1;R", SMTP_PARAM_DUPLICATE },
		{ " MT-PRIORITY=0", 0 },
		{ " MT-PRIORITY=9", 0 },
		{ " MT-PRIORITY=-9", 0 },
		{ " MT-PRIORITY=-0", SMTP_PARAM_VALUE },
		{ " MT-PRIORITY=10", SMTP_PARAM_VALUE },
		{ " MT-PRIORITY=+1", SMTP_PARAM_VALUE },
		{ " MT-PRIORITY=-", SMTP_PARAM_VALUE },
		{ " MT-PRIORITY", SMTP_PARAM_VALUE },
		{ " MT-PRIORITY=1 mt-priority=1", SMTP_PARAM_DUPLICATE },
		{ " PRDR", 0 },
		{ " PRDR=1", SMTP_PARAM_VALUE },
		{ " PRDR PRDR", SMTP_PARAM_DUPLICATE },
		{ " REQUIRETLS", 0 },
		{ " REQUIRETLS=YES", SMTP_PARAM_VALUE },
		{ " REQUIRETLS requiretls", SMTP_PARAM_DUPLICATE },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct smtp_mail_params p;
		struct smtp_rcpt_params r;
		struct smtp_param at;
		enum smtp_param_fault f = smtp_mail_params_parse(str_from(cases[i].in), ~0u, &p, &at);
		CHECK(f == cases[i].fault, "%s: %d", cases[i].in, f);
		/* none of them is RCPT's */
		f = smtp_rcpt_params_parse(str_from(cases[i].in), ~0u, false, &r, &at);
		CHECK(f == SMTP_PARAM_UNKNOWN, "%zu of RCPT: %d", i, f);
	}
}

static void test_datetime(void **state)
{
	static const struct {
		const char *in;
		int64_t t; /* -1: refused */
		bool same; /* what is written of it */
	} cases[] = {
		{ "1970-01-01T00:00:00Z", 0, true },
		{ "1970-01-01T00:00:01Z", 1, true },
		{ "2000-02-29T23:59:59Z", 951868799, true },
		{ "2000-03-01T00:00:00Z", 951868800, true },
		{ "2026-07-09T12:30:00Z", 1783600200, true },
		{ "2038-01-19T03:14:08Z", 2147483648, true },
		{ "2100-02-28T00:00:00Z", 4107456000, true },
		{ "9999-12-31T23:59:59Z", 253402300799, true },
		{ "9999-12-31T23:59:60Z", 253402300799, false },
		{ "2016-12-31T23:59:60Z", 1483228800, false },
		{ "2026-07-09t12:30:00.123456z", 1783600200, false },
		{ "", -1, false },
		{ "2026-07-09", -1, false },
		{ "2026-07-09T12:30:00", -1, false },
		{ "2026-07-09T12:30:00.Z", -1, false },
		{ "2026-07-09T12:30:00.1", -1, false },
		{ "2026-07-09T12:30:00ZZ", -1, false },
		{ "2026-07-09T12:30:00+00:00", -1, false },
		{ "2026-07-09 12:30:00Z", -1, false },
		{ "2026-7-09T12:30:00Z", -1, false },
		{ "2026-13-09T12:30:00Z", -1, false },
		{ "2026-00-09T12:30:00Z", -1, false },
		{ "2026-02-29T12:30:00Z", -1, false },
		{ "2100-02-29T12:30:00Z", -1, false },
		{ "2026-07-00T12:30:00Z", -1, false },
		{ "2026-07-09T24:00:00Z", -1, false },
		{ "2026-07-09T12:60:00Z", -1, false },
		{ "2026-07-09T12:30:61Z", -1, false },
		{ "1969-12-31T23:59:59Z", -1, false },
		{ "+026-07-09T12:30:00Z", -1, false },
	};
	struct buf out = BUF_INIT(64);
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		int64_t t = -1;
		int r = smtp_datetime_parse(str_from(cases[i].in), &t);
		CHECK(t == cases[i].t && r == (t < 0 ? -1 : 0), "%s: %lld", cases[i].in, (long long)t);
		buf_reset(&out);
		if (cases[i].same)
			CHECK(!smtp_datetime_write(t, &out) && !strcmp(buf_z(&out), cases[i].in), "%lld", (long long)t);
	}
	/* each day of four centuries comes back */
	for (int64_t t = 0; t < INT64_C(400) * 366 * 86400; t += 86400 + 1) {
		int64_t back;
		buf_reset(&out);
		assert_int_equal(smtp_datetime_write(t, &out), 0);
		assert_int_equal(smtp_datetime_parse(buf_str(&out), &back), 0);
		assert_true(back == t);
	}
	assert_int_equal(smtp_datetime_write(-1, &out), -1);
	assert_int_equal(smtp_datetime_write(253402300800, &out), -1);
	buf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scripts),
		cmocka_unit_test(test_every_split),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_tls),
		cmocka_unit_test(test_trusted_priority),
		cmocka_unit_test(test_no_time),
		cmocka_unit_test(test_xclient),
		cmocka_unit_test(test_xclient_session),
		cmocka_unit_test(test_answer_rcpt),
		cmocka_unit_test(test_params),
		cmocka_unit_test(test_datetime),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
