/* Messages for peers that lack what they need: what is sent instead, what is declared, and what is refused. That what comes out is fit and says the
 * same is proto/mail's (unit mail_downgrade, vectors/downgrade). */
#include "peer.h"

#include "base/buf.h"

#include <stdlib.h>

#define BANNER { "", "220 mx ESMTP\r\n" }
#define OFFER(list) { "EHLO us\r\n", "250-mx\r\n" list "250 PIPELINING\r\n" }
#define EIGHT "250-8BITMIME\r\n"
#define UTF8 "250-SMTPUTF8\r\n"
#define ANSWERS "250 1\r\n250 2\r\n354 3\r\n"
#define ENVELOPE { "MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\n", ANSWERS }
#define QUIT { "QUIT\r\n", "221 bye\r\n" }
#define SENT "ready\ndone\nok dot 250 - ok\nready\nclosed ok quit 0 - \n"
#define REFUSED(text) "ready\ndone\npermanent mail 0 " text "\nready\nclosed ok quit 0 - \n"
#define TO .from = "a@b", .to = "c@d"
#define TEXT TO, .headers = "S: x\r\n", .body = "h\xc3\xa9\r\n.\r\n"
#define FIT "S: x\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nh=C3=A9\r\n..\r\n.\r\n"
#define ALWAYS .downgrade = SMTP_DOWNGRADE_ALWAYS
#define UNSIGNED .downgrade = SMTP_DOWNGRADE_UNSIGNED
#define SIGNED "DKIM-Signature: v=1\r\n"
#define UE "\xc3\xbc"
#define BUE "b\xc3\xbc" "cher.example"
#define NO_ASCII " cannot be written in ASCII, and the next hop does not take internationalized addresses (SMTPUTF8)"

static const struct script scripts[] = {
	{ "8-bit text", { BANNER, OFFER(""), ENVELOPE, { FIT, "250 ok\r\n" }, QUIT }, SENT, TEXT, ALWAYS },
	{ "… and the size is of what is sent", { BANNER, OFFER("250-SIZE\r\n"), { "MAIL FROM:<a@b> SIZE=125\r\nRCPT TO:<c@d>\r\nDATA\r\n", ANSWERS }, { FIT, "250 ok\r\n" }, QUIT },
	    SENT, TEXT, ALWAYS },
	{ "… which may be too much", { BANNER, OFFER("250-SIZE 100\r\n"), QUIT }, REFUSED("5.3.4 message is larger than the next hop accepts"), TEXT, ALWAYS },
	{ "two of them", { BANNER, OFFER(""), ENVELOPE, { FIT, "250 ok\r\n" }, ENVELOPE, { FIT, "250 ok\r\n" }, QUIT },
	    "ready\ndone\nok dot 250 - ok\nready\ndone\nok dot 250 - ok\nready\nclosed ok quit 0 - \n", TEXT, ALWAYS, .pair = true },
	{ "nothing to do", { BANNER, OFFER(EIGHT), { "MAIL FROM:<a@b> BODY=8BITMIME\r\nRCPT TO:<c@d>\r\nDATA\r\n", ANSWERS },
	      { "S: x\r\n\r\nh\xc3\xa9\r\n..\r\n.\r\n", "250 ok\r\n" }, QUIT }, SENT, TEXT, ALWAYS },
	{ "nobody accepted", { BANNER, OFFER(""), { "MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\n", "250 1\r\n550 5.1.1 who\r\n354 3\r\n" }, { ".\r\n", "554 none\r\n" }, QUIT },
	    "ready\ndone\npermanent rcpt 550 5.1.1 who\nready\nclosed ok quit 0 - \n", TEXT, ALWAYS },
	{ "by LMTP", { BANNER, { "LHLO us\r\n", "250-mx\r\n250 PIPELINING\r\n" }, ENVELOPE, { FIT, "250 ok\r\n" }, QUIT }, SENT, TEXT, ALWAYS, .lmtp = true },
	{ "unsigned, to be converted", { BANNER, OFFER(""), ENVELOPE, { FIT, "250 ok\r\n" }, QUIT }, SENT, TEXT, UNSIGNED },
	{ "signed, not to be converted", { BANNER, OFFER(""), QUIT },
	    REFUSED("5.6.3 the message would have to be converted for the next hop (8BITMIME), which would break its signature (DKIM)"), TO, .headers = SIGNED "S: x\r\n",
	    .body = "h\xc3\xa9\r\n", UNSIGNED },
	{ "signed, converted", { BANNER, OFFER(""), ENVELOPE,
	      { SIGNED "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nh=C3=A9\r\n.\r\n", "250 ok\r\n" }, QUIT },
	    SENT, TO, .headers = SIGNED, .body = "h\xc3\xa9\r\n", ALWAYS },
	{ "signed, and only trace changes", { BANNER, OFFER(EIGHT), ENVELOPE, { SIGNED "Received: by x; y\r\n\r\n\r\n.\r\n", "250 ok\r\n" }, QUIT }, SENT, TO,
	    .headers = SIGNED "Received: by x for <" UE "@y>; y\r\n", .body = "\r\n", .smtputf8 = true, UNSIGNED },
	{ "a signed part", { BANNER, OFFER(""), QUIT },
	    REFUSED("5.6.3 a part that is signed or encrypted has content that the next hop does not take (8BITMIME), and must not be changed"), TO,
	    .headers = "Content-Type: multipart/signed; boundary=b\r\n", .body = "--b\r\n\r\nh\xc3\xa9\r\n--b--\r\n", ALWAYS },
	{ "UTF-8 fields", { BANNER, OFFER(EIGHT), { "MAIL FROM:<a@b> BODY=8BITMIME\r\nRCPT TO:<c@d>\r\nDATA\r\n", ANSWERS },
	      { "Subject: =?utf-8?q?=C3=BC?=\r\n\r\n" UE "\r\n.\r\n", "250 ok\r\n" }, QUIT }, SENT, TO, .headers = "Subject: " UE "\r\n", .body = UE "\r\n", .smtputf8 = true, ALWAYS },
	{ "UTF-8 fields of a part alone", { BANNER, OFFER(EIGHT), ENVELOPE, { "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Description: =?utf-8?q?=C3=BC?=\r\n\r\n--b--\r\n.\r\n", "250 ok\r\n" }, QUIT },
	    SENT, TO, .headers = "Content-Type: multipart/mixed; boundary=b\r\n", .body = "--b\r\nContent-Description: " UE "\r\n\r\n--b--\r\n", .smtputf8 = true, ALWAYS },
	{ "an address of a field", { BANNER, OFFER(EIGHT), QUIT },
	    REFUSED("5.6.7 the address " UE "@x.example in the To field cannot be written in ASCII, and the next hop takes nothing else (SMTPUTF8)"), TO,
	    .headers = "To: x <" UE "@x.example>\r\n", .body = "", .smtputf8 = true, ALWAYS },
	{ "domains in A-labels, whatever the policy", { BANNER, OFFER(EIGHT), { "MAIL FROM:<a@xn--bcher-kva.example>\r\nRCPT TO:<c@xn--bcher-kva.example>\r\nDATA\r\n", ANSWERS },
	      { "S: x\r\n\r\n\r\n.\r\n", "250 ok\r\n" }, QUIT }, SENT, .from = "a@" BUE, .to = "c@" BUE, .headers = "S: x\r\n", .body = "\r\n", .smtputf8 = true },
	{ "… and as they are where they may be", { BANNER, OFFER(EIGHT UTF8), { "MAIL FROM:<a@" BUE "> SMTPUTF8\r\nRCPT TO:<c@" BUE ">\r\nDATA\r\n", ANSWERS },
	      { "S: x\r\n\r\n\r\n.\r\n", "250 ok\r\n" }, QUIT }, SENT, .from = "a@" BUE, .to = "c@" BUE, .headers = "S: x\r\n", .body = "\r\n", .smtputf8 = true, ALWAYS },
	{ "a sender without another form", { BANNER, OFFER(EIGHT), QUIT }, REFUSED("5.6.7 the address " UE "@x.example" NO_ASCII), .from = UE "@x.example", .to = "c@d", .headers = "S: x\r\n",
	    .body = "\r\n", .smtputf8 = true, ALWAYS },
	{ "a recipient without one, and one that has", { BANNER, OFFER(EIGHT), ENVELOPE, { "S: x\r\n\r\n\r\n.\r\n", "250 ok\r\n" }, QUIT },
	    "ready\ndone\npermanent rcpt 0 5.6.7 the address " UE "@x.example" NO_ASCII "\nok dot 250 - ok\nready\nclosed ok quit 0 - \n", .from = "a@b", .to = UE "@x.example c@d",
	    .headers = "S: x\r\n", .body = "\r\n", .smtputf8 = true, ALWAYS },
	{ "ORCPT in the form for ASCII", { BANNER, OFFER("250-DSN\r\n"), { "MAIL FROM:<a@b>\r\nRCPT TO:<c@d> ORCPT=utf-8;\\x{FC}@x\r\nDATA\r\n", ANSWERS },
	      { "S: x\r\n\r\n\r\n.\r\n", "250 ok\r\n" }, QUIT }, SENT, TO, .headers = "S: x\r\n", .body = "\r\n", .orcpt = "utf-8;" UE "@x", ALWAYS },
	{ "binary", { BANNER, OFFER(EIGHT), ENVELOPE,
	      { "S: x\r\nMIME-Version: 1.0\r\nContent-Transfer-Encoding: base64\r\n\r\nYQouDWI=\r\n.\r\n", "250 ok\r\n" }, QUIT }, SENT, TO, .headers = "S: x\r\n", .body = "a\n.\rb",
	    .binary = true, ALWAYS },
	{ "binary with fields of UTF-8 goes as text", { BANNER, OFFER(EIGHT "250-CHUNKING\r\n250-BINARYMIME\r\n"), ENVELOPE,
	      { "Subject: =?utf-8?q?=C3=BC?=\r\nMIME-Version: 1.0\r\nContent-Transfer-Encoding: base64\r\n\r\nYQouDWI=\r\n.\r\n", "250 ok\r\n" }, QUIT }, SENT, TO,
	    .headers = "Subject: " UE "\r\n", .body = "a\n.\rb", .binary = true, .smtputf8 = true, ALWAYS },
	{ "bare LF that nobody declared", { BANNER, OFFER(""), QUIT },
	    "ready\ndone\npermanent data 0 5.6.0 message holds a bare CR, a bare LF or a NUL and cannot be sent\nready\nclosed ok quit 0 - \n", TO, .headers = "S: x\r\n",
	    .body = UE "\n.\r\n", ALWAYS },
};

void test_downgrade(void **state)
{
	(void)state;
	peer_check_all(scripts, sizeof scripts / sizeof *scripts);
}

/* What was done is told, and content larger than any buffer comes out whole, whatever the peer takes at a time. */
void test_downgraded(void **state)
{
	static const size_t steps[] = { SIZE_MAX, 100000, 16384, 7 };
	struct smtp_client_conf conf = { .helo = STR("us") };
	struct smtp_client_rcpt rcpt = { .address = STR("c@d") };
	struct buf body = BUF_INIT(1 << 20), first = BUF_INIT(1 << 20);
	(void)state;
	for (int i = 0; i < 3000; i++)
		buf_addf(&body, ".%d gr\xc3\xbc\xc3\x9f" "e\r\n", i % 100);
	for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
		struct smtp_client_msg m = { .headers = STR("DKIM-Signature: x\r\nReceived: by x for <\xc3\xbc@y>; z\r\nDelivered-To: \xc3\xbc@y\r\nSubject: \xc3\xbc\r\n"), .body = buf_str(&body),
			.rcpts = &rcpt, .n_rcpts = 1, .downgrade = SMTP_DOWNGRADE_ALWAYS };
		struct smtp_client *c = smtp_client_new(&conf);
		struct buf got = BUF_INIT(1 << 20);
		struct str seg[SMTP_CLIENT_SEGMENTS];
		const char *answers[] = { "220 mx\r\n", "250-mx\r\n250 PIPELINING\r\n", "250 1\r\n250 2\r\n354 3\r\n" };
		for (int i = 0; i < 3; i++) {
			if (i == 2) {
				assert_int_equal(smtp_client_next(c), SMTP_CEV_READY);
				assert_int_equal(smtp_client_send(c, &m), 0);
			}
			for (size_t n; (n = smtp_client_out(c, seg)) > 0;)
				smtp_client_sent(c, seg[0].n);
			smtp_client_feed(c, answers[i], strlen(answers[i]));
			if (i != 1)
				assert_int_equal(smtp_client_next(c), SMTP_CEV_NONE);
		}
		while (smtp_client_out(c, seg)) {
			size_t n = seg[0].n < steps[k] ? seg[0].n : steps[k];
			buf_add(&got, seg[0].p, n);
			smtp_client_sent(c, n);
		}
		smtp_client_feed(c, "250 ok\r\n", 8);
		assert_int_equal(smtp_client_next(c), SMTP_CEV_DONE);
		assert_int_equal(rcpt.result.outcome, SMTP_OUT_OK);
		assert_int_equal(m.downgraded.lacks, 1);
		assert_string_equal(smtp_lacking(m.downgraded.lacks), "8BITMIME");
		assert_true(m.downgraded.breaks && !m.downgraded.envelope);
		assert_true(m.downgraded.parts == 1 && m.downgraded.fields == 2 && m.downgraded.left_out == 1);
		assert_true(str_is_ascii(buf_str(&got)) && got.n > body.n);
		if (k)
			assert_true(str_eq(buf_str(&got), buf_str(&first)));
		else
			buf_adds(&first, buf_str(&got));
		buf_free(&got);
		smtp_client_free(c);
	}
	buf_free(&body);
	buf_free(&first);
}
