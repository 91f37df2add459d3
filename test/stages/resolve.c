/* A stage module that asks the DNS through the host and writes what it was told into the header block, for test/e2e/dns.py. */
#include <pepsi/stage.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct worker {
	const char *names;
	uint32_t type;
};

static int32_t open_resolve(const struct pepsi_host *h, const struct pepsi_conf *c, void **ret)
{
	struct worker *w = calloc(1, sizeof *w);
	if (!w)
		return PEPSI_RETRY;
	w->names = h->conf_str(c, "NAMES");
	w->type = (uint32_t)h->conf_int(c, "TYPE");
	*ret = w;
	return PEPSI_OK;
}

static void close_resolve(void *worker)
{
	free(worker);
}

static size_t show(char *out, size_t size, const char *name, size_t name_n, const struct pepsi_dns *a)
{
	size_t n = (size_t)snprintf(out, size, "X-DNS: %.*s status=%u n=%zu canonical=%s ad=%u why=%s", (int)name_n, name, a->status, a->n_rr,
	    a->canonical, a->authenticated, a->why ? a->why : "-");
	for (size_t i = 0; i < a->n_rr && n < size; i++) {
		const struct pepsi_dns_rr *r = pepsi_dns_at(a, i);
		n += (size_t)snprintf(out + n, size - n, " ");
		for (size_t k = 0; k < r->data.n && n < size; k++)
			n += (size_t)snprintf(out + n, size - n, "%02x", (unsigned char)r->data.p[k]);
	}
	if (n < size)
		n += (size_t)snprintf(out + n, size - n, "\r\n");
	return n;
}

static int32_t process(void *worker, const struct pepsi_host *h, struct pepsi_msg *m)
{
	const struct worker *w = worker;
	static char text[60000];
	struct pepsi_str old;
	size_t n = 0;
	if (h->headers(m, &old) != PEPSI_OK || !PEPSI_HAS(h, resolve))
		return PEPSI_RETRY;
	for (const char *p = w->names; *p;) {
		char name[300];
		size_t len = strcspn(p, " ");
		snprintf(name, sizeof name, "%.*s", (int)len, p);
		const struct pepsi_dns *a = h->resolve(m, name, w->type);
		if (!a)
			return PEPSI_RETRY;
		n += show(text + n, sizeof text / 2 - n, p, len, a);
		if (n >= sizeof text / 2)
			return PEPSI_PERMANENT;
		p += len + strspn(p + len, " ");
	}
	if (old.n > sizeof text / 2)
		return PEPSI_PERMANENT;
	memcpy(text + n, old.p, old.n);
	h->set_headers(m, (struct pepsi_str){ text, n + old.n });
	return h->advance_or_finish(m);
}

static const struct pepsi_option options[] = {
	{ .name = "NAMES", .type = PEPSI_OPT_LIST, .def = "", .help = "what is asked" },
	{ .name = "TYPE", .type = PEPSI_OPT_INT, .def = "1", .help = "the number of the type of records" },
};

PEPSI_STAGE(.name = RESOLVE_NAME, .version = "1", .license = "none", .summary = "asks the DNS", .load_class = PEPSI_LOAD_HEADERS,
    .caps = RESOLVE_CAPS, PEPSI_OPTIONS(options), .open = open_resolve, .process = process, .close = close_resolve);
