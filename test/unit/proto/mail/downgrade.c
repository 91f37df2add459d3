/* Messages made fit for hops that take less: what comes out octet for octet, which faults there are, and what fuzzing once found. Whole messages read back
 * by another program are vectors/downgrade. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "downgrade_check.h"
#include "proto/mail/split.h"

#define L8 MAIL_LACKS_8BIT
#define LB MAIL_LACKS_BINARY
#define LU MAIL_LACKS_UTF8
#define UE "\xc3\xbc"

static const struct {
	unsigned lacks;
	const char *in, *out; /* out NULL: a fault */
	enum mail_downgrade_fault fault;
} table[] = {
	{ L8, "A: b\r\n\r\nx\r\n", "A: b\r\n\r\nx\r\n", MAIL_DOWNGRADE_FINE },
	{ LU, "Subject: a " UE " b " UE " " UE "\r\n\r\n" UE "\r\n", "Subject: a =?utf-8?q?=C3=BC?= b =?utf-8?q?=C3=BC_=C3=BC?=\r\n\r\n" UE "\r\n", MAIL_DOWNGRADE_FINE },
	{ LU, "Subject: =?utf-8?q?a?= " UE "\r\n\r\n", "Subject: =?utf-8?q?a?= =?utf-8?q?_=C3=BC?=\r\n\r\n", MAIL_DOWNGRADE_FINE },
	{ LU, "Subject: \xfc\r\n\r\n", "Subject: =?unknown-8bit?q?=FC?=\r\n\r\n", MAIL_DOWNGRADE_FINE },
	{ LU, "From: " UE " <a@b" UE ".test>\r\n\r\n", "From: =?utf-8?q?=C3=BC?= <a@xn--b-eha.test>\r\n\r\n", MAIL_DOWNGRADE_FINE },
	{ LU, "From: <" UE "@b.test>\r\n\r\n", NULL, MAIL_DOWNGRADE_ADDRESS },
	{ LU, "Message-ID: <" UE "@b.test>\r\n\r\n", NULL, MAIL_DOWNGRADE_ADDRESS },
	{ LU, "References: <a@b> <" UE "@b> <c@d>\r\n\r\n", "References: <a@b> <c@d>\r\n\r\n", MAIL_DOWNGRADE_FINE },
	{ LU, "Received: from a by b for <" UE "@c>; x (" UE ")\r\n\r\n", "Received: from a by b; x (=?utf-8?q?=C3=BC?=)\r\n\r\n", MAIL_DOWNGRADE_FINE },
	{ LU, "Delivered-To: " UE "@c\r\nA: b\r\n\r\n", "A: b\r\n\r\n", MAIL_DOWNGRADE_FINE },
	{ LU, "List-Post: <https://x/" UE ">\r\n\r\n", "List-Post: <https://x/%C3%BC>\r\n\r\n", MAIL_DOWNGRADE_FINE },
	{ LU, "Content-Disposition: attachment; filename=\"" UE ".txt\"\r\n\r\n", "Content-Disposition: attachment; filename*=utf-8''%C3%BC.txt\r\n\r\n", MAIL_DOWNGRADE_FINE },
	{ L8, "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n" UE " \r\n",
	    "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=C3=BC=20\r\n", MAIL_DOWNGRADE_FINE },
	{ L8, "Content-Transfer-Encoding: quoted-printable\r\n\r\n=41" UE "=\r\nb\r\n", "Content-Transfer-Encoding: quoted-printable\r\n\r\n=41=C3=BC=\r\nb\r\n", MAIL_DOWNGRADE_FINE },
	{ LB, "Content-Type: image/png\r\n\r\na\nb\r\n", "Content-Type: image/png\r\nMIME-Version: 1.0\r\nContent-Transfer-Encoding: base64\r\n\r\nYQpiDQo=", MAIL_DOWNGRADE_FINE },
	{ L8, "Content-Type: multipart/signed; boundary=b\r\n\r\n--b\r\n\r\n" UE "\r\n--b--\r\n", NULL, MAIL_DOWNGRADE_SIGNED },
	{ L8, "Content-Type: message/delivery-status\r\n\r\n" UE "\r\n", NULL, MAIL_DOWNGRADE_TYPE },
	{ L8, "Content-Transfer-Encoding: x-own\r\n\r\n" UE "\r\n", NULL, MAIL_DOWNGRADE_BROKEN },
	{ L8, "Content-Type: multipart/mixed\r\n\r\n" UE "\r\n", NULL, MAIL_DOWNGRADE_BROKEN },
	{ L8, "Content-Type: message/rfc822\r\n\r\nA: b\r\n\r\n" UE "\r\n", "Content-Type: message/rfc822\r\nMIME-Version: 1.0\r\n\r\nA: b\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
	    "Content-Transfer-Encoding: quoted-printable\r\n\r\n=C3=BC\r\n", MAIL_DOWNGRADE_FINE },
};

static void tables(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct mail_split s;
		struct mail_downgrade d;
		struct buf got = BUF_INIT(1 << 16);
		mail_split(str_from(table[i].in), &s);
		int r = mail_downgrade_plan(&d, s.headers, s.body, table[i].lacks);
		assert_int_equal(d.fault, table[i].fault);
		assert_int_equal(r, table[i].out ? 0 : -1);
		if (!r) {
			assert_int_equal(mail_downgrade_headers(&d, &got), 0);
			buf_addz(&got, "\r\n");
			assert_int_equal(mail_downgrade_body(&d, &got), 0);
			assert_string_equal(buf_z(&got), table[i].out);
		}
		mail_downgrade_free(&d);
		buf_free(&got);
		for (unsigned lacks = 0; lacks < 8; lacks++)
			downgrade_check(s.headers, s.body, lacks);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(tables) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
