/* The tables of columns.h. */
#include "cli_internal.h"
#include "columns.h"

#include <time.h>

void cli_time(char *out, size_t size, int64_t at, bool clock)
{
	time_t t = (time_t)at;
	struct tm tm;
	if (!gmtime_r(&t, &tm) || !(clock ? strftime(out, size, "%Y-%m-%d %H:%M", &tm) : strftime(out, size, "%Y-%m-%d", &tm)))
		snprintf(out, size, "?");
}

bool cli_json_yes(struct json_object *o, const char *key)
{
	struct json_object *v = NULL;
	return json_object_object_get_ex(o, key, &v) && json_object_get_boolean(v);
}

size_t cli_json_length(struct json_object *list)
{
	return json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
}

struct json_object *cli_json_list(struct json_object *o, const char *key)
{
	struct json_object *list = NULL;
	return json_object_object_get_ex(o, key, &list) && json_object_is_type(list, json_type_array) ? list : NULL;
}

static void first_of(struct cli_table *t, struct json_object *a, struct json_object *b)
{
	size_t n = cli_json_length(a) + cli_json_length(b);
	const char *first = n ? json_object_get_string(json_object_array_get_idx(cli_json_length(a) ? a : b, 0)) : NULL;
	if (n > 1)
		cli_table_cellf(t, "%s +%zu", first ? first : "", n - 1);
	else
		cli_table_cell(t, str_from(first ? first : ""));
}

static void cell(struct cli_table *t, const struct cli_column *c, struct json_object *row)
{
	struct json_object *o = row;
	char text[32];
	if (c->in)
		json_object_object_get_ex(row, c->in, &o);
	int64_t number = c->kind == COLUMN_NUMBER || c->kind == COLUMN_DAY || c->kind == COLUMN_TIME ? cli_json_int(o, c->key) : 0;
	switch (c->kind) {
	case COLUMN_NUMBER:
		cli_table_cellf(t, "%lld", (long long)(number - (c->also ? cli_json_int(o, c->also) : 0)));
		return;
	case COLUMN_DAY:
	case COLUMN_TIME:
		cli_time(text, sizeof text, number, c->kind == COLUMN_TIME);
		cli_table_cell(t, number ? str_from(text) : STR("-"));
		return;
	case COLUMN_PASS:
		cli_table_cell(t, cli_json_yes(o, c->key) ? STR("pass") : STR("fail"));
		return;
	case COLUMN_FIRST:
		first_of(t, cli_json_list(o, c->key), c->also ? cli_json_list(o, c->also) : NULL);
		return;
	case COLUMN_SENDER:
		cli_table_cell(t, cli_json_yes(row, "verified") ? cli_json_text(o, c->key) : STR("not verified"));
		return;
	case COLUMN_OWN:
		cli_table_cell(t, c->own(row));
		return;
	case COLUMN_TEXT:
	case COLUMN_END:
		break;
	}
	cli_table_cell(t, cli_json_text(o, c->key));
}

void cli_columns_print(const struct cli_column *columns, struct json_object *list)
{
	struct cli_table t = { .n = 0 };
	for (; t.n < CLI_COLUMNS_MAX && columns[t.n].kind != COLUMN_END; t.n++) {
		t.heads[t.n] = columns[t.n].head;
		t.max[t.n] = columns[t.n].max;
		t.right[t.n] = columns[t.n].kind == COLUMN_NUMBER;
	}
	for (size_t i = 0; i < cli_json_length(list); i++)
		for (size_t k = 0; k < t.n; k++)
			cell(&t, &columns[k], json_object_array_get_idx(list, i));
	cli_table_print(&t, stdout);
}
