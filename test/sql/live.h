/* What the tests against a real server share: connections by role, an event loop that runs until something is true, and
 * single values asked through a superuser's connection. */
#ifndef TEST_SQL_LIVE_H
#define TEST_SQL_LIVE_H

#include "store/queue.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <libpq-fe.h>

extern struct event_base *live_base;

/* Group set-up: migrates the server of the environment; makes live_base. */
int live_setup(void **state);
int live_teardown(void **state);
/* A connection of that role to database pepsi, up. */
struct store_conn *live_open(const char *role, bool async_commit);
/* The same, not waited for; *up follows its state. */
struct store_conn *live_open_later(const char *role, bool *up);
struct store_params live_params(const char *role);
/* Runs the loop until *flag, 20 s at most (then the test fails). */
void live_until(const bool *flag);
/* Runs the loop for some milliseconds. */
void live_run_ms(int ms);
/* One statement as superuser in database pepsi; its first value as text ("" when none), in a static buffer. */
const char *live_sql(const char *sql);
long long live_sql_int(const char *sql);
/* Does accepted = delivered + bounced + discarded + rows hold, and has every row its body, and no body is without one? */
void live_check_books(void);
/* The server: "start", "stop -m immediate", "stop -m fast". */
void live_server(const char *what);

#endif
