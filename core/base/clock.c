/* The two clocks. */
#include "clock.h"

#include <time.h>

static int64_t now(clockid_t which)
{
	struct timespec t;
	clock_gettime(which, &t);
	return (int64_t)t.tv_sec * US_PER_S + t.tv_nsec / 1000;
}

int64_t clock_mono_us(void)
{
	return now(CLOCK_MONOTONIC);
}

int64_t clock_wall_us(void)
{
	return now(CLOCK_REALTIME);
}
