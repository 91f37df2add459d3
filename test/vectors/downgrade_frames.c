/* pepsi-downgrade-frames: messages through proto/mail/downgrade.h for downgrade_property.py. Built, not installed. Standard input is frames
 *
 *     LACKS LENGTH\n<octets of a message>            LACKS: bits of MAIL_LACKS_*; 8 more: only put together again what mime.h took apart
 *
 * and so is standard output, each with one letter, what it took (octets looked at, or microseconds of CPU), a status and a text that may be empty:
 *
 *     + COST 0 LENGTH TEXT\n<octets>                 changed; = as it was; ! cannot be (STATUS is 5.6.3 …, LENGTH 0) */
#include "proto/mail/downgrade.h"
#include "proto/mail/split.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 256 << 20 };

static uint64_t cpu_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void answer(char how, uint64_t cost, const char *status, const char *text, struct str octets)
{
	printf("%c %llu %s %zu %s\n", how, (unsigned long long)cost, status, octets.n, text);
	fwrite(octets.p ? octets.p : "", 1, octets.n, stdout);
	fflush(stdout);
}

static void identity(struct str raw)
{
	struct mail_mime m;
	struct buf b = BUF_INIT(MOST);
	if (mail_mime_parse(&m, raw, false) == 0 && mail_mime_write(&m, NULL, NULL, &b) == 0)
		answer(str_eq(buf_str(&b), raw) ? '=' : '+', m.steps, "0", "", buf_str(&b));
	else
		answer('!', 0, "0", m.limit ? m.limit : "", STR_NULL);
	buf_free(&b);
	mail_mime_free(&m);
}

static void convert(struct str raw, unsigned lacks)
{
	struct mail_split s;
	struct mail_downgrade d;
	struct mail_downgrade_reader r;
	struct buf b = BUF_INIT(MOST);
	uint64_t began = cpu_us();
	mail_split(raw, &s);
	if (mail_downgrade_plan(&d, s.headers, s.body, lacks)) {
		answer('!', cpu_us() - began, d.status, d.why, STR_NULL);
	} else if (!d.changed) {
		answer('=', cpu_us() - began, "0", "", raw);
	} else {
		mail_downgrade_begin(&d, &r);
		while (mail_downgrade_next(&r, &b, 16384))
			;
		answer('+', cpu_us() - began, "0", "", buf_str(&b));
	}
	mail_downgrade_free(&d);
	buf_free(&b);
}

int main(void)
{
	unsigned lacks;
	size_t n;
	while (scanf("%u %zu", &lacks, &n) == 2 && n <= MOST && getchar() == '\n') {
		char *p = malloc(n + 1);
		if (!p || fread(p, 1, n, stdin) != n)
			return 1;
		if (lacks & 8)
			identity(str_n(p, n));
		else
			convert(str_n(p, n), lacks);
		free(p);
	}
	return 0;
}
