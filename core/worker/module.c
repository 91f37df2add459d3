/* Loading a module: dlopen, the one symbol, and the version rules of <pepsi/stage.h>. May not call a hook. */
#include "module.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* What 1.0 had: nothing shorter can be a descriptor. Member names, so that a later append does not move it. */
#define STAGE_MIN (offsetof(struct pepsi_stage, close) + sizeof(void (*)(void *)))
#define OPTION_MIN (offsetof(struct pepsi_option, help) + sizeof(char *))
#define SANE_MAX 65536u

static int check_abi(const struct pepsi_stage *d, struct buf *why)
{
	const struct pepsi_abi *abi = &d->abi;
	if (abi->major != PEPSI_ABI_MAJOR) {
		buf_addf(why, "module speaks stage ABI %u.%u, this pepsi speaks %u.%u: %s", abi->major, abi->minor,
		    PEPSI_ABI_MAJOR, PEPSI_ABI_MINOR,
		    abi->major < PEPSI_ABI_MAJOR ? "rebuild the module against the installed <pepsi/stage.h>"
						 : "the module needs a newer pepsi");
		return -1;
	}
	if (abi->minor > PEPSI_ABI_MINOR) {
		buf_addf(why, "module needs stage ABI %u.%u, this pepsi has %u.%u: update pepsi or use an older module",
		    abi->major, abi->minor, PEPSI_ABI_MAJOR, PEPSI_ABI_MINOR);
		return -1;
	}
	if (abi->size < STAGE_MIN || abi->size > SANE_MAX) {
		buf_addf(why, "descriptor says it is %u octets long, version 1.0 has %zu: build it with PEPSI_STAGE()",
		    abi->size, (size_t)STAGE_MIN);
		return -1;
	}
	return 0;
}

static int copy_options(struct worker_module *m, const struct pepsi_stage *d, struct buf *why)
{
	size_t stride = d->option_size;
	if (!d->n_options)
		return 0;
	if (!d->options || d->n_options > MODULE_OPTIONS_MAX || stride < OPTION_MIN || stride > SANE_MAX) {
		buf_addf(why, "malformed option table (%zu options of %zu octets)", d->n_options, stride);
		return -1;
	}
	m->options = calloc(d->n_options, sizeof *m->options);
	if (!m->options) {
		buf_addz(why, "out of memory");
		return -1;
	}
	m->n_options = d->n_options;
	for (size_t i = 0; i < d->n_options; i++) {
		memcpy(&m->options[i], (const char *)d->options + i * stride,
		    stride < sizeof *m->options ? stride : sizeof *m->options);
		if (!m->options[i].name || !m->options[i].name[0] || m->options[i].type > PEPSI_OPT_MULTI) {
			buf_addf(why, "option %zu of the table has no name or an unknown type", i);
			return -1;
		}
	}
	return 0;
}

int module_adopt(struct worker_module *ret, const struct pepsi_stage *d, const char *name, struct buf *why)
{
	struct worker_module m = { .dl = NULL };
	if (check_abi(d, why))
		return -1;
	memcpy(&m.stage, d, d->abi.size < sizeof m.stage ? d->abi.size : sizeof m.stage);
	if (!m.stage.name || (name && strcmp(m.stage.name, name) != 0)) {
		buf_addf(why, "module calls itself %s, its file %s: they must be equal", m.stage.name ? m.stage.name : "nothing",
		    name ? name : "?");
		return -1;
	}
	if (!m.stage.process) {
		buf_addz(why, "module has no process() hook");
		return -1;
	}
	if (m.stage.caps & PEPSI_CAP_CONCURRENT && !m.stage.stop) {
		buf_addf(why, "module declares PEPSI_CAP_CONCURRENT and has no stop() hook (it says ABI %u.%u, these came with 1.2): without it a "
			 "message could not be ended in time", d->abi.major, d->abi.minor);
		return -1;
	}
	if (m.stage.load_class > PEPSI_LOAD_FULL) {
		buf_addf(why, "module declares load class %u, which does not exist", m.stage.load_class);
		return -1;
	}
	if (copy_options(&m, d, why)) {
		free(m.options);
		return -1;
	}
	m.stage.options = m.options;
	*ret = m;
	return 0;
}

/* "/x/pepsi-stage-a.so" → "pepsi-stage-a" */
static int name_of(const char *path, char *out, size_t size)
{
	const char *base = strrchr(path, '/');
	struct str s = str_from(base ? base + 1 : path);
	if (!str_iends(s, STR(".so")) || s.n - 3 >= size || s.n == 3)
		return -1;
	memcpy(out, s.p, s.n - 3);
	out[s.n - 3] = 0;
	return 0;
}

int module_load(struct worker_module *ret, const char *path, struct buf *why)
{
	char name[128];
	if (name_of(path, name, sizeof name)) {
		buf_addf(why, "%s is no module's file name (NAME.so)", path);
		return -1;
	}
	void *dl = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!dl) {
		buf_addf(why, "cannot be loaded: %s", dlerror());
		/* a tree below /root, most often: root found the file, the account that loads it may not go there */
		if (access(path, R_OK) && errno == EACCES)
			buf_addf(why, " (uid %u, which runs the module, may not read it: look at each folder above it)", (unsigned)geteuid());
		return -1;
	}
	const struct pepsi_stage *d = dlsym(dl, PEPSI_STAGE_SYMBOL);
	if (!d) {
		buf_addf(why, "exports no %s: not a stage module", PEPSI_STAGE_SYMBOL);
		dlclose(dl);
		return -1;
	}
	if (module_adopt(ret, d, name, why)) {
		dlclose(dl);
		return -1;
	}
	ret->dl = dl;
	return 0;
}

void module_done(struct worker_module *m)
{
	free(m->options);
	if (m->dl)
		dlclose(m->dl);
	*m = (struct worker_module){ .dl = NULL };
}
