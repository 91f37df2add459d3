/* A host for module tests: one message in memory, a configuration in a string, and a log of what the module asked for,
 * one line per call ("reroute bounce {…}"). */
#ifndef FAKE_HOST_H
#define FAKE_HOST_H

#include "base/buf.h"

#include <pepsi/stage.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

struct pepsi_conf {
	const char *text; /* "NAME=value\nNAME=value" */
	const char *stage, *hostname, *local_domains;
	const struct pepsi_option *options;
	size_t n_options;
	char value[512]; /* of the last conf_str() */
	char values[64][512];
	unsigned next;
};

struct pepsi_report {
	struct buf text;
};

struct pepsi_msg {
	int64_t id, received_at, lifetime_left, runtime_left_ms;
	const char *mail_from;
	const char *rcpts; /* separated by blanks */
	const char *state; /* JSON */
	const char *next_stage, *bounce_stage;
	struct pepsi_str headers, body;
	struct buf calls;  /* what was asked for */
	struct buf log;    /* log lines */
	struct buf new_headers, new_body; /* content setters */
	struct json_object *parsed;
	char scratch[64][256];
	unsigned next;
};

extern int64_t fake_now_us;
extern const struct pepsi_host fake_host;

void fake_done(struct pepsi_msg *m);

#endif
