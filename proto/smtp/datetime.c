/* Dates of datetime.h. Proleptic Gregorian arithmetic on days since 1970-01-01, after "days from civil": years that begin
 * in March, so that the leap day is the last one. */
#include "datetime.h"

enum { DAY = 24 * 60 * 60 };
static const int64_t end_of_9999 = 253402300800;

static int64_t days_from_civil(unsigned year, unsigned month, unsigned day)
{
	uint64_t y = month <= 2 ? year - 1u : year, era = y / 400, of_era = y % 400;
	uint64_t of_year = (153u * (month > 2 ? month - 3u : month + 9u) + 2u) / 5u + day - 1u;
	return (int64_t)(era * 146097u + of_era * 365u + of_era / 4u - of_era / 100u + of_year) - 719468;
}

static unsigned days_in_month(unsigned year, unsigned month)
{
	static const unsigned char days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = year % 4 == 0 && (year % 100 || year % 400 == 0);
	return days[month - 1] + (month == 2 && leap);
}

/* Takes n digits and the octet behind them ('T' and 'Z': in either case). */
static bool field(struct str *s, unsigned n, char behind, unsigned *ret)
{
	unsigned v = 0;
	if (s->n <= n)
		return false;
	for (unsigned i = 0; i < n; i++) {
		if (s->p[i] < '0' || s->p[i] > '9')
			return false;
		v = v * 10 + (unsigned)(s->p[i] - '0');
	}
	if (behind && s->p[n] != behind && !(behind == 'T' && s->p[n] == 't'))
		return false;
	*s = str_skip(*s, n + (behind ? 1 : 0));
	*ret = v;
	return true;
}

int smtp_datetime_parse(struct str s, int64_t *ret)
{
	unsigned year, month, day, hour, minute, second;
	if (!field(&s, 4, '-', &year) || !field(&s, 2, '-', &month) || !field(&s, 2, 'T', &day) || !field(&s, 2, ':', &hour) ||
	    !field(&s, 2, ':', &minute) || !field(&s, 2, 0, &second))
		return -1;
	if (s.p[0] == '.') {
		size_t n = 1;
		while (n < s.n && s.p[n] >= '0' && s.p[n] <= '9')
			n++;
		if (n == 1)
			return -1;
		s = str_skip(s, n);
	}
	if (s.n != 1 || (s.p[0] | 0x20) != 'z')
		return -1;
	if (year < 1970 || month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) || hour > 23 ||
	    minute > 59 || second > 60)
		return -1;
	int64_t t = days_from_civil(year, month, day) * DAY + hour * 3600 + minute * 60 + second;
	*ret = t < end_of_9999 ? t : end_of_9999 - 1;
	return 0;
}

int smtp_datetime_write(int64_t t, struct buf *out)
{
	if (t < 0 || t >= end_of_9999)
		return -1;
	unsigned of_day = (unsigned)(t % DAY);
	uint64_t z = (uint64_t)(t / DAY) + 719468u, era = z / 146097u, of_era = z % 146097u;
	uint64_t y = (of_era - of_era / 1460u + of_era / 36524u - of_era / 146096u) / 365u;
	uint64_t of_year = of_era - (365u * y + y / 4u - y / 100u), m = (5u * of_year + 2u) / 153u;
	unsigned day = (unsigned)(of_year - (153u * m + 2u) / 5u + 1u), month = (unsigned)(m < 10 ? m + 3u : m - 9u);
	unsigned year = (unsigned)(y + era * 400u + (month <= 2));
	return buf_addf(out, "%04u-%02u-%02uT%02u:%02u:%02uZ", year, month, day, of_day / 3600, of_day / 60 % 60, of_day % 60);
}
