/* Which peers trickle: the rule of core/net/conn_trickle.c against a clock of its own. */
#include "base/clock.h"

#include <stdint.h>
static int64_t now_us = 1;
static int64_t fake_clock(void)
{
	return now_us;
}
#define clock_mono_us fake_clock
#include "net/conn_trickle.c"
#undef clock_mono_us

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

static struct net_conn c;
static int other;

static void begin(void)
{
	int sv[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	c = (struct net_conn){ .fd = sv[0] };
	other = sv[1];
	net_conn_patient(&c);
}

static void end(void)
{
	close(c.fd);
	close(other);
}

/* Readings of so many octets each, gap_ms apart; how many until it trickles, 0: it never did. */
static unsigned readings(const char *z, size_t each, int gap_ms)
{
	size_t all = strlen(z);
	unsigned n = 0;
	for (size_t i = 0; i < all; i += each) {
		net_conn_weigh(&c, z + i, all - i < each ? all - i : each);
		n++;
		if (net_conn_trickles(&c))
			return n;
		now_us += (int64_t)gap_ms * 1000;
	}
	return 0;
}

static int low_water(void)
{
	int v = -1;
	socklen_t n = sizeof v;
	assert_int_equal(getsockopt(c.fd, SOL_SOCKET, SO_RCVLOWAT, &v, &n), 0);
	return v;
}

static void test_who(void **state)
{
	static const struct {
		const char *text;
		size_t each;
		int gap_ms;
		unsigned after;
	} t[] = {
		{ "EHLO client.example.test\r\n", 1, 1000, 5 },
		{ "EHLO client.example.test\r\n", 1, 100, 5 },
		{ "EHLO client.example.test\r\n", 3, 400, 5 },
		{ "NOOP\r\nNOOP\r\n", 1, 1000, 5 },
		/* not slow: a client that writes octet by octet, however long it goes on */
		{ "EHLO client.example.test\r\nMAIL FROM:<sender@example.test>\r\n", 1, 50, 0 },
		/* not tiny, or lines: segments of a slow link */
		{ "MAIL FROM:<sender.of.a.long.name@example.test> BODY=8BITMIME SIZE=12345678\r\n", 16, 5000, 0 },
		{ "NOOP\r\nNOOP\r\nNOOP\r\nNOOP\r\nNOOP\r\nNOOP\r\n", 6, 5000, 0 },
		{ "QUIT\r\nQUIT\r\nQUIT\r\nQUIT\r\n", 3, 5000, 0 }, /* a line in two segments */
	};
	(void)state;
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		begin();
		assert_int_equal(readings(t[i].text, t[i].each, t[i].gap_ms), t[i].after);
		assert_int_equal(low_water(), t[i].after ? NET_TRICKLE_WAKE : 1);
		end();
	}
	/* what was fast before does not count for ever */
	begin();
	assert_int_equal(readings("0123456789012345678901234567890123456789", 1, 1), 0);
	assert_in_range(readings("0123456789012345678901234567890123456789", 1, 1000), 1, 4 * NET_TRICKLE_READS + 5);
	end();
	/* incomplete TLS records */
	begin();
	for (unsigned i = 0; i < 4; i++, now_us += 200000)
		net_conn_weigh(&c, NULL, 0);
	assert_false(net_conn_trickles(&c));
	net_conn_weigh(&c, NULL, 0);
	assert_true(net_conn_trickles(&c));
	end();
	/* an owner who does not look is never kept waiting */
	begin();
	c.patient = false;
	assert_int_equal(readings("EHLO client.example.test\r\n", 1, 1000), 0);
	end();
}

static void test_back(void **state)
{
	(void)state;
	begin();
	assert_int_equal(readings("0123456789", 1, 1000), 5);
	net_conn_weigh(&c, "0123456789abcde", 15);
	assert_true(net_conn_trickles(&c));
	net_conn_weigh(&c, "0123456789abcdef", 16);
	assert_false(net_conn_trickles(&c));
	assert_int_equal(low_water(), 1);
	/* lines: the first may be the end of what trickled, the second is whole */
	assert_int_equal(readings("0123456789", 1, 1000), 5);
	c.pause = c.left = 4;
	net_conn_weigh(&c, "OP\r\n", 4);
	assert_true(net_conn_trickles(&c));
	assert_int_equal(c.left, 1); /* the next look comes soon */
	net_conn_weigh(&c, "QUIT\r\n", 6);
	assert_false(net_conn_trickles(&c));
	assert_int_equal(low_water(), 1);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_who), cmocka_unit_test(test_back) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
