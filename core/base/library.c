/* dlopen() and dlsym(); see library.h. What was loaded stays. */
#include "base/library.h"

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
