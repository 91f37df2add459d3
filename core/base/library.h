/* Libraries loaded at run time, by the one process that needs them: their functions into variables. */
#ifndef PEPSI_BASE_LIBRARY_H
#define PEPSI_BASE_LIBRARY_H

#include <stddef.h>

struct library_symbol {
	const char *name;
	void *to; /* address of a pointer to a function */
};
/* 0; -1: it cannot be loaded, ret_why says why; 1: it lacks a function, ret_why is that one's name. ret_why lives until the next call. */
int library_bind(const char *file, const struct library_symbol *of, size_t n, const char **ret_why);
/* The same for who cannot do without: 0, or -1, and the log says what is missing, and in which package it is. */
int library_need(const char *event, const char *file, const char *package, const struct library_symbol *of, size_t n);

#endif
