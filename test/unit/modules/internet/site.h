/* What the tests of relay-to-internet share: a worker with a configuration, messages, and words for scripts of peers. */
#ifndef SITE_H
#define SITE_H

#include "fake_loop.h"
#include "peer.h"

struct site {
	struct pepsi_conf conf;
	char text[1024];
	void *worker;
};

/* more: further options, "NAME=value\n…"; NULL: none. */
void site_open(struct site *s, const char *const *zone, bool secure, const char *more);
/* Closes the worker; nothing may be left. */
void site_close(struct site *s);
struct pepsi_msg site_message(const char *rcpts);
/* process(), which must be pending. */
void site_process(struct site *s, struct pepsi_msg *m);
/* One message until it is complete. */
void site_deliver(struct site *s, struct pepsi_msg *m);
/* Runs until the peers have made so many marks. */
void site_until(int marks);
void site_says(const struct pepsi_msg *m, const char *text); /* in calls */
void site_logs(const struct pepsi_msg *m, const char *text);
void site_done(struct pepsi_msg *m); /* of fake_done() */

extern const struct pepsi_stage pepsi_stage_descriptor;

#define EHLO "!220 p\r\n", "?EHLO us.example\r\n", "!250-p\r\n250 PIPELINING\r\n"
#define EHLO_TLS "!220 p\r\n", "?EHLO us.example\r\n", "!250-p\r\n250-PIPELINING\r\n250 STARTTLS\r\n", "?STARTTLS\r\n"
#define TLS "!220 go\r\n", "*", "?EHLO us.example\r\n", "!250-p\r\n250 PIPELINING\r\n"
#define ENVELOPE "?MAIL FROM:<a@b.example>\r\nRCPT TO:<x@example.org>\r\nDATA\r\n"
#define CONTENT "?S: x\r\n\r\nhi\r\n.\r\n"
#define TAKE ENVELOPE, "!250 ok\r\n250 ok\r\n354 go\r\n", CONTENT, "!250 2.0.0 took it\r\n"
#define QUIT "?QUIT\r\n", "!221 bye\r\n", "~", "^" /* the mark: it was polite */

/* The tests; the runner is in delivery.c. */
void test_internet_delivers(void **state);
void test_internet_reuses(void **state);
void test_internet_stale(void **state);
void test_internet_per_recipient(void **state);
void test_internet_dsn_each(void **state);
void test_internet_rooms(void **state);
void test_internet_limits(void **state);
void test_internet_splits(void **state);
void test_internet_at_once(void **state);
void test_internet_maybe(void **state);
void test_internet_time_out(void **state);
void test_internet_stops(void **state);
void test_internet_no_route(void **state);
void test_internet_next_host(void **state);
void test_internet_next_address(void **state);
void test_internet_says_no_for_now(void **state);
void test_internet_final(void **state);
void test_internet_all_down(void **state);
void test_internet_no_descriptors(void **state);
void test_internet_literal(void **state);
void test_internet_tls(void **state);
void test_internet_tls_fails(void **state);
void test_internet_tls_required(void **state);
void test_internet_tls_verify(void **state);
void test_internet_unsafe_domain(void **state);
void test_internet_loop(void **state);
void test_internet_unsafe_and_dead(void **state);
void test_internet_dane(void **state);
void test_internet_dane_wrong(void **state);
void test_internet_dane_unknown(void **state);
void test_internet_injected(void **state);
void test_internet_options(void **state);
void test_internet_sources(void **state);
void test_internet_window(void **state);
void test_internet_backoff(void **state);
void test_internet_dns_fails(void **state);

#endif
