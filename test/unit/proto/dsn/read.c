/* Reading bounces: formal ones, free ones, what is none; our own reports read back; limits and cost. The public corpora are vectors/bounce. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proto/dsn/dsn.h"
#include "proto/dsn/read.h"

#define DAEMON "Return-Path: <>\nFrom: Mail Delivery System <MAILER-DAEMON@mx.example>\nTo: sender@home.example\n"
#define REPORT DAEMON "Content-Type: multipart/report; report-type=delivery-status; boundary=b\n\n--b\n\nSorry.\n--b\nContent-Type: message/delivery-status\n\n"

static const struct {
	const char *text, *address;
	enum dsn_read_action action;
	enum dsn_read_reason reason;
	const char *status;
	unsigned code;
} table[] = {
	{ REPORT "Reporting-MTA: dns; mx.example\n\nFinal-Recipient: rfc822; u@y.example\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 5.1.1 User\n  unknown\n--b--\n",
		"u@y.example", DSN_READ_FAILED, DSN_REASON_UNKNOWN_USER, "5.1.1", 550 },
	{ REPORT "Final-Recipient: rfc822;<u@y.example>\nAction: delayed (later)\nStatus: 4.4.1 (no answer)\n--b--\n", "u@y.example", DSN_READ_DELAYED, DSN_REASON_EXPIRED, "4.4.1", 0 },
	{ REPORT "Final-Recipient: rfc822; u@y.example\nAction: delivered\nStatus: 2.0.0\n--b--\n", "u@y.example", DSN_READ_DELIVERED, DSN_REASON_OTHER, "2.0.0", 0 },
	{ REPORT "Final-Recipient: X-LOCAL; u\nOriginal-Recipient: rfc822; u@y.example\nAction: failed\nStatus: 5.2.2\n--b--\n", "u@y.example", DSN_READ_FAILED, DSN_REASON_FULL, "5.2.2", 0 },
	{ REPORT "Final-Recipient: utf-8; \xc3\xbc@y.example\nAction: failed\nStatus: 5.1.10\n--b--\n", "\xc3\xbc@y.example", DSN_READ_FAILED, DSN_REASON_NO_MAIL, "5.1.10", 0 },
	{ REPORT "Final-Recipient: rfc822; u@y.example\nAction: failed\nStatus: 5.7.1\nDiagnostic-Code: smtp; 554 5.7.1 blocked using dnsbl.example\n--b--\n",
		"u@y.example", DSN_READ_FAILED, DSN_REASON_BLOCKED, "5.7.1", 554 },
	{ DAEMON "Subject: failure notice\n\n<u@y.example>:\n192.0.2.1 does not like recipient.\nRemote host said: 550 No such user\n\n--- Below this line is a copy of the message.\n\nTo: other@z.example\n",
		"u@y.example", DSN_READ_FAILED, DSN_REASON_UNKNOWN_USER, "", 550 },
	{ DAEMON "Subject: Mail delivery failed\nX-Failed-Recipients: u@y.example\n\n  u@y.example\n    Unrouteable address\n", "u@y.example", DSN_READ_FAILED, DSN_REASON_UNKNOWN_HOST, "", 0 },
	{ DAEMON "Subject: Warning: could not send message for past 4 hours\n\nThe following addresses had transient problems:\n<u@y.example>\nWill be retried.\n",
		"u@y.example", DSN_READ_DELAYED, DSN_REASON_OTHER, "", 0 },
	{ DAEMON "Subject: Undeliverable\nContent-Type: text/html\n\n<p>could not be delivered to<br>&lt;u@y.example&gt;<br>mailbox is full</p>", "u@y.example", DSN_READ_FAILED, DSN_REASON_FULL, "", 0 },
	{ DAEMON "Subject: Returned mail\nContent-Transfer-Encoding: quoted-printable\n\nTo: <u=40y.example>: user unkn=\nown\n", "u@y.example", DSN_READ_FAILED, DSN_REASON_UNKNOWN_USER, "", 0 },
	/* refused after DATA, with the content known */
	{ DAEMON "Subject: Returned mail\n\n<u@y.example>\n>>> DATA\n<<< 550 Unknown user u@y.example\n554 5.0.0 Service unavailable\n", "u@y.example", DSN_READ_FAILED, DSN_REASON_POLICY, "5.0.0", 550 },
	{ REPORT "Final-Recipient: rfc822; u@y.example\nAction: failed\nStatus: 5.0.0\nDiagnostic-Code: smtp; 550 Unknown user u@y.example\n--b\n\n"
		"<u@y.example>: host mx said:\n 550 Unknown user (in reply to end of DATA command)\n--b--\n", "u@y.example", DSN_READ_FAILED, DSN_REASON_POLICY, "5.0.0", 550 },
	/* a phrase with a name in it; a status that says more than "unavailable"; no reason but that it was the recipient */
	{ DAEMON "Subject: failed\n\nThe mail to <u@y.example> failed.\nDNS says: host y.example could not be, that is was not found\n", "u@y.example", DSN_READ_FAILED, DSN_REASON_UNKNOWN_HOST, "", 0 },
	{ REPORT "Final-Recipient: rfc822; u@y.example\nAction: failed\nStatus: 5.2.1\nDiagnostic-Code: smtp; 550 mailbox unavailable\n--b--\n", "u@y.example", DSN_READ_FAILED, DSN_REASON_DISABLED, "5.2.1", 550 },
	{ REPORT "Final-Recipient: rfc822; u@y.example\nAction: failed\nStatus: 5.0.0\nDiagnostic-Code: smtp; 550 Recipient address rejected.\n--b--\n", "u@y.example", DSN_READ_FAILED, DSN_REASON_UNKNOWN_USER, "5.0.0", 550 },
	{ REPORT "Final-Recipient: rfc822; u@y.example\nAction: failed\nStatus: 5.0.0\nDiagnostic-Code: smtp; 550 Recipient address rejected: we like it not\n--b--\n", "u@y.example", DSN_READ_FAILED, DSN_REASON_POLICY, "5.0.0", 550 },
	/* another language in an 8-bit charset; line ends stay */
	{ DAEMON "Subject: failed\nContent-Type: text/plain; charset=iso-8859-1\n\nfailed:\n<u@y.example>\nEmpf\xe4nger unbekannt\n", "u@y.example", DSN_READ_FAILED, DSN_REASON_UNKNOWN_USER, "", 0 },
	/* HTML where only the message that came back has plain text; what it was sent to is told before */
	{ DAEMON "Subject: failed\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/html\n\n<p>Your mail<br>\n&nbsp; To:&nbsp; list@z.example<br>\n&nbsp; Subject: x<br>\n"
		"did not reach the recipient:<br>\nu@y.example<br>\nno such user</p>\n--b\nContent-Type: message/rfc822\n\nSubject: x\n\nhi\n--b--\n", "u@y.example", DSN_READ_FAILED, DSN_REASON_UNKNOWN_USER, "", 0 },
	/* the formal part stands in a text; and in one that wraps it */
	{ DAEMON "Subject: failed\n\nSorry.\n\nReporting-MTA: dns; mx.example\n\nFinal-Recipient: rfc822; u@y.example\nAction: failed\nStatus: 5.1.1\n", "u@y.example", DSN_READ_FAILED, DSN_REASON_UNKNOWN_USER, "5.1.1", 0 },
	{ DAEMON "Subject: failed\n\nCould not be delivered.\n---\nReturn-Path: <>\nFrom: MAILER-DAEMON@mx.example\n\n--b\n\n<u@y.example> (expanded from\n  <o@y.example>): said: wait\n\n--b\n\n"
		"Reporting-MTA: dns; mx.example\n\nFinal-Recipient: rfc822; u@y.example\nAction: failed\nStatus: 5.2.2\n\n--b\n", "u@y.example", DSN_READ_FAILED, DSN_REASON_FULL, "5.2.2", 0 },
	/* who asked whether somebody is there (VRFY by mail) has a state of its own; what is written of an action may be nothing */
	{ REPORT "Final-Recipient: rfc822; u@y.example\nAction: deliverable\nStatus: 2.1.5\n--b--\n", "u@y.example", DSN_READ_DELIVERED, DSN_REASON_OTHER, "2.1.5", 0 },
	{ REPORT "Final-Recipient: rfc822; u@y.example\nAction: undeliverable\nStatus: 5.1.1\n--b--\n", "u@y.example", DSN_READ_FAILED, DSN_REASON_UNKNOWN_USER, "5.1.1", 0 },
	/* a program at the far end that fails says "no such user" of itself */
	{ REPORT "Final-Recipient: rfc822; u@y.example\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: x-unix; sorter: Couldn't create \"/m/u\" as: No such user\n--b--\n",
		"u@y.example", DSN_READ_FAILED, DSN_REASON_SYSTEM, "5.1.1", 0 },
	/* other languages, also without a formal part: charsets named, not named, and of several octets */
	{ DAEMON "Subject: =?utf-8?q?Unzustellbar=3A_Tee?=\nContent-Type: text/plain; charset=utf-8\n\nDer Brief konnte diesen Empfänger nicht erreichen:\n\nu@y.example\nDie Adresse wurde nicht gefunden.\n",
		"u@y.example", DSN_READ_FAILED, DSN_REASON_UNKNOWN_USER, "", 0 },
	{ "From: poste@mx.example\nSubject: =?iso-8859-1?q?Non_remis=A0=3A_th=E9?=\nContent-Type: text/plain\n\nDestinataires :\n  u@y.example\n  La bo\xeete de u est pleine.\n", "u@y.example", DSN_READ_FAILED,
		DSN_REASON_FULL, "", 0 },
	{ "From: correo@mx.example\nSubject: No se pudo entregar: =?utf-8?b?dMOp?=\n\nu@y.example\nEl buz\xc3\xb3n est\xc3\xa1 lleno.\n", "u@y.example", DSN_READ_FAILED, DSN_REASON_FULL, "", 0 },
	{ DAEMON "Subject: x\nContent-Type: text/plain; charset=iso-2022-jp\n\n\x1b$B$3$N%a!<%k$OG[?.$G$-$^$;$s\x1b(B\n<u@y.example>\n\x1b$B08@hITL@\x1b(B\n\n-----\x1b$B85$N%a%C%;!<%8\x1b(B-----\nTo: o@z.example\n",
		"u@y.example", DSN_READ_FAILED, DSN_REASON_UNKNOWN_USER, "", 0 },
	{ DAEMON "Subject: =?gb2312?b?zcvQxQ==?=\nContent-Type: text/plain; charset=gb2312\n\n\xca\xd5\xbc\xfe\xc8\xcb\xa3\xba\nu@y.example \xb2\xbb\xb4\xe6\xd4\xda\n", "u@y.example", DSN_READ_FAILED,
		DSN_REASON_UNKNOWN_USER, "", 0 },
	{ REPORT "Final-Recipient: rfc822; u@y.example\nAction: failed\nStatus: 5.0.0\nDiagnostic-Code: X-Post; \x1b$B08@h$,8+$D$+$j$^$;$s\x1b(B\n--b--\n", "u@y.example", DSN_READ_FAILED,
		DSN_REASON_UNKNOWN_USER, "5.0.0", 0 },
	{ REPORT "Final-Recipient: rfc822; u@y.example\nAction: failed\nStatus: 5.0.0\nDiagnostic-Code: smtp; 550 Empf\xe4nger unbekannt\n--b--\n", "u@y.example", DSN_READ_FAILED,
		DSN_REASON_UNKNOWN_USER, "5.0.0", 550 },
	{ "From: post@mx.example\nSubject: \x1b$BG[?.$G$-$^$;$s\x1b(B\n\n<u@y.example>\nNo such user\n", "u@y.example", DSN_READ_FAILED, DSN_REASON_UNKNOWN_USER, "", 0 },
	{ "From: post@mx.example\nSubject: Zustellung verz\xf6gert, noch nicht zugestellt\n\n<u@y.example>\nZeit\xfc" "berschreitung\n", "u@y.example", DSN_READ_DELAYED, DSN_REASON_EXPIRED, "", 0 },
	{ DAEMON "Subject: Retrasado: te\n\nSe seguirá intentando.\n<u@y.example>\nTiempo de espera\n", "u@y.example", DSN_READ_DELAYED, DSN_REASON_EXPIRED, "", 0 },
	/* a loop that somebody's system broke */
	{ DAEMON "Subject: Loop alert\n\nA mail loop was found.\n\nReceived: from x\nTo: <u@y.example>\n\nhi\n", "u@y.example", DSN_READ_FAILED, DSN_REASON_NETWORK, "", 0 },
	/* the message that came back names who it was for */
	{ DAEMON "Subject: Delivery failure\n\nYour mail was not delivered.\n\nReceived: from x\nTo: <u@y.example>\n\nhi\n", "u@y.example", DSN_READ_FAILED, DSN_REASON_OTHER, "", 0 },
};

static void forms(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct dsn_read r;
		assert_int_equal(dsn_read(str_from(table[i].text), true, &r), 0);
		if (r.n != 1 || !r.report || !str_eq(r.rcpt[0].address, str_from(table[i].address)) || r.rcpt[0].action != table[i].action ||
		    r.rcpt[0].reason != table[i].reason || !str_eq(r.rcpt[0].status, str_from(table[i].status)) || r.rcpt[0].code != table[i].code)
			fail_msg("case %zu: %zu recipients, %s %s code %u", i, r.n, r.n ? r.rcpt[0].address.p : "", r.n ? dsn_reason_text(r.rcpt[0].reason) : "", r.n ? r.rcpt[0].code : 0);
		assert_int_equal(r.rcpt[0].hard, r.rcpt[0].action == DSN_READ_FAILED && dsn_reason_hard(r.rcpt[0].reason));
		dsn_read_free(&r);
	}
}

#define NOTICE "From: notices@mx.example\nTo: sender@home.example\nSubject: A notice\nContent-Type: text/plain; charset=utf-8\n\n"
#define ONE(type, sub, more) NOTICE "{\"notificationType\":\"Bounce\",\"bounce\":{\"bounceType\":\"" type "\",\"bounceSubType\":\"" sub \
	"\",\"bouncedRecipients\":[{\"emailAddress\":\"u@y.example\"" more "}]},\"mail\":{\"destination\":[\"u@y.example\"],\"source\":\"policy@home.example\"}}\n"

static const struct {
	const char *text;
	enum dsn_read_action action;
	enum dsn_read_reason reason;
	const char *status, *diagnostic;
} notices[] = {
	{ ONE("Permanent", "General", ",\"action\":\"failed\",\"status\":\"5.1.1\",\"diagnosticCode\":\"smtp; 550 5.1.1 nobody\\u0020here\""), DSN_READ_FAILED, DSN_REASON_UNKNOWN_USER, "5.1.1", "550 5.1.1 nobody here" },
	{ ONE("Permanent", "General", ""), DSN_READ_FAILED, DSN_REASON_UNKNOWN_USER, "", "" },
	{ ONE("Permanent", "Suppressed", ""), DSN_READ_FAILED, DSN_REASON_UNKNOWN_USER, "", "" },
	{ ONE("Permanent", "OnAccountSuppressionList", ",\"status\":\"5.1.1\""), DSN_READ_FAILED, DSN_REASON_POLICY, "5.1.1", "" },
	{ ONE("Transient", "General", ""), DSN_READ_FAILED, DSN_REASON_SYSTEM, "", "" },
	{ ONE("Transient", "General", ",\"status\":\"5.1.1\""), DSN_READ_FAILED, DSN_REASON_SYSTEM, "5.1.1", "" },
	{ ONE("Transient", "MailboxFull", ""), DSN_READ_FAILED, DSN_REASON_FULL, "", "" },
	{ ONE("Transient", "MessageTooLarge", ""), DSN_READ_FAILED, DSN_REASON_TOO_BIG, "", "" },
	{ ONE("Undetermined", "Undetermined", ",\"diagnosticCode\":\"smtp; 552 5.2.2 full\""), DSN_READ_FAILED, DSN_REASON_FULL, "5.2.2", "552 5.2.2 full" },
	{ ONE("Undetermined", "Undetermined", ""), DSN_READ_FAILED, DSN_REASON_OTHER, "", "" },
	/* as an event; within the object of the service that sends it, what it adds behind; delays and deliveries */
	{ NOTICE "{\"eventType\":\"Bounce\",\"bounce\":{\"bounceType\":\"Permanent\",\"bouncedRecipients\":[{\"emailAddress\":\"U <u@y.example>\",\"status\":\"5.1.2\"}]}}", DSN_READ_FAILED, DSN_REASON_UNKNOWN_HOST, "5.1.2", "" },
	{ NOTICE "\n{\"Type\":\"Notification\",\"Message\":\"{\\\"notificationType\\\":\\\"Bounce\\\",\\\"bounce\\\":{\\\"bounceType\\\":\\\"Permanent\\\",\\\"bounceSubType\\\":\\\"NoEmail\\\","
		"\\\"bouncedRecipients\\\":[{\\\"emailAddress\\\":\\\"u@y.example\\\"}]}}\"}\n\n--\nTo get no more of these: write to stop@mx.example\n", DSN_READ_FAILED, DSN_REASON_UNKNOWN_USER, "", "" },
	{ NOTICE "{\"eventType\":\"DeliveryDelay\",\"deliveryDelay\":{\"delayType\":\"MailboxFull\",\"delayedRecipients\":[{\"emailAddress\":\"u@y.example\",\"status\":\"4.2.2\"}]}}", DSN_READ_DELAYED, DSN_REASON_FULL, "4.2.2", "" },
	{ NOTICE "{\"notificationType\":\"Delivery\",\"delivery\":{\"recipients\":[\"u@y.example\"],\"smtpResponse\":\"250 ok\"}}", DSN_READ_DELIVERED, DSN_REASON_OTHER, "", "" },
};

static void json(void **state)
{
	struct dsn_read r;
	(void)state;
	for (size_t i = 0; i < sizeof notices / sizeof *notices; i++) {
		assert_int_equal(dsn_read(str_from(notices[i].text), true, &r), 0);
		if (r.n != 1 || !r.report || r.formal || !str_eq(r.rcpt[0].address, STR("u@y.example")) || r.rcpt[0].action != notices[i].action || r.rcpt[0].reason != notices[i].reason ||
		    !str_eq(r.rcpt[0].status, str_from(notices[i].status)) || !str_eq(r.rcpt[0].diagnostic, str_from(notices[i].diagnostic)))
			fail_msg("notice %zu: %zu recipients, %s %d", i, r.n, r.n ? dsn_reason_text(r.rcpt[0].reason) : "", r.n ? (int)r.rcpt[0].action : 0);
		assert_int_equal(r.rcpt[0].hard, r.rcpt[0].action == DSN_READ_FAILED && dsn_reason_hard(r.rcpt[0].reason));
		dsn_read_free(&r);
	}
	/* broken, of another kind, of other types: no notice */
	static const char *const others[] = { "{\"notificationType\":\"Bounce\",\"bounce\":{\"bouncedRecipients\":[{\"emailAddress\":\"u@y.example\"}", ("{\"notificationType\":\"Complaint\",\"complaint\":"
		"{\"complainedRecipients\":[{\"emailAddress\":\"u@y.example\"}]}}"), "{\"notificationType\":\"Bounce\",\"bounce\":{\"bouncedRecipients\":{\"emailAddress\":\"u@y.example\"}}}",
		"{\"notificationType\":1,\"bounce\":[],\"bouncedRecipients\":[]}", "{\"notificationType\":\"Bounce\",\"bounce\":{\"bouncedRecipients\":[1,null,{\"emailAddress\":7},{},[],\"x\"]}}",
		"[{\"notificationType\":\"Bounce\",\"bounce\":{\"bouncedRecipients\":[{\"emailAddress\":\"u@y.example\"}]}}]" };
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		struct buf b = BUF_INIT(4096);
		buf_addz(&b, NOTICE);
		buf_addz(&b, others[i]);
		assert_int_equal(dsn_read(buf_str(&b), true, &r), 0);
		assert_int_equal(r.n, 0);
		dsn_read_free(&r);
		buf_free(&b);
	}
}

/* Whatever a bounce is written in, what is read of it is UTF-8: databases take nothing else. */
static void clean(void **state)
{
	static const char *const units[] = { "é", "日", "😀", "\xff", "\x1b$B", "\x1b$B$\"", "x" };
	struct dsn_read r;
	(void)state;
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		for (unsigned shift = 0; shift < 8; shift++)
			for (int formal = 0; formal < 2; formal++) {
				struct buf b = BUF_INIT(1 << 20);
				buf_addz(&b, formal ? REPORT "Final-Recipient: rfc822; u@y.example\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 " : DAEMON "Subject: failed\n\n<u@y.example>\n");
				buf_add(&b, "1234567", shift);
				for (int k = 0; k < 1500; k++)
					buf_addz(&b, units[i]);
				buf_addz(&b, formal ? "\n--b--\n" : "\n");
				assert_int_equal(dsn_read(buf_str(&b), true, &r), 0);
				assert_int_equal(r.n, 1);
				assert_true(r.rcpt[0].diagnostic.n <= DSN_READ_DIAGNOSTIC_MAX && str_is_utf8(r.rcpt[0].diagnostic));
				if (i < 3 && formal)
					assert_null(memmem(r.rcpt[0].diagnostic.p, r.rcpt[0].diagnostic.n, "\xc3\x83", 2)); /* not taken for windows-1252 */
				dsn_read_free(&r);
				buf_free(&b);
			}
	/* a text that is cut within a character is still UTF-8, whatever it is encoded in */
	for (unsigned shift = 0; shift < 9; shift++)
		for (int qp = 0; qp < 2; qp++) {
			struct buf b = BUF_INIT(1 << 20);
			buf_addz(&b, qp ? DAEMON "Subject: failed\nContent-Transfer-Encoding: quoted-printable\n\n<u@y.example>\nпользователь не найден\n" : DAEMON "Subject: failed\n\n<u@y.example>\nпользователь не найден\n");
			buf_add(&b, "12345678", shift);
			while (b.n < 2 * DSN_READ_TEXT_MAX)
				buf_addz(&b, qp ? "=E6=97=A5" : "日");
			assert_int_equal(dsn_read(buf_str(&b), true, &r), 0);
			if (r.n != 1 || r.rcpt[0].reason != DSN_REASON_UNKNOWN_USER)
				fail_msg("shift %u qp %d: %zu recipients, %s, %.60s", shift, qp, r.n, r.n ? dsn_reason_text(r.rcpt[0].reason) : "", r.n ? r.rcpt[0].diagnostic.p : "");
			dsn_read_free(&r);
			buf_free(&b);
		}
	/* no address is kept that is not UTF-8 */
	assert_int_equal(dsn_read(STR(REPORT "Final-Recipient: rfc822; \xfc@y.example\nAction: failed\nStatus: 5.1.1\n--b--\n"), true, &r), 0);
	assert_int_equal(r.n, 0);
	dsn_read_free(&r);
}

static void several(void **state)
{
	(void)state;
	struct dsn_read r;
	assert_int_equal(dsn_read(STR(REPORT "Reporting-MTA: dns; x\n\nFinal-Recipient: rfc822; a@y.example\nAction: failed\nStatus: 5.1.1\n\nFinal-Recipient: rfc822; b@y.example\n"
	    "Action: failed\nStatus: 5.2.2\n\nFinal-Recipient: rfc822; A@Y.example\nAction: failed\nStatus: 5.1.1\n--b--\n"), true, &r), 0);
	assert_int_equal(r.n, 2);
	assert_true(r.formal && r.rcpt[0].hard && !r.rcpt[1].hard);
	dsn_read_free(&r);
	/* a transcript: what stands in the recipient's own line is about him, what follows may be about the next */
	assert_int_equal(dsn_read(STR(DAEMON "Subject: failed\n\n554 <a@y.example>... Remote protocol error\n550 z.example... Host unknown\n554 <b@y.example>... 550 Host unknown\n"), true, &r), 0);
	assert_int_equal(r.n, 2);
	assert_int_equal(r.rcpt[0].reason, DSN_REASON_PROTOCOL);
	assert_int_equal(r.rcpt[1].reason, DSN_REASON_UNKNOWN_HOST);
	dsn_read_free(&r);
	/* who he was written to, not one more recipient; the line may be broken */
	assert_int_equal(dsn_read(STR(DAEMON "Subject: failed\n\n<a@y.example> (expanded from <l@y.example>): user unknown\n<b@y.example> (expanded from\n    <m@y.example>): user unknown\n"), true, &r), 0);
	assert_int_equal(r.n, 2);
	assert_true(str_eq(r.rcpt[0].original, STR("l@y.example")) && str_eq(r.rcpt[1].original, STR("m@y.example")));
	dsn_read_free(&r);
	assert_int_equal(dsn_read(STR(DAEMON "Subject: failed\nX-Failed-Recipients: a@y.example, b@y.example\n\n  a@y.example\n    mailbox is full\n  b@y.example\n    no such user\n"), true, &r), 0);
	assert_int_equal(r.n, 2);
	assert_true(r.rcpt[0].reason == DSN_REASON_FULL && r.rcpt[1].hard);
	dsn_read_free(&r);
}

static void no_bounces(void **state)
{
	static const char *const texts[] = { "", "\n", "From: a@b.example\nTo: c@d.example\nSubject: lunch\n\nwith e@f.example?\n",
		"From: a@b.example\nTo: c@d.example\nAuto-Submitted: auto-replied\nSubject: away\n\nI am away. Write to e@f.example.\n",
		"From: list@b.example\nSubject: minutes\n\n<e@f.example> will do it.\n" };
	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct dsn_read r;
		assert_int_equal(dsn_read(str_from(texts[i]), true, &r), 0);
		assert_false(r.report);
		assert_int_equal(r.n, 0);
		dsn_read_free(&r);
	}
}

/* What we write we read. */
static void our_own(void **state)
{
	struct dsn_rcpt rcpts[] = {
		{ .address = STR_INIT("a@y.example"), .status = STR_INIT("5.1.1"), .code = 550, .reply = STR_INIT("no such user here"), .remote_mta = STR_INIT("mx.y.example") },
		{ .address = STR_INIT("b@y.example"), .orcpt = STR_INIT("rfc822;b+2Bx@z.example"), .status = STR_INIT("5.4.7"), .diagnostic = STR_INIT("tried for five days") },
	};
	struct dsn d = { .kind = DSN_FAILED, .hostname = STR_INIT("mx.example"), .to = STR_INIT("sender@home.example"), .id = STR_INIT("17"), .now_us = 1700000000000000,
		.headers = STR_INIT("To: someone.else@q.example\r\nSubject: x\r\n"), .body = STR_INIT("hi\r\n"), .max_original = 10000, .rcpts = rcpts, .n_rcpts = 2 };
	struct buf h = BUF_INIT(1 << 20), b = BUF_INIT(1 << 20);
	struct dsn_form form;
	struct dsn_read r;
	(void)state;
	assert_int_equal(dsn_write(&d, &h, &b, &form), 0);
	buf_addz(&h, "\r\n");
	buf_adds(&h, buf_str(&b));
	assert_int_equal(dsn_read(buf_str(&h), false, &r), 0);
	assert_int_equal(r.n, 2);
	assert_true(r.formal && str_eq(r.rcpt[0].address, STR("a@y.example")) && r.rcpt[0].hard && r.rcpt[0].code == 550);
	assert_true(str_eq(r.rcpt[1].address, STR("b@y.example")) && !r.rcpt[1].hard && str_eq(r.rcpt[1].status, STR("5.4.7")) && r.rcpt[1].reason == DSN_REASON_EXPIRED);
	dsn_read_free(&r);
	buf_free(&h);
	buf_free(&b);
}

static void limits(void **state)
{
	(void)state;
	struct buf b = BUF_INIT(8 << 20);
	struct dsn_read r;
	buf_addz(&b, REPORT);
	for (int i = 0; i < 1000; i++)
		buf_addf(&b, "Final-Recipient: rfc822; u%d@y.example\nAction: failed\nStatus: 5.1.1\n\n", i);
	buf_addz(&b, "--b--\n");
	assert_int_equal(dsn_read(buf_str(&b), true, &r), 0);
	assert_true(r.n == DSN_READ_RCPTS_MAX && r.dropped == 800);
	dsn_read_free(&r);
	buf_reset(&b);
	for (int i = 0; i < 60; i++)
		buf_addz(&b, "Content-Type: message/rfc822\n\n");
	assert_int_equal(dsn_read(buf_str(&b), true, &r), DSN_READ_LIMIT);
	/* much text on one line, much of it addresses: a tenth of a second, where squares would take minutes */
	buf_reset(&b);
	buf_addz(&b, DAEMON "Subject: failed\n\n");
	while (b.n < 4 << 20)
		buf_addz(&b, "a@a@a@a@a.b@ <u@y.example> failed ");
	assert_int_equal(dsn_read(buf_str(&b), true, &r), 0);
	assert_true(r.n <= DSN_READ_RCPTS_MAX);
	dsn_read_free(&r);
	buf_free(&b);
}

static void words(void **state)
{
	(void)state;
	assert_int_equal(dsn_reason_of(STR("550 User\r\n  UNKNOWN"), STR(""), 550), DSN_REASON_UNKNOWN_USER);
	assert_int_equal(dsn_reason_of(STR(""), STR("5.1.2"), 0), DSN_REASON_UNKNOWN_HOST);
	assert_int_equal(dsn_reason_of(STR(""), STR("4.1.1"), 0), DSN_REASON_SYSTEM); /* may be there tomorrow */
	assert_int_equal(dsn_reason_of(STR("access denied"), STR("5.1.1"), 0), DSN_REASON_UNKNOWN_USER); /* a status says more than that */
	assert_int_equal(dsn_reason_of(STR("access denied"), STR(""), 0), DSN_REASON_POLICY);
	assert_int_equal(dsn_reason_of(STR(""), STR(""), 556), DSN_REASON_NO_MAIL);
	assert_int_equal(dsn_reason_of(STR(""), STR("x"), 0), DSN_REASON_OTHER);
	for (int i = 0; i < DSN_REASONS; i++)
		for (int k = 0; k < i; k++)
			assert_string_not_equal(dsn_reason_text((enum dsn_read_reason)i), dsn_reason_text((enum dsn_read_reason)k));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forms), cmocka_unit_test(json), cmocka_unit_test(clean), cmocka_unit_test(several), cmocka_unit_test(no_bounces), cmocka_unit_test(our_own), cmocka_unit_test(limits), cmocka_unit_test(words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
