/* Lines of a worker about what its module counts: read and written back unchanged, or refused; and whatever was read can be added up and shown within
 * the limits of a set. */
#include "proto/metrics/metrics.h"
#include "proto/wire/wire.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_shown(const struct metrics_set *set)
{
	struct metrics_stage s = { STR("here"), set };
	struct buf out = BUF_INIT(1 << 20), json = BUF_INIT(1 << 20);
	unsigned left_out = metrics_show(&s, 1, &out, 64 * 1024);
	metrics_json(set, &json);
	if (out.failed || json.failed || out.n > 64 * 1024 || set->n > METRICS_MAX || set->weight > METRICS_WEIGHT_MAX || left_out > set->n)
		abort();
	buf_free(&out);
	buf_free(&json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf in = BUF_INIT(size + 1), again = BUF_INIT(size + METRICS_LINE_MAX);
	struct metrics_set set = { .n = 0 };
	struct wire_status st;
	size_t pos = 0;
	buf_add(&in, data, size);
	for (size_t from = 0; wire_status_get(&in, &pos, &st) == 1; from = pos) {
		struct metrics_line line;
		struct str stage, json, all = str_n(in.p + from, pos - from);
		buf_reset(&again);
		if (st.status == WIRE_METRIC && metrics_line_get(st.json, &line) == 0) {
			if (metrics_line_put(&again, &line) || !str_eq(buf_str(&again), all))
				abort();
			metrics_apply(&set, &line);
			metrics_level_add(&set, &set);
		} else if (st.status == WIRE_REPORT && metrics_report_get(st.json, &stage, &json) == 0 && json.n <= WIRE_REPORT_MAX) {
			if (metrics_report_put(&again, stage, json) || !str_eq(buf_str(&again), all))
				abort();
		}
	}
	check_shown(&set);
	metrics_level_zero(&set);
	metrics_set_done(&set);
	buf_free(&in);
	buf_free(&again);
	return 0;
}
