/* The recording host with an event loop, for modules that are CONCURRENT: poll() over the descriptors and timers the module arms, a zone in text as its
 * DNS, complete() that only writes down. Callbacks come one at a time and never from within a call, as <pepsi/stage.h> promises. */
#ifndef FAKE_LOOP_H
#define FAKE_LOOP_H

#include "fake_host.h"

/* The table; answers come from the zone set below. */
extern struct pepsi_host fake_loop_host;

/* Lines "NAME TYPE DATA": "example.org MX 10 mx.example.org", "mx.example.org A 127.0.0.2", "x.org MX tempfail", "www.x.org CNAME x.org",
 * "_25._tcp.mx.x.org TLSA 3 1 1 HEX". A name with other types only is NODATA, else NXDOMAIN. NULL ends them. secure: all answers are
 * authenticated. */
void fake_loop_begin(const char *const *zone, bool secure);
/* Runs until so many messages were completed in all since begin, but at most ms (real time). Returns how many were. */
size_t fake_loop_run(size_t completed, int64_t ms);
/* Runs for ms of real time, or until nothing is armed. */
void fake_loop_idle(int64_t ms);
/* Lets time pass for the module. */
void fake_loop_skip(int64_t ms);
size_t fake_loop_questions(void);  /* asked so far */
struct pepsi_msg *fake_loop_hand(void); /* of the last in_hand() */
/* Nothing may be left armed or asked: what the module should have freed in close(). */
void fake_loop_end(void);

#endif
