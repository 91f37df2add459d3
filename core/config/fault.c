/* The list of findings. Grows to a limit, then keeps one more that says so; a finding that could not be stored for
 * want of memory still counts, so that a configuration nobody looked at whole is never taken for a good one. */
#include "config_internal.h"

#include <stdio.h>
#include <stdlib.h>

struct config_faults {
	struct config_fault *f;
	size_t n, cap, n_errors;
	bool full;
};

static const struct config_fault too_many = { "", 0, false, "there are more findings than can be shown" };

struct config_faults *config_faults_new(void)
{
	return calloc(1, sizeof(struct config_faults));
}

void config_faults_free(struct config_faults *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->n; i++) {
		free((char *)(uintptr_t)f->f[i].file);
		free((char *)(uintptr_t)f->f[i].text);
	}
	free(f->f);
	free(f);
}

static int room(struct config_faults *f)
{
	if (f->n >= CONFIG_FAULTS_MAX)
		return -1;
	if (f->n < f->cap)
		return 0;
	size_t cap = f->cap ? f->cap * 2 : 16;
	struct config_fault *p = realloc(f->f, cap * sizeof *p);
	if (!p)
		return -1;
	f->f = p;
	f->cap = cap;
	return 0;
}

void config_fault_add(struct config_faults *f, const char *file, unsigned line, bool warning, const char *fmt, ...)
{
	char *copy = NULL, *text = NULL;
	va_list ap;
	if (!f)
		return;
	va_start(ap, fmt);
	if (f->full || room(f) || !(copy = str_dupz(str_from(file))) || vasprintf(&text, fmt, ap) < 0) {
		f->full = true;
		free(copy);
	} else {
		f->f[f->n++] = (struct config_fault){ copy, line, warning, text };
		f->n_errors += !warning;
	}
	va_end(ap);
}

size_t config_faults_n(const struct config_faults *f, bool warnings_too)
{
	if (!f)
		return 0;
	return (warnings_too ? f->n : f->n_errors) + f->full;
}

const struct config_fault *config_faults_at(const struct config_faults *f, size_t i)
{
	if (!f || i >= f->n + f->full)
		return NULL;
	return i == f->n ? &too_many : &f->f[i];
}

void config_fault_print(const struct config_fault *fault, struct buf *out)
{
	if (fault->file[0]) {
		buf_addz(out, fault->file);
		if (fault->line)
			buf_addf(out, ":%u", fault->line);
		buf_addz(out, ": ");
	}
	if (fault->warning)
		buf_addz(out, "warning: ");
	buf_addz(out, fault->text);
	buf_addc(out, '\n');
}
