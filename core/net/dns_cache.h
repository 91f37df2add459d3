/* The cache: answers by name and type until their time is up, bounded in entries and octets, the least recently used
 * going first. Knows the time only from its caller. */
#ifndef NET_DNS_CACHE_H
#define NET_DNS_CACHE_H

#include "proto/dns/answers.h"

struct dns_cache;

/* seed: random; names come from outside. NULL: memory. */
struct dns_cache *dns_cache_new(size_t max_entries, size_t max_octets, uint64_t seed);
void dns_cache_free(struct dns_cache *c);
void dns_cache_limits(struct dns_cache *c, size_t max_entries, size_t max_octets);
void dns_cache_flush(struct dns_cache *c);
void dns_cache_drop(struct dns_cache *c, struct str name, enum dns_type type); /* name: folded */
/* The answer (one reference is yours) and the seconds it has left, or NULL. name is folded. */
struct dns_answer *dns_cache_get(struct dns_cache *c, struct str name, enum dns_type type, int64_t now_us, uint32_t *ret_left);
/* Keeps it for ttl seconds (takes a reference of its own), in place of an older one. 0 s: not at all. */
void dns_cache_put(struct dns_cache *c, const struct dns_answer *a, uint32_t ttl, int64_t now_us);
size_t dns_cache_entries(const struct dns_cache *c);
size_t dns_cache_octets(const struct dns_cache *c);
uint64_t dns_cache_evicted(const struct dns_cache *c); /* entries that went before their time */

#endif
