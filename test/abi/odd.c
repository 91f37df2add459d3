/* Modules of other versions than today's, one per ODD_… definition: what the host must refuse with a clear line, and what it must
 * be able to load although it has never seen it. */
#include <pepsi/stage.h>

static int32_t process(void *worker, const struct pepsi_host *h, struct pepsi_msg *m)
{
	(void)worker;
	return h->advance(m);
}

/* an option of a later version: longer than ours */
struct long_option {
	struct pepsi_option o;
	const char *later[3];
};
static const struct long_option long_options[] = {
	{ { .name = "FIRST", .type = PEPSI_OPT_INT, .def = "1", .help = "one" }, { "a", "b", "c" } },
	{ { .name = "SECOND", .type = PEPSI_OPT_INT, .def = "2", .help = "two" }, { "d", "e", "f" } },
};

/* a descriptor of a later version: longer than ours */
struct long_stage {
	struct pepsi_stage s;
	void (*later[4])(void);
};

PEPSI_EXPORT extern const struct long_stage pepsi_stage_descriptor;
const struct long_stage pepsi_stage_descriptor = {
	.s = {
#if defined(ODD_OLD_MAJOR)
		.abi = { sizeof(struct pepsi_stage), PEPSI_ABI_MAJOR - 1, 9 },
#elif defined(ODD_NEW_MAJOR)
		.abi = { 4096, PEPSI_ABI_MAJOR + 1, 0 },
#elif defined(ODD_NEW_MINOR)
		.abi = { sizeof(struct long_stage), PEPSI_ABI_MAJOR, PEPSI_ABI_MINOR + 1 },
#elif defined(ODD_LONG) /* knows more, but can live with our minor */
		.abi = { sizeof(struct long_stage), PEPSI_ABI_MAJOR, PEPSI_ABI_MINOR },
#elif defined(ODD_SHORT) /* than version 1.0, by one member */
		.abi = { offsetof(struct pepsi_stage, close), PEPSI_ABI_MAJOR, 0 },
#elif defined(ODD_HUGE)
		.abi = { 1u << 31, PEPSI_ABI_MAJOR, 0 },
#else
		.abi = { sizeof(struct pepsi_stage), PEPSI_ABI_MAJOR, 0 },
#endif
		.name = ODD_NAME,
		.version = "1.0",
		.license = "none",
		.summary = "is of another version",
		.load_class = PEPSI_LOAD_METADATA,
#if defined(ODD_SHORT_OPTION)
		.option_size = sizeof(struct pepsi_option) - 8,
#elif defined(ODD_NO_STRIDE)
		.option_size = 0,
#else
		.option_size = sizeof(struct long_option),
#endif
		.options = &long_options[0].o,
		.n_options = 2,
		.process = process,
	},
	.later = { (void (*)(void))1, (void (*)(void))1, (void (*)(void))1, (void (*)(void))1 },
};
