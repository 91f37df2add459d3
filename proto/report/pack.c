/* gzip by zlib. */
#include "pack_internal.h"

#include <zlib.h>

enum { STEP = 64 * 1024, MEMBERS_MAX = 64 };

enum report_packing report_packing(struct str data)
{
	if (str_starts(data, str_n("\x1f\x8b", 2)))
		return REPORT_GZIP;
	if (str_starts(data, str_n("PK\x03\x04", 4)))
		return REPORT_ZIP;
	if (str_starts(data, str_n("\xef\xbb\xbf", 3)))
		data = str_skip(data, 3);
	if (str_starts(data, str_n("\xff\xfe", 2)) || str_starts(data, str_n("\xfe\xff", 2))) /* UTF-16 */
		return REPORT_XML;
	while (data.n && data.p[0] && strchr(" \t\r\n", data.p[0]))
		data = str_skip(data, 1);
	return data.n && data.p[0] == '<' ? REPORT_XML : REPORT_UNKNOWN;
}

int report_gzip(struct str data, struct buf *out)
{
	z_stream z = { 0 };
	int rc = Z_OK;
	if (data.n > UINT32_MAX || deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK)
		return -1;
	z.next_in = (Bytef *)(uintptr_t)data.p;
	z.avail_in = (uInt)data.n;
	while (rc == Z_OK) {
		char *room = buf_room(out, STEP);
		if (!room)
			break;
		z.next_out = (Bytef *)room;
		z.avail_out = STEP;
		rc = deflate(&z, Z_FINISH);
		out->n += STEP - z.avail_out;
		out->p[out->n] = 0;
	}
	deflateEnd(&z);
	return rc == Z_STREAM_END ? 0 : -1;
}

int report_inflate(struct str data, int bits, size_t packed, struct buf *out, size_t *ret_used, const char **ret_why)
{
	z_stream z = { 0 };
	char step[STEP];
	int rc = Z_OK;
	const char *why = NULL;
	if (data.n > UINT32_MAX || inflateInit2(&z, bits) != Z_OK) {
		*ret_why = "out of memory";
		return -1;
	}
	z.next_in = (Bytef *)(uintptr_t)data.p;
	z.avail_in = (uInt)data.n;
	while (rc == Z_OK && !why) {
		z.next_out = (Bytef *)step;
		z.avail_out = STEP;
		rc = inflate(&z, Z_NO_FLUSH);
		size_t n = STEP - z.avail_out;
		if (rc != Z_OK && rc != Z_STREAM_END)
			why = "what is packed is damaged or cut off";
		else if (out->n + n > REPORT_RATIO_FREE && (out->n + n) / REPORT_RATIO_MAX > packed)
			why = "it is packed far more densely than any report: a bomb";
		else if (n > out->max - out->n || buf_add(out, step, n))
			why = "it is too large";
	}
	*ret_used = data.n - z.avail_in;
	inflateEnd(&z);
	if (why)
		*ret_why = why;
	return why ? -1 : 0;
}

static int gunzip(struct str data, struct buf *out, const char **ret_why)
{
	size_t packed = data.n, used;
	/* RFC 1952 §2.2: members follow each other; what follows them is padding */
	for (unsigned i = 0; report_packing(data) == REPORT_GZIP; i++, data = str_skip(data, used)) {
		if (i == MEMBERS_MAX) {
			*ret_why = "it has too many parts";
			return -1;
		}
		if (report_inflate(data, 15 + 16, packed, out, &used, ret_why))
			return -1;
	}
	return 0;
}

int report_unpack(struct str data, struct buf *out, const char **ret_why)
{
	switch (report_packing(data)) {
	case REPORT_GZIP:
		return gunzip(data, out, ret_why);
	case REPORT_ZIP:
		return report_unzip(data, out, ret_why);
	case REPORT_XML:
		if (data.n <= out->max - out->n && !buf_adds(out, data))
			return 0;
		*ret_why = "it is too large";
		return -1;
	default:
		*ret_why = "it is neither XML nor gzip nor zip";
		return -1;
	}
}
