/* See site.h. */
#include "site.h"

#include <string.h>

void site_open(struct site *s, const char *const *zone, bool secure, const char *more)
{
	const struct pepsi_stage *st = &pepsi_stage_descriptor;
	fake_loop_begin(zone, secure);
	snprintf(s->text, sizeof s->text, "PORT=%u\nALLOW_LOOPBACK=YES\nMTA_STS=NO\n%s", peer_port(), more ? more : "");
	s->conf = (struct pepsi_conf){ .text = s->text, .stage = "out", .hostname = "us.example", .options = st->options, .n_options = st->n_options };
	assert_int_equal(st->open(&fake_loop_host, &s->conf, &s->worker), PEPSI_OK);
}

void site_close(struct site *s)
{
	pepsi_stage_descriptor.close(s->worker);
	fake_loop_end();
	peer_done();
}

struct pepsi_msg site_message(const char *rcpts)
{
	return (struct pepsi_msg){ .id = 5, .mail_from = "a@b.example", .rcpts = rcpts, .received_at = fake_now_us, .lifetime_left = 100000, .bounce_stage = "bounce",
		.runtime_left_ms = 600000, .headers = { "S: x\r\n", 6 }, .body = { "hi\r\n", 4 }, .calls = BUF_INIT(1 << 16), .log = BUF_INIT(1 << 16) };
}

void site_process(struct site *s, struct pepsi_msg *m)
{
	int32_t rc = pepsi_stage_descriptor.process(s->worker, &fake_loop_host, m);
	assert_int_equal(rc, PEPSI_PENDING);
}

void site_deliver(struct site *s, struct pepsi_msg *m)
{
	size_t before = fake_loop_run(0, 0);
	site_process(s, m);
	assert_int_equal(fake_loop_run(before + 1, 60000), before + 1);
	fake_loop_idle(20); /* what follows the end: READY, the end of a session */
}

void site_until(int marks)
{
	for (int i = 0; i < 6000 && peer_marks() < marks; i++)
		fake_loop_idle(10);
	assert_int_equal(peer_marks(), marks);
	fake_loop_idle(10);
}

static void holds(const struct buf *b, const char *text)
{
	if (!strstr(buf_z(b), text))
		fail_msg("\"%s\" is not in\n%s", text, buf_z(b));
}

void site_says(const struct pepsi_msg *m, const char *text)
{
	holds(&m->calls, text);
}

void site_logs(const struct pepsi_msg *m, const char *text)
{
	holds(&m->log, text);
}

void site_done(struct pepsi_msg *m)
{
	fake_done(m);
}
