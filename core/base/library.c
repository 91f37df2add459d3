/* dlopen() and dlsym(); see library.h. What was loaded stays. */
#include "base/library.h"

#include "base/log.h"

#include <dlfcn.h>
#include <string.h>

int library_bind(const char *file, const struct library_symbol *of, size_t n, const char **ret_why)
{
	void *lib = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		*ret_why = dlerror();
		return -1;
	}
	for (size_t i = 0; i < n; i++) {
		void *p = dlsym(lib, of[i].name);
		if (!p) {
			*ret_why = of[i].name;
			return 1;
		}
		memcpy(of[i].to, &p, sizeof p);
	}
	return 0;
}

int library_need(const char *event, const char *file, const char *package, const struct library_symbol *of, size_t n)
{
	const char *why;
	int rc = library_bind(file, of, n, &why);
	if (rc < 0)
		log_error(NULL, "event=%s reason=\"%s cannot be loaded (package %s)\" detail=%s", event, file, package, log_qz(why));
	else if (rc)
		log_error(NULL, "event=%s reason=\"%s lacks %s\"", event, file, why);
	return rc ? -1 : 0;
}
