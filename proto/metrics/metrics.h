/* Metrics of a stage: what its module counts, in names that it chose. The same set stands at both ends: in the worker the module adds to it,
 * and what changed is told as lines; in the reactor the lines of all workers are added up, and shown.
 *
 *     worker     m = metrics_define(&set, METRICS_COUNTER, "deliveries", "result", "What became of messages.")
 *                metrics_measure(m, "delivered", 1)
 *     line       4 5:relay c deliveries result delivered 1
 *     reactor    metrics_line_get(text, &line); metrics_apply(&set_of_relay, &line)
 *     /metrics   pepsi_module_deliveries_total{stage="relay",result="delivered"} 1
 *
 * Kinds: a counter only grows; what a worker tells is what came to it since the last time. A gauge is a level: each worker has one, and the stage's is
 * the sum over the workers that live. A timing is a histogram of microseconds with fixed bounds.
 *
 * The reading side believes nothing: names and values are held against the grammar, numbers saturate, and what is beyond a limit goes to the series
 * "other" or is refused. Pure. */
#ifndef PROTO_METRICS_METRICS_H
#define PROTO_METRICS_METRICS_H

#include "base/buf.h"

enum {
	METRICS_NAME_MAX = 40,
	METRICS_LABEL_MAX = 20,
	METRICS_VALUE_MAX = 48,
	METRICS_HELP_MAX = 120,
	METRICS_STAGE_MAX = 100,   /* octets of a stage's name; worker/pass.h has the same */
	METRICS_MAX = 64,          /* metrics of a stage */
	METRICS_WEIGHT_MAX = 256,  /* series of a stage; one of a timing weighs METRICS_WEIGHT_TIMING */
	METRICS_WEIGHT_TIMING = 4,
	METRICS_BOUNDS = 12,
	METRICS_LINE_MAX = 700,    /* a line with its end */
};

enum metrics_kind { METRICS_COUNTER = 1, METRICS_GAUGE, METRICS_TIMING };

/* Upper bounds of a timing's buckets, microseconds; one more bucket is behind the last. */
extern const int64_t metrics_bounds[METRICS_BOUNDS];

struct metrics_set;

struct metrics_series {
	struct metrics_series *next;
	char value[METRICS_VALUE_MAX + 1]; /* of the label; empty: the metric has none */
	uint64_t n;                        /* counter: the sum. Timing: how many */
	int64_t level;                     /* gauge */
	uint64_t us;                       /* timing: the sum */
	uint64_t in[METRICS_BOUNDS + 1];   /* timing: how many were within this bound and beyond the one before */
	bool changed, telling;
};

struct metrics_metric {
	struct metrics_metric *next;
	struct metrics_set *set;
	enum metrics_kind kind;
	char name[METRICS_NAME_MAX + 1], label[METRICS_LABEL_MAX + 1], help[METRICS_HELP_MAX + 1];
	struct metrics_series *first, *last, *other;
	bool untold, telling;
};

/* All zero: empty. It must stay where it is. */
struct metrics_set {
	struct metrics_metric *first, *last;
	unsigned n, weight;
	unsigned weight_max; /* 0: METRICS_WEIGHT_MAX */
	bool changed;        /* there may be something to tell */
};
void metrics_set_done(struct metrics_set *s);

/* [a-z_], beginning with a letter, 2 to METRICS_NAME_MAX octets, without the endings that kinds are shown with (_total, _seconds, _bucket, _sum, _count). */
bool metrics_name_ok(struct str name);
/* [a-z_], beginning with a letter, up to METRICS_LABEL_MAX octets; not one of those that are set elsewhere (stage, le, quantile, job, instance). */
bool metrics_label_ok(struct str label);
/* One line of printable ASCII without quotes and backslashes. */
bool metrics_help_ok(struct str help);
/* What stands for a value: cut to METRICS_VALUE_MAX, every octet but [A-Za-z0-9_.:/@+-] an underscore; "none" for an empty one. */
void metrics_value_clean(const char *value, char out[METRICS_VALUE_MAX + 1]);

/* Finds or makes a metric; the same name with another kind or label is another metric. label empty: it has none. help may be empty. NULL: a name,
 * label or help that is not allowed, too many metrics, or memory. */
struct metrics_metric *metrics_define(struct metrics_set *s, enum metrics_kind kind, struct str name, struct str label, struct str help);
/* The series of a value (cleaned already; "" for a metric without a label), or "other" when there are too many. NULL: memory. */
struct metrics_series *metrics_series(struct metrics_metric *m, const char *value);
/* Counter: n (not negative) more. Gauge: it is n now. Timing: something took n microseconds (not negative). value is cleaned; of a metric without a label it is
 * ignored. 0, or -1: n is negative, or memory. */
int metrics_measure(struct metrics_metric *m, const char *value, int64_t n);

/* --- lines */

struct metrics_line {
	struct str stage, name, label, value; /* label and value empty: it has none */
	enum metrics_kind kind;
	bool definition;                      /* help and nothing else */
	struct str help;
	int64_t n;                            /* counter, gauge */
	uint64_t us, in[METRICS_BOUNDS + 1];  /* timing */
};

/* Reads the text of a line (wire_status.json of a WIRE_METRIC). 0; -1: it is none, or a limit is exceeded. Strings point into text. */
int metrics_line_get(struct str text, struct metrics_line *ret);
/* Appends "4 …\n". 0, or -1: a limit; nothing was appended. */
int metrics_line_put(struct buf *out, const struct metrics_line *line);
/* The stage of a report (wire_status.json of a WIRE_REPORT), and the rest: the JSON text. 0 or -1. */
int metrics_report_get(struct str text, struct str *ret_stage, struct str *ret_json);
int metrics_report_put(struct buf *out, struct str stage, struct str json);

/* What one worker may tell: so many octets a second, and so many at once, which is what it could have told while the reader stood still for eight
 * seconds. A worker of ours says half of it at most; one that says more is out of its mind. */
enum { METRICS_OCTETS_S = 512 * 1024, METRICS_OCTETS_MAX = 4 << 20 };
struct metrics_budget { /* all zero: full */
	int64_t octets, at;
};
/* Takes so many octets off; now: monotonic, microseconds, above 0. false: that is too much. */
bool metrics_afford(struct metrics_budget *b, size_t octets, int64_t now);

/* Tells what has changed, as far as it fits into `room` octets of out. true: there is more. What was told is forgotten by metrics_told(sent true). */
bool metrics_tell(struct metrics_set *s, struct str stage, struct buf *out, size_t room);
void metrics_told(struct metrics_set *s, bool sent);
/* Adds what a line says; of a gauge the level replaces the one before. 0, or -1: refused (metrics_define()), or memory. */
int metrics_apply(struct metrics_set *s, const struct metrics_line *line);
/* All gauges to nothing; and the sum with another set's, whose metrics this one gets, too. */
void metrics_level_zero(struct metrics_set *s);
void metrics_level_add(struct metrics_set *s, const struct metrics_set *of);

/* --- what people see */

struct metrics_stage {
	struct str name;
	const struct metrics_set *set;
};
/* Prometheus lines of all stages, each name under one head. At most max octets, and whole names only: returns how many names were left out. */
unsigned metrics_show(const struct metrics_stage *stages, size_t n, struct buf *out, size_t max);
/* [{"name":"deliveries","kind":"counter","label":"result","values":{"delivered":12}},{"name":"open","kind":"gauge","value":3},…]; of timings a value is
 * {"count":3,"seconds":0.5}. */
void metrics_json(const struct metrics_set *s, struct buf *out);

#endif
