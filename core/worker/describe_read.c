/* From a describe child's records to struct module_info. Pure; believes no count and no text. */
#include "describe.h"

#include <stdlib.h>

bool describe_next(struct str *rest, char *ret_tag, struct str *ret_text)
{
	uint32_t n;
	if (rest->n < 1 + sizeof n)
		return false;
	memcpy(&n, rest->p + 1, sizeof n);
	if (n > rest->n - 1 - sizeof n)
		return false;
	*ret_tag = rest->p[0];
	*ret_text = str_n(rest->p + 1 + sizeof n, n);
	*rest = str_skip(*rest, 1 + sizeof n + n);
	return true;
}

static void set(char **at, struct str s)
{
	free(*at);
	*at = str_dupz(s);
}

static int64_t number(struct str s)
{
	uint64_t n = 0;
	bool minus = s.n && s.p[0] == '-';
	if (str_u64(minus ? str_skip(s, 1) : s, INT64_MAX, &n))
		return 0;
	return minus ? -(int64_t)n : (int64_t)n;
}

/* The texts of struct pepsi_option are const for readers; here they are made, and module_info_free() frees them. */
static void option_text(const char **at, struct str s)
{
	free((void *)(uintptr_t)*at);
	*at = str_dupz(s);
}

static struct pepsi_option *add_option(struct module_info *ret, struct str name)
{
	if (ret->n_options >= MODULE_OPTIONS_MAX)
		return NULL;
	struct pepsi_option *more = realloc(ret->options, (ret->n_options + 1) * sizeof *more);
	if (!more)
		return NULL;
	ret->options = more;
	struct pepsi_option *o = &more[ret->n_options];
	*o = (struct pepsi_option){ .name = str_dupz(name) };
	if (!o->name)
		return NULL;
	ret->n_options++;
	return o;
}

void describe_read(struct str rest, struct module_info *ret)
{
	struct pepsi_option *o = NULL;
	struct str s;
	char tag;
	while (describe_next(&rest, &tag, &s)) {
		switch (tag) {
		case TELL_NAME:
			set(&ret->name, s);
			break;
		case TELL_VERSION:
			set(&ret->version, s);
			break;
		case TELL_LICENSE:
			set(&ret->license, s);
			break;
		case TELL_SUMMARY:
			set(&ret->summary, s);
			break;
		case TELL_MAJOR:
			ret->abi_major = (uint16_t)number(s);
			break;
		case TELL_MINOR:
			ret->abi_minor = (uint16_t)number(s);
			break;
		case TELL_LOAD:
			ret->load_class = (uint32_t)number(s);
			break;
		case TELL_CAPS:
			ret->caps = (uint64_t)number(s);
			break;
		case TELL_ERROR:
			set(&ret->error, s);
			break;
		case TELL_OPTION:
			o = add_option(ret, s);
			if (!o)
				set(&ret->error, STR("too many options, or memory is out"));
			break;
		default:
			if (!o)
				break;
			if (tag == TELL_O_TYPE)
				o->type = (uint32_t)number(s);
			else if (tag == TELL_O_FLAGS)
				o->flags = (uint32_t)number(s);
			else if (tag == TELL_O_MIN)
				o->min = number(s);
			else if (tag == TELL_O_MAX)
				o->max = number(s);
			else if (tag == TELL_O_DEFAULT)
				option_text(&o->def, s);
			else if (tag == TELL_O_CHOICES)
				option_text(&o->choices, s);
			else if (tag == TELL_O_HELP)
				option_text(&o->help, s);
		}
	}
}
