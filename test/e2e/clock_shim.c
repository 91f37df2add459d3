/* Loaded before everything else (LD_PRELOAD) by tests that set the clock: what a process is told of the time is shifted by the seconds
 * in the file that PEPSI_CLOCK_SHIFT names, which the test changes while the process runs: int64_t of the wall clock, int64_t of
 * the monotonic one. Without the file nothing is shifted. Not a clock for anything but tests: it does not shift files' times. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t none[2];
static const volatile int64_t *shift = none;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("PEPSI_CLOCK_SHIFT");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *p = fd >= 0 ? mmap(NULL, 2 * sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
	if (p != MAP_FAILED)
		shift = p;
	if (fd >= 0)
		close(fd);
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *ts)
{
	if (syscall(SYS_clock_gettime, id, ts))
		return -1;
	if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
		ts->tv_sec += shift[0];
	else if (id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE || id == CLOCK_MONOTONIC_RAW || id == CLOCK_BOOTTIME)
		ts->tv_sec += shift[1];
	return 0;
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	struct timespec ts;
	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &ts))
		return -1;
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

__attribute__((visibility("default"))) time_t time(time_t *ret)
{
	struct timespec ts = { 0 };
	clock_gettime(CLOCK_REALTIME, &ts);
	if (ret)
		*ret = ts.tv_sec;
	return ts.tv_sec;
}
