/* See stage_result.h. The reports of the passes (stage_outcome.h) come one to a line; passes over the same file that came to
 * the same are told to people once. */
#include "stage_result.h"

#include "stage_outcome.h"

#include <inttypes.h>
#include <stdlib.h>

enum { JSON_DEPTH = 256, NUMBERS_MAX = 10 };

static const char *level_name(int32_t level)
{
	static const char *const names[] = { "fault", "error", "warn", "info", "debug", "metric" };
	return names[level + 1];
}

static struct json_object *parse(struct str line)
{
	struct json_tokener *tok = line.n && line.n < INT32_MAX ? json_tokener_new_ex(JSON_DEPTH) : NULL;
	struct json_object *o = tok ? json_tokener_parse_ex(tok, line.p, (int)line.n) : NULL;
	if (tok)
		json_tokener_free(tok);
	if (json_object_is_type(o, json_type_object))
		return o;
	json_object_put(o);
	return NULL;
}

/* What went wrong with the module itself; "" when nothing did. */
static void trouble(const struct trial *t, const struct trial_result *r, char *out, size_t size)
{
	char with[64] = "";
	if (t->n_items > 1)
		snprintf(with, sizeof with, ", message %zu of %zu", r->at + 1, t->n_items);
	out[0] = 0;
	if (r->end == TRIAL_CRASHED)
		snprintf(out, size, "the module crashed in %s() with signal %d (%s)%s", r->during, r->code, strsignal(r->code), with);
	else if (r->end == TRIAL_EXITED)
		snprintf(out, size, "the module ended its process in %s(), exit status %d%s", r->during, r->code, with);
	else if (r->end == TRIAL_LATE)
		snprintf(out, size, "the module was still in %s() after %.1f s and was killed (MAX_RUNTIME)%s", r->during,
		    (double)t->runtime_ms / 1000, with);
	else if (r->end == TRIAL_FAILED)
		snprintf(out, size, "%s", r->why);
	else if (r->end == TRIAL_REFUSED)
		snprintf(out, size, "the module did not get to process(): %s", r->during);
}

static void add_end(struct json_object *o, const struct module_info *info, const struct trial_result *r, const char *wrong)
{
	static const char *const ends[] = { "done", "refused", "crashed", "exited", "late", "failed" };
	struct json_object *log = json_object_new_array();
	json_object_object_add(o, "module", json_object_new_string(info->name));
	json_object_object_add(o, "end", json_object_new_string(ends[r->end]));
	if (wrong[0]) {
		json_object_object_add(o, "during", json_object_new_string(r->during));
		json_object_object_add(o, "error", json_object_new_string(wrong));
	}
	for (size_t i = 0; i < r->n_notes; i++) {
		struct json_object *l = json_object_new_object();
		json_object_object_add(l, "level", json_object_new_string(level_name(r->notes[i].level)));
		json_object_object_add(l, "text", json_object_new_string(r->notes[i].text));
		json_object_array_add(log, l);
	}
	json_object_object_add(o, "log", log);
	json_object_object_add(o, "open_us", json_object_new_int64(r->open_us));
	json_object_object_add(o, "process_us", json_object_new_int64(r->process_us));
}

/* One message: its own members and the others in one object. Several: a list of them. */
static void print_json(struct json_object **passes, size_t n, const struct module_info *info, const struct stage_messages *m,
    const struct trial_result *r, const char *wrong)
{
	struct json_object *o, *list, *clean;
	if (m->n == 1) {
		o = n ? json_object_get(passes[0]) : json_object_new_object();
	} else {
		o = json_object_new_object();
		list = json_object_new_array();
		for (size_t i = 0; i < n; i++) {
			json_object_object_add(passes[i], "message", json_object_new_int64((int64_t)i + 1));
			json_object_object_add(passes[i], "file", json_object_new_string(m->files[i % m->n_files]));
			json_object_array_add(list, json_object_get(passes[i]));
		}
		json_object_object_add(o, "messages", list);
	}
	add_end(o, info, r, wrong);
	clean = stage_outcome_clean(o);
	cli_json_print(clean);
	json_object_put(clean);
	json_object_put(o);
}

static void print_numbers(size_t n, const size_t *same, size_t at)
{
	size_t k = 0;
	for (size_t i = at; i < n; i++)
		if (same[i] == at && k++ < NUMBERS_MAX)
			printf("%s%zu", i == at ? "" : ", ", i + 1);
	if (k > NUMBERS_MAX)
		printf(", ... (%zu alike)", k);
}

/* same[i]: the first pass over the same file with the same report. Quadratic only in the number of different ones. */
static size_t *alike(const struct str *lines, size_t n, size_t n_files)
{
	size_t *same = calloc(n + 1, sizeof *same), *kinds = calloc(n + 1, sizeof *kinds), n_kinds = 0;
	for (size_t i = 0; i < n && same && kinds; i++) {
		size_t k = 0;
		while (k < n_kinds && (kinds[k] % n_files != i % n_files || !str_eq(lines[kinds[k]], lines[i])))
			k++;
		if (k == n_kinds)
			kinds[n_kinds++] = i;
		same[i] = kinds[k];
	}
	if (!kinds) {
		free(same);
		same = NULL;
	}
	free(kinds);
	return same;
}

static void print_passes(struct json_object **passes, const struct str *lines, size_t n, const struct stage_messages *m)
{
	size_t *same = alike(lines, n, m->n_files);
	for (size_t i = 0; i < n && same; i++) {
		if (same[i] != i)
			continue;
		if (m->n > 1) {
			printf("\n%-11s", "message");
			print_numbers(n, same, i);
			fputs(" of ", stdout);
			cli_text_print(stdout, str_from(m->files[i % m->n_files]));
			putchar('\n');
		}
		stage_outcome_print(passes[i], stdout);
	}
	if (!same)
		cli_fail("out of memory");
	if (m->n > 1 && n)
		putchar('\n');
	free(same);
}

static void print_text(struct json_object **passes, const struct str *lines, size_t n, const struct module_info *info,
    const struct stage_messages *m, const struct trial_result *r, const char *wrong)
{
	printf("%-11s", "module");
	cli_text_print(stdout, str_from(info->name));
	putchar(' ');
	cli_text_print(stdout, str_from(info->version ? info->version : "?"));
	printf(", stage ABI %u.%u\n", info->abi_major, info->abi_minor);
	print_passes(passes, lines, n, m);
	if (wrong[0])
		printf("%-11s%s\n", "trouble", wrong);
	for (size_t i = 0; i < r->n_notes; i++) {
		if (r->notes[i].level == TRIAL_NOTE_METRIC)
			printf("%-11s", "metric");
		else
			printf("%-11s%s: ", "log", level_name(r->notes[i].level));
		cli_text_print(stdout, str_from(r->notes[i].text));
		putchar('\n');
	}
	if (r->notes_lost)
		printf("%-11sfurther lines were dropped\n", "log");
	if (r->open_us >= 0)
		printf("%-11sopen %.3f ms", "time", (double)r->open_us / 1000);
	if (r->process_us >= 0)
		printf(", process %.3f ms", (double)r->process_us / 1000);
	if (r->process_us >= 0 && m->n > 1)
		printf(" for %zu messages", n);
	if (r->open_us >= 0)
		putchar('\n');
}

int stage_result_print(const struct cli *c, const struct module_info *info, const struct trial *t, const struct stage_messages *m,
    const struct trial_result *r)
{
	struct str rest = buf_str(&r->report), *lines = calloc(m->n, sizeof *lines);
	struct json_object **passes = calloc(m->n, sizeof *passes);
	char wrong[600];
	size_t n = 0;
	trouble(t, r, wrong, sizeof wrong);
	if (!lines || !passes) {
		free(passes);
		free(lines);
		return cli_fail("out of memory");
	}
	int rc = wrong[0] ? CLI_FAILED : CLI_DONE;
	/* the report is of the module's process: whatever it is, no more than there are messages */
	while (n < m->n && str_word(&rest, "\n", &lines[n]) && (passes[n] = parse(lines[n]))) {
		if (str_eq(cli_json_text(passes[n], "outcome"), STR("misuse")))
			rc = CLI_FAILED;
		n++;
	}
	if (n < m->n && r->end == TRIAL_DONE) {
		snprintf(wrong, sizeof wrong, "the module spoilt the memory of its process: the outcome cannot be read");
		rc = CLI_FAILED;
	}
	if (c->json)
		print_json(passes, n, info, m, r, wrong);
	else
		print_text(passes, lines, n, info, m, r, wrong);
	for (size_t i = 0; i < n; i++)
		json_object_put(passes[i]);
	free(passes);
	free(lines);
	return rc;
}
