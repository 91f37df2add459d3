/* Dialogues with the SMTP server engine: what is sent, and the events and replies that must come of it; each fed whole, octet
 * by octet, and cut once at every place. */
#include "script.h"

#define EHLO S("EHLO c.example\r\n")
#define GREETED                                                                                                        \
	"EV HELO esmtp name=<c.example>\n250-mx.example.test\n250-PIPELINING\n250-SIZE 1000\n250-8BITMIME\n250-SMTPUTF8\n" \
	"250-ENHANCEDSTATUSCODES\n250 DSN\n"
#define MAIL_A "EV MAIL from=<a@b.example> domain=<b.example>\n250 2.1.0 Ok\n"
#define RCPT_C "EV RCPT to=<c@d.example> local=<c> domain=<d.example>\n250 2.1.5 Ok\n"
#define GO "EV DATA\n354 End data with <CR><LF>.<CR><LF>\n"
#define BYE "221 2.0.0 Bye\nEV QUIT\n"
#define TO_DATA EHLO, S("MAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\nDATA\r\n")
#define AT_DATA GREETED MAIL_A RCPT_C GO
#define TOO_MANY "421 4.7.0 Too many errors\nEV CLOSE text=<Too many errors>\n"
#define WAIT "503 5.5.1 Wait for the reply before you go on\nEV CLOSE text=<Wait for the reply before you go on>\n"
#define BARE                                                                                                           \
	"500 5.5.2 Lines end with CR LF, neither may stand alone\n"                                                    \
	"EV CLOSE text=<Lines end with CR LF, neither may stand alone>\n"

static const struct smtp_server_conf plain = {
	.hostname = S("mx.example.test"),
	.max_recipients = 1,
};
static const struct smtp_server_conf few = {
	.hostname = S("mx.example.test"),
	.extensions = SMTP_EXT_ENHANCEDSTATUSCODES | SMTP_EXT_SMTPUTF8, /* the latter not without 8BITMIME */
	.max_errors = 2,
};
static const struct smtp_server_conf tls = {
	.hostname = S("mx.example.test"),
	.extensions = SMTP_EXT_STARTTLS,
	.max_errors = 10,
};

static const struct smtp_server_conf helping = {
	.hostname = S("mx.example.test"),
	.extensions = SMTP_EXT_ALL_PLAIN | SMTP_EXT_HELP,
	.max_errors = 10,
};

static const struct script scripts[] = {
	{ "one message", NULL,
	    { EHLO, S("MAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\nDATA\r\n"),
		S("Subject: x\r\n\r\nhello\r\n..dot\r\n.\r\nQUIT\r\n") },
	    AT_DATA "EV MESSAGE from=<a@b.example> to=<c@d.example> text=<Subject: x\\r\\n\\r\\nhello\\r\\n.dot\\r\\n>\n"
		    "250 2.6.0 queued as 1\n" BYE,
	    false },
	{ "empty messages, and pipelining behind the end", NULL,
	    { TO_DATA, S(".\r\nMAIL FROM:<>\r\nRCPT TO:<Postmaster>\r\nDATA\r\n"), S("x\r\n.\r\nNOOP\r\n") },
	    AT_DATA "EV MESSAGE from=<a@b.example> to=<c@d.example> text=<>\n250 2.6.0 queued as 1\n"
		    "EV MAIL from=<> domain=<>\n250 2.1.0 Ok\n"
		    "EV RCPT to=<Postmaster> local=<Postmaster> domain=<>\n250 2.1.5 Ok\n" GO
		    "EV MESSAGE from=<> to=<Postmaster> text=<x\\r\\n>\n250 2.6.0 queued as 2\n250 2.0.0 Ok\n",
	    false },
	{ "HELO: no extensions, no status codes", NULL,
	    { S("helo c.example\r\n"), S("MAIL FROM:<a@b.example> SIZE=1\r\nMAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\nDATA\r\n"),
		S("x\r\n.\r\nquit\r\n") },
	    "EV HELO smtp name=<c.example>\n250 mx.example.test\n555 Parameter not recognized or not implemented: SIZE\n"
	    "EV MAIL from=<a@b.example> domain=<b.example>\n250 Ok\nEV RCPT to=<c@d.example> local=<c> domain=<d.example>\n250 Ok\n" GO
	    "EV MESSAGE from=<a@b.example> to=<c@d.example> text=<x\\r\\n>\n250 queued as 1\n221 Bye\nEV QUIT\n",
	    false },
	{ "no extensions configured", &plain, { EHLO, S("STARTTLS\r\n"), S("MAIL FROM:<a@b.example> BODY=8BITMIME\r\n") },
	    "EV HELO esmtp name=<c.example>\n250 mx.example.test\n502 STARTTLS is not offered\n"
	    "555 Parameter not recognized or not implemented: BODY\n",
	    false },
	{ "SMTPUTF8 only with 8BITMIME, and the error budget", &few,
	    { EHLO, S("MAIL FROM:<a@b.example> SMTPUTF8\r\nFOO\r\nNOOP\r\n") },
	    "EV HELO esmtp name=<c.example>\n250-mx.example.test\n250 ENHANCEDSTATUSCODES\n"
	    "555 5.5.4 Parameter not recognized or not implemented: SMTPUTF8\n500 5.5.2 Command not recognized\n" TOO_MANY,
	    false },
	{ "order of commands", NULL,
	    { S("MAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\nDATA\r\n"), S("STARTTLS\r\n"), EHLO,
		S("RCPT TO:<c@d.example>\r\nDATA\r\n"), S("MAIL FROM:<a@b.example>\r\nMAIL FROM:<a@b.example>\r\nDATA\r\n"),
		S("RSET\r\nRSET\r\nDATA\r\n"), S("QUIT\r\n") },
	    "503 5.5.1 Send EHLO or HELO first\n503 5.5.1 Send EHLO or HELO first\n503 5.5.1 Send EHLO or HELO first\n"
	    "503 5.5.1 Send EHLO or HELO first\n" GREETED "503 5.5.1 Need MAIL first\n503 5.5.1 Need MAIL first\n" MAIL_A
	    "503 5.5.1 Sender already given\n554 5.5.1 No valid recipients\n250 2.0.0 Ok\nEV RESET\n250 2.0.0 Ok\n"
	    "503 5.5.1 Need MAIL first\n" BYE,
	    false },
	{ "commands that need no greeting", &helping,
	    { S("NOOP\r\nNOOP some text\r\nRSET\r\nHELP\r\nHELP MAIL\r\nEXPN list\r\nVRFY someone\r\nVRFY refuse\r\nQUIT\r\n") },
	    "250 2.0.0 Ok\n250 2.0.0 Ok\n250 2.0.0 Ok\n"
	    "214 2.0.0 Commands: RCPT MAIL DATA EHLO HELO QUIT RSET NOOP VRFY HELP\n"
	    "214 2.0.0 Syntax: MAIL FROM:<address> [parameters]\n502 5.5.1 EXPN is not offered\n"
	    "EV VRFY text=<someone>\n252 2.5.0 Cannot verify, but will try to deliver\n"
	    "EV VRFY text=<refuse>\n550 5.7.1 Refused\n" BYE,
	    false },
	{ "arguments", NULL,
	    { S("EHLO\r\n"), S("EHLO a b\r\n"), S("HELO [x]\r\n"), S("DATA x\r\nRSET x\r\nQUIT x\r\nVRFY\r\nNOOP a\x01\r\n"),
		S("EHLO refuse.example\r\n"), S("QUIT \t \r\n") },
	    "501 5.5.4 Syntax: EHLO hostname\n501 5.5.4 Name is neither a domain nor an address literal\n"
	    "501 5.5.4 Name is neither a domain nor an address literal\n503 5.5.1 Wait for the reply before you go on\n"
	    "EV CLOSE text=<Wait for the reply before you go on>\n",
	    true },
	{ "more arguments", NULL,
	    { S("RSET x\r\nQUIT x\r\nVRFY\r\nNOOP a\x01\r\nEHLO refuse.example\r\n"), S("NOOP  \t \r\n  NOOP\r\nQUIT \t \r\n") },
	    "501 5.5.4 Syntax: RSET\n501 5.5.4 Syntax: QUIT\n501 5.5.4 Syntax: VRFY address\n501 5.5.4 Syntax: NOOP\n"
	    "EV HELO esmtp name=<refuse.example>\n550 5.7.1 Refused\n250 2.0.0 Ok\n500 5.5.2 Command not recognized\n" BYE,
	    false },
	{ "MAIL with everything", NULL,
	    { EHLO, S("mail from:<a@b.example> size=1000 body=8bitmime smtputf8 ret=hdrs envid=a+20b\r\n"
		      "rcpt to:<c@d.example> notify=success,delay orcpt=rfc822;x+2By@z\r\nRCPT TO:<e@d.example> NOTIFY=NEVER\r\nDATA\r\n"),
		S("\xc3\xa9\xff\r\n.\r\n") },
	    GREETED
	    "EV MAIL from=<a@b.example> domain=<b.example> size=1000 8bit utf8 ret=H envid=<a+20b>\n250 2.1.0 Ok\n"
	    "EV RCPT to=<c@d.example> local=<c> domain=<d.example> success delay orcpt=<rfc822;x+2By@z>\n250 2.1.5 Ok\n"
	    "EV RCPT to=<e@d.example> local=<e> domain=<d.example> never\n250 2.1.5 Ok\n" GO
	    "EV MESSAGE from=<a@b.example> to=<c@d.example> success delay orcpt=<rfc822;x+2By@z> to=<e@d.example> never "
	    "text=<\xc3\xa9\xff\\r\\n>\n250 2.6.0 queued as 1\n",
	    false },
	{ "a blank behind the colon, as mail programs have it", NULL, { EHLO, S("MAIL FROM: <a@b.example> SIZE=9\r\nRCPT TO: <c@d.example>\r\n") },
	    GREETED "EV MAIL from=<a@b.example> domain=<b.example> size=9\n250 2.1.0 Ok\n"
		    "EV RCPT to=<c@d.example> local=<c> domain=<d.example>\n250 2.1.5 Ok\n",
	    false },
	{ "bad MAIL", NULL,
	    { EHLO, S("MAIL\r\nMAIL <a@b.example>\r\nMAIL FROM:  <a@b.example>\r\nMAIL FROM:a@b.example\r\nMAIL FROM:<a@b.example>SIZE=1\r\n"
		      "MAIL FROM:<a..b@c.example>\r\nMAIL FROM:<postmaster>\r\nMAIL FROM:<a@b.example> SIZE=x\r\n"
		      "MAIL FROM:<a@b.example> SIZE=1001\r\nMAIL FROM:<\xc3\xa9@b.example>\r\n") },
	    GREETED "501 5.5.4 Syntax: MAIL FROM:<address> [parameters]\n501 5.5.4 Syntax: MAIL FROM:<address> [parameters]\n"
		    "501 5.5.4 Syntax: MAIL FROM:<address> [parameters]\n501 5.5.4 Syntax: MAIL FROM:<address> [parameters]\n"
		    "501 5.5.4 Syntax: MAIL FROM:<address> [parameters]\n501 5.1.7 Bad sender address: bad local part\n"
		    "501 5.1.7 Bad sender address: no domain\n501 5.5.4 Bad value of parameter SIZE\n"
		    "552 5.3.4 Message size exceeds the limit\n553 5.6.7 Address is not ASCII: SMTPUTF8 needed\n" TOO_MANY,
	    false },
	{ "bad RCPT", NULL,
	    { EHLO, S("MAIL FROM:<a@b.example>\r\nRCPT\r\nRCPT FROM:<c@d.example>\r\nRCPT TO :<c@d.example>\r\nRCPT TO:<>\r\nRCPT TO:<c>\r\n"
		      "RCPT TO:<c@d_e>\r\nRCPT TO:<c@d.example> NOTIFY=NEVER,DELAY\r\nRCPT TO:<c@d.example> X NOTIFY=NEVER\r\n"
		      "RCPT TO:<\xc3\xa9@d.example>\r\nRCPT TO:<c@d.example> ORCPT=rfc822;a+0Ab\r\n") },
	    GREETED MAIL_A
	    "501 5.5.4 Syntax: RCPT TO:<address> [parameters]\n501 5.5.4 Syntax: RCPT TO:<address> [parameters]\n"
	    "501 5.5.4 Syntax: RCPT TO:<address> [parameters]\n501 5.1.3 Bad recipient address: empty address\n"
	    "501 5.1.3 Bad recipient address: no domain\n501 5.1.3 Bad recipient address: bad domain\n"
	    "501 5.5.4 Bad value of parameter NOTIFY\n555 5.5.4 Parameter not recognized or not implemented: X\n"
	    "553 5.6.7 Address is not ASCII: SMTPUTF8 needed\n501 5.5.4 Bad value of parameter ORCPT\n" TOO_MANY,
	    false },
	{ "addresses: canonical form, source route, literal, UTF-8", NULL,
	    { EHLO, S("MAIL FROM:<@x,@y:\"a.b\"@c.example> SMTPUTF8\r\nRCPT TO:<\"a\\ \\b\"@[192.0.2.1]>\r\n"
		      "RCPT TO:<\xc3\xa9@b\xc3\xbc" "cher.example> ORCPT=utf-8;\xc3\xa9@x\r\nRCPT TO:<\"postmaster\">\r\n") },
	    GREETED "EV MAIL from=<a.b@c.example> domain=<c.example> utf8\n250 2.1.0 Ok\n"
		    "EV RCPT to=<\"a b\"@[192.0.2.1]> local=<\"a b\"> domain=<[192.0.2.1]>\n250 2.1.5 Ok\n"
		    "EV RCPT to=<\xc3\xa9@b\xc3\xbc" "cher.example> local=<\xc3\xa9> domain=<b\xc3\xbc" "cher.example> "
		    "orcpt=<utf-8;\xc3\xa9@x>\n250 2.1.5 Ok\n501 5.1.3 Bad recipient address: no domain\n",
	    false },
	{ "answers of the caller's", NULL,
	    { EHLO, S("MAIL FROM:<refuse@b.example>\r\nMAIL FROM:<later@b.example>\r\nMAIL FROM:<a@b.example>\r\nRCPT TO:<refuse@d.example>\r\n"
		      "RCPT TO:<later@d.example>\r\nRCPT TO:<c@d.example>\r\nDATA\r\n"),
		S("please refuse\r\n.\r\nMAIL FROM:<end@b.example>\r\nNOOP\r\n") },
	    GREETED "EV MAIL from=<refuse@b.example> domain=<b.example>\n550-5.1.1 No such user\n550 5.1.1 here\n"
		    "EV MAIL from=<later@b.example> domain=<b.example>\n451 4.2.0 Come back\n" MAIL_A
		    "EV RCPT to=<refuse@d.example> local=<refuse> domain=<d.example>\n550-5.1.1 No such user\n550 5.1.1 here\n"
		    "EV RCPT to=<later@d.example> local=<later> domain=<d.example>\n451 4.2.0 Come back\n" RCPT_C GO
		    "EV MESSAGE from=<a@b.example> to=<c@d.example> text=<please refuse\\r\\n>\n554 5.7.1 Message refused\n"
		    "EV MAIL from=<end@b.example> domain=<b.example>\n421 4.7.1 Go away\nEV CLOSE text=<Go away>\n",
	    false },
	{ "too many recipients is no error", NULL,
	    { EHLO, S("MAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\nRCPT TO:<c@d.example>\r\nRCPT TO:<c@d.example>\r\n"
		      "RCPT TO:<c@d.example>\r\nRCPT TO:<c@d.example>\r\nRSET\r\nMAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\n") },
	    GREETED MAIL_A RCPT_C RCPT_C RCPT_C "452 4.5.3 Too many recipients\n452 4.5.3 Too many recipients\n"
					       "250 2.0.0 Ok\nEV RESET\n" MAIL_A RCPT_C,
	    false },
	{ "EHLO within a transaction", NULL, { EHLO, S("MAIL FROM:<a@b.example>\r\nEHLO c.example\r\n"), S("RCPT TO:<c@d.example>\r\n") },
	    GREETED MAIL_A GREETED "EV RESET\n503 5.5.1 Need MAIL first\n", false },
	{ "a refused EHLO changes nothing", NULL,
	    { EHLO, S("MAIL FROM:<a@b.example>\r\nEHLO refuse.example\r\n"), S("RCPT TO:<c@d.example>\r\nHELO -\r\n"), S("DATA\r\n") },
	    GREETED MAIL_A "EV HELO esmtp name=<refuse.example>\n550 5.7.1 Refused\n" RCPT_C
			   "501 5.5.4 Name is neither a domain nor an address literal\n" GO,
	    false },
	/* line ends, smuggling */
	{ "bare LF in a command", NULL, { EHLO, S("MAIL FROM:<a@b.example>\nRCPT TO:<c@d.example>\r\n") }, GREETED BARE, false },
	{ "bare CR in a command", NULL, { EHLO, S("MAIL FROM:<a@b.example>\rRCPT TO:<c@d.example>\r\n") }, GREETED BARE, false },
	{ "CR CR LF behind a command", NULL, { EHLO, S("NOOP\r\r\n") }, GREETED BARE, false },
	{ "NUL in a command", NULL, { EHLO, S("NO\0OP\r\n") },
	    GREETED "500 5.5.2 NUL octet in a command\nEV CLOSE text=<NUL octet in a command>\n", false },
	{ "bare LF in a message", NULL, { TO_DATA, S("a\n.\nMAIL FROM:<x@y.example>\r\n.\r\nNOOP\r\n") },
	    AT_DATA "EV ABORT text=<Message has a bare LF>\n550 5.6.0 Message has a bare LF\n250 2.0.0 Ok\n", false },
	{ "bare CR in a message", NULL, { TO_DATA, S("a\r.\rMAIL FROM:<x@y.example>\r\n.\r\nNOOP\r\n") },
	    AT_DATA "EV ABORT text=<Message has a bare CR>\n550 5.6.0 Message has a bare CR\n250 2.0.0 Ok\n", false },
	{ "LF . CR LF", NULL, { TO_DATA, S("a\n.\r\nMAIL FROM:<x@y.example>\r\n.\r\n") },
	    AT_DATA "EV ABORT text=<Message has a bare LF>\n550 5.6.0 Message has a bare LF\n", false },
	{ "CR LF . LF", NULL, { TO_DATA, S("a\r\n.\nMAIL FROM:<x@y.example>\r\n.\r\n") },
	    AT_DATA "EV ABORT text=<Message has a bare LF>\n550 5.6.0 Message has a bare LF\n", false },
	{ "CR LF . CR", NULL, { TO_DATA, S("a\r\n.\rMAIL FROM:<x@y.example>\r\n.\r\n") },
	    AT_DATA "EV ABORT text=<Message has a bare CR>\n550 5.6.0 Message has a bare CR\n", false },
	{ "NUL in a message", NULL, { TO_DATA, S("a\r\n.\0\r\nb\r\n.\r\n") },
	    AT_DATA "EV ABORT text=<Message has a NUL octet>\n550 5.6.0 Message has a NUL octet\n", false },
	{ "after a faulty message the next one is sound", NULL,
	    { TO_DATA, S("a\n\r\n.\r\nMAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\nDATA\r\n"), S("b\r\n.\r\n") },
	    AT_DATA "EV ABORT text=<Message has a bare LF>\n550 5.6.0 Message has a bare LF\n" MAIL_A RCPT_C GO
		    "EV MESSAGE from=<a@b.example> to=<c@d.example> text=<b\\r\\n>\n250 2.6.0 queued as 1\n",
	    false },
	/* who does not wait */
	{ "input behind EHLO", NULL, { S("EHLO c.example\r\nMAIL FROM:<a@b.example>\r\n") }, WAIT, true },
	{ "input behind HELO", NULL, { S("HELO c.example\r\nM") }, WAIT, true },
	{ "input behind DATA", NULL, { EHLO, S("MAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\nDATA\r\nx\r\n.\r\n") },
	    GREETED MAIL_A RCPT_C WAIT, true },
	{ "input behind a DATA without recipients", NULL, { EHLO, S("MAIL FROM:<a@b.example>\r\nDATA\r\nx\r\n.\r\n") },
	    GREETED MAIL_A WAIT, true },
	{ "input behind STARTTLS", &tls, { EHLO, S("STARTTLS\r\nNOOP\r\n") },
	    "EV HELO esmtp name=<c.example>\n250-mx.example.test\n250 STARTTLS\n503 Wait for the reply before you go on\n"
	    "EV CLOSE text=<Wait for the reply before you go on>\n", true },
	{ "plaintext behind 220", &tls, { EHLO, S("STARTTLS\r\n"), S("NOOP\r\n") },
	    "EV HELO esmtp name=<c.example>\n250-mx.example.test\n250 STARTTLS\n220 Ready to start TLS\nEV STARTTLS\nFEED REFUSED\n",
	    true },
	{ "the message of a refused DATA", NULL,
	    { EHLO, S("MAIL FROM:<nodata@b.example>\r\nRCPT TO:<c@d.example>\r\nDATA\r\n"), S("Subject: x\r\n\r\nQUIT\r\n.\r\n") },
	    GREETED "EV MAIL from=<nodata@b.example> domain=<b.example>\n250 2.1.0 Ok\n" RCPT_C
		    "EV DATA\n451 4.3.0 Not now\n503 5.5.1 DATA was refused, its message is not wanted\n"
		    "EV CLOSE text=<DATA was refused, its message is not wanted>\n",
	    false },
	{ "a refused DATA tried again", NULL,
	    { EHLO, S("MAIL FROM:<nodata@b.example>\r\nRCPT TO:<c@d.example>\r\nDATA\r\n"), S("DATA\r\n"), S("RSET\r\nFOO\r\n") },
	    GREETED "EV MAIL from=<nodata@b.example> domain=<b.example>\n250 2.1.0 Ok\n" RCPT_C
		    "EV DATA\n451 4.3.0 Not now\nEV DATA\n451 4.3.0 Not now\n250 2.0.0 Ok\nEV RESET\n"
		    "500 5.5.2 Command not recognized\n",
	    false },
	{ "HTTP", NULL, { S("POST / HTTP/1.1\r\nHost: x\r\n\r\nMAIL FROM:<a@b.example>\r\n") },
	    "554 5.7.0 This is SMTP, not HTTP\nEV CLOSE text=<This is SMTP, not HTTP>\n", false },
	{ "HTTP/2, within a session", NULL, { EHLO, S("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") },
	    GREETED "554 5.7.0 This is SMTP, not HTTP\nEV CLOSE text=<This is SMTP, not HTTP>\n", false },
	{ "TLS on a plain port", NULL, { S("\x16\x03\x01\x02\0\x01\0") },
	    "500 5.5.2 NUL octet in a command\nEV CLOSE text=<NUL octet in a command>\n", false },
	{ "nothing is heard after the end", NULL, { S("QUIT\r\nNOOP\r\n"), S("NOOP\r\n") }, BYE, false },
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scripts),
		cmocka_unit_test(test_every_split),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
