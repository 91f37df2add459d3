/* Makes pepsi.conf(5) out of pepsi.conf.5.in: prints it with @OPTIONS@ replaced by one entry for each option of the tables
 * and @VERSION@ by the version. Runs at build time, is not installed. Usage: conf_reference FILE.in VERSION */
#include "config/schema.h"

#include <stdio.h>
#include <string.h>

/* Text for roff: backslashes and hyphens escaped, no control character at the start of a line. */
static void put(const char *z)
{
	for (; *z; z++) {
		if (*z == '\\')
			fputs("\\e", stdout);
		else if (*z == '-')
			fputs("\\-", stdout);
		else
			putchar(*z);
	}
}

static const char *kind(const struct pepsi_option *o)
{
	static const char *const names[] = { "text", "number", "boolean", "duration", "size", "choice", "path", "stage", "list",
		"secret text", "text" };
	if (o->flags & SCHEMA_F_NETWORKS)
		return "list of networks";
	if (o->flags & SCHEMA_F_DOMAINS)
		return "list of domains";
	if (o->flags & SCHEMA_F_US)
		return "duration, also ms and us";
	return o->type < sizeof names / sizeof *names ? names[o->type] : "text";
}

static void put_amount(const struct pepsi_option *o, int64_t v)
{
	static const struct {
		const char *name;
		int64_t factor;
	} size[] = { { " TiB", INT64_C(1) << 40 }, { " GiB", 1 << 30 }, { " MiB", 1 << 20 }, { " KiB", 1 << 10 }, { " B", 1 } },
	  time[] = { { " d", 86400 }, { " h", 3600 }, { " min", 60 }, { " s", 1 } };
	const char *unit = "";
	if (o->type == PEPSI_OPT_DURATION && o->flags & SCHEMA_F_US && v) {
		if (v % 1000000) {
			v /= 1000;
			unit = " ms";
		} else {
			v /= 1000000;
			unit = " s";
		}
	} else if (o->type == PEPSI_OPT_DURATION && v) {
		size_t i = 0;
		while (v % time[i].factor)
			i++;
		v /= time[i].factor;
		unit = time[i].name;
	} else if (o->type == PEPSI_OPT_SIZE && v) {
		size_t i = 0;
		while (v % size[i].factor)
			i++;
		v /= size[i].factor;
		unit = size[i].name;
	}
	printf("%lld%s", (long long)v, unit);
}

static void put_option(const struct pepsi_option *o)
{
	printf(".TP\n.B ");
	put(o->name);
	printf("\n(%s", kind(o));
	if (o->flags & PEPSI_OPTF_REQUIRED)
		printf(", required");
	if (o->flags & SCHEMA_F_REPEAT)
		printf(", may stand several times");
	if (o->def) {
		printf(", default ");
		put(o->def);
	}
	if (o->min || o->max) {
		printf(", ");
		put_amount(o, o->min);
		printf(" to ");
		put_amount(o, o->max);
	}
	printf(")\n.br\n");
	if (o->flags & SCHEMA_F_NO_EFFECT)
		printf(".I No effect yet.\n");
	/* a sentence in a page, a phrase in a table */
	put((const char[]){ (char)(o->help[0] >= 'a' && o->help[0] <= 'z' ? o->help[0] & ~0x20 : o->help[0]), 0 });
	put(o->help + 1);
	printf(".\n");
	if (o->choices && (!o->def || strcmp(o->choices, o->def) != 0)) {
		printf("One%s of: ", o->type == PEPSI_OPT_LIST ? " or more" : "");
		put(o->choices);
		printf(".\n");
	}
}

static void put_sections(void)
{
	size_t n;
	const struct schema_section *s = schema_sections(&n);
	for (size_t i = 0; i < n; i++) {
		const char *star = strchr(s[i].name, '*');
		printf(".SS [");
		for (const char *p = s[i].name; *p && p != star; p++)
			put((const char[]){ *p, 0 });
		printf("%s]\n", star ? "\\fIname\\fP" : "");
		put(s[i].help);
		printf("\n");
		for (size_t j = 0; j < s[i].n_options; j++)
			put_option(&s[i].options[j]);
	}
}

int main(int argc, char **argv)
{
	char line[4096];
	unsigned found = 0;
	FILE *f = argc == 3 ? fopen(argv[1], "r") : NULL;
	if (!f) {
		fprintf(stderr, "usage: conf_reference FILE.in VERSION\n");
		return 2;
	}
	while (fgets(line, sizeof line, f)) {
		char *at = strstr(line, "@VERSION@");
		if (strcmp(line, "@OPTIONS@\n") == 0) {
			put_sections();
			found++;
		} else if (at) {
			printf("%.*s%s%s", (int)(at - line), line, argv[2], at + strlen("@VERSION@"));
		} else {
			fputs(line, stdout);
		}
	}
	fclose(f);
	if (found != 1 || fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "conf_reference: @OPTIONS@ must stand once in %s\n", argv[1]);
		return 1;
	}
	return 0;
}
