/* Feeds the request engine the same octets whole and cut at a place taken from the input; both must come to the same
 * sequence of requests and errors. The first octet chooses the size of the pieces. */
#include "proto/http/request.h"

#include <stdio.h>
#include <stdlib.h>

struct trace {
	uint64_t hash;
	unsigned events;
};

static void mix(struct trace *t, struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		t->hash = (t->hash ^ (unsigned char)s.p[i]) * UINT64_C(1099511628211);
	t->hash = (t->hash ^ s.n) * UINT64_C(1099511628211);
}

static struct trace run(struct str in, size_t piece)
{
	struct trace t = { .hash = UINT64_C(14695981039346656037) };
	struct http_request r;
	struct str n, v;
	http_request_init(&r, "localhost mx.example.test");
	while (in.n) {
		struct str part = str_n(in.p, in.n < piece ? in.n : piece);
		size_t used = 0;
		enum http_event ev = http_request_feed(&r, part, &used);
		if (used > part.n || (ev == HTTP_MORE && used != part.n))
			abort();
		in = str_skip(in, used);
		if (ev == HTTP_ERROR) {
			mix(&t, str_from(r.error));
			t.hash += r.status;
			t.events++;
			break;
		}
		if (ev != HTTP_REQUEST)
			continue;
		mix(&t, r.method);
		mix(&t, r.path);
		mix(&t, r.query);
		mix(&t, r.host);
		mix(&t, r.content);
		for (size_t i = 0; http_request_field_at(&r, i, &n, &v); i++) {
			mix(&t, n);
			mix(&t, v);
		}
		t.events++;
		bool keep = r.keep_alive;
		http_request_next(&r);
		if (!keep)
			break;
	}
	http_request_done(&r);
	return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	struct str in = str_n((const char *)data + 1, size - 1);
	struct trace whole = run(in, in.n), cut = run(in, (size_t)data[0] % 64 + 1);
	if (whole.hash != cut.hash || whole.events != cut.events) {
		fprintf(stderr, "split changes the outcome\n");
		abort();
	}
	return 0;
}
