/* Shared by shape.c and shape_find.c. */
#ifndef PROTO_RELAY_SHAPE_INTERNAL_H
#define PROTO_RELAY_SHAPE_INTERNAL_H

#include "proto/relay/pattern.h"
#include "proto/relay/shape.h"

enum { SHAPE_OPTION_MAX = 31 };

struct shape_rule {
	char option[SHAPE_OPTION_MAX + 1];
	uint32_t number;
	struct patterns patterns;
	struct shape shape;
};
struct shapes {
	struct shape_rule *rule[SHAPE_RULES_MAX]; /* by number */
	size_t n;
};
extern const struct shape shape_of_lookups;

#endif
