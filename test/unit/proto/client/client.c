/* The client engine against scripted peers: good ones, old ones, refusing ones, broken ones. */
#include "peer.h"

void test_content(void **state);
void test_stuffing(void **state);
void test_many_recipients(void **state);
void test_limits(void **state);

#define BANNER { "", "220 mx ESMTP\r\n" }
#define EHLO_P { "EHLO us\r\n", "250-mx\r\n250 PIPELINING\r\n" }
#define QUIT { "QUIT\r\n", "221 bye\r\n" }
#define MSG .from = "a@b", .to = "c@d", .headers = "S: x\r\n", .body = "hi\r\n"
#define BIN .from = "a@b", .to = "c@d", .headers = "S: x\r\n", .body = "a\n.\rb", .binary = true
#define ENVELOPE "MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\n"
#define CONTENT "S: x\r\n\r\nhi\r\n.\r\n"
#define CLOSED_OK "closed ok quit 0 - \n"

static const struct script scripts[] = {
	{ "pipelined", { BANNER, { "EHLO us\r\n", "250-mx\r\n250-SIZE 1000\r\n250-8bitmime\r\n250 PIPELINING\r\n" },
	      { "MAIL FROM:<a@b> SIZE=12\r\nRCPT TO:<c@d>\r\nRCPT TO:<e@f>\r\nDATA\r\n",
		  "250 ok\r\n250 2.1.5 ok\r\n550-5.1.1 no\r\n550 5.1.1 such user\r\n354 go\r\n" },
	      { CONTENT, "250 2.0.0 queued as 9\r\n" }, QUIT },
	    "ready\ndone\nok dot 250 2.0.0 queued as 9\npermanent rcpt 550 5.1.1 no such user\nready\n" CLOSED_OK,
	    .from = "a@b", .to = "c@d e@f", .headers = "S: x\r\n", .body = "hi\r\n" },
	{ "one by one, HELO, two messages", { BANNER, { "EHLO us\r\n", "502 what?\r\n" }, { "HELO us\r\n", "250 mx\r\n" },
	      { "MAIL FROM:<>\r\n", "250 ok\r\n" }, { "RCPT TO:<c@d>\r\n", "250 ok\r\n" }, { "DATA\r\n", "354\r\n" },
	      { CONTENT, "250\r\n" }, { "MAIL FROM:<>\r\n", "250 ok\r\n" }, { "RCPT TO:<c@d>\r\n", "251 ok\r\n" },
	      { "DATA\r\n", "354 x\r\n" }, { CONTENT, "451 4.3.0 disk\r\n" }, QUIT },
	    "ready\ndone\nok dot 250 - \nready\ndone\ntransient dot 451 4.3.0 disk\nready\n" CLOSED_OK,
	    .pair = true, .from = "", .to = "c@d", .headers = "S: x\r\n", .body = "hi\r\n" },
	{ "all parameters", { BANNER,
	      { "EHLO us\r\n", "250-mx\r\n250-SIZE\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250-DSN\r\n250-PIPELINING\r\n"
			       "250-CHUNKING\r\n250 ENHANCEDSTATUSCODES\r\n" },
	      { "MAIL FROM:<a@b> SIZE=12 BODY=8BITMIME SMTPUTF8 RET=HDRS ENVID=id+2B\r\n"
		"RCPT TO:<c@d> NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;c@d\r\nDATA\r\n", "250 1\r\n250 2\r\n354 3\r\n" },
	      { CONTENT, "250 2.6.0 ok\r\n" }, QUIT },
	    "ready\ndone\nok dot 250 2.6.0 ok\nready\n" CLOSED_OK, MSG, .notify = "SUCCESS,FAILURE",
	    .orcpt = "rfc822;c@d", .ret = "HDRS", .envid = "id+2B", .body_8bit = true, .smtputf8 = true },
	{ "wishes are passed on", { BANNER, { "EHLO us\r\n", "250-mx\r\n250-DELIVERBY 60\r\n250 MT-PRIORITY MIXER\r\n" },
	      { "MAIL FROM:<a@b> BY=60;R MT-PRIORITY=4\r\n", "250 1\r\n" }, { "RCPT TO:<c@d>\r\n", "250 2\r\n" }, { "DATA\r\n", "354 3\r\n" },
	      { CONTENT, "250 ok\r\n" }, QUIT }, "ready\ndone\nok dot 250 - ok\nready\n" CLOSED_OK, MSG, .urgent = true },
	{ "a peer that needs more time", { BANNER, { "EHLO us\r\n", "250-mx\r\n250 DELIVERBY 61\r\n" }, QUIT },
	    "ready\ndone\npermanent mail 0 5.4.7 less time is left to deliver the message than the next hop needs (DELIVERBY)\nready\n" CLOSED_OK,
	    MSG, .urgent = true },
	{ "a peer without deadlines", { BANNER, EHLO_P, QUIT },
	    "ready\ndone\npermanent mail 0 5.3.3 the sender wants the message back if it is late, which the next hop cannot do (DELIVERBY)\nready\n" CLOSED_OK,
	    MSG, .urgent = true },
	{ "REQUIRETLS without TLS", { BANNER, { "EHLO us\r\n", "250-mx\r\n250 REQUIRETLS\r\n" }, QUIT },
	    "ready\ndone\npermanent mail 0 5.7.30 the sender requires TLS all the way, and the next hop has none (REQUIRETLS)\nready\n" CLOSED_OK,
	    MSG, .require_tls = true },
	{ "a report whose message asked for TLS goes all the same", { BANNER, { "EHLO us\r\n", "250-mx\r\n250 REQUIRETLS\r\n" },
	      { "MAIL FROM:<>\r\n", "250 1\r\n" }, { "RCPT TO:<c@d>\r\n", "250 2\r\n" }, { "DATA\r\n", "354 3\r\n" }, { CONTENT, "250 ok\r\n" }, QUIT },
	    "ready\ndone\nok dot 250 - ok\nready\n" CLOSED_OK, .from = "", .to = "c@d", .headers = "S: x\r\n", .body = "hi\r\n", .require_tls = true },
	{ "binary by BDAT", { BANNER, { "EHLO us\r\n", "250-mx\r\n250-PIPELINING\r\n250-CHUNKING\r\n250 BINARYMIME\r\n" },
	      { "MAIL FROM:<a@b> BODY=BINARYMIME\r\nRCPT TO:<c@d>\r\n", "250 1\r\n250 2\r\n" },
	      { "BDAT 13 LAST\r\nS: x\r\n\r\na\n.\rb", "250 2.0.0 ok\r\n" }, QUIT },
	    "ready\ndone\nok dot 250 2.0.0 ok\nready\n" CLOSED_OK, BIN },
	{ "binary, MAIL refused, pipelined", { BANNER, { "EHLO us\r\n", "250-mx\r\n250-PIPELINING\r\n250-CHUNKING\r\n250 BINARYMIME\r\n" },
	      { "MAIL FROM:<a@b> BODY=BINARYMIME\r\nRCPT TO:<c@d>\r\n", "550 5.7.1 no\r\n503 no\r\n" }, { "RSET\r\n", "250 ok\r\n" }, QUIT },
	    "ready\ndone\npermanent mail 550 5.7.1 no\nready\n" CLOSED_OK, BIN },
	{ "binary, nobody accepted", { BANNER, { "EHLO us\r\n", "250-mx\r\n250-PIPELINING\r\n250-CHUNKING\r\n250 BINARYMIME\r\n" },
	      { "MAIL FROM:<a@b> BODY=BINARYMIME\r\nRCPT TO:<c@d>\r\n", "250 1\r\n550 5.1.1 who\r\n" }, { "RSET\r\n", "250 ok\r\n" }, QUIT },
	    "ready\ndone\npermanent rcpt 550 5.1.1 who\nready\n" CLOSED_OK, BIN },
	{ "binary to a peer with chunks alone", { BANNER, { "EHLO us\r\n", "250-mx\r\n250 CHUNKING\r\n" }, QUIT },
	    "ready\ndone\npermanent data 0 5.6.3 message is binary (BINARYMIME) and cannot be sent as text\nready\n" CLOSED_OK, BIN },
	{ "text by BDAT, where it is wished for: no dots doubled, a last line end", { BANNER,
	      { "EHLO us\r\n", "250-mx\r\n250-SIZE\r\n250-8BITMIME\r\n250-PIPELINING\r\n250 CHUNKING\r\n" },
	      { "MAIL FROM:<a@b> SIZE=18 BODY=8BITMIME\r\nRCPT TO:<c@d>\r\n", "250 1\r\n250 2\r\n" },
	      { "BDAT 18 LAST\r\nS: x\r\n\r\n.\r\nh\xc3\xa9 .\r\n", "250 2.0.0 ok\r\n" }, QUIT },
	    "ready\ndone\nok dot 250 2.0.0 ok\nready\n" CLOSED_OK, .from = "a@b", .to = "c@d", .headers = "S: x\r\n", .body = ".\r\nh\xc3\xa9 .", .chunking = SMTP_CHUNKING_ALWAYS },
	{ "two by BDAT, one by one, the first refused", { BANNER, { "EHLO us\r\n", "250-mx\r\n250 CHUNKING\r\n" },
	      { "MAIL FROM:<a@b>\r\n", "250 1\r\n" }, { "RCPT TO:<c@d>\r\n", "250 2\r\n" }, { "BDAT 12 LAST\r\nS: x\r\n\r\nhi\r\n", "554 5.7.1 spam\r\n" },
	      { "MAIL FROM:<a@b>\r\n", "250 1\r\n" }, { "RCPT TO:<c@d>\r\n", "250 2\r\n" }, { "BDAT 12 LAST\r\nS: x\r\n\r\nhi\r\n", "250 2.0.0 ok\r\n" }, QUIT },
	    "ready\ndone\npermanent dot 554 5.7.1 spam\nready\ndone\nok dot 250 2.0.0 ok\nready\n" CLOSED_OK, MSG, .pair = true, .chunking = SMTP_CHUNKING_ALWAYS },
	{ "LMTP by BDAT, a reply each", { BANNER, { "LHLO us\r\n", "250-mx\r\n250-CHUNKING\r\n250 PIPELINING\r\n" },
	      { "MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nRCPT TO:<e@f>\r\n", "250 ok\r\n250 ok\r\n250 ok\r\n" },
	      { "BDAT 12 LAST\r\nS: x\r\n\r\nhi\r\n", "250 2.0.0 c\r\n452 4.2.2 e is full\r\n" }, QUIT },
	    "ready\ndone\nok dot 250 2.0.0 c\ntransient dot 452 4.2.2 e is full\nready\n" CLOSED_OK, .lmtp = true, .from = "a@b", .to = "c@d e@f", .headers = "S: x\r\n",
	    .body = "hi\r\n", .chunking = SMTP_CHUNKING_ALWAYS },
	{ "lost behind a chunk", { BANNER, { "EHLO us\r\n", "250-mx\r\n250-CHUNKING\r\n250 PIPELINING\r\n" },
	      { "MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\n", "250 1\r\n250 2\r\n" }, { "BDAT 12 LAST\r\nS: x\r\n\r\nhi\r\n", EOF_ } },
	    "ready\ndone\nlost? dot 0 4.4.2 connection closed by the other side\nclosed lost? dot 0 4.4.2 connection closed by the other side\n", MSG,
	    .chunking = SMTP_CHUNKING_ALWAYS },
	{ "no chunks where none are offered", { BANNER, EHLO_P, { ENVELOPE, "250 1\r\n250 2\r\n354 3\r\n" }, { CONTENT, "250 ok\r\n" }, QUIT },
	    "ready\ndone\nok dot 250 - ok\nready\n" CLOSED_OK, MSG, .chunking = SMTP_CHUNKING_ALWAYS },
	{ "nor where they are not wished for", { BANNER, { "EHLO us\r\n", "250-mx\r\n250-CHUNKING\r\n250-BINARYMIME\r\n250 PIPELINING\r\n" }, QUIT },
	    "ready\ndone\npermanent data 0 5.6.3 message is binary (BINARYMIME) and cannot be sent as text\nready\n" CLOSED_OK, BIN, .chunking = SMTP_CHUNKING_NEVER },
	{ "parameters not offered", { BANNER, EHLO_P, { ENVELOPE, "250 1\r\n250 2\r\n354 3\r\n" },
	      { CONTENT, "250 ok\r\n" }, QUIT },
	    "ready\ndone\nok dot 250 - ok\nready\n" CLOSED_OK, MSG, .notify = "NEVER", .orcpt = "rfc822;c@d",
	    .ret = "FULL", .envid = "x", .body_8bit = true, .smtputf8 = true },
	{ "parameters that would inject", { BANNER, { "EHLO us\r\n", "250-mx\r\n250 DSN\r\n" },
	      { "MAIL FROM:<a@b>\r\n", "250 1\r\n" }, { "RCPT TO:<c@d>\r\n", "250 1\r\n" }, { "DATA\r\n", "354\r\n" },
	      { CONTENT, "250 ok\r\n" }, QUIT },
	    "ready\ndone\nok dot 250 - ok\nready\n" CLOSED_OK, MSG, .notify = "SUCCESS,,FAILURE",
	    .orcpt = "rfc822;c d", .ret = "FULL X", .envid = "x\r\nRSET" },
	{ "addresses that would inject", { BANNER, EHLO_P, { ENVELOPE, "250 1\r\n250 2\r\n354 3\r\n" },
	      { CONTENT, "250 ok\r\n" }, QUIT },
	    "ready\ndone\npermanent rcpt 0 5.1.3 the recipient address cannot be sent\nok dot 250 - ok\n"
	    "permanent rcpt 0 5.1.3 the recipient address cannot be sent\n"
	    "permanent rcpt 0 5.6.7 the address \xc3\xa9@f cannot be written in ASCII, and the next hop does not take internationalized addresses (SMTPUTF8)\n"
	    "ready\n" CLOSED_OK,
	    .from = "a@b", .to = "x>\r\nRSET c@d \"q@e \xc3\xa9@f", .headers = "S: x\r\n", .body = "hi\r\n" },
	{ "a sender that would inject", { BANNER, EHLO_P, QUIT },
	    "ready\ndone\npermanent mail 0 5.1.7 the sender address cannot be sent\nready\n" CLOSED_OK,
	    .from = "a b@c", .to = "c@d", .headers = "", .body = "hi\r\n" },
	{ "too large for the peer", { BANNER, { "EHLO us\r\n", "250-mx\r\n250 SIZE 11\r\n" }, QUIT },
	    "ready\ndone\npermanent mail 0 5.3.4 message is larger than the next hop accepts\nready\n" CLOSED_OK, MSG },
	{ "8-bit without 8BITMIME", { BANNER, EHLO_P, QUIT },
	    "ready\ndone\npermanent mail 0 5.6.3 message has 8-bit content, which the next hop does not take (8BITMIME)\n"
	    "ready\n" CLOSED_OK, .from = "a@b", .to = "c@d", .headers = "S: x\r\n", .body = "h\xc3\xa9\r\n" },
	{ "UTF-8 headers without SMTPUTF8", { BANNER, { "EHLO us\r\n", "250-mx\r\n250 8BITMIME\r\n" }, QUIT },
	    "ready\ndone\npermanent mail 0 5.6.7 the next hop does not take internationalized mail (SMTPUTF8)\n"
	    "ready\n" CLOSED_OK, .smtputf8 = true, .from = "a@b", .to = "c@d", .headers = "S: \xc3\xa9\r\n", .body = "" },
	{ "bare LF is never sent", { BANNER, EHLO_P, QUIT },
	    "ready\ndone\npermanent data 0 5.6.0 message holds a bare CR, a bare LF or a NUL and cannot be sent\n"
	    "ready\n" CLOSED_OK, .from = "a@b", .to = "c@d", .headers = "S: x\r\n", .body = "a\n.\r\nMAIL FROM:<>\r\n" },
	{ "dots and no final line end", { BANNER, EHLO_P, { ENVELOPE, "250 1\r\n250 2\r\n354 3\r\n" },
	      { "..h: x\r\n\r\n..\r\n...\r\nx.\r\n..end\r\n.\r\n", "250 ok\r\n" }, QUIT },
	    "ready\ndone\nok dot 250 - ok\nready\n" CLOSED_OK,
	    .from = "a@b", .to = "c@d", .headers = ".h: x\r\n", .body = ".\r\n..\r\nx.\r\n.end" },
	{ "dots in two messages over one connection", { BANNER, EHLO_P, { ENVELOPE, "250 1\r\n250 2\r\n354 3\r\n" },
	      { "\r\n..a\r\n.\r\n", "250 ok\r\n" }, { ENVELOPE, "250 1\r\n250 2\r\n354 3\r\n" },
	      { "\r\n..a\r\n.\r\n", "250 ok\r\n" }, QUIT },
	    "ready\ndone\nok dot 250 - ok\nready\ndone\nok dot 250 - ok\nready\n" CLOSED_OK,
	    .pair = true, .from = "a@b", .to = "c@d", .headers = "", .body = ".a\r\n" },
	{ "empty body and empty headers", { BANNER, EHLO_P, { ENVELOPE, "250 1\r\n250 2\r\n354 3\r\n" },
	      { "\r\n.\r\n", "250 ok\r\n" }, QUIT },
	    "ready\ndone\nok dot 250 - ok\nready\n" CLOSED_OK, .from = "a@b", .to = "c@d", .headers = "", .body = "" },
	{ "MAIL refused, pipelined", { BANNER, EHLO_P,
	      { "MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nRCPT TO:<e@f>\r\nDATA\r\n",
		  "550 5.7.1 go away\r\n250 yes\r\n503 no\r\n503 no\r\n" }, { "RSET\r\n", "250 ok\r\n" }, QUIT },
	    "ready\ndone\npermanent mail 550 5.7.1 go away\npermanent mail 550 5.7.1 go away\nready\n" CLOSED_OK,
	    .from = "a@b", .to = "c@d e@f", .headers = "", .body = "" },
	{ "MAIL refused, DATA accepted all the same", { BANNER, EHLO_P,
	      { ENVELOPE, "550 5.7.1 go away\r\n250 yes\r\n354 go\r\n" } },
	    "ready\ndone\npermanent mail 550 5.7.1 go away\n"
	    "closed protocol data 0 4.5.0 DATA accepted without a recipient\n", MSG },
	{ "MAIL refused for now, one by one", { BANNER, { "EHLO us\r\n", "250 mx\r\n" },
	      { "MAIL FROM:<a@b>\r\n", "450 4.7.1 greylisted\r\n" }, QUIT },
	    "ready\ndone\ntransient mail 450 4.7.1 greylisted\nready\n" CLOSED_OK, MSG },
	{ "all recipients refused, pipelined; a lone dot is due", { BANNER, EHLO_P,
	      { ENVELOPE, "250 ok\r\n452 4.2.2 full\r\n354 go\r\n" }, { ".\r\n", "554 no recipients\r\n" }, QUIT },
	    "ready\ndone\ntransient rcpt 452 4.2.2 full\nready\n" CLOSED_OK, MSG },
	{ "all recipients refused, DATA too", { BANNER, EHLO_P,
	      { ENVELOPE, "250 ok\r\n552 5.2.2 full\r\n503 none\r\n" }, { "RSET\r\n", "250 ok\r\n" }, QUIT },
	    "ready\ndone\ntransient rcpt 552 5.2.2 full\nready\n" CLOSED_OK, MSG },
	{ "all recipients refused, one by one", { BANNER, { "EHLO us\r\n", "250 mx\r\n" },
	      { "MAIL FROM:<a@b>\r\n", "250 ok\r\n" }, { "RCPT TO:<c@d>\r\n", "550 no\r\n" }, { "RSET\r\n", "250\r\n" },
	      QUIT },
	    "ready\ndone\npermanent rcpt 550 - no\nready\n" CLOSED_OK, MSG },
	{ "DATA refused", { BANNER, EHLO_P, { ENVELOPE, "250 ok\r\n250 ok\r\n554 5.3.2 not now\r\n" },
	      { "RSET\r\n", "250 ok\r\n" }, QUIT },
	    "ready\ndone\npermanent data 554 5.3.2 not now\nready\n" CLOSED_OK, MSG },
	{ "DATA refused, then RSET refused", { BANNER, EHLO_P, { ENVELOPE, "250 ok\r\n250 ok\r\n454 no\r\n" },
	      { "RSET\r\n", "500 no\r\n" } },
	    "ready\ndone\ntransient data 454 - no\nclosed permanent rset 500 - no\n", MSG },
	{ "content refused", { BANNER, EHLO_P, { ENVELOPE, "250 ok\r\n250 ok\r\n354 go\r\n" },
	      { CONTENT, "554 5.7.1 spam\r\n" }, QUIT },
	    "ready\ndone\npermanent dot 554 5.7.1 spam\nready\n" CLOSED_OK, MSG },
	{ "LMTP, a reply each", { BANNER, { "LHLO us\r\n", "250-mx\r\n250-ENHANCEDSTATUSCODES\r\n250 PIPELINING\r\n" },
	      { "MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nRCPT TO:<e@f>\r\nRCPT TO:<g@h>\r\nDATA\r\n",
		  "250 ok\r\n250 ok\r\n550 5.1.1 who\r\n250 ok\r\n354 go\r\n" },
	      { CONTENT, "250 2.0.0 c\r\n452 4.2.2 g is full\r\n" }, QUIT },
	    "ready\ndone\nok dot 250 2.0.0 c\npermanent rcpt 550 5.1.1 who\ntransient dot 452 4.2.2 g is full\nready\n"
	    CLOSED_OK, .lmtp = true, .from = "a@b", .to = "c@d e@f g@h", .headers = "S: x\r\n", .body = "hi\r\n" },
	{ "LMTP, connection lost between replies", { BANNER, { "LHLO us\r\n", "250-mx\r\n250 PIPELINING\r\n" },
	      { "MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nRCPT TO:<e@f>\r\nDATA\r\n", "250 1\r\n250 2\r\n250 3\r\n354 go\r\n" },
	      { CONTENT, "250 2.0.0 c\r\n250 2.0" EOF_ } },
	    "ready\ndone\nok dot 250 2.0.0 c\nlost? dot 0 4.4.2 connection closed by the other side\n"
	    "closed lost? dot 0 4.4.2 connection closed by the other side\n",
	    .lmtp = true, .from = "a@b", .to = "c@d e@f", .headers = "S: x\r\n", .body = "hi\r\n" },
	{ "LMTP has no HELO", { BANNER, { "LHLO us\r\n", "500 5.5.1 what\r\n" } }, "closed permanent ehlo 500 5.5.1 what\n",
	    .lmtp = true, MSG },
	{ "LMTP, 354 without recipients", { BANNER, { "LHLO us\r\n", "250-mx\r\n250 PIPELINING\r\n" },
	      { ENVELOPE, "250 1\r\n550 2\r\n354 go\r\n" } },
	    "ready\ndone\npermanent rcpt 550 - 2\nclosed protocol data 0 4.5.0 DATA accepted without a recipient\n",
	    .lmtp = true, MSG },
	{ "TLS; plaintext behind the 220 is dropped, capabilities forgotten", { BANNER,
	      { "EHLO us\r\n", "250-mx\r\n250-PIPELINING\r\n250-8BITMIME\r\n250 STARTTLS\r\n" },
	      { "STARTTLS\r\n", "220 go\r\n" }, { "EHLO us\r\n", "250-mx\r\n250 STARTTLS\r\n" },
	      { "MAIL FROM:<a@b>\r\n", "250 ok\r\n" }, { "RCPT TO:<c@d>\r\n", "250 ok\r\n" }, { "DATA\r\n", "354 go\r\n" },
	      { CONTENT, "250 ok\r\n" }, QUIT },
	    "ready\nstarttls\nready\ndone\nok dot 250 - ok\nready\n" CLOSED_OK, .tls = true, MSG },
	{ "TLS refused", { BANNER, { "EHLO us\r\n", "250-mx\r\n250-PIPELINING\r\n250 STARTTLS\r\n" },
	      { "STARTTLS\r\n", "454 4.7.0 later\r\n" }, { ENVELOPE, "250 1\r\n250 2\r\n354 3\r\n" },
	      { CONTENT, "250 ok\r\n" }, QUIT },
	    "ready\ntls-refused\nready\ndone\nok dot 250 - ok\nready\n" CLOSED_OK, .tls = true, MSG },
	{ "connection lost before the banner", { { "", EOF_ } },
	    "closed lost banner 0 4.4.2 connection closed by the other side\n", MSG },
	{ "banner refuses", { { "", "554-5.3.2 no\r\n554 mail\r\n" } }, "closed permanent banner 554 5.3.2 no mail\n", MSG },
	{ "banner: later", { { "", "421 4.3.2 busy\r\n" } }, "closed transient banner 421 4.3.2 busy\n", MSG },
	{ "EHLO: later", { BANNER, { "EHLO us\r\n", "450 4.3.2 busy\r\n" } }, "closed transient ehlo 450 4.3.2 busy\n", MSG },
	{ "HELO refused too", { BANNER, { "EHLO us\r\n", "550 bad name\r\n" }, { "HELO us\r\n", "550 bad name\r\n" } },
	    "closed permanent ehlo 550 - bad name\n", MSG },
	{ "lost at MAIL", { BANNER, EHLO_P, { ENVELOPE, EOF_ } },
	    "ready\ndone\nlost mail 0 4.4.2 connection closed by the other side\n"
	    "closed lost mail 0 4.4.2 connection closed by the other side\n", MSG },
	{ "421 at RCPT", { BANNER, EHLO_P, { ENVELOPE, "250 ok\r\n421 4.4.2 idle\r\n" } },
	    "ready\ndone\ntransient rcpt 421 4.4.2 idle\nclosed transient rcpt 421 4.4.2 idle\n", MSG },
	{ "lost after the dot", { BANNER, EHLO_P, { ENVELOPE, "250 ok\r\n250 ok\r\n354 go\r\n" }, { CONTENT, EOF_ } },
	    "ready\ndone\nlost? dot 0 4.4.2 connection closed by the other side\n"
	    "closed lost? dot 0 4.4.2 connection closed by the other side\n", MSG },
	{ "lost within the reply to the dot: its first line counts", { BANNER, EHLO_P, { ENVELOPE, "250 ok\r\n250 ok\r\n354 go\r\n" },
	      { CONTENT, "250-2.0.0 taken\r\n250 as id 4" EOF_ } },
	    "ready\ndone\nok dot 250 2.0.0 taken\nclosed lost? dot 0 4.4.2 connection closed by the other side\n", MSG },
	{ "junk within the reply to the dot", { BANNER, EHLO_P, { ENVELOPE, "250 ok\r\n250 ok\r\n354 go\r\n" },
	      { CONTENT, "554-5.7.1 spam\r\njunk\r\n" } },
	    "ready\ndone\npermanent dot 554 5.7.1 spam\nclosed protocol? dot 0 4.5.0 malformed reply\n", MSG },
	{ "the reply to the dot is too long a line", { BANNER, EHLO_P, { ENVELOPE, "250 ok\r\n250 ok\r\n354 go\r\n" },
	      { CONTENT, "250-2.0.0 taken\r\n" }, { "", LONG_ } },
	    "ready\ndone\nok dot 250 2.0.0 taken\nclosed protocol? dot 0 4.5.0 reply line too long\n", MSG },
	{ "two codes in the reply to the dot say nothing", { BANNER, EHLO_P, { ENVELOPE, "250 ok\r\n250 ok\r\n354 go\r\n" },
	      { CONTENT, "250-2.0.0 taken\r\n550 5.0.0 or not\r\n" } },
	    "ready\ndone\nprotocol? dot 0 4.5.0 malformed reply\nclosed protocol? dot 0 4.5.0 malformed reply\n", MSG },
	{ "half a code is none", { BANNER, EHLO_P, { ENVELOPE, "250 ok\r\n250 ok\r\n354 go\r\n" }, { CONTENT, "250-2.0.0 taken" EOF_ } },
	    "ready\ndone\nlost? dot 0 4.4.2 connection closed by the other side\n"
	    "closed lost? dot 0 4.4.2 connection closed by the other side\n", MSG },
	{ "LMTP, lost within a reply: it is that recipient's", { BANNER, { "LHLO us\r\n", "250-mx\r\n250 PIPELINING\r\n" },
	      { "MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nRCPT TO:<e@f>\r\nDATA\r\n", "250 1\r\n250 2\r\n250 3\r\n354 go\r\n" },
	      { CONTENT, "250-2.0.0 c\r\n" EOF_ } },
	    "ready\ndone\nok dot 250 2.0.0 c\nlost? dot 0 4.4.2 connection closed by the other side\n"
	    "closed lost? dot 0 4.4.2 connection closed by the other side\n",
	    .lmtp = true, .from = "a@b", .to = "c@d e@f", .headers = "S: x\r\n", .body = "hi\r\n" },
	{ "closed without an answer to QUIT", { BANNER, EHLO_P, { ENVELOPE, "250 1\r\n250 2\r\n354 3\r\n" },
	      { CONTENT, "250 ok\r\n" }, { "QUIT\r\n", EOF_ } },
	    "ready\ndone\nok dot 250 - ok\nready\nclosed ok quit 0 - connection closed by the other side\n", MSG },
	{ "hostile: no code", { { "", "hello\r\n" } }, "closed protocol banner 0 4.5.0 malformed reply\n", MSG },
	{ "hostile: code 199", { { "", "199 x\r\n" } }, "closed protocol banner 0 4.5.0 malformed reply\n", MSG },
	{ "hostile: code 25x", { { "", "25x x\r\n" } }, "closed protocol banner 0 4.5.0 malformed reply\n", MSG },
	{ "hostile: 2200", { { "", "2200 x\r\n" } }, "closed protocol banner 0 4.5.0 malformed reply\n", MSG },
	{ "hostile: codes differ", { { "", "220-a\r\n250 b\r\n" } }, "closed protocol banner 0 4.5.0 malformed reply\n", MSG },
	{ "hostile: empty line", { { "", "\r\n" } }, "closed protocol banner 0 4.5.0 malformed reply\n", MSG },
	{ "hostile: bare LF", { { "", "220 mx\n" } },
	    "closed protocol banner 0 4.5.0 reply line does not end in CR LF\n", MSG },
	{ "hostile: endless line", { { "", LONG_ } }, "closed protocol banner 0 4.5.0 reply line too long\n", MSG },
	{ "hostile: half a reply", { { "", "220-mx\r\n" EOF_ } },
	    "closed lost banner 0 4.4.2 connection closed by the other side\n", MSG },
	{ "hostile: 354 for MAIL", { BANNER, EHLO_P, { ENVELOPE, "354 go\r\n" } },
	    "ready\ndone\nprotocol mail 0 4.5.0 3xx where success or failure was due\n"
	    "closed protocol mail 0 4.5.0 3xx where success or failure was due\n", MSG },
	{ "hostile: 250 for DATA", { BANNER, EHLO_P, { ENVELOPE, "250 1\r\n250 2\r\n250 3\r\n" } },
	    "ready\ndone\nprotocol data 0 4.5.0 DATA answered with a success code\n"
	    "closed protocol data 0 4.5.0 DATA answered with a success code\n", MSG },
	{ "hostile: text", { BANNER, EHLO_P, { ENVELOPE, "250 1\r\n550 \x01" "a\rb\x80\r\n503\r\n" },
	      { "RSET\r\n", "250\r\n" }, QUIT },
	    "ready\ndone\npermanent rcpt 550 - ?a?b?\nready\n" CLOSED_OK, MSG },
	{ "UTF-8 text stays, C1 controls do not", { BANNER, EHLO_P,
	      { ENVELOPE, "250 1\r\n550 4.1.1 \xc3\xa9 \xc2\x85\r\n503\r\n" }, { "RSET\r\n", "250\r\n" }, QUIT },
	    "ready\ndone\npermanent rcpt 550 - 4.1.1 \xc3\xa9 ??\nready\n" CLOSED_OK, MSG },
};

static void test_scripts(void **state)
{
	(void)state;
	peer_check_all(scripts, sizeof scripts / sizeof *scripts);
}

/* A reply nobody asked for must not become the answer to the next command. Not a script: it depends on what arrives
 * together. */
static void test_unasked(void **state)
{
	struct smtp_client_conf conf = { .helo = STR("us") };
	static const char ehlo[] = "250 mx\r\n250 stray\r\n";
	(void)state;
	struct smtp_client *c = smtp_client_new(&conf);
	smtp_client_feed(c, "220 mx\r\n", 8);
	assert_int_equal(smtp_client_next(c), SMTP_CEV_NONE);
	smtp_client_feed(c, ehlo, sizeof ehlo - 1);
	assert_int_equal(smtp_client_next(c), SMTP_CEV_CLOSED);
	assert_int_equal(smtp_client_failure(c)->outcome, SMTP_OUT_PROTOCOL);
	smtp_client_free(c);

	/* half of one, arrived while idle */
	struct smtp_client_rcpt rcpt = { .address = STR("c@d") };
	struct smtp_client_msg m = { .rcpts = &rcpt, .n_rcpts = 1 };
	struct str seg[SMTP_CLIENT_SEGMENTS];
	c = smtp_client_new(&conf);
	smtp_client_feed(c, "220 mx\r\n", 8);
	assert_int_equal(smtp_client_next(c), SMTP_CEV_NONE);
	smtp_client_feed(c, ehlo, 8);
	assert_int_equal(smtp_client_next(c), SMTP_CEV_READY);
	smtp_client_sent(c, smtp_client_out(c, seg) ? seg[0].n : 0);
	smtp_client_feed(c, "25", 2);
	assert_int_equal(smtp_client_send(c, &m), 0);
	assert_int_equal(smtp_client_out(c, seg), 0);
	assert_int_equal(smtp_client_next(c), SMTP_CEV_DONE);
	assert_int_equal(rcpt.result.outcome, SMTP_OUT_PROTOCOL);
	assert_int_equal(smtp_client_next(c), SMTP_CEV_CLOSED);
	assert_int_equal(smtp_client_next(c), SMTP_CEV_NONE);
	smtp_client_free(c);
}

/* A refusal while the content is still on its way ends the session: the rest cannot be taken back. */
static void test_early_refusal(void **state)
{
	struct smtp_client_conf conf = { .helo = STR("us") };
	struct smtp_client_rcpt rcpt = { .address = STR("c@d") };
	struct smtp_client_msg m = { .body = STR("0123456789\r\n"), .rcpts = &rcpt, .n_rcpts = 1 };
	struct str seg[SMTP_CLIENT_SEGMENTS];
	static const char *const replies[] = { "552 5.3.4 enough\r\n", "250 early\r\n" };
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct smtp_client *c = smtp_client_new(&conf);
		smtp_client_feed(c, "220 mx\r\n", 8);
		assert_int_equal(smtp_client_next(c), SMTP_CEV_NONE);
		smtp_client_sent(c, smtp_client_out(c, seg) ? seg[0].n : 0);
		smtp_client_feed(c, "250-mx\r\n250 PIPELINING\r\n", 24);
		assert_int_equal(smtp_client_next(c), SMTP_CEV_READY);
		assert_int_equal(smtp_client_send(c, &m), 0);
		assert_int_equal(smtp_client_out(c, seg), 1);
		smtp_client_sent(c, seg[0].n);
		smtp_client_feed(c, "250 1\r\n250 2\r\n354 3\r\n", 21);
		assert_int_equal(smtp_client_next(c), SMTP_CEV_NONE);
		assert_true(smtp_client_out(c, seg) > 1);
		smtp_client_sent(c, 5);
		smtp_client_feed(c, replies[i], strlen(replies[i]));
		assert_int_equal(smtp_client_next(c), SMTP_CEV_DONE);
		assert_int_equal(rcpt.result.outcome, i ? SMTP_OUT_PROTOCOL : SMTP_OUT_PERMANENT);
		assert_int_equal(rcpt.result.phase, SMTP_PHASE_DOT);
		assert_int_equal(smtp_client_next(c), SMTP_CEV_CLOSED);
		smtp_client_free(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scripts),
		cmocka_unit_test(test_unasked),
		cmocka_unit_test(test_early_refusal),
		cmocka_unit_test(test_content),
		cmocka_unit_test(test_stuffing),
		cmocka_unit_test(test_many_recipients),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_auth),
		cmocka_unit_test(test_auth_secrets),
		cmocka_unit_test(test_peer_limits),
		cmocka_unit_test(test_downgrade),
		cmocka_unit_test(test_downgraded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
