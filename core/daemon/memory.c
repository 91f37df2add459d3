/* When free memory goes back to the kernel (memory.h): the rule, and the two system interfaces it goes by. */
#include "memory.h"

#include "base/clock.h"
#include "base/log.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

void memory_open(struct memory *m)
{
	*m = (struct memory){ .statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC) };
}

void memory_close(struct memory *m)
{
	if (m->statm >= 0)
		close(m->statm);
	m->statm = -1;
}

/* What is free beyond what may stay. */
static size_t too_much(size_t resident, size_t in_use)
{
	size_t keep = in_use / 8 > MEMORY_KEEP ? in_use / 8 : MEMORY_KEEP;
	return resident > in_use && resident - in_use > keep ? resident - in_use - keep : 0;
}

bool memory_rule(struct memory *m, size_t resident, size_t in_use)
{
	size_t least = too_much(resident, in_use);
	m->resident = resident;
	m->in_use = in_use;
	m->excess[m->at++ % MEMORY_LOOKS] = least;
	for (unsigned i = 0; i < MEMORY_LOOKS; i++)
		if (m->excess[i] < least)
			least = m->excess[i];
	if (!least || (least > m->floor && least - m->floor > MEMORY_KEEP)) /* or more than what could not be had before */
		m->pause = m->left = 0;
	if (!least || m->left) {
		m->left -= m->left > 0;
		return false;
	}
	return true;
}

void memory_rule_done(struct memory *m, size_t resident, size_t in_use)
{
	if (m->resident > resident)
		m->returned += m->resident - resident;
	m->returns++;
	m->resident = resident;
	m->in_use = in_use;
	m->floor = too_much(resident, in_use);
	for (unsigned i = 0; i < MEMORY_LOOKS; i++)
		m->excess[i] = m->floor;
	if (!m->floor)
		m->pause = 0;
	else if (!m->pause)
		m->pause = MEMORY_LOOKS;
	else
		m->pause = m->pause * 2 < MEMORY_PAUSE_MAX ? m->pause * 2 : MEMORY_PAUSE_MAX;
	m->left = m->pause;
}

/* Both at one moment. */
static void measure(const struct memory *m, size_t *ret_resident, size_t *ret_in_use)
{
	char text[128];
	struct mallinfo2 mi = mallinfo2();
	ssize_t n = m->statm >= 0 ? pread(m->statm, text, sizeof text - 1, 0) : -1;
	*ret_in_use = mi.uordblks + mi.hblkhd;
	*ret_resident = mi.arena + mi.hblkhd;
	if (n > 0) { /* size resident shared …, in pages (proc(5)) */
		char *p;
		text[n] = 0;
		strtoull(text, &p, 10);
		unsigned long long resident = strtoull(p, &p, 10), shared = strtoull(p, NULL, 10);
		*ret_resident = (size_t)(resident > shared ? resident - shared : 0) * (size_t)sysconf(_SC_PAGESIZE);
	}
}

void memory_look(struct memory *m)
{
	size_t resident, in_use;
	measure(m, &resident, &in_use);
	if (!memory_rule(m, resident, in_use))
		return;
	int64_t began = clock_mono_us();
	malloc_trim(0);
	int64_t us = clock_mono_us() - began;
	size_t before = resident;
	measure(m, &resident, &in_use);
	memory_rule_done(m, resident, in_use);
	m->us += (uint64_t)us;
	log_debug(NULL, "event=memory-returned octets=%zu resident=%zu in_use=%zu us=%lld", before > resident ? before - resident : 0, resident, in_use,
	    (long long)us);
}

void memory_metrics(const struct memory *m, struct buf *out)
{
	buf_addf(out,
	    "# HELP pepsi_reactor_resident_bytes Anonymous memory of the reactor in RAM\n"
	    "# TYPE pepsi_reactor_resident_bytes gauge\npepsi_reactor_resident_bytes %zu\n"
	    "# HELP pepsi_reactor_allocated_bytes What of it is in use\n"
	    "# TYPE pepsi_reactor_allocated_bytes gauge\npepsi_reactor_allocated_bytes %zu\n"
	    "# HELP pepsi_reactor_returned_bytes_total Free memory handed back to the kernel\n"
	    "# TYPE pepsi_reactor_returned_bytes_total counter\npepsi_reactor_returned_bytes_total %llu\n"
	    "# HELP pepsi_reactor_returning_seconds_total Time that this took\n"
	    "# TYPE pepsi_reactor_returning_seconds_total counter\npepsi_reactor_returning_seconds_total %g\n",
	    m->resident, m->in_use, (unsigned long long)m->returned, (double)m->us / 1e6);
}
