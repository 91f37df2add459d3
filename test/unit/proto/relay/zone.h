/* Small zones for the tests of proto/relay: lines "name TYPE value", MX with its preference before the name. A "+" before the name: this
 * line is signed. "name !" fails, "name -" has no records, "name CNAME other" leads on; "name TYPE !" fails for that type only. */
#ifndef TEST_UNIT_PROTO_RELAY_ZONE_H
#define TEST_UNIT_PROTO_RELAY_ZONE_H

#include "base/buf.h"
#include "proto/dns/answers.h"

typedef const char *const *zone_lines;
#define ZONE(...) (const char *const[]){ __VA_ARGS__, NULL }

/* Runs an evaluator to its end; returns how many questions it asked. */
size_t zone_run(dns_evaluate_fn fn, void *arg, struct dns_answers *set, zone_lines zone);

#endif
