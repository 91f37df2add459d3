/* Stage modules that misbehave, one per BAD_… definition. What each does wrong stands beside it. */
#include <pepsi/stage.h>

#include <fcntl.h>
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
