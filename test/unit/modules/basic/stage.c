/* See stage.h. */
#include "stage.h"

#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const char base[] = "[pepsi]\nHOSTNAME = mx.example.test\nLOCAL_DOMAINS = example.test local.test\n"
			   "[stage-next]\nPROGRAM = x\n[stage-local]\nPROGRAM = x\n[stage-out]\nPROGRAM = x\n[stage-bounce]\nPROGRAM = x\n"
			   "[stage-here]\nPROGRAM = x\n";

static void conf_fault(void *arg, const char *option, const char *text)
{
	(void)arg;
	fail_msg("configuration: %s %s", option, text);
}

static void note(void *arg, const char *option, const char *text)
{
	struct stage *s = arg;
	size_t n = strlen(s->found);
	snprintf(s->found + n, sizeof s->found - n, "%s: %s\n", option ? option : "-", text);
}

void stage_file(struct stage *s, const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof path, "%s/%s", s->dir, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

int32_t stage_open(struct stage *s, const char *module, const char *text)
{
	char path[512], conf[128];
	struct buf b = BUF_INIT(65536), why = BUF_INIT(1024);
	if (!s->dir[0]) {
		snprintf(s->dir, sizeof s->dir, "/tmp/pepsi-unit-XXXXXX");
		assert_non_null(mkdtemp(s->dir));
	}
	buf_addz(&b, base);
	for (const char *p = text; *p; p++) {
		if (p[0] == '%' && p[1] == 's') {
			buf_addz(&b, s->dir);
			p++;
		} else {
			buf_addc(&b, *p);
		}
	}
	stage_file(s, "pepsi.conf", buf_z(&b));
	snprintf(conf, sizeof conf, "%s/pepsi.conf", s->dir);
	s->faults = config_faults_new();
	s->c = config_load(conf, s->faults);
	assert_int_equal(config_faults_n(s->faults, false), 0);
	snprintf(path, sizeof path, "%s/%s.so", MODULES, module);
	if (module_load(&s->mod, path, &why))
		fail_msg("%s", buf_z(&why));
	assert_int_equal(conf_init(&s->conf, s->c, "here", &s->mod, conf_fault, NULL), 0);
	s->env = (struct worker_env){ .mod = &s->mod, .conf = &s->conf, .stage = "here",
		.next = config_str(s->c, "stage-here", "NEXT_STAGE"), .bounce = config_str(s->c, "stage-here", "BOUNCE_STAGE"),
		.lifetime_s = INT64_C(1) << 40, .runtime_ms = 300000, .success_dsn = true };
	struct pepsi_report r = { note, s };
	s->found[0] = 0;
	if (s->mod.stage.validate)
		assert_int_equal(s->mod.stage.validate(&worker_host, &s->conf, &r), PEPSI_OK);
	buf_free(&b);
	buf_free(&why);
	return s->mod.stage.open ? s->mod.stage.open(&worker_host, &s->conf, &s->env.state) : PEPSI_OK;
}

void stage_pass_full(struct stage *s, const char *mail_from, const char *rcpts, const char *state, struct str headers,
    struct str body)
{
	struct str list[64], rest = str_from(rcpts);
	struct wire_item it = { .id = 7, .received_at = s->received_at, .has_content = true, .mail_from = str_from(mail_from), .rcpts = list,
		.state = str_from(state), .headers = headers, .body = body, .body_size = body.n };
	while (str_word(&rest, " ", &list[it.n_rcpts]))
		assert_true(++it.n_rcpts < 64);
	pass_end(&s->msg);
	assert_int_equal(pass_begin(&s->msg, &s->env, &it), 0);
	pass_run(&s->msg);
}

void stage_pass(struct stage *s, const char *mail_from, const char *rcpts, const char *state)
{
	stage_pass_full(s, mail_from, rcpts, state, STR("Subject: x\r\n"), STR("hello\r\n"));
}

static void put_list(struct buf *b, const uint32_t *idx, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_addf(b, "%s%u", i ? "," : ":", idx[i]);
}

const char *stage_outcome(struct stage *s)
{
	static char text[8192];
	static const char *const kinds[] = { "move", "pause", "finish", "split", "inject" };
	struct buf b = BUF_INIT(sizeof text - 1);
	for (size_t i = 0; i < s->msg.pass.n_ops; i++) {
		const struct store_op *op = &s->msg.pass.ops[i];
		buf_addf(&b, "%s%s", i ? "; " : "", op->kind == STORE_OP_MOVE && op->status == STORE_FAILED ? "fail" : kinds[op->kind]);
		if (op->kind == STORE_OP_MOVE)
			buf_addf(&b, " %s", op->stage);
		if (op->outcome)
			buf_addf(&b, " %s", op->outcome);
		if (op->keep)
			put_list(&b, op->keep, op->n_keep);
		for (size_t k = 0; k < op->n_clones; k++) {
			buf_addf(&b, " +%s", op->clones[k].stage);
			if (op->clones[k].status)
				buf_addf(&b, "(%s)", op->clones[k].status == PEPSI_CLONE_RETRY ? "retry" : "failed");
			put_list(&b, op->clones[k].indices, op->clones[k].n);
		}
		if (op->touched & STORE_SET_RCPT_TO)
			for (size_t k = 0; k < op->n_rcpts; k++)
				buf_addf(&b, " %.*s", STR_ARG(op->rcpts[k]));
		if (op->state && op->kind == STORE_OP_MOVE && op->status != STORE_FAILED)
			buf_addf(&b, " %s", op->state);
	}
	snprintf(text, sizeof text, "%s", buf_z(&b));
	buf_free(&b);
	return text;
}

static int gone(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st;
	(void)type;
	(void)f;
	return remove(path);
}

void stage_close(struct stage *s)
{
	if (s->env.state && s->mod.stage.close)
		s->mod.stage.close(s->env.state);
	pass_free(&s->msg);
	conf_done(&s->conf);
	module_done(&s->mod);
	config_free(s->c);
	config_faults_free(s->faults);
	nftw(s->dir, gone, 16, FTW_DEPTH | FTW_PHYS);
	memset(s, 0, sizeof *s);
}
