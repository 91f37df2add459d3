/* See backoff.h. */
#include "proto/relay/backoff.h"

uint32_t relay_backoff_s(int64_t min, int64_t max, uint64_t attempts, int64_t left, uint64_t seed)
{
	int64_t wait = min < 1 ? 1 : min;
	for (uint64_t i = 0; i < attempts && wait < max; i++)
		wait *= 2;
	if (wait > max)
		wait = max < 1 ? 1 : max;
	/* splitmix64 */
	seed += UINT64_C(0x9e3779b97f4a7c15);
	seed = (seed ^ (seed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	seed = (seed ^ (seed >> 27)) * UINT64_C(0x94d049bb133111eb);
	seed ^= seed >> 31;
	wait = wait - wait / 4 + (int64_t)(seed % (uint64_t)(wait / 2 + 1));
	if (left > 0 && wait > left)
		wait = left;
	return wait < 1 ? 1 : wait > UINT32_MAX ? UINT32_MAX : (uint32_t)wait;
}
