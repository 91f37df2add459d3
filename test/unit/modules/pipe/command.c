/* Commands for the pipe stage: argv[1] says what to do. Most of them are hostile. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

extern char **environ;

/* A reply whose text is what happened, so that the test can look at it. */
static int tell(const char *text)
{
	printf("{\"action\":\"reject\",\"text\":\"%s\"}\n", text);
	return 0;
}

static int descriptors(void)
{
	char text[4096] = "", name[300];
	DIR *d = opendir("/proc/self/fd");
	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[0] != '.' && atoi(e->d_name) != dirfd(d)) {
			snprintf(name, sizeof name, "%s ", e->d_name);
			strcat(text, name);
		}
	return tell(text);
}

static int environment(void)
{
	char text[8192] = "";
	for (char **e = environ; *e; e++) {
		if (!strncmp(*e, "PEPSI_RECEIVED_AT=", 18))
			continue;
		strcat(strcat(text, *e), ";");
	}
	if (strlen(text) > 490)
		text[490] = 0;
	return tell(text);
}

static int limits(void)
{
	char text[200], cwd[100] = "?";
	struct rlimit as, core, cpu, nofile;
	getrlimit(RLIMIT_AS, &as);
	getrlimit(RLIMIT_CORE, &core);
	getrlimit(RLIMIT_CPU, &cpu);
	getrlimit(RLIMIT_NOFILE, &nofile);
	if (!getcwd(cwd, sizeof cwd))
		return 1;
	snprintf(text, sizeof text, "as %llu core %llu cpu %llu files %llu privs %d cwd %s", (unsigned long long)as.rlim_cur,
	    (unsigned long long)core.rlim_cur, (unsigned long long)cpu.rlim_cur, (unsigned long long)nofile.rlim_cur,
	    prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), cwd);
	return tell(text);
}

static int count_input(int line_first)
{
	char text[600], line[400] = "";
	size_t n = 0;
	if (line_first && !fgets(line, sizeof line, stdin))
		return 1;
	line[strcspn(line, "\n")] = 0;
	while (getchar() != EOF)
		n++;
	for (char *p = line; *p; p++)
		if (*p == '"')
			*p = '\'';
	snprintf(text, sizeof text, "%zu octets %s", n, line);
	return tell(text);
}

static int eat_memory(void)
{
	for (size_t n = 0; n < 4096; n++) {
		char *volatile p = malloc(1 << 20); /* volatile: memory that nobody reads need not be had */
		if (!p)
			return tell("no more memory");
		memset(p, 1, 1 << 20);
	}
	return tell("4 GiB");
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	char block[65536];
	signal(SIGTERM, SIG_IGN);
	if (!strcmp(what, "say")) /* the rest of the arguments is the reply */
		return puts(argv[2]) < 0;
	if (!strcmp(what, "fds"))
		return descriptors();
	if (!strcmp(what, "env"))
		return environment();
	if (!strcmp(what, "limits"))
		return limits();
	if (!strcmp(what, "input"))
		return count_input(0);
	if (!strcmp(what, "input-json"))
		return count_input(1);
	if (!strcmp(what, "args"))
		return tell(argc == 4 && !strcmp(argv[2], "a  b") && !strcmp(argv[3], "$HOME;`id`") ? "as given" : "changed");
	if (!strcmp(what, "memory"))
		return eat_memory();
	if (!strcmp(what, "nothing"))
		return 0;
	if (!strcmp(what, "status")) {
		fprintf(stderr, "first\nthe disk is on fire\x1b[31m\n");
		puts("{\"action\":\"accept\"}"); /* does not count */
		return 3;
	}
	if (!strcmp(what, "crash")) {
		raise(SIGSEGV);
		volatile int *nowhere = NULL; /* where it may not even signal itself */
		return *nowhere;
	}
	if (!strcmp(what, "hang"))
		for (;;)
			pause();
	if (!strcmp(what, "spin"))
		for (;;)
			;
	if (!strcmp(what, "closed")) { /* no more output, no end */
		puts("{\"action\":\"accept\"}");
		fflush(stdout);
		close(1);
		close(2);
		for (;;)
			pause();
	}
	if (!strcmp(what, "flood") || !strcmp(what, "flood-errors")) {
		int fd = what[5] ? 2 : 1;
		memset(block, 'x', sizeof block);
		for (;;)
			if (write(fd, block, sizeof block) < 0 && errno != EINTR)
				return 1;
	}
	if (!strcmp(what, "child")) { /* leaves somebody behind who holds the pipes open */
		pid_t pid = fork();
		if (pid == 0) {
			alarm(30);
			for (;;)
				pause();
		}
		puts("{\"action\":\"accept\"}");
		return 0;
	}
	if (!strcmp(what, "clings")) { /* does not want to die with whoever started it */
		prctl(PR_SET_PDEATHSIG, 0);
		alarm(30);
		for (;;)
			pause();
	}
	return 99;
}
