/* Dialogues with the SMTP server engine: what is sent, and the events and replies that must come of it; each fed whole, octet
 * by octet, and cut once at every place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "driver.h"

struct script {
	const char *name;
	const struct smtp_server_conf *conf; /* NULL: driver_conf */
	const char *groups[12];              /* each is sent when all before it was answered */
	const char *expect;
};

#define EHLO "EHLO c.example\r\n"
#define GREETED                                                                                                        \
	"EV HELO esmtp name=<c.example>\n250-mx.example.test\n250-PIPELINING\n250-SIZE 1000\n250-8BITMIME\n250-SMTPUTF8\n" \
	"250-ENHANCEDSTATUSCODES\n250 DSN\n"

static const struct script scripts[] = {
	{ "one message", NULL,
	    { EHLO, "MAIL FROM:<a@example.org>\r\nRCPT TO:<b@example.net>\r\nDATA\r\n",
		"Subject: x\r\n\r\nhello\r\n..dot\r\n.\r\nQUIT\r\n" },
	    GREETED "EV MAIL from=<a@example.org> domain=<example.org>\n250 2.1.0 Ok\n"
		    "EV RCPT to=<b@example.net> local=<b> domain=<example.net>\n250 2.1.5 Ok\n"
		    "EV DATA\n354 End data with <CR><LF>.<CR><LF>\n"
		    "EV MESSAGE from=<a@example.org> to=<b@example.net> text=<Subject: x\\r\\n\\r\\nhello\\r\\n.dot\\r\\n>\n"
		    "250 2.6.0 queued as 1\n221 2.0.0 Bye\nEV QUIT\n" },
};

static void run(const struct script *sc, size_t step, size_t cut, struct buf *ret_log)
{
	struct driver d;
	driver_start(&d, sc->conf ? sc->conf : &driver_conf);
	for (size_t g = 0; g < sizeof sc->groups / sizeof *sc->groups && sc->groups[g]; g++) {
		struct str rest = str_from(sc->groups[g]);
		while (rest.n) {
			size_t n = step < rest.n ? step : rest.n;
			if (cut && cut < n)
				n = cut;
			cut -= cut < n ? cut : n;
			driver_send(&d, str_n(rest.p, n));
			rest = str_skip(rest, n);
		}
	}
	buf_adds(ret_log, buf_str(&d.log));
	driver_stop(&d);
}

static void test_scripts(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
		struct buf log = BUF_INIT(1 << 20);
		run(&scripts[i], SIZE_MAX, 0, &log);
		print_message("%s\n", scripts[i].name);
		assert_string_equal(buf_z(&log), scripts[i].expect);
		buf_free(&log);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scripts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
