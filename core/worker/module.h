/* One stage module in this process: loaded, its ABI checked, its descriptor copied into structs of our own size, so that
 * the rest of the host never asks again how old the module is. Only workers and describe children load modules. */
#ifndef PEPSI_WORKER_MODULE_H
#define PEPSI_WORKER_MODULE_H

#include "base/buf.h"

#include <pepsi/stage.h>

enum { MODULE_OPTIONS_MAX = 1000 };

struct worker_module {
	struct pepsi_stage stage;     /* our own copy: hooks that the module is too old for are NULL */
	struct pepsi_option *options; /* likewise; points into the module's texts */
	size_t n_options;
	void *dl;                     /* NULL for a module that is linked in (tests) */
};

/* Loads the file and checks it. 0; or -1 with the reason in why: what is wrong, both versions, what to do. */
int module_load(struct worker_module *ret, const char *path, struct buf *why);
/* The same checks on a descriptor that is there already; name: what it must call itself, NULL: anything. */
int module_adopt(struct worker_module *ret, const struct pepsi_stage *desc, const char *name, struct buf *why);
/* Frees what is ours. The code stays mapped (RTLD_NODELETE): somebody may still hold a pointer into it. */
void module_done(struct worker_module *m);

#endif
