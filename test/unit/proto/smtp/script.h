/* Scripted dialogues for the tests of the server engine: what is sent, and the events and replies that must come of it, each
 * fed whole, in steps of one to three octets, and cut once at every place. */
#ifndef TEST_SMTP_SCRIPT_H
#define TEST_SMTP_SCRIPT_H

#include "check.h"
#include "driver.h"

#include <stdlib.h>

#define S(lit) STR_INIT(lit)

struct script {
	const char *name;
	const struct smtp_server_conf *conf; /* NULL: driver_conf */
	struct str groups[10];               /* each is sent when all before it was answered */
	const char *expect;
	bool early; /* breaks the order of a dialogue on purpose: only fed group by group */
};

/* step: octets per feed; cut: one more cut behind the first `cut` octets of the whole */
static void run(const struct script *sc, size_t step, size_t cut, struct buf *ret_log)
{
	struct driver d;
	driver_start(&d, sc->conf ? sc->conf : &driver_conf);
	for (size_t g = 0; g < COUNT(sc->groups); g++) {
		struct str rest = sc->groups[g];
		while (rest.n) {
			size_t n = step < rest.n ? step : rest.n;
			if (cut && cut < n)
				n = cut;
			cut -= cut < n ? cut : n;
			/* an exact copy, so that a sanitizer sees a step behind the end */
			char *copy = malloc(n);
			assert_non_null(copy);
			memcpy(copy, rest.p, n);
			driver_send(&d, str_n(copy, n));
			free(copy);
			rest = str_skip(rest, n);
		}
	}
	buf_reset(ret_log);
	buf_adds(ret_log, buf_str(&d.log));
	driver_stop(&d);
}

static void check_same(const struct script *sc, struct buf *log, size_t step, size_t cut)
{
	if (strcmp(buf_z(log), sc->expect)) {
		print_error("%s (step %zu, cut %zu), got:\n%s\nnot:\n%s\n", sc->name, step, cut, buf_z(log), sc->expect);
		fail();
	}
}

static void script_run_whole(const struct script *scripts, size_t n)
{
	struct buf log = BUF_INIT(1 << 20);
	for (size_t i = 0; i < n; i++) {
		run(&scripts[i], SIZE_MAX, 0, &log);
		check_same(&scripts[i], &log, SIZE_MAX, 0);
	}
	buf_free(&log);
}

static void script_run_split(const struct script *scripts, size_t n)
{
	struct buf log = BUF_INIT(1 << 20);
	for (size_t i = 0; i < n; i++) {
		size_t all = 0;
		if (scripts[i].early)
			continue;
		for (size_t g = 0; g < COUNT(scripts[i].groups); g++)
			all += scripts[i].groups[g].n;
		for (size_t cut = 1; cut < all; cut++) {
			run(&scripts[i], SIZE_MAX, cut, &log);
			check_same(&scripts[i], &log, SIZE_MAX, cut);
		}
		for (size_t step = 1; step <= 3; step++) {
			run(&scripts[i], step, 0, &log);
			check_same(&scripts[i], &log, step, 0);
		}
	}
	buf_free(&log);
}

#endif
