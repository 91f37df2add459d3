/* A whole session twice: the groups a client may send without waiting as one piece each, and in random pieces. Events, replies
 * and messages must be the same. The first octets choose the configuration and seed the cuts. */
#include "fuzz.h"

#include "driver.h"

enum { HEAD = 5 };

static uint32_t seed;

static uint32_t dice(uint32_t n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

/* Octets up to where a client has to wait for a reply: the end of a line that has a verb in it behind which nothing may be, be
 * it as a command or within something else. */
static size_t group(const char *p, size_t n)
{
	static const char *const verbs[] = { "DATA", "EHLO", "HELO", "LHLO", "STARTTLS", "XCLIENT", "AUTH" };
	for (size_t at = 0; at < n;) {
		const char *nl = memchr(p + at, '\n', n - at);
		size_t end = nl ? (size_t)(nl - p) + 1 : n;
		for (size_t i = at; i < end; i++)
			for (size_t v = 0; v < sizeof verbs / sizeof *verbs; v++)
				if (str_istarts(str_n(p + i, end - i), str_from(verbs[v])))
					return end;
		at = end;
	}
	return n;
}

static void converse(struct driver *d, const struct smtp_server_conf *conf, const uint8_t *data, size_t size, bool split)
{
	driver_start(d, conf);
	smtp_server_trust(d->s, data[3] & 3);
	for (size_t at = HEAD; at < size;) {
		size_t end = at + group((const char *)data + at, size - at);
		while (at < end) {
			size_t n = split ? 1 + dice(dice(4) ? 8 : 200) : end - at;
			n = n < end - at ? n : end - at;
			driver_send(d, str_n((const char *)data + at, n));
			at += n;
		}
	}
	smtp_server_eof(d->s);
	driver_pump(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct driver whole, parts;
	struct smtp_server_conf conf = {
		.hostname = STR("mx.example.test"), .max_recipients = 3, .hold_max = 1000, .deliver_by_min = 5,
	};
	if (size < HEAD || size > 60000)
		return 0;
	conf.extensions = (data[0] | (unsigned)data[1] << 8 | (unsigned)data[2] << 16) & ~(SMTP_EXT_STARTTLS | SMTP_EXT_AUTH);
	conf.size_limit = data[3] & 4 ? 100 : 0;
	conf.max_errors = data[3] & 8 ? 5 : 0;
	conf.lmtp = data[3] & 16;
	seed = data[4];
	converse(&whole, &conf, data, size, false);
	converse(&parts, &conf, data, size, true);
	must(str_eq(buf_str(&whole.log), buf_str(&parts.log)));
	must(whole.messages == parts.messages);
	driver_stop(&whole);
	driver_stop(&parts);
	return 0;
}
