/* worker_main: from a fresh process to the loop and back. Order matters: standard output is taken away before any code of
 * a module runs, limits are set before a module is loaded, and the database is only reached for when there is work. */
#include "worker.h"

#include "before.h"
#include "concurrent.h"
#include "confine.h"
#include "fuse.h"
#include "measure.h"
#include "page.h"
#include "run.h"
#include "steer.h"
#include "base/clock.h"
#include "store/cluster.h"
#include "store/overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { EXIT_ORDERLY = 0, EXIT_ERROR = 1, EXIT_CANNOT_START = 3, NOFILE = 1024, SOCKETS_EACH = 4, PATIENCE_S = 10, OVERLAY_RETRY_MS = 200 };

static volatile int stop_flag;
static int stop_pipe[2] = { -1, -1 };

static void on_stop(int sig)
{
	int keep = errno;
	(void)sig;
	stop_flag = 1;
	ssize_t w = write(stop_pipe[1], "", 1);
	(void)w; /* a full pipe is readable already */
	errno = keep;
}

static int signals(bool by_hand)
{
	struct sigaction stop = { .sa_handler = on_stop, .sa_flags = SA_RESTART }, ign = { .sa_handler = SIG_IGN };
	sigset_t none;
	if (pipe2(stop_pipe, O_CLOEXEC | O_NONBLOCK))
		return -1;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	sigaction(SIGTERM, &stop, NULL);
	sigaction(SIGPIPE, &ign, NULL);
	if (by_hand) {
		sigaction(SIGINT, &stop, NULL);
	} else { /* a terminal's ^C goes to the spawner, which stops us in order */
		sigaction(SIGINT, &ign, NULL);
		sigaction(SIGHUP, &ign, NULL);
	}
	return 0;
}

static void limit(int what, rlim_t n)
{
	struct rlimit r;
	if (getrlimit((__rlimit_resource_t)what, &r))
		return;
	r.rlim_cur = r.rlim_max != RLIM_INFINITY && r.rlim_max < n ? r.rlim_max : n;
	if (what != RLIMIT_NOFILE) /* helpers a module starts inherit it */
		r.rlim_max = r.rlim_cur;
	setrlimit((__rlimit_resource_t)what, &r);
}

static void limits(const struct config *c, const char *section)
{
	limit(RLIMIT_CORE, 0); /* a core holds other people's mail */
	limit(RLIMIT_NOFILE, NOFILE);
#ifndef PEPSI_SANITIZED /* sanitizers reserve terabytes of addresses */
	int64_t n = config_int(c, section, "MEMORY_LIMIT");
	if (n > 0)
		limit(RLIMIT_AS, (rlim_t)n);
#else
	(void)c;
	(void)section;
#endif
}

/* Nobody but us writes to the status channel: descriptor 1 becomes 2, and by hand the real one moves out of reach. */
static int take_stdout(bool by_hand)
{
	int out = -1;
	if (by_hand && (out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10)) < 0)
		return -1;
	if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return -1;
	return by_hand ? out : 0;
}

static struct store_worker *store_for(const struct config *c, const char *stage, bool durable, char *err, size_t err_size)
{
	char info[1024], name[128];
	struct store_params p = { .conninfo = config_str(c, "pepsi-postgres", "CONFIG"), .role = "pepsi", .name = name,
		.async_commit = !durable };
	snprintf(name, sizeof name, "pepsi worker %.100s", stage);
	if (!p.conninfo) {
		struct cluster_paths paths;
		char *state = config_path(c, "pepsi", "STATE_DIR");
		if (!state || cluster_paths_set(&paths, state, err, err_size)) {
			if (!state)
				snprintf(err, err_size, "neither [pepsi-postgres] CONFIG nor [pepsi] STATE_DIR is set");
			free(state);
			return NULL;
		}
		free(state);
		cluster_conninfo(&paths, info, sizeof info);
		p.conninfo = info;
	}
	struct store_worker *w = store_worker_new(&p, durable);
	if (!w)
		snprintf(err, err_size, "out of memory");
	return w;
}

static void show_counts(struct store_worker *sw)
{
	struct store_worker_counts n = store_worker_count(sw);
	page_counts(&n);
}

static enum store_rc load(void *arg, struct arena *a, const int64_t *ids, size_t n, uint32_t what, struct store_row **rows,
    size_t *n_rows)
{
	enum store_rc rc = store_worker_load(arg, a, ids, n, what, rows, n_rows);
	show_counts(arg);
	return rc;
}

static enum store_rc commit(void *arg, struct store_pass *passes, size_t n)
{
	enum store_rc rc = store_worker_commit(arg, passes, n);
	show_counts(arg);
	return rc;
}

static void live(void *arg, struct event_base *base, store_wait_fn wait, void *wait_arg)
{
	store_worker_live(arg, base, wait, wait_arg);
}

static struct pg_conn *module_db(void *arg)
{
	return store_worker_module_db(arg);
}

static void add_override(void *arg, struct str section, struct str option, struct str value)
{
	if (config_overlay_add(arg, section, option, value))
		log_warn(NULL, "event=overlay-fault section=%s option=%s reason=\"out of memory\"", log_q(section), log_q(option));
}

/* What the database has for stages. A worker without it would do what nobody wants any more: it waits a little for the database, and
 * does not begin without. */
static int read_overlay(struct store_worker *sw, struct config_overlay *ret, char *err, size_t err_size)
{
	int64_t until = clock_mono_us() + PATIENCE_S * US_PER_S;
	enum store_rc rc;
	while ((rc = store_worker_overlay(sw, CONFIG_OVERLAY_ROWS_MAX, add_override, ret, err, err_size)) == STORE_AWAY && !stop_flag &&
	       clock_mono_us() < until) {
		config_overlay_free(ret);
		poll(NULL, 0, OVERLAY_RETRY_MS);
	}
	return rc == STORE_OK ? 0 : -1;
}

/* And which mail is held or goes another way. The database was there a moment ago. */
static struct steer *read_rules(struct store_worker *sw, char *err, size_t err_size)
{
	struct steer *s = steer_new();
	if (s && store_worker_rules(sw, steer_add, s, err, err_size) == STORE_OK) {
		if (steer_whole(s))
			return s;
		snprintf(err, err_size, "out of memory for the rules of pepsi queue hold and reroute");
	}
	steer_free(s);
	return NULL;
}

static int run_stage(struct config *c, const char *stage, int channel, int out, const struct worker_module *mod,
    struct pepsi_conf *conf, struct store_worker *sw, const struct config_overlay *overlay, const struct steer *steer)
{
	struct worker_env env;
	uint32_t runs = 0;
	fuse_env(&env, c, mod, conf);
	env.runs = &runs;
	env.steer = steer_for(steer, stage, mod->stage.caps & PEPSI_CAP_DELIVER);
	struct run *r = calloc(1, sizeof *r);
	int ret = EXIT_CANNOT_START;
	if (!r || input_init(&r->in, channel < 0 ? STDIN_FILENO : channel, channel < 0)) {
		log_error(NULL, "event=cannot-start stage=%s error=\"out of memory\"", stage);
		free(r);
		return EXIT_CANNOT_START;
	}
	conf->database = module_db;
	conf->database_arg = sw;
	r->env = &env;
	r->c = c;
	r->store = (struct run_store){ sw, load, commit, live };
	r->by_hand = channel < 0;
	r->out_fd = channel < 0 ? out : channel;
	r->max_messages = channel < 0 ? 0 : (uint64_t)config_int(c, conf->section, "MAX_MESSAGES");
	r->stop = &stop_flag;
	r->stop_fd = stop_pipe[0];
	r->patience_s = PATIENCE_S;
	struct serve *many = NULL;
	struct concurrent *engine = NULL;
	if (mod->stage.caps & PEPSI_CAP_CONCURRENT) {
		limit(RLIMIT_NOFILE, NOFILE + SOCKETS_EACH * (rlim_t)config_queue_limit(c, conf->section, true) +
		    (rlim_t)config_int(c, "pepsi-dns", "MAX_IN_FLIGHT"));
		struct concurrent_owner owner = { NULL, NULL, NULL };
		if ((many = serve_new(r)))
			owner = serve_owner(many);
		if (!many || !(engine = concurrent_new(&env, &owner, &worker_host))) {
			log_error(NULL, "event=cannot-start stage=%s error=\"no event loop\"", stage);
			_exit(EXIT_CANNOT_START);
		}
	} else {
		r->fuse = fuse_new(&env, &(struct fuse_setup){ c, module_db, sw, &stop_flag, run_before_hop, r, overlay, steer });
	}
	const struct pepsi_host *host = engine ? concurrent_table() : &worker_host;
	int page_fd = page_open(r->by_hand);
	measure_reports();

	/* by hand it runs under whoever typed the command, with what privileges they have */
	if (!r->by_hand && confine(mod->stage.caps & PEPSI_CAP_HELPER))
		log_warn(NULL, "event=not-confined stage=%s error=\"%m\" hint=\"its module may fork, and signal what has its account\"", stage);
	int32_t rc = mod->stage.open ? mod->stage.open(host, conf, &env.state) : PEPSI_OK;
	if (rc != PEPSI_OK) {
		log_error(NULL, "event=cannot-start stage=%s program=%s error=\"open() of the module returned %d\"", stage,
		    mod->stage.name, rc);
	} else if (!r->by_hand && run_ready(r, page_fd)) {
		ret = EXIT_ORDERLY; /* nobody waits for us any more */
	} else {
		bool left = false;
		if (many)
			ret = serve_loop(many, engine, &left);
		else
			ret = run_loop(r) ? EXIT_ERROR : EXIT_ORDERLY;
		measure_tell(r->by_hand ? -1 : r->out_fd, true);
		if (left) /* messages are pending, or unanswered: there is nothing that could be closed in order */
			_exit(r->by_hand ? EXIT_ERROR : ret);
		if (ret == EXIT_ORDERLY && r->by_hand && r->failed_some)
			ret = EXIT_ERROR;
		if (mod->stage.close)
			mod->stage.close(env.state);
		measure_tell(r->by_hand ? -1 : r->out_fd, true);
	}
	fuse_free(r->fuse);
	concurrent_free(engine);
	serve_free(many);
	run_done(r);
	free(r);
	free((void *)(uintptr_t)env.steer);
	return ret;
}

/* The same module, before its messages are accepted: no rows, no commits. The database is there for the module alone. */
static int run_before(const struct config *c, const char *stage, int channel, const struct worker_module *mod, struct pepsi_conf *conf,
    struct store_worker *sw)
{
	struct worker_env env;
	if (mod->stage.caps & (PEPSI_CAP_DELIVER | PEPSI_CAP_BOUNCE | PEPSI_CAP_CONCURRENT)) { /* the check of the configuration says so, too */
		log_error(NULL, "event=cannot-start stage=%s program=%s error=\"it %s: no stage for BEFORE_ACCEPT\"", stage, mod->stage.name,
		    mod->stage.caps & PEPSI_CAP_CONCURRENT ? "drives many messages at once" : "delivers or bounces");
		return EXIT_CANNOT_START;
	}
	fuse_env(&env, c, mod, conf);
	env.next = env.next ? env.next : BEFORE_FIRST_STAGE;
	env.bounce = env.bounce ? env.bounce : BEFORE_BOUNCE_STAGE;
	conf->database = mod->stage.caps & PEPSI_CAP_DB ? module_db : NULL;
	conf->database_arg = sw;
	struct before b = { .env = &env, .channel = channel, .stop = &stop_flag, .stop_fd = stop_pipe[0] };
	int ret = EXIT_CANNOT_START;
	if (confine(mod->stage.caps & PEPSI_CAP_HELPER))
		log_warn(NULL, "event=not-confined stage=%s error=\"%m\" hint=\"its module may fork, and signal what has its account\"", stage);
	int32_t rc = mod->stage.open ? mod->stage.open(before_host(), conf, &env.state) : PEPSI_OK;
	if (rc != PEPSI_OK) {
		log_error(NULL, "event=cannot-start stage=%s program=%s error=\"open() of the module returned %d\"", stage,
		    mod->stage.name, rc);
	} else {
		ret = before_serve(&b) ? EXIT_ERROR : EXIT_ORDERLY;
		if (mod->stage.close)
			mod->stage.close(env.state);
		before_tell(channel, true);
	}
	return ret;
}

/* The module is loaded: its section is read, from the files and the database. */
static int configured(struct config *c, const char *stage, const char *section, int channel, int out, const struct worker_module *mod,
    bool before)
{
	struct config_overlay overlay = { .n = 0 };
	struct pepsi_conf conf = { .v = NULL };
	struct fuse_fault_ctx f = { c, section };
	char err[256] = "";
	bool durable = !before && config_int(c, "pepsi-postgres", "DURABLE_COMPLETION");
	struct store_worker *sw = store_for(c, stage, durable, err, sizeof err);
	struct steer *steer = NULL;
	int ret = EXIT_CANNOT_START;
	if (!sw || read_overlay(sw, &overlay, err, sizeof err) || (!before && !(steer = read_rules(sw, err, sizeof err)))) {
		log_error(NULL, "event=cannot-start stage=%s error=%s", stage, log_qz(err));
	} else {
		fuse_overlay(c, &overlay, section, mod);
		int faults = conf_init(&conf, c, stage, mod, fuse_log_fault, &f);
		if (faults)
			log_error(NULL, "event=cannot-start program=%s error=\"%d faults in [%s]\"", mod->stage.name, faults, section);
		else
			ret = before ? run_before(c, stage, channel, mod, &conf, sw)
				     : run_stage(c, stage, channel, out, mod, &conf, sw, &overlay, steer);
		conf_done(&conf);
	}
	store_worker_free(sw);
	steer_free(steer);
	config_overlay_free(&overlay);
	return ret;
}

static int start(struct config *c, const char *stage, int channel, bool before)
{
	char part[96], section[160];
	struct worker_module mod = { .dl = NULL };
	struct buf why = BUF_INIT(1024);
	snprintf(part, sizeof part, "%s %.60s", before ? "before" : "worker", stage);
	log_setup(log_max(), part);
	int out = take_stdout(channel < 0);
	if (out < 0 || signals(channel < 0)) {
		log_error(NULL, "event=cannot-start stage=%s error=\"%m\"", stage);
		return EXIT_CANNOT_START;
	}
	if (channel >= 0)
		fcntl(channel, F_SETFD, FD_CLOEXEC);
	snprintf(section, sizeof section, "stage-%.100s", stage);
	limits(c, section);

	const char *program = config_str(c, section, "PROGRAM");
	char *path = program ? worker_module_path(c, program) : NULL;
	int ret = EXIT_CANNOT_START;
	if (!program) {
		log_error(NULL, "event=cannot-start error=\"%s\"", conf_has_stage(c, stage) ? "the stage has no PROGRAM"
											  : "no such [stage-…] section");
	} else if (!path) {
		log_error(NULL, "event=cannot-start program=%s error=\"no %s.so along [pepsi] MODULE_PATH\"", log_qz(program), program);
	} else if (module_load(&mod, path, &why)) {
		log_error(NULL, "event=cannot-start program=%s file=%s error=%s", program, log_qz(path), log_qz(buf_z(&why)));
	} else {
		ret = configured(c, stage, section, channel, out, &mod, before);
		module_done(&mod);
	}
	free(path);
	buf_free(&why);
	return ret;
}

int worker_main(struct config *c, const char *stage, int channel)
{
	return start(c, stage, channel, false);
}

int worker_before_main(struct config *c, const char *stage, int channel)
{
	return start(c, stage, channel, true);
}
