/* Message content: where headers end whatever the chunks, limits, budget, files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ingress/spool.h"
#include "proto/mail/split.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char dir[] = "/tmp/pepsi-spool-XXXXXX";

static struct spool_house house(size_t threshold, size_t max)
{
	return (struct spool_house){ .dir = dir, .threshold = threshold, .max = max };
}

static const struct str messages[] = {
	STR_INIT("Subject: x\r\n\r\nbody\r\n"),
	STR_INIT("Subject: x\r\nTo: y\r\n\r\nbody\r\n\r\nmore\r\n"),
	STR_INIT("\r\nno headers\r\n"),
	STR_INIT("\r\n"),
	STR_INIT("\r\n\r\n"),
	STR_INIT("Subject: only headers\r\n"),
	STR_INIT("Subject: empty body\r\n\r\n"),
	STR_INIT("this is no header line\r\nnor this\r\n"),
	STR_INIT("Subject: x\r\nnot a field\r\nbody?\r\n"),
	STR_INIT("A: b\r\n folded\r\n\r\n \r\n"),
	STR_INIT(""),
};

/* Every message, cut at every pair of places: the same parts as mail_split() gives of the whole. */
static void test_split_points(void **state)
{
	(void)state;
	for (size_t m = 0; m < sizeof messages / sizeof *messages; m++) {
		struct str raw = messages[m];
		struct mail_split want;
		mail_split(raw, &want);
		for (size_t i = 0; i <= raw.n; i++)
			for (size_t k = i; k <= raw.n; k++) {
				struct spool_house h = house(1 << 20, 1 << 20);
				struct spool s;
				spool_init(&s, &h);
				spool_add(&s, str_n(raw.p, i));
				spool_add(&s, str_n(raw.p + i, k - i));
				spool_add(&s, str_n(raw.p + k, raw.n - k));
				assert_int_equal(spool_finish(&s), SPOOL_OK);
				if (!str_eq(buf_str(&s.head), want.headers) || !str_eq(buf_str(&s.body), want.body))
					fail_msg("message %zu cut at %zu and %zu", m, i, k);
				assert_int_equal(s.size, raw.n);
				assert_int_equal(h.used, s.head.cap + s.body.cap);
				spool_done(&s);
				assert_int_equal(h.used, 0);
			}
	}
}

static void test_file(void **state)
{
	(void)state;
	struct spool_house h = house(1000, 1 << 20);
	struct spool s;
	char line[102];
	memset(line, 'x', 100);
	line[100] = '\r';
	line[101] = '\n';
	spool_init(&s, &h);
	assert_int_equal(spool_add(&s, STR("Subject: big\r\n\r\n")), SPOOL_OK);
	for (int i = 0; i < 2000; i++) {
		line[0] = (char)('a' + i % 26);
		assert_int_equal(spool_add(&s, str_n(line, sizeof line)), SPOOL_OK);
	}
	assert_true(s.fd >= 0);
	assert_int_equal(spool_finish(&s), SPOOL_OK);
	assert_int_equal(s.body.cap, 0);
	assert_int_equal(spool_body_size(&s), 2000 * sizeof line);
	struct str body;
	assert_int_equal(spool_map(&s, &body), 0);
	assert_int_equal(body.n, 2000 * sizeof line);
	for (int i = 0; i < 2000; i++)
		assert_int_equal(body.p[(size_t)i * sizeof line], 'a' + i % 26);
	spool_unmap(&s, body);
	int fd = spool_body_fd(&s);
	char c;
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &c, 1, (off_t)sizeof line), 1);
	assert_int_equal(c, 'b');
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	close(fd);
	spool_done(&s);
	assert_int_equal(h.used, 0);
}

static void test_memory_fd(void **state)
{
	(void)state;
	struct spool_house h = house(1 << 20, 1 << 20);
	struct spool s;
	char got[16];
	spool_init(&s, &h);
	spool_add(&s, STR("A: b\r\n\r\nhello\r\n"));
	assert_int_equal(spool_finish(&s), SPOOL_OK);
	int fd = spool_body_fd(&s);
	assert_int_equal(pread(fd, got, sizeof got, 0), 7);
	assert_memory_equal(got, "hello\r\n", 7);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1); /* sealed */
	close(fd);
	spool_done(&s);
}

/* A body grows from the heap into a memfd and on to disk, and is the same all the way. */
static void test_memfd_to_disk(void **state)
{
	(void)state;
	static char block[10000];
	for (unsigned blocks = 1; blocks < 40; blocks++) {
		struct spool_house h = house(250000, 1 << 20);
		struct spool s;
		struct str body;
		char c = 0;
		spool_init(&s, &h);
		assert_int_equal(spool_add(&s, STR("A: b\r\n\r\n")), SPOOL_OK);
		for (unsigned i = 0; i < blocks; i++) {
			memset(block, 'a' + (int)i % 26, sizeof block);
			assert_int_equal(spool_add(&s, str_n(block, sizeof block)), SPOOL_OK);
		}
		assert_int_equal(spool_finish(&s), SPOOL_OK);
		assert_int_equal(spool_body_size(&s), blocks * sizeof block);
		bool heap = blocks * sizeof block <= SPOOL_HEAP, disk = blocks * sizeof block > 250000;
		assert_int_equal(s.fd < 0, heap);
		assert_int_equal(!heap && s.on_disk, disk);
		assert_int_equal(h.used, s.head.cap + s.body.cap + (heap || disk ? 0 : blocks * sizeof block));
		assert_int_equal(spool_map(&s, &body), 0);
		assert_int_equal(body.n, blocks * sizeof block);
		for (size_t i = 0; i < body.n; i += 100)
			assert_int_equal(body.p[i], 'a' + (int)(i / sizeof block) % 26);
		int fd = spool_body_fd(&s);
		assert_true(fd >= 0);
		assert_int_equal(pread(fd, &c, 1, (off_t)body.n - 1), 1);
		assert_int_equal(c, 'a' + (int)(blocks - 1) % 26);
		assert_int_equal(pwrite(fd, "x", 1, 0), -1);
		if (!heap && !disk) /* nor through a descriptor made anew from that one: it is sealed */
			assert_int_equal(pwrite(s.fd, "x", 1, 0), -1);
		close(fd);
		spool_unmap(&s, body);
		spool_done(&s);
		assert_int_equal(h.used, 0);
	}
}

/* Large bodies take half of the budget at most; what is beyond goes to disk, and small ones still find room. */
static void test_half(void **state)
{
	(void)state;
	static char block[100000];
	struct spool_house h = house(1 << 20, 500000);
	struct spool s[4], small;
	memset(block, 'x', sizeof block);
	for (unsigned i = 0; i < 4; i++) {
		spool_init(&s[i], &h);
		assert_int_equal(spool_add(&s[i], STR("A: b\r\n\r\n")), SPOOL_OK);
		assert_int_equal(spool_add(&s[i], str_n(block, sizeof block)), SPOOL_OK);
		assert_int_equal(spool_finish(&s[i]), SPOOL_OK);
		assert_int_equal(s[i].on_disk, i >= 2);
	}
	assert_true(h.used <= h.max / 2 + 4096);
	spool_init(&small, &h);
	assert_int_equal(spool_add(&small, STR("A: b\r\n\r\n")), SPOOL_OK);
	assert_int_equal(spool_add(&small, str_n(block, 60000)), SPOOL_OK);
	spool_done(&small);
	for (unsigned i = 0; i < 4; i++)
		spool_done(&s[i]);
	assert_int_equal(h.used, 0);
}

static void test_budget(void **state)
{
	(void)state;
	struct spool_house h = house(1 << 20, 16384);
	struct spool a, b;
	char block[3000];
	memset(block, 'x', sizeof block);
	spool_init(&a, &h);
	spool_init(&b, &h);
	assert_int_equal(spool_add(&a, STR("A: b\r\n\r\n")), SPOOL_OK);
	assert_int_equal(spool_add(&a, str_n(block, sizeof block)), SPOOL_OK);
	assert_int_equal(spool_add(&b, STR("A: b\r\n\r\n")), SPOOL_OK);
	unsigned taken = 0;
	while (spool_add(&b, str_n(block, sizeof block)) == SPOOL_OK)
		taken++;
	assert_int_equal(taken, 2); /* the third would need 16 KiB beside the neighbour's 4 */
	assert_int_equal(b.fault, SPOOL_FULL);
	assert_true(h.used <= h.max);
	assert_int_equal(b.charged, 0); /* let go at once */
	assert_int_equal(spool_add(&b, str_n(block, sizeof block)), SPOOL_FULL);
	assert_int_equal(spool_finish(&b), SPOOL_FULL);
	/* the neighbour can go on with what was let go */
	assert_int_equal(spool_add(&a, str_n(block, 1000)), SPOOL_OK);
	assert_int_equal(spool_finish(&a), SPOOL_OK);
	spool_done(&a);
	spool_done(&b);
	assert_int_equal(h.used, 0);
}

static void test_header_limits(void **state)
{
	(void)state;
	struct spool_house h = house(1 << 20, 16 << 20);
	struct spool s;
	static char block[65536];
	/* one line without end, in small pieces */
	memset(block, 'x', sizeof block);
	spool_init(&s, &h);
	size_t sent = 0;
	while (spool_add(&s, str_n(block, 1000)) == SPOOL_OK)
		sent += 1000;
	assert_int_equal(s.fault, SPOOL_HEADERS_LONG);
	assert_true(sent <= SPOOL_HEADER_OCTETS && sent + 1000 > SPOOL_HEADER_OCTETS);
	spool_done(&s);
	/* exactly the limit passes, whatever comes behind it */
	spool_init(&s, &h);
	for (unsigned i = 0; i < SPOOL_HEADER_OCTETS / sizeof block; i++) {
		memcpy(block + sizeof block - 2, "\r\n", 2);
		assert_int_equal(spool_add(&s, str_n(block, sizeof block)), SPOOL_OK);
	}
	assert_int_equal(spool_add(&s, STR("\r\nbody\r\n")), SPOOL_OK);
	assert_int_equal(spool_finish(&s), SPOOL_OK);
	assert_int_equal(s.head.n, SPOOL_HEADER_OCTETS);
	assert_int_equal(s.body.n, 6);
	spool_done(&s);
	/* lines */
	for (unsigned extra = 0; extra < 2; extra++) {
		spool_init(&s, &h);
		for (unsigned i = 0; i < SPOOL_HEADER_LINES + extra; i++)
			spool_add(&s, STR("A: b\r\n"));
		spool_add(&s, STR("\r\nbody\r\n"));
		assert_int_equal(spool_finish(&s), extra ? SPOOL_HEADERS_MANY : SPOOL_OK);
		spool_done(&s);
	}
	assert_int_equal(h.used, 0);
}

static void test_no_folder(void **state)
{
	(void)state;
	struct spool_house h = { .dir = "/nonexistent/spool", .threshold = 10, .max = 1 << 20 };
	struct spool s;
	spool_init(&s, &h);
	assert_int_equal(spool_add(&s, STR("A: b\r\n\r\nmore than ten octets\r\n")), SPOOL_DISK);
	assert_true(s.spool_errno != 0);
	assert_int_equal(spool_finish(&s), SPOOL_DISK);
	spool_done(&s);
	assert_int_equal(h.used, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_split_points), cmocka_unit_test(test_file),
		cmocka_unit_test(test_memory_fd), cmocka_unit_test(test_memfd_to_disk), cmocka_unit_test(test_half),
		cmocka_unit_test(test_budget), cmocka_unit_test(test_header_limits), cmocka_unit_test(test_no_folder) };
	if (!mkdtemp(dir))
		return 1;
	int r = cmocka_run_group_tests(tests, NULL, NULL);
	if (rmdir(dir)) /* files are unlinked from birth */
		r = 1;
	return r;
}
