/* The shared page: written with a sequence number that is odd meanwhile, read without trust. */
#include "page.h"

#include <string.h>
#include <strings.h>

_Static_assert(sizeof(struct wire_page) <= WIRE_PAGE_TRACE, "the backtrace begins behind the struct");
_Static_assert(WIRE_PAGE_AVOID + WIRE_PAGE_AVOID_MAX * WIRE_PAGE_NAME <= WIRE_PAGE_SIZE, "the dispatcher's part ends the page");

static void put(char *to, size_t size, const char *z)
{
	size_t n = strnlen(z, size - 1);
	memcpy(to, z, n);
	memset(to + n, 0, size - n);
}

void wire_page_hop(struct wire_page *p, int64_t id, uint32_t hop, int64_t since, const char *stage, const char *module,
    const char *version)
{
	uint32_t seq = __atomic_load_n(&p->seq, __ATOMIC_RELAXED) | 1u;
	__atomic_store_n(&p->seq, seq, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	p->id = id;
	p->hop = hop;
	p->since = since;
	if (stage) {
		put(p->stage, sizeof p->stage, stage);
		put(p->module, sizeof p->module, module ? module : "");
		put(p->version, sizeof p->version, version ? version : "");
	}
	__atomic_store_n(&p->seq, seq + 1, __ATOMIC_RELEASE);
}

/* The other process may write meanwhile: each octet is fetched once. */
static void clean(char *to, const char *from, size_t size)
{
	size_t n = 0;
	for (; n < size - 1; n++) {
		char c = __atomic_load_n(&from[n], __ATOMIC_RELAXED);
		if (!c)
			break;
		to[n] = (char)(c < 0x20 || c > 0x7e ? '?' : c);
	}
	to[n] = 0;
}

void wire_page_read(const struct wire_page *p, struct wire_page_copy *ret)
{
	*ret = (struct wire_page_copy){ .steady = false };
	if (__atomic_load_n(&p->magic, __ATOMIC_RELAXED) != WIRE_PAGE_MAGIC)
		return;
	uint32_t seq = __atomic_load_n(&p->seq, __ATOMIC_ACQUIRE);
	ret->id = __atomic_load_n(&p->id, __ATOMIC_RELAXED);
	ret->since = __atomic_load_n(&p->since, __ATOMIC_RELAXED);
	ret->hop = __atomic_load_n(&p->hop, __ATOMIC_RELAXED);
	ret->signal = __atomic_load_n(&p->signal, __ATOMIC_RELAXED);
	ret->selects = __atomic_load_n(&p->selects, __ATOMIC_RELAXED);
	ret->writes = __atomic_load_n(&p->writes, __ATOMIC_RELAXED);
	ret->trips = __atomic_load_n(&p->trips, __ATOMIC_RELAXED);
	ret->retries = __atomic_load_n(&p->retries, __ATOMIC_RELAXED);
	ret->put_off = __atomic_load_n(&p->put_off, __ATOMIC_RELAXED);
	clean(ret->stage, p->stage, sizeof ret->stage);
	clean(ret->module, p->module, sizeof ret->module);
	clean(ret->version, p->version, sizeof ret->version);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	ret->steady = !(seq & 1) && __atomic_load_n(&p->seq, __ATOMIC_RELAXED) == seq;
}

bool wire_page_frame(const void *page, unsigned i, char *out, size_t size)
{
	const char *at = (const char *)page + WIRE_PAGE_TRACE, *end = (const char *)page + WIRE_PAGE_AVOID;
	unsigned line = 0;
	size_t n = 0;
	if (i >= WIRE_PAGE_FRAMES || !size)
		return false;
	for (; at < end; at++) {
		char c = __atomic_load_n(at, __ATOMIC_RELAXED);
		if (!c)
			break;
		if (c == '\n') {
			if (line++ == i)
				break;
			continue;
		}
		if (line == i && n + 1 < size)
			out[n++] = (char)(c < 0x20 || c > 0x7e ? '?' : c);
	}
	out[n] = 0;
	return n > 0;
}

void wire_page_avoid(void *page, unsigned n, const char *stage)
{
	char *at = (char *)page + WIRE_PAGE_AVOID + (size_t)n * WIRE_PAGE_NAME;
	if (n >= WIRE_PAGE_AVOID_MAX)
		return;
	/* A reader in between sees neither name: it is a hint, and not to be waited for. */
	__atomic_store_n(at, 0, __ATOMIC_RELEASE);
	size_t len = strnlen(stage, WIRE_PAGE_NAME - 1);
	if (!len)
		return;
	memcpy(at + 1, stage + 1, len - 1);
	at[len] = 0;
	__atomic_store_n(at, stage[0], __ATOMIC_RELEASE);
}

bool wire_page_avoids(const void *page, const char *stage)
{
	const char *at = (const char *)page + WIRE_PAGE_AVOID;
	for (unsigned i = 0; i < WIRE_PAGE_AVOID_MAX; i++, at += WIRE_PAGE_NAME) {
		char first = __atomic_load_n(at, __ATOMIC_ACQUIRE);
		if (first && ((first == '*' && !at[1]) || !strncasecmp(at, stage, WIRE_PAGE_NAME)))
			return true;
	}
	return false;
}
