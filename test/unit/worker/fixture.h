/* A worker environment without a database: a module whose process() is whatever the case at hand says, and a row. */
#ifndef TEST_WORKER_FIXTURE_H
#define TEST_WORKER_FIXTURE_H

#include "worker/pass.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

typedef int32_t (*script_fn)(const struct pepsi_host *h, struct pepsi_msg *m);

struct fixture {
	struct config *c;
	struct config_faults *faults;
	struct pepsi_stage desc;
	struct worker_module mod;
	struct pepsi_conf conf;
	struct worker_env env;
	struct wire_item row;
	struct pepsi_msg msg;
};

static struct str fixture_rcpts[] = { STR_INIT("a@example.test"), STR_INIT("b@example.test"), STR_INIT("c@example.test") };

static int32_t fixture_process(void *worker, const struct pepsi_host *h, struct pepsi_msg *m)
{
	return ((struct { script_fn fn; } *)worker)->fn(h, m);
}

static void fixture_fault(void *arg, const char *option, const char *text)
{
	(void)arg;
	fail_msg("configuration: %s %s", option, text);
}

static inline void fixture_init(struct fixture *f, uint32_t load, uint64_t caps)
{
	struct buf why = BUF_INIT(1024);
	*f = (struct fixture){ .faults = config_faults_new() };
	f->c = config_load(PEPSI_SOURCE_DIR "/test/unit/worker/stages.conf", f->faults);
	assert_non_null(f->c);
	assert_int_equal(config_faults_n(f->faults, true), 0);
	f->desc = (struct pepsi_stage){ .abi = PEPSI_ABI_OF(struct pepsi_stage), .name = "pepsi-stage-test", .version = "1",
		.load_class = load, .option_size = sizeof(struct pepsi_option), .caps = caps, .process = fixture_process };
	if (module_adopt(&f->mod, &f->desc, "pepsi-stage-test", &why))
		fail_msg("%s", buf_z(&why));
	assert_int_equal(conf_init(&f->conf, f->c, "here", &f->mod, fixture_fault, NULL), 0);
	f->env = (struct worker_env){ .mod = &f->mod, .conf = &f->conf, .stage = "here", .next = "next", .bounce = "bounce",
		.lifetime_s = INT64_C(1) << 40, .runtime_ms = 1000, .success_dsn = true };
	f->row = (struct wire_item){ .id = 7, .has_content = true, .received_at = 0, .mail_from = STR("s@example.test"),
		.rcpts = fixture_rcpts, .n_rcpts = 3, .state = STR("{\"origin\":{\"ip\":\"192.0.2.1\"}}"),
		.headers = STR("Subject: x\r\n"), .body = STR("hello\r\n"), .body_size = 7 };
}

/* Runs one pass; the result is in f->msg until the next. */
static inline void fixture_run(struct fixture *f, script_fn fn)
{
	static struct {
		script_fn fn;
	} script;
	script.fn = fn;
	f->env.state = &script;
	pass_end(&f->msg);
	assert_int_equal(pass_begin(&f->msg, &f->env, &f->row), 0);
	pass_run(&f->msg);
}

static inline void fixture_done(struct fixture *f)
{
	pass_free(&f->msg);
	conf_done(&f->conf);
	module_done(&f->mod);
	config_free(f->c);
	config_faults_free(f->faults);
}

#endif
