/* Memory that runs out: a session in which the n-th allocation fails, for each n. Nothing may crash or be lost silently: what was
 * accepted is whole, and what is not accepted has been refused. The engine is compiled into this program with its allocations
 * renamed (CMakeLists.txt), so that the failures hit nobody else. */
#include "check.h"
#include "memory_hook.h"

#include "proto/smtp/server.h"

#include <stdio.h>

static const struct smtp_server_conf conf = {
	.hostname = STR_INIT("mx.example.test"),
	.extensions = SMTP_EXT_ALL_PLAIN,
	.max_recipients = 100,
};

struct outcome {
	unsigned rcpts, accepted, messages;
	size_t octets;
	bool over;
};

static void converse(struct smtp_server *s, struct str in, struct outcome *o)
{
	struct smtp_event ev;
	if (smtp_server_feed(s, in.p, in.n)) {
		o->over = true;
		return;
	}
	while (smtp_server_next(s, &ev)) {
		switch (ev.kind) {
		case SMTP_EV_RCPT:
			assert_true(ev.rcpt->address.n > 0 && ev.rcpt->domain.n > 0);
			o->rcpts++;
			break;
		case SMTP_EV_CHUNK:
			o->octets += ev.chunk.n;
			continue;
		case SMTP_EV_MESSAGE:
			o->accepted = ev.tx->n_rcpts;
			for (unsigned i = 0; i < ev.tx->n_rcpts; i++)
				assert_true(str_iends(ev.tx->rcpts[i].address, STR("@d.example")));
			o->messages++;
			break;
		case SMTP_EV_QUIT:
		case SMTP_EV_CLOSE:
			o->over = true;
			break;
		default:
			break;
		}
		smtp_server_accept(s, NULL);
	}
}

/* Returns whether any allocation was made to fail. */
static bool session(unsigned n, struct outcome *o)
{
	char line[400], text[3000];
	*o = (struct outcome){ 0 };
	memory_fail_at(n);
	struct smtp_server *s = smtp_server_new(&conf);
	if (!s)
		return memory_failed();
	converse(s, STR("EHLO c.example\r\n"), o);
	converse(s, STR("MAIL FROM:<\"a b\"@b.example> ENVID=x\r\n"), o);
	for (unsigned i = 0; i < 60 && !o->over; i++) {
		int k = snprintf(line, sizeof line, "RCPT TO:<\"user %u\"@d.example> ORCPT=rfc822;%0*u\r\n", i, 300, i);
		converse(s, str_n(line, (size_t)k), o);
	}
	if (!o->over)
		converse(s, STR("DATA\r\n"), o);
	memset(text, 'x', sizeof text);
	memcpy(text + sizeof text - 5, "\r\n.\r\n", 5);
	if (!o->over && !strcmp(smtp_server_state_name(s), "data"))
		converse(s, str_n(text, sizeof text), o);
	assert_true(o->over || o->messages <= 1);
	if (o->messages) {
		assert_int_equal(o->accepted, o->rcpts);
		assert_int_equal(o->octets, sizeof text - 3);
	}
	smtp_server_free(s);
	return memory_failed();
}

static void test_each_allocation(void **state)
{
	struct outcome o;
	unsigned n = 1;
	(void)state;
	while (session(n, &o))
		n++;
	assert_true(n > 20); /* the failures did hit */
	assert_true(n < 1000);
	assert_int_equal(o.messages, 1);
	assert_int_equal(o.rcpts, 60);
	assert_int_equal(memory_balance(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_allocation),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
