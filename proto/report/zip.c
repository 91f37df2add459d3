/* A zip archive with a report in it, read by its central directory (APPNOTE 4.3): stored or deflated, one disk, no encryption, no
 * ZIP64. Of several files the first that is called .xml counts, else the first. */
#include "pack_internal.h"

#include <zlib.h>

enum { END_SIZE = 22, ENTRY_SIZE = 46, LOCAL_SIZE = 30, COMMENT_MAX = 65535 };

static uint32_t le(struct str s, size_t at, unsigned n)
{
	uint32_t v = 0;
	while (n--)
		v = v << 8 | (unsigned char)s.p[at + n];
	return v;
}

struct entry {
	uint32_t flags, method, crc, packed, size, local;
	struct str name;
};

/* The end record: the last place where its signature stands and its comment reaches to the end. */
static bool find_end(struct str zip, size_t *ret)
{
	for (size_t back = END_SIZE; back <= zip.n && back <= END_SIZE + COMMENT_MAX; back++) {
		size_t at = zip.n - back;
		if (le(zip, at, 4) == 0x06054b50 && le(zip, at + 20, 2) + (size_t)END_SIZE == back) {
			*ret = at;
			return true;
		}
	}
	return false;
}

static bool next_entry(struct str zip, size_t *at, struct entry *ret)
{
	if (*at > zip.n || zip.n - *at < ENTRY_SIZE || le(zip, *at, 4) != 0x02014b50)
		return false;
	size_t name = le(zip, *at + 28, 2), rest = (size_t)le(zip, *at + 30, 2) + le(zip, *at + 32, 2);
	if (zip.n - *at - ENTRY_SIZE < name + rest)
		return false;
	*ret = (struct entry){ .flags = le(zip, *at + 8, 2), .method = le(zip, *at + 10, 2), .crc = le(zip, *at + 16, 4),
		.packed = le(zip, *at + 20, 4), .size = le(zip, *at + 24, 4), .local = le(zip, *at + 42, 4),
		.name = str_n(zip.p + *at + ENTRY_SIZE, name) };
	*at += ENTRY_SIZE + name + rest;
	return true;
}

static int extract(struct str zip, const struct entry *e, struct buf *out, const char **ret_why)
{
	size_t before = out->n, used;
	*ret_why = "the archive is damaged";
	if (e->local > zip.n || zip.n - e->local < LOCAL_SIZE || le(zip, e->local, 4) != 0x04034b50)
		return -1;
	size_t at = (size_t)e->local + LOCAL_SIZE + le(zip, e->local + (size_t)26, 2) + le(zip, e->local + (size_t)28, 2);
	if (at > zip.n || zip.n - at < e->packed)
		return -1;
	struct str data = str_n(zip.p + at, e->packed);
	if (e->flags & 1) {
		*ret_why = "the archive is encrypted";
		return -1;
	}
	if (e->method == 8) {
		if (report_inflate(data, -15, data.n, out, &used, ret_why))
			return -1;
	} else if (e->method != 0) {
		*ret_why = "the archive is packed in a way that reports are not";
		return -1;
	} else if (data.n > out->max - out->n || buf_adds(out, data)) {
		*ret_why = "it is too large";
		return -1;
	}
	struct str got = str_skip(buf_str(out), before);
	*ret_why = "the archive is damaged";
	return got.n == e->size && crc32(0, (const Bytef *)got.p, (uInt)got.n) == e->crc ? 0 : -1;
}

int report_unzip(struct str zip, struct buf *out, const char **ret_why)
{
	struct entry e, best = { 0 };
	size_t end;
	bool found = false;
	if (!find_end(zip, &end)) {
		*ret_why = "the archive is cut off";
		return -1;
	}
	size_t at = le(zip, end + 16, 4);
	for (unsigned i = 0; i < REPORT_ZIP_FILES && at < end && next_entry(zip, &at, &e); i++) {
		if (!e.name.n || e.name.p[e.name.n - 1] == '/')
			continue;
		bool xml = str_iends(e.name, STR(".xml"));
		if (xml || !found)
			best = e;
		found = true;
		if (xml)
			break;
	}
	if (!found) {
		*ret_why = "the archive is empty";
		return -1;
	}
	return extract(zip, &best, out, ret_why);
}
