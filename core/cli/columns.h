/* Lists of JSON objects as tables: each tool says its columns, and they are printed here. Nothing is asked or decided here. */
#ifndef CLI_COLUMNS_H
#define CLI_COLUMNS_H

#include "text.h"

#include <json-c/json.h>

enum cli_column_kind {
	COLUMN_END = 0,
	COLUMN_TEXT,
	COLUMN_NUMBER,  /* integer, to the right */
	COLUMN_DAY,     /* seconds since 1970: 2026-11-30, UTC */
	COLUMN_TIME,    /* the same with the time of day; 0 or absent: "-" */
	COLUMN_PASS,    /* boolean: pass, fail */
	COLUMN_FIRST,   /* list of texts: the first, and how many more */
	COLUMN_SENDER,  /* the text, if the object's "verified" is true */
	COLUMN_OWN,     /* what the column's function says; used up before it is called again */
};
struct cli_column {
	const char *head;
	enum cli_column_kind kind;
	const char *key;
	const char *in;    /* the member that holds the object with the key; NULL: the row itself */
	const char *also;  /* FIRST: a second list, behind the first; NUMBER: a number that is taken off */
	size_t max;        /* widest it may be; 0: no limit */
	struct str (*own)(struct json_object *row);
};

/* "2026-11-30", or with the time of day, UTC. */
void cli_time(char *out, size_t size, int64_t at, bool clock);
bool cli_json_yes(struct json_object *o, const char *key);
/* Length of a list; 0 if it is none. */
size_t cli_json_length(struct json_object *list);
/* A member that is a list; NULL: it is none. */
struct json_object *cli_json_list(struct json_object *o, const char *key);

/* columns: at most CLI_COLUMNS_MAX, ended by one with kind COLUMN_END. list: anything but a list counts as an empty one. */
void cli_columns_print(const struct cli_column *columns, struct json_object *list);

#endif
