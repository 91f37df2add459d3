/* Where a module's file is. Looks at the file system, opens nothing. */
#include "worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* PROGRAM names a module, never a path: what may be loaded is decided by MODULE_PATH alone. */
static bool is_name(struct str s)
{
	if (!s.n || s.n > 100 || s.p[0] == '.')
		return false;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (!(ascii_is_alnum(c) || c == '-' || c == '_' || c == '.'))
			return false;
	}
	return true;
}

static char *try_file(struct str folder, const char *program)
{
	char path[4096];
	if (!folder.n || folder.n > 3000 ||
	    snprintf(path, sizeof path, "%.*s/%s.so", (int)folder.n, folder.p, program) >= (int)sizeof path ||
	    access(path, R_OK))
		return NULL;
	return realpath(path, NULL);
}

/* The build tree and a relocated installation: ../lib/pepsi/modules beside the running program. */
static char *try_beside(const char *program)
{
	char exe[3000];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 64);
	if (n <= 0)
		return NULL;
	exe[n] = 0;
	for (int up = 0; up < 2; up++) {
		char *slash = strrchr(exe, '/');
		if (!slash)
			return NULL;
		*slash = 0;
	}
	snprintf(exe + strlen(exe), 64, "/lib/pepsi/modules");
	return try_file(str_from(exe), program);
}

char *worker_module_path(const struct config *c, const char *program)
{
	struct str folder, rest;
	char *found = NULL;
	if (!program || !is_name(str_from(program)))
		return NULL;
	bool set = config_get(c, "pepsi", "MODULE_PATH") != NULL;
	if (!set && (found = try_beside(program)))
		return found;
	char *path = config_path(c, "pepsi", "MODULE_PATH");
	rest = str_from(path);
	while (!found && str_word(&rest, ":", &folder))
		found = try_file(folder, program);
	free(path);
	return found;
}
