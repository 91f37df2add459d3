/* See page.h. The handler calls nothing but what signal-safety(7) allows, backtrace() after it was tried once, and
 * backtrace_symbols_fd(); it writes into the page itself, so there is no pipe that could be full. */
#include "page.h"

#include "proto/wire/page.h"
#include "store/worker.h"

#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct wire_page *page;
static int page_fd = -1;
static bool to_stderr;
static const struct worker_env *shown; /* whose names stand in the page */

#ifndef PEPSI_SANITIZED
enum { STACK = 64 * 1024 };

static void say(const char *z)
{
	ssize_t w = write(STDERR_FILENO, z, strlen(z));
	(void)w;
}

static void on_crash(int sig)
{
	void *frames[WIRE_PAGE_FRAMES];
	if (page && !page->signal) {
		page->signal = sig;
		int n = backtrace(frames, WIRE_PAGE_FRAMES);
		if (lseek(page_fd, WIRE_PAGE_TRACE, SEEK_SET) == WIRE_PAGE_TRACE)
			backtrace_symbols_fd(frames, n, page_fd); /* some forty octets a line and two paths: it fits, and the end is sealed */
		if (to_stderr) {
			say("event=crash stage=");
			say(page->stage);
			say(" program=");
			say(page->module);
			say(" version=");
			say(page->version);
			say("\n");
			backtrace_symbols_fd(frames, n, STDERR_FILENO);
		}
	}
	raise(sig); /* the default action is back (SA_RESETHAND), and nothing is blocked (SA_NODEFER) */
}

static void install(void)
{
	static const int fatal[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP };
	void *frames[2];
	backtrace(frames, 2); /* loads what it needs, which is no work for a handler */
	stack_t st = { .ss_sp = malloc(STACK), .ss_size = STACK }; /* a stack that has run over is no place for a handler */
	if (!st.ss_sp || sigaltstack(&st, NULL))
		free(st.ss_sp);
	struct sigaction sa = { .sa_handler = on_crash, .sa_flags = SA_ONSTACK | SA_RESETHAND | SA_NODEFER };
	for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
		sigaction(fatal[i], &sa, NULL);
}
#else
static void install(void)
{
}
#endif

int page_open(bool by_hand)
{
	int fd = memfd_create("pepsi-worker", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -1;
	/* Nobody may cut it, or the dispatcher's next look at it would be its last. */
	void *p = MAP_FAILED;
	if (ftruncate(fd, WIRE_PAGE_SIZE) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ||
	    (p = mmap(NULL, WIRE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED) {
		close(fd);
		return -1;
	}
	page = p;
	page->magic = WIRE_PAGE_MAGIC;
	page_fd = fd;
	to_stderr = by_hand;
	install();
	return fd;
}

void page_hop(int64_t id, uint32_t hop, const struct worker_env *env, int64_t now_us)
{
	if (!page)
		return;
	const struct pepsi_stage *s = &env->mod->stage;
	wire_page_hop(page, id, hop, now_us, env == shown ? NULL : env->stage, s->name, s->version);
	shown = env;
}

bool page_avoids(const char *stage)
{
	return page && wire_page_avoids(page, stage);
}

void page_idle(void)
{
	if (page)
		wire_page_hop(page, 0, 0, 0, NULL, NULL, NULL);
}

void page_counts(const struct store_worker_counts *n)
{
	if (!page)
		return;
	page->selects = n->selects;
	page->writes = n->writes;
	page->trips = n->trips;
	page->retries = n->retries;
	page->put_off = n->put_off;
}
