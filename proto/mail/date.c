/* The RFC 5322 date, written and read. Own calendar arithmetic, since libc's depends on locale and zone settings of the process. */
#include "date.h"

static const char days[7][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
static const char months[12][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };

int mail_date_write(struct buf *out, int64_t us, int offset_min)
{
	const int64_t first = INT64_C(-2208988800), last = INT64_C(253402300799); /* 1900-01-01, 9999-12-31T23:59:59 */
	if (offset_min < -(24 * 60 - 1) || offset_min > 24 * 60 - 1)
		offset_min = 0;
	int64_t t = us / 1000000 - (us % 1000000 < 0) + (int64_t)offset_min * 60;
	t = t < first ? first : t > last ? last : t;
	int64_t day = t / 86400 - (t % 86400 < 0), sec = t - day * 86400;
	/* days since 0000-03-01, so that the leap day ends a year: eras of 400 years have 146097 days */
	int64_t z = day + 719468, era = z / 146097, doe = z - era * 146097;
	int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
	int mday = (int)(doy - (153 * mp + 2) / 5 + 1), month = (int)(mp < 10 ? mp + 2 : mp - 10);
	int year = (int)(yoe + era * 400 + (month < 2));
	int wday = (int)(((day + 4) % 7 + 7) % 7), off = offset_min < 0 ? -offset_min : offset_min;
	return buf_addf(out, "%s, %d %s %04d %02d:%02d:%02d %c%02d%02d", days[wday], mday, months[month], year,
	    (int)(sec / 3600), (int)(sec / 60 % 60), (int)(sec % 60), offset_min < 0 ? '-' : '+', off / 60, off % 60);
}

/* The next word, number or sign behind blanks and comments; the comma after a day counts as a blank. False: the end, or a comment without one. */
static bool next_piece(struct str *rest, struct str *ret)
{
	size_t i = 0, depth = 0, n = 0;
	for (; i < rest->n; i++) {
		char c = rest->p[i];
		if (c == '\\' && depth)
			i++;
		else if (c == '(')
			depth++;
		else if (c == ')' && depth)
			depth--;
		else if (!depth && c != ' ' && c != '\t' && c != '\r' && c != '\n' && c != ',')
			break;
	}
	if (depth || i >= rest->n)
		return false;
	*rest = str_skip(*rest, i);
	bool digits = ascii_is_digit(rest->p[0]), letters = ascii_is_alpha(rest->p[0]);
	while (n < rest->n && (digits ? ascii_is_digit(rest->p[n]) : letters && ascii_is_alpha(rest->p[n])))
		n++;
	n += !n;
	*ret = str_n(rest->p, n);
	*rest = str_skip(*rest, n);
	return true;
}

static bool number(struct str s, uint64_t max, int *ret)
{
	uint64_t n;
	if (str_u64(s, max, &n))
		return false;
	*ret = (int)n;
	return true;
}

/* "14:00", "14:00:31"; *ret_next is what follows, empty at the end. */
static bool clock_read(struct str *rest, int *ret, struct str *ret_next)
{
	int hour, minute, second = 0;
	struct str s;
	if (!next_piece(rest, &s) || !number(s, 23, &hour) || !next_piece(rest, &s) || !str_eq(s, STR(":")) || !next_piece(rest, &s) ||
	    !number(s, 59, &minute))
		return false;
	*ret_next = STR_NULL;
	if (next_piece(rest, ret_next) && str_eq(*ret_next, STR(":"))) {
		if (!next_piece(rest, &s) || !number(s, 60, &second)) /* 60: a leap second */
			return false;
		*ret_next = STR_NULL;
		next_piece(rest, ret_next);
	}
	*ret = hour * 3600 + minute * 60 + second;
	return true;
}

/* Seconds east of Greenwich. §4.3: names but these say nothing, so they are -0000; so does a zone that is missing. */
static bool zone_read(struct str *rest, struct str s, int *ret)
{
	static const struct {
		const char *name;
		int hours;
	} names[] = { { "EDT", -4 }, { "EST", -5 }, { "CDT", -5 }, { "CST", -6 }, { "MDT", -6 }, { "MST", -7 }, { "PDT", -7 }, { "PST", -8 } };
	*ret = 0;
	bool west = str_eq(s, STR("-"));
	if (west || str_eq(s, STR("+"))) {
		struct str digits;
		int n;
		if (!next_piece(rest, &digits) || digits.n != 4 || !number(digits, 9959, &n) || n % 100 > 59)
			return false;
		*ret = (n / 100 * 3600 + n % 100 * 60) * (west ? -1 : 1);
		return true;
	}
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (str_ieq(s, str_from(names[i].name)))
			*ret = names[i].hours * 3600;
	return true;
}

int mail_date_read(struct str value, int64_t *ret)
{
	static const unsigned char lengths[12] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	struct str s;
	int day, month = -1, year, clock, zone;
	if (!next_piece(&value, &s) || (!number(s, 31, &day) && (!next_piece(&value, &s) || !number(s, 31, &day))) || !next_piece(&value, &s))
		return -1;
	for (int i = 0; i < 12; i++)
		if (str_ieq(s, str_n(months[i], 3)))
			month = i;
	if (month < 0 || !next_piece(&value, &s) || s.n < 2 || !number(s, 9999, &year))
		return -1;
	year += s.n == 2 ? (year < 50 ? 2000 : 1900) : s.n == 3 ? 1900 : 0;
	bool leap = (year % 4 == 0 && year % 100) || year % 400 == 0;
	if (!day || day > lengths[month] || (month == 1 && day == 29 && !leap) || year < 1900 || !clock_read(&value, &clock, &s) || !zone_read(&value, s, &zone))
		return -1;
	/* the count of mail_date_write(), the other way */
	int64_t y = year - (month < 2), era = y / 400, yoe = y - era * 400, mp = (month + 10) % 12;
	int64_t doe = yoe * 365 + yoe / 4 - yoe / 100 + (153 * mp + 2) / 5 + day - 1;
	*ret = (era * 146097 + doe - 719468) * 86400 + clock - zone;
	return 0;
}
