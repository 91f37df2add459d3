/* The index of a header block: fields by name, so that h= with many names over many fields costs n log n, not n times m. */
#include "dkim_internal.h"

#include "proto/mail/header.h"

#include <stdlib.h>

/* Order without case; any total order does. */
static int compare_names(struct str a, struct str b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	for (size_t i = 0; i < n; i++) {
		char x = ascii_lower(a.p[i]), y = ascii_lower(b.p[i]);
		if (x != y)
			return x < y ? -1 : 1;
	}
	return a.n < b.n ? -1 : a.n > b.n;
}

static int by_name(const void *pa, const void *pb, void *arg)
{
	uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
	const struct dkim_field *field = arg;
	int r = compare_names(field[a].name, field[b].name);
	return r ? r : a > b ? -1 : 1;
}

static size_t count_fields(struct str headers)
{
	struct mail_field one;
	size_t n = 0;
	int r;
	while (n <= DKIM_FIELDS_MAX && (r = mail_field_next(&headers, &one)))
		n += r == 1;
	return n;
}

int dkim_fields_index(struct dkim_fields *f, struct arena *a, struct str headers)
{
	*f = (struct dkim_fields){ .left = DKIM_HASHED_MAX };
	size_t n = headers.n > DKIM_HEADERS_MAX ? 0 : count_fields(headers);
	if (headers.n > DKIM_HEADERS_MAX || n > DKIM_FIELDS_MAX) {
		f->too_many = true;
		return 0;
	}
	if (!n)
		return 0;
	f->field = arena_calloc(a, n, sizeof *f->field);
	f->order = arena_calloc(a, n, sizeof *f->order);
	f->group = arena_calloc(a, n, sizeof *f->group);
	if (!f->field || !f->order || !f->group)
		return -1;
	struct mail_field one;
	int r;
	while (f->n < n && (r = mail_field_next(&headers, &one)))
		if (r == 1) {
			f->order[f->n] = (uint32_t)f->n;
			f->field[f->n++] = (struct dkim_field){ one.name, one.value, one.all };
		}
	qsort_r(f->order, f->n, sizeof *f->order, by_name, f->field);
	for (uint32_t i = 0; i < f->n; i++) {
		struct str name = f->field[f->order[i]].name;
		if (!f->n_groups || !str_ieq(f->group[f->n_groups - 1].name, name))
			f->group[f->n_groups++] = (struct dkim_group){ .name = name, .begin = i };
		f->group[f->n_groups - 1].end = i + 1;
	}
	return 0;
}

void dkim_fields_begin(struct dkim_fields *f)
{
	f->round++;
}

static struct dkim_group *group_of(const struct dkim_fields *f, struct str name)
{
	size_t low = 0, high = f->n_groups;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int r = compare_names(f->group[mid].name, name);
		if (!r)
			return &f->group[mid];
		if (r < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

const struct dkim_field *dkim_fields_next(struct dkim_fields *f, struct str name, size_t own)
{
	struct dkim_group *g = group_of(f, name);
	if (!g)
		return NULL;
	if (g->round != f->round) {
		g->round = f->round;
		g->next = g->begin;
	}
	if (g->next < g->end && f->order[g->next] == own)
		g->next++;
	return g->next < g->end ? &f->field[f->order[g->next++]] : NULL;
}

size_t dkim_fields_count(const struct dkim_fields *f, struct str name)
{
	const struct dkim_group *g = group_of(f, name);
	return g ? g->end - g->begin : 0;
}
