/* Any octets as the content of a message that comes by BDAT: cut into chunks and into pieces at random, with a command behind
 * it. What comes of it is held against a plain definition of what may be in a message. */
#include "fuzz.h"

#include "driver.h"

static uint32_t seed;

static uint32_t dice(uint32_t n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

/* CR and LF only in pairs and no NUL; behind the first empty line anything where it is binary. */
static bool sound(const char *p, size_t n, bool binary)
{
	size_t line = 0;
	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\r' && i + 1 < n && p[i + 1] == '\n') {
			if (!line && binary)
				return true;
			i++;
			line = 0;
		} else if (p[i] == '\r' || p[i] == '\n' || !p[i]) {
			return false;
		} else {
			line++;
		}
	}
	return true;
}

static void send(struct driver *d, const char *p, size_t n)
{
	while (n) {
		size_t part = 1 + dice(dice(3) ? 5 : 300);
		part = part < n ? part : n;
		driver_send(d, str_n(p, part));
		p += part;
		n -= part;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct smtp_server_conf conf = {
		.hostname = STR_INIT("mx.example.test"),
		.extensions = SMTP_EXT_PIPELINING | SMTP_EXT_CHUNKING | SMTP_EXT_BINARYMIME,
	};
	struct driver d;
	struct buf wire = BUF_INIT(1 << 20);
	if (size < 2)
		return 0;
	const char *text = (const char *)data + 2;
	size_t n = size - 2, at = 0;
	bool binary = data[0] & 1, over = false;
	seed = data[1];
	driver_start(&d, &conf);
	driver_send(&d, STR("EHLO c.example\r\n"));
	buf_addf(&wire, "MAIL FROM:<a@b.example>%s\r\nRCPT TO:<c@d.example>\r\n", binary ? " BODY=BINARYMIME" : "");
	while (!over) {
		size_t chunk = dice(dice(2) ? 4 : 100);
		chunk = chunk < n - at ? chunk : n - at;
		over = at + chunk == n && dice(2);
		buf_addf(&wire, "BDAT %zu%s\r\n", chunk, over ? " LAST" : "");
		buf_add(&wire, text + at, chunk);
		at += chunk;
	}
	buf_addz(&wire, "NOOP\r\n");
	must(!wire.failed);
	send(&d, wire.p, wire.n);
	bool fits = sound(text, n, binary), refused = n && memmem(text, n, "refuse", 6);
	must(d.messages == (fits && !refused) && !d.closed);
	must(!fits || (d.message.n == n && (!n || !memcmp(d.message.p, text, n))));
	must(fits == (memmem(d.log.p, d.log.n, "\n550 Message has a", 18) == NULL));
	must(d.log.n > 7 && !memcmp(d.log.p + d.log.n - 7, "250 Ok\n", 7)); /* the command behind it was one */
	driver_stop(&d);
	buf_free(&wire);
	return 0;
}
