/* See fuse.h. Everything about a stage that cannot change while the worker lives is decided once, when a row first wants to go
 * there; the rest is a few comparisons per hop. */
#include "fuse.h"

#include "base/clock.h"
#include "page.h"
#include "steer.h"
#include "worker.h"

#include <stdlib.h>
#include <strings.h>

struct follower {
	struct worker_env env; /* first: the pass knows it by this address */
	struct worker_module mod;
	struct pepsi_conf conf;
	char *stage;
	bool open;             /* the module is loaded, configured, and open() was called */
	bool never;            /* not while this worker lives */
	int64_t rests_until;
	int64_t avg_us;
	int64_t left;          /* of MAX_MESSAGES */
	uint32_t runs;
};

struct fuse {
	struct fuse_setup s;
	struct worker_env *own;
	struct follower *v[FUSE_STAGES_MAX];
	size_t n;
	bool worn;
};

void fuse_log_fault(void *arg, const char *option, const char *text)
{
	const struct fuse_fault_ctx *f = arg;
	const struct config_value *v = option ? config_get(f->c, f->section, option) : NULL;
	log_error(NULL, "event=config-fault section=%s option=%s file=%s line=%u error=%s", f->section, option ? option : "-",
	    v ? log_qz(v->file) : "-", v ? v->line : 0, log_qz(text));
}

static void log_refused(void *arg, const struct config_overlay_row *r, const char *why)
{
	const struct pepsi_option *o = arg;
	bool secret = false;
	for (; o->name && !secret; o++) /* somebody put one there by hand */
		secret = o->type == PEPSI_OPT_SECRET && schema_covers(o, r->option);
	log_warn(NULL, "event=overlay-fault section=%s option=%s value=%s reason=%s hint=\"the value of the file stands\"", log_qz(r->section),
	    log_qz(r->option), secret ? "-" : log_qz(r->value), log_qz(why));
}

void fuse_overlay(struct config *c, const struct config_overlay *o, const char *section, const struct worker_module *mod)
{
	struct module_info m = { .options = (struct pepsi_option *)(uintptr_t)mod->options, .n_options = mod->n_options };
	struct pepsi_option *ended = o && o->n ? calloc(m.n_options + 1, sizeof *ended) : NULL;
	if (!ended)
		return;
	if (m.n_options)
		memcpy(ended, m.options, m.n_options * sizeof *ended);
	size_t n = config_overlay_lay(c, o, &m, section, log_refused, ended);
	if (n)
		log_info(NULL, "event=overlay section=%s options=%zu", section, n);
	free(ended);
}

void fuse_env(struct worker_env *env, const struct config *c, const struct worker_module *mod, const struct pepsi_conf *conf)
{
	*env = (struct worker_env){ .mod = mod, .conf = conf, .stage = conf->stage,
		.next = config_str(c, conf->section, "NEXT_STAGE"), .bounce = config_str(c, conf->section, "BOUNCE_STAGE"),
		.lifetime_s = config_int(c, conf->section, "MAX_LIFETIME"),
		.runtime_ms = config_max_runtime(c, conf->section, mod->stage.caps & PEPSI_CAP_CONCURRENT) * 1000,
		.success_dsn = conf_host_bool(c, conf->section, "ORIGINATE_SUCCESS_DSN", 1) };
}

/* Two options that say the same, a missing one standing for `other`. */
static bool equal(const struct config *c, const char *a, const char *b, const char *option, const char *other)
{
	const char *x = config_str(c, a, option), *y = config_str(c, b, option);
	if (!x)
		x = other;
	if (!y)
		y = other;
	return x == y || (x && y && !strcmp(x, y));
}

/* What the configuration says, and what the worker has given up already. */
static bool allowed(const struct fuse *f, const char *section, const char *stage)
{
	const struct config *c = f->s.c;
	const char *own = f->own->conf->section;
	int64_t limit = config_int(c, section, "MEMORY_LIMIT"), have = config_int(c, own, "MEMORY_LIMIT");
	return conf_has_stage(c, stage) && strcasecmp(section, own) && conf_host_bool(c, section, "ALLOW_FUSION", 1) &&
	    equal(c, own, section, "USER", config_str(c, "pepsi", "USER")) && equal(c, own, section, "GROUPS", "") &&
	    (!have || (limit && limit <= have));
}

static bool load(struct fuse *f, struct follower *w)
{
	struct buf why = BUF_INIT(1024);
	char section[160];
	snprintf(section, sizeof section, "stage-%.100s", w->stage);
	const char *program = config_str(f->s.c, section, "PROGRAM");
	char *path = allowed(f, section, w->stage) && program ? worker_module_path(f->s.c, program) : NULL;
	struct fuse_fault_ctx ctx = { f->s.c, section };
	bool ok = false, begun = path && !module_load(&w->mod, path, &why);
	if (begun) {
		fuse_overlay(f->s.c, f->s.overlay, section, &w->mod);
		/* what its own worker would complain about, it complains about: the row goes there */
		ok = conf_init(&w->conf, f->s.c, w->stage, &w->mod, fuse_log_fault, &ctx) == 0;
		if (w->mod.stage.caps & PEPSI_CAP_CONCURRENT) /* it needs a loop of its own */
			ok = false;
		if (w->mod.stage.caps & PEPSI_CAP_HELPER && !(f->own->mod->stage.caps & PEPSI_CAP_HELPER))
			ok = false;
	} else if (path) {
		log_warn(NULL, "event=not-fused stage=%s file=%s reason=%s", w->stage, log_qz(path), log_qz(buf_z(&why)));
	}
	free(path);
	buf_free(&why);
	if (!ok) {
		if (begun) {
			conf_done(&w->conf);
			module_done(&w->mod);
		}
		return false;
	}
	w->conf.database = f->s.database;
	w->conf.database_arg = f->s.database_arg;
	fuse_env(&w->env, f->s.c, &w->mod, &w->conf);
	w->env.runs = &w->runs;
	w->env.steer = steer_for(f->s.steer, w->stage, w->mod.stage.caps & PEPSI_CAP_DELIVER);
	w->left = config_int(f->s.c, section, "MAX_MESSAGES");
	w->env.more = f->own->more;
	w->env.more_arg = f->own->more_arg;
	return true;
}

static bool open_module(struct follower *w)
{
	int32_t rc = w->mod.stage.open ? w->mod.stage.open(&worker_host, &w->conf, &w->env.state) : PEPSI_OK;
	if (rc == PEPSI_OK) {
		w->open = true;
		log_debug(NULL, "event=fused stage=%s program=%s version=%s", w->stage, w->mod.stage.name,
		    w->mod.stage.version ? w->mod.stage.version : "-");
		return true;
	}
	log_warn(NULL, "event=not-fused stage=%s program=%s reason=\"open() of the module returned %d\"", w->stage, w->mod.stage.name, rc);
	w->rests_until = clock_mono_us() + FUSE_REST_US;
	return false;
}

static struct follower *find(struct fuse *f, const char *stage)
{
	for (size_t i = 0; i < f->n; i++)
		if (!strcasecmp(f->v[i]->stage, stage))
			return f->v[i];
	struct follower *w = f->n < FUSE_STAGES_MAX ? calloc(1, sizeof *w) : NULL;
	if (!w || !(w->stage = str_dupz(str_from(stage)))) {
		free(w);
		return NULL;
	}
	f->v[f->n++] = w;
	w->never = !load(f, w);
	return w;
}

static bool ran_already(const struct pepsi_msg *msg, const struct worker_env *env)
{
	bool ran = msg->env == env;
	for (size_t i = 0; i < msg->n_hops && !ran; i++)
		ran = msg->hops[i].env == env;
	return ran;
}

/* The hook sees the message as its stage would find it, and may only read: the pass still has the terminal of the hop before,
 * so whatever changes something is refused, and the stage is not asked again. */
static bool wants(struct pepsi_msg *msg, struct follower *w)
{
	char log[sizeof msg->last_log];
	if (!w->mod.stage.can_fuse)
		return true;
	const struct worker_env *keep = msg->env;
	memcpy(log, msg->last_log, sizeof log);
	msg->env = &w->env;
	page_hop(msg->id, (uint32_t)msg->n_hops + 1, &w->env, clock_mono_us());
	int32_t yes = w->mod.stage.can_fuse(w->env.state, &worker_host, msg);
	msg->env = keep;
	memcpy(msg->last_log, log, sizeof log);
	if (msg->misuse[0]) {
		log_error(&msg->log, "event=not-fused next=%s program=%s reason=%s hint=\"can_fuse() may only read\"", w->stage,
		    w->mod.stage.name, log_qz(msg->misuse));
		msg->misuse[0] = 0;
		w->never = true;
		return false;
	}
	return yes == 1;
}

static const struct worker_env *successor(void *arg, struct pepsi_msg *msg, const char *stage)
{
	struct fuse *f = arg;
	if (*f->s.stop || msg->n_hops + 1 >= PASS_HOPS_MAX)
		return NULL;
	static const char poison[] = "\"dispatch_error\"";
	if (memmem(msg->state0.p, msg->state0.n, poison, sizeof poison - 1))
		return NULL;
	struct follower *w = find(f, stage);
	if (!w || w->never || page_avoids(stage) || w->mod.stage.load_class > msg->loaded || ran_already(msg, &w->env))
		return NULL;
	if (w->rests_until) {
		if (clock_mono_us() < w->rests_until)
			return NULL;
		w->rests_until = 0;
	}
	if ((!w->open && !open_module(w)) || !wants(msg, w) || !f->s.before(f->s.before_arg, &w->env))
		return NULL;
	return &w->env;
}

static void learn(struct fuse *f, const struct worker_env *env, int64_t us)
{
	if (env == f->own)
		return;
	struct follower *w = (struct follower *)(void *)env;
	if (!--w->left)
		f->worn = w->never = true;
	w->avg_us = w->avg_us ? (w->avg_us * 7 + us) / 8 : us;
	if (w->avg_us < FUSE_SLOW_US)
		return;
	log_debug(NULL, "event=not-fused stage=%s mean_us=%lld rest_s=%d reason=slow", w->stage, (long long)w->avg_us,
	    FUSE_REST_US / 1000000);
	w->rests_until = clock_mono_us() + FUSE_REST_US;
	w->avg_us = 0;
}

void fuse_learn(struct fuse *f, const struct pepsi_msg *msg)
{
	if (!f || !msg->n_hops)
		return;
	for (size_t i = 1; i < msg->n_hops; i++)
		learn(f, msg->hops[i].env, msg->hops[i].us);
	learn(f, msg->env, clock_mono_us() - msg->hop_began_us);
}

bool fuse_worn(const struct fuse *f)
{
	return f && f->worn;
}

struct fuse *fuse_new(struct worker_env *env, const struct fuse_setup *setup)
{
	if (!config_int(setup->c, "pepsi", "ALLOW_FUSION"))
		return NULL;
	struct fuse *f = calloc(1, sizeof *f);
	if (!f)
		return NULL;
	f->s = *setup;
	f->own = env;
	env->successor = successor;
	env->successor_arg = f;
	return f;
}

void fuse_free(struct fuse *f)
{
	for (size_t i = 0; f && i < f->n; i++) {
		struct follower *w = f->v[i];
		if (w->open && w->mod.stage.close)
			w->mod.stage.close(w->env.state);
		if (!w->never || w->open) {
			conf_done(&w->conf);
			module_done(&w->mod);
		}
		free((void *)(uintptr_t)w->env.steer);
		free(w->stage);
		free(w);
	}
	free(f);
}
