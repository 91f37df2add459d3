/* See before.h. The file is read when a worker starts; it is another program's, and does not change any more. */
#include "before.h"

#include "return_keys.h"
#include "say.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <time.h>

enum { FILE_MAX = 4096 };

/* "2026-12-31": the end of that day, UTC. 0, or -1. */
static int end_of_day(const char *text, int64_t *ret)
{
	struct tm tm = { 0 };
	const char *end = text ? strptime(text, "%Y-%m-%d", &tm) : NULL;
	time_t t = end && !*end ? timegm(&tm) : -1;
	if (t < 0)
		return -1;
	*ret = (int64_t)t + 86400;
	return 0;
}

void before_check(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report)
{
	const char *path = host->conf_str(conf, "BEFORE"), *until = host->conf_str(conf, "BEFORE_UNTIL");
	int64_t end;
	if (path && !until)
		host->report(report, "BEFORE_UNTIL", "must be set with BEFORE: until when bounces to the other program's addresses are taken, such as 2027-01-31; its tags can be guessed");
	else if (until && !path)
		host->report(report, "BEFORE_UNTIL", "says nothing without BEFORE");
	if (until && end_of_day(until, &end))
		fault(host, report, "BEFORE_UNTIL", "\"%s\" is no day, such as 2027-01-31", until);
}

void before_read(struct before *b, const struct pepsi_host *host, const struct pepsi_conf *conf)
{
	const char *path = host->conf_str(conf, "BEFORE"), *until = host->conf_str(conf, "BEFORE_UNTIL");
	char text[FILE_MAX];
	struct buf why = BUF_INIT(600);
	size_t n = 0, many = 0;
	*b = (struct before){ .wanted = false };
	b->wanted = path && *path && !end_of_day(until, &b->until);
	if (!b->wanted)
		return;
	if (host->now_us() / 1000000 >= b->until) {
		say(host, NULL, PEPSI_LOG_INFO, "srs BEFORE_UNTIL is over: BEFORE can be taken out of the configuration");
		return;
	}
	if (keys_file(path, text, sizeof text, &n, &why)) {
		say(host, NULL, PEPSI_LOG_ERROR, "srs BEFORE: %s", buf_z(&why));
	} else {
		struct str rest = str_n(text, n), line;
		while (str_word(&rest, "\r\n", &line)) {
			many++;
			if (many > 2 || line.n > BEFORE_SECRET_MAX)
				continue;
			memcpy(b->secret[b->n], line.p, line.n);
			b->secret[b->n++][line.n] = 0;
		}
		if (!b->n || b->n != many)
			say(host, NULL, PEPSI_LOG_ERROR, "srs BEFORE: %s has %s", path, many > 2 ? "more than two secrets: the first two are used" :
			    many ? "a secret of more than 255 octets, which is not used" : "no secret");
	}
	OPENSSL_cleanse(text, sizeof text);
	buf_free(&why);
}

void before_done(struct before *b)
{
	OPENSSL_cleanse(b, sizeof *b);
}

int before_reverse(const struct before *b, const struct srs *ours, struct str address, int64_t now, struct buf *out)
{
	if (!b->wanted || now >= b->until)
		return SRS_NOT_SRS;
	if (!b->n)
		return SRS_KEY;
	struct srs s = { .domain = ours->domain, .max_age = ours->max_age, .weak = true };
	for (size_t i = 0; i < b->n; i++)
		s.keys[i] = str_from(b->secret[i]);
	return srs_reverse(&s, address, now, out);
}
