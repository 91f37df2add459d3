/* The RFC 5322 date writer. Own calendar arithmetic, since libc's depends on locale and zone settings of the process. */
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
