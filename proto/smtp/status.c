/* Parsing of enhanced status codes; see status.h. */
#include "status.h"

/* 1 to 3 digits without a leading zero from s at *at. */
static int number(struct str s, size_t *at, unsigned short *ret)
{
	size_t n = 0;
	unsigned v = 0;
	while (*at + n < s.n && n < 3 && s.p[*at + n] >= '0' && s.p[*at + n] <= '9')
		v = v * 10 + (unsigned)(s.p[*at + n++] - '0');
	if (!n || (n > 1 && s.p[*at] == '0'))
		return -1;
	*at += n;
	*ret = (unsigned short)v;
	return 0;
}

int smtp_status_parse(struct str s, struct smtp_status *ret, size_t *ret_used)
{
	struct smtp_status st;
	size_t at = 2;
	if (s.n < 5 || s.p[1] != '.' || (s.p[0] != '2' && s.p[0] != '4' && s.p[0] != '5'))
		return -1;
	st.class = (unsigned char)(s.p[0] - '0');
	if (number(s, &at, &st.subject) || at == s.n || s.p[at++] != '.' || number(s, &at, &st.detail))
		return -1;
	if (at < s.n && s.p[at] != ' ' && s.p[at] != '\t')
		return -1;
	*ret = st;
	if (ret_used)
		*ret_used = at;
	return 0;
}

bool smtp_status_fits(const char *z, unsigned code)
{
	struct smtp_status st;
	size_t used;
	struct str s = str_from(z);
	return s.n && !smtp_status_parse(s, &st, &used) && used == s.n && st.class == code / 100;
}
