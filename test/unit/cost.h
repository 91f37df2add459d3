/* What an engine costs on input made to be dear: twice the input, less than 2.5 times the work. For test programs on cmocka, included after it.
 * Times are of this process's CPU, the best of several; a loaded machine is no fault, so a figure that is too high is taken anew. What is done within
 * a millisecond is left alone. */
#ifndef TEST_UNIT_COST_H
#define TEST_UNIT_COST_H

#include "base/buf.h"
#include "base/str.h"

#include <limits.h>
#include <malloc.h>
#include <time.h>

enum { COST_ATTEMPTS = 6, COST_TRIES = 3 };

struct cost {
	const char *name;
	void (*make)(struct buf *out, size_t n); /* input of size n, in whatever unit */
	const char *unit;                        /* make is NULL: n octets of repetitions of this */
	size_t most;                             /* the larger n; just within the engine's limits, where it has any */
};
typedef void cost_run_fn(struct str input);

/* CPU seconds of one run, the best of `tries`. */
static inline double cost_of(const struct cost *c, cost_run_fn *run, size_t n, unsigned tries)
{
	struct buf b = BUF_INIT((size_t)256 << 20);
	double best = 1e9;
	if (c->make)
		c->make(&b, n);
	else
		while (b.n < n && !buf_addz(&b, c->unit))
			;
	assert_false(b.failed);
	for (unsigned k = 0; k < tries; k++) {
		struct timespec t0, t1;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
		run(buf_str(&b));
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
		double s = (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) / 1e9;
		best = s < best ? s : best;
	}
	buf_free(&b);
	return best;
}

/* Fails the test where one of the n costs grows faster than its input. */
static inline void cost_linear(const struct cost *c, size_t n, cost_run_fn *run)
{
	/* the engine's work is asked for, not what the system takes for pages given back and taken anew */
	mallopt(M_MMAP_MAX, 0);
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
	for (size_t i = 0; i < n; i++) {
		bool fine = false;
		for (int attempt = 0; attempt < COST_ATTEMPTS && !fine; attempt++) {
			double one = cost_of(&c[i], run, c[i].most / 2, COST_TRIES), two = cost_of(&c[i], run, c[i].most, COST_TRIES);
			fine = two < 0.001 || two < 2.5 * one;
			if (!fine)
				print_message("%zu (%s): %.6f s, then %.6f s\n", i, c[i].name ? c[i].name : c[i].unit, one, two);
		}
		assert_true(fine);
	}
}

#endif
