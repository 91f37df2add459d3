/* Fuzz: the operator's lines about destinations and sources. Each line of the input is one option's value; the first octet says of which kind:
 * ">" SOURCES, "<" WARMUP, else SHAPE. */
#include "proto/relay/shape.h"
#include "proto/relay/source.h"
#include "proto/relay/warmup.h"

#include "base/check.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void find(const struct shapes *s, struct sources *p)
{
	static struct route r = { .n_hosts = 2, .host = { { .name = "mx1.example.org", .canonical = "mx1.example.org" },
		{ .name = "alt.google.com", .canonical = "alt.google.com", .preference = 5 } } };
	struct source *got = NULL;
	struct shape_name name;
	int64_t when = 0;
	shape_find(s, &r, "example.org", &name);
	must(name.key[0] && strlen(name.key) <= SHAPE_KEY_MAX && name.shape->concurrency >= 1 && name.shape->initial >= 1);
	struct source_ask ask = { .sender = "a.example", .pool = name.shape->sources, .route = &r, .domain = "example.org", .key = name.key, .family = 4 };
	enum source_found found = source_choose(p, &ask, 0, &got, &when);
	must(found != SOURCE_SUSPENDED);
	if (found == SOURCE_FOUND)
		must(got->n == 4 && got->weight >= 1 && got->weight <= SOURCE_WEIGHT_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest = str_n((const char *)data, size > 65536 ? 65536 : size), text;
	struct shapes *s = shapes_new();
	struct sources *p = sources_new();
	struct warmups *w = warmups_new();
	must(s && p && w);
	for (unsigned n = 0; rest.n && n < 300; n++) {
		struct buf why = BUF_INIT(65536);
		const char *option_of = NULL;
		char option[32];
		ptrdiff_t end = str_chr(rest, '\n');
		text = end < 0 ? rest : str_n(rest.p, (size_t)end);
		rest = str_skip(rest, text.n + 1);
		snprintf(option, sizeof option, "LINE_%u", n * 7919 % 1000);
		char kind = text.n ? text.p[0] : 0;
		int rc = kind == '>' ? sources_add(p, option, str_skip(text, 1), &why) : kind == '<' ? warmups_add(w, option, str_skip(text, 1), &why) :
		    shapes_add(s, option, text, &why);
		must(rc == 0 || (rc == 1 && why.n));
		for (size_t i = 0; i < 4; i++)
			if (shapes_doubt(s, 4, i, &option_of, &why))
				must(option_of && why.n);
		buf_free(&why);
	}
	find(s, p);
	const unsigned char *ip;
	unsigned ip_n;
	for (size_t i = 0; warmups_at(w, i, &(const char *){ NULL }, &ip, &ip_n); i++) {
		must(ip_n == 4 || ip_n == 16);
		for (int64_t day = 0; day < 40000; day += 97) {
			int64_t n = warmups_allowance(w, ip, ip_n, day);
			must(n >= WARMUP_FREE && n <= WARMUP_MOST);
		}
	}
	warmups_free(w);
	sources_free(p);
	shapes_free(s);
	return 0;
}
