/* Runs a fuzz target over kept inputs: files, or folders of files (not deeper). The main of replay_NAME, so that each
 * corpus is an ordinary test under any compiler. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned ran;

static int run_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	if (!f) {
		perror(path);
		return 1;
	}
	size_t n = 0, cap = 1 << 20;
	uint8_t *p = malloc(cap);
	if (p)
		n = fread(p, 1, cap, f);
	fclose(f);
	/* an exact-size copy, so that a sanitizer sees a read behind the end */
	uint8_t *exact = malloc(n ? n : 1);
	if (!p || !exact)
		return 1;
	for (size_t i = 0; i < n; i++)
		exact[i] = p[i];
	free(p);
	LLVMFuzzerTestOneInput(exact, n);
	free(exact);
	ran++;
	return 0;
}

int main(int argc, char **argv)
{
	int bad = 0;
	for (int i = 1; i < argc; i++) {
		struct stat st;
		if (stat(argv[i], &st)) {
			perror(argv[i]);
			return 1;
		}
		if (!S_ISDIR(st.st_mode)) {
			bad |= run_file(argv[i]);
			continue;
		}
		DIR *d = opendir(argv[i]);
		struct dirent *e;
		while (d && (e = readdir(d))) {
			char path[4096];
			if (e->d_name[0] == '.')
				continue;
			if (snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name) < (int)sizeof path)
				bad |= run_file(path);
		}
		if (d)
			closedir(d);
	}
	printf("%u inputs replayed\n", ran);
	return bad || !ran;
}
