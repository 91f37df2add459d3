/* Stage modules that misbehave, one per BAD_… definition. What each does wrong stands beside it. */
#include <pepsi/stage.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(BAD_CTOR_CRASH) || defined(BAD_CTOR_HANG) || defined(BAD_CTOR_EXIT)
/* Before anybody has looked at the descriptor: code runs when the object is loaded. */
__attribute__((constructor)) static void ctor(void)
{
#if defined(BAD_CTOR_CRASH)
	raise(SIGSEGV);
#elif defined(BAD_CTOR_HANG)
	for (;;)
		pause();
#else
	_exit(0);
#endif
}
#endif

#if defined(BAD_WILD)
/* One module with every way to hurt others; the local part of the sender says which. Any other sender's mail passes, so
 * that a test sees what became of the neighbours. */
static void *spin(void *arg)
{
	(void)arg;
	for (;;)
		pause();
	return NULL;
}

static void be_wild(const struct pepsi_host *h, struct pepsi_msg *m)
{
	struct pepsi_str s = h->mail_from(m);
	char how[32] = "";
	pthread_t thread;
	memcpy(how, s.p ? s.p : "", s.n < sizeof how - 1 ? s.n : sizeof how - 1);
	how[strcspn(how, "@")] = 0;
	if (!strcmp(how, "abort")) {
		abort();
	} else if (!strcmp(how, "loop")) {
		for (volatile unsigned i = 0;; i++)
			;
	} else if (!strcmp(how, "stop")) {
		raise(SIGSTOP);
	} else if (!strcmp(how, "exit0")) {
		exit(0);
	} else if (!strcmp(how, "exit3")) { /* what a worker says that could not begin at all */
		exit(3);
	} else if (!strcmp(how, "quick3")) {
		_exit(3);
	} else if (!strcmp(how, "big")) {
		char *p = malloc((size_t)4 << 30);
		if (p)
			memset(p, 1, (size_t)4 << 30);
		abort();
	} else if (!strcmp(how, "bomb")) {
		for (int i = 0; i < 200; i++)
			if (fork() == 0)
				for (;;)
					pause();
		abort();
	} else if (!strcmp(how, "heir")) { /* dies, and leaves somebody who holds all its descriptors */
		if (fork() == 0)
			for (;;)
				pause();
		_exit(0);
	} else if (!strcmp(how, "garbage")) {
		for (int fd = 1; fd < 64; fd++)
			if (fd != 2 && write(fd, "9999 {\n\n0 \xff\n", 12) < 0)
				continue;
	} else if (!strcmp(how, "close")) {
		close_range(3, ~0u, 0);
	} else if (!strcmp(how, "parent")) {
		kill(getppid(), SIGKILL);
		kill(getppid(), SIGSTOP); /* never -1 here: other people's processes may have the same account */
		abort();
	} else if (!strcmp(how, "thread")) {
		if (pthread_create(&thread, NULL, spin, NULL))
			abort();
	} else if (!strcmp(how, "stack")) {
		be_wild(h, m);
		h->log(m, PEPSI_LOG_INFO, "deep");
	}
}

/* Hangs where no message is in hand any more. */
static void close_hook(void *worker)
{
	(void)worker;
	for (;;)
		pause();
}
#endif

#if !defined(BAD_NO_SYMBOL)
static int32_t process(void *worker, const struct pepsi_host *h, struct pepsi_msg *m)
{
	(void)worker;
#if defined(BAD_CRASH)
	raise(SIGSEGV);
#elif defined(BAD_HANG)
	for (;;)
		pause();
#elif defined(BAD_EXIT)
	exit(0); /* as if all were well */
#elif defined(BAD_STDOUT)
	printf("0\n");
	fflush(stdout);
	if (write(1, "0 {\"outcome\":\"finish\"}\n", 23) < 0) /* a status line, it hopes */
		return PEPSI_RETRY;
#elif defined(BAD_LEAK)
	for (int i = 0; i < 20; i++)
		if (open("/dev/null", O_RDONLY) < 0) {
			h->log(m, PEPSI_LOG_WARN, "no more descriptors");
			return PEPSI_RETRY;
		}
#elif defined(BAD_NONE)
	(void)h;
	(void)m;
	return PEPSI_OK;
#elif defined(BAD_TWO_TERMINALS)
	h->finish(m);
	h->finish(m);
	return PEPSI_OK;
#elif defined(BAD_SLOW)
	struct pepsi_str from = h->mail_from(m);
	usleep(10 * 1000); /* a measured 10 ms a message */
	if (from.n > 7 && !memcmp(from.p, "poison@", 7))
		abort();
#elif defined(BAD_WILD)
	be_wild(h, m);
#endif
	return h->advance_or_finish(m);
}

#if defined(BAD_VALIDATE) || defined(BAD_VALIDATE_CRASH)
static int32_t validate(const struct pepsi_host *h, const struct pepsi_conf *c, struct pepsi_report *r)
{
#if defined(BAD_VALIDATE_CRASH)
	(void)h;
	(void)c;
	(void)r;
	abort();
#else
	h->report(r, "COLOUR", "no such colour");
	h->report(r, NULL, "and another thing");
	if (!h->conf_str(c, "COLOUR"))
		h->report(r, NULL, "COLOUR was not read");
	return PEPSI_OK;
#endif
}
#define VALIDATE validate
#else
#define VALIDATE NULL
#endif

static const struct pepsi_option options[] = {
	{ .name = "COLOUR", .type = PEPSI_OPT_CHOICE, .def = "blue", .choices = "blue green", .help = "of the bikeshed" },
	{ .name = "DEPTH", .type = PEPSI_OPT_INT, .flags = PEPSI_OPTF_REQUIRED, .min = -5, .max = 9000000000, .help = "how deep" },
	{ .name = "RULE_*", .type = PEPSI_OPT_MULTI },
#if defined(BAD_OPTIONS)
	{ .name = NULL, .type = 99 },
#endif
};

PEPSI_EXPORT extern const struct pepsi_stage pepsi_stage_descriptor;
const struct pepsi_stage pepsi_stage_descriptor = {
#if defined(BAD_MAJOR)
	.abi = { sizeof(struct pepsi_stage), PEPSI_ABI_MAJOR + 1, 0 },
#elif defined(BAD_MINOR)
	.abi = { sizeof(struct pepsi_stage), PEPSI_ABI_MAJOR, PEPSI_ABI_MINOR + 7 },
#elif defined(BAD_SHORT)
	.abi = { 24, PEPSI_ABI_MAJOR, 0 },
#else
	.abi = PEPSI_ABI_OF(struct pepsi_stage),
#endif
#if defined(BAD_WRONG_NAME)
	.name = "pepsi-stage-other",
#else
	.name = BAD_NAME,
#endif
	.version = "1.2",
	.license = "none",
	.summary = "misbehaves",
	.load_class = PEPSI_LOAD_HEADERS,
	.option_size = sizeof(struct pepsi_option),
	.caps = PEPSI_CAP_DELIVER,
	.options = options,
	.n_options = sizeof options / sizeof *options,
	.validate = VALIDATE,
#if !defined(BAD_NO_PROCESS)
	.process = process,
#endif
#if defined(BAD_WILD)
	.close = close_hook,
#endif
};
#if defined(BAD_NO_PROCESS)
int32_t (*const unused_process)(void *, const struct pepsi_host *, struct pepsi_msg *) __attribute__((visibility("hidden"), unused)) = process;
#endif
#else
int nothing_of_the_kind(void);
int nothing_of_the_kind(void)
{
	return 0;
}
#endif
