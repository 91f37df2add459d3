/* Time, in one unit: int64_t microseconds. Monotonic for deadlines, wall clock (Unix epoch) for what is stored and
 * shown. proto/ is given the time and never asks for it. */
#ifndef PEPSI_BASE_CLOCK_H
#define PEPSI_BASE_CLOCK_H

#include <stdint.h>

#define US_PER_S INT64_C(1000000)

int64_t clock_mono_us(void);
int64_t clock_wall_us(void);

#endif
