/* Who lives here, with a database and accounts that are scripts: coalescing, caching, what is away, late answers; files. */
#include "ingress/greylist.h"
#include "ingress/recipients_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

struct script {
	bool down, no_child;
	struct { store_recipient_row_fn row; store_recipient_done_fn done; void *arg; char names[8192], aliases[8192]; } call[8];
	unsigned n, accounts;
	uint64_t account_id;
	char account[64];
};

static bool up(void *ctx)
{
	return !((struct script *)ctx)->down;
}

static void join(char *out, size_t size, const struct str *s, size_t n)
{
	size_t at = 0;
	*out = 0;
	for (size_t i = 0; i < n && at < size; i++)
		at += (size_t)snprintf(out + at, size - at, "%s%.*s", i ? " " : "", STR_ARG(s[i]));
}

static void lookup(void *ctx, const struct str *names, size_t n, const struct str *aliases, size_t n_aliases, store_recipient_row_fn row,
    store_recipient_done_fn done, void *arg)
{
	struct script *s = ctx;
	assert_true(s->n < 8);
	s->call[s->n].row = row;
	s->call[s->n].done = done;
	s->call[s->n].arg = arg;
	join(s->call[s->n].names, sizeof s->call[0].names, names, n);
	join(s->call[s->n].aliases, sizeof s->call[0].aliases, aliases, n_aliases);
	s->n++;
}

static int account(void *ctx, uint64_t id, struct str name)
{
	struct script *s = ctx;
	if (s->no_child)
		return -1;
	s->accounts++;
	s->account_id = id;
	snprintf(s->account, sizeof s->account, "%.*s", STR_ARG(name));
	return 0;
}

struct world {
	struct event_base *base;
	struct recipients *r;
	struct script s;
	struct config *conf;
	char dir[64], file[96];
};

/* file: the section ends with w->file as source. */
static struct world *world(const char *text, bool file)
{
	struct world *w = calloc(1, sizeof *w);
	struct config_faults *faults = config_faults_new();
	struct recipient_backend be = { &w->s, up, lookup, account };
	struct recipients_settings set = { 100, 3600 * INT64_C(1000000) };
	char path[128];
	snprintf(w->dir, sizeof w->dir, "/tmp/pepsi-unit-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->file, sizeof w->file, "%s/list", w->dir);
	snprintf(path, sizeof path, "%s/conf", w->dir);
	FILE *f = fopen(path, "w");
	fputs(text, f);
	if (file)
		fprintf(f, "RECIPIENTS = file:%s\n", w->file);
	fclose(f);
	w->conf = config_load(path, faults);
	unlink(path);
	assert_int_equal(config_faults_n(faults, true), 0);
	config_faults_free(faults);
	w->base = event_base_new();
	w->r = recipients_new(w->base, &be);
	assert_int_equal(recipients_configure(w->r, w->conf, &set, NULL), 0);
	return w;
}

static void world_end(struct world *w)
{
	recipients_free(w->r);
	/* late answers find nobody */
	for (unsigned i = 0; i < w->s.n; i++)
		if (w->s.call[i].done)
			w->s.call[i].done(w->s.call[i].arg, STORE_OK, 0, "");
	event_base_free(w->base);
	config_free(w->conf);
	unlink(w->file);
	assert_int_equal(rmdir(w->dir), 0);
	free(w);
}

static void turn(struct world *w)
{
	event_base_loop(w->base, EVLOOP_NONBLOCK);
}

/* The i-th call: these names are there ('+' in front: as an alias). */
static void give(struct world *w, unsigned i, enum store_rc rc, const char *there)
{
	struct str rest = str_from(there), name;
	assert_true(i < w->s.n && w->s.call[i].done);
	while (str_word(&rest, " ", &name))
		w->s.call[i].row(w->s.call[i].arg, name.p[0] == '+' ? str_skip(name, 1) : name, name.p[0] == '+');
	store_recipient_done_fn done = w->s.call[i].done;
	w->s.call[i].done = NULL;
	done(w->s.call[i].arg, rc, 0, "");
}

struct asked {
	enum recipient_answer answer;
	unsigned n;
	struct recipient_ask *ask;
	const char *source;
};

static void on_answer(void *arg, enum recipient_answer a, const char *source)
{
	struct asked *q = arg;
	q->answer = a;
	q->source = source;
	q->n++;
}

static enum recipient_answer ask(struct world *w, const char *address, struct asked *q)
{
	const char *at = strrchr(address, '@');
	*q = (struct asked){ .n = 0 };
	q->answer = recipients_ask(w->r, str_n(address, (size_t)(at - address)), str_from(at + 1), on_answer, q, &q->ask, &q->source);
	return q->answer;
}

static void test_table(void **state)
{
	struct world *w = world("[pepsi]\nRECIPIENTS = table aliases\nRECIPIENT_DELIMITER = +-\n", false);
	struct asked a, b, c, d, e;
	(void)state;
	assert_true(recipients_wanted(w->r));
	assert_int_equal(ask(w, "Alice+x@Example.TEST.", &a), RECIPIENT_WAIT);
	assert_int_equal(ask(w, "alice+x@example.test", &b), RECIPIENT_WAIT); /* the same question */
	assert_int_equal(ask(w, "bob@example.test", &c), RECIPIENT_WAIT);
	assert_int_equal(ask(w, "sales@example.test", &d), RECIPIENT_WAIT);
	assert_int_equal(ask(w, "gone@example.test", &e), RECIPIENT_WAIT);
	recipients_cancel(e.ask);
	turn(w);
	assert_int_equal(w->s.n, 1); /* one statement */
	assert_string_equal(w->s.call[0].names, "alice+x@example.test alice@example.test @example.test bob@example.test @example.test "
						"sales@example.test @example.test gone@example.test @example.test");
	assert_non_null(strstr(w->s.call[0].aliases, "@example.test alice+x alice bob@"));
	give(w, 0, STORE_OK, "alice@example.test +sales");
	assert_true(a.n == 1 && a.answer == RECIPIENT_YES && b.n == 1 && b.answer == RECIPIENT_YES);
	assert_string_equal(a.source, "table");
	assert_true(c.n == 1 && c.answer == RECIPIENT_NO && d.answer == RECIPIENT_YES && e.n == 0);
	assert_string_equal(d.source, "aliases");
	/* known, yes and no */
	assert_int_equal(ask(w, "alice+x@example.test", &a), RECIPIENT_YES);
	assert_int_equal(ask(w, "bob@example.test", &a), RECIPIENT_NO);
	assert_int_equal(ask(w, "PostMaster@example.test", &a), RECIPIENT_YES);
	turn(w);
	assert_int_equal(w->s.n, 1);
	/* until something changes */
	recipients_changed(w->r);
	assert_int_equal(ask(w, "bob@example.test", &a), RECIPIENT_WAIT);
	turn(w);
	recipients_changed(w->r); /* while it is asked: the answer counts, and is not kept */
	give(w, 1, STORE_OK, "bob@example.test");
	assert_int_equal(a.answer, RECIPIENT_YES);
	assert_int_equal(ask(w, "bob@example.test", &a), RECIPIENT_WAIT);
	turn(w);
	give(w, 2, STORE_OK, "@example.test");
	assert_int_equal(a.answer, RECIPIENT_YES);
	world_end(w);
}

static void test_away(void **state)
{
	struct world *w = world("[pepsi]\nRECIPIENTS = table\n", false);
	struct asked a;
	(void)state;
	w->s.down = true;
	assert_int_equal(ask(w, "x@example.test", &a), RECIPIENT_AWAY);
	w->s.down = false;
	assert_int_equal(ask(w, "x@example.test", &a), RECIPIENT_WAIT);
	turn(w);
	give(w, 0, STORE_AWAY, "");
	assert_true(a.n == 1 && a.answer == RECIPIENT_AWAY);
	assert_int_equal(ask(w, "x@example.test", &a), RECIPIENT_WAIT); /* that is nothing to remember */
	turn(w);
	recipients_tick(w->r, INT64_MAX / 2); /* nobody answers */
	assert_true(a.n == 1 && a.answer == RECIPIENT_AWAY);
	give(w, 1, STORE_OK, "x@example.test");
	assert_int_equal(a.n, 1);
	assert_int_equal(ask(w, "y@example.test", &a), RECIPIENT_WAIT);
	turn(w);
	recipients_cancel(a.ask); /* the session ends first */
	world_end(w);
}

static void test_bounded(void **state)
{
	struct world *w = world("[pepsi]\nRECIPIENTS = table\n", false);
	struct asked a;
	char text[64];
	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(text, sizeof text, "u%u@example.test", i);
		assert_int_equal(ask(w, text, &a), RECIPIENT_WAIT);
		turn(w);
		give(w, 0, STORE_OK, "");
		assert_int_equal(a.answer, RECIPIENT_NO);
		w->s.n = 0;
	}
	assert_int_equal(w->r->answered.n, 100);
	assert_int_equal(w->r->by_hash.n, 100);
	world_end(w);
}

static void test_accounts(void **state)
{
	struct world *w = world("[pepsi]\nRECIPIENTS = table system\nRECIPIENT_DELIMITER = +\n[domain-other.test]\nRECIPIENTS = any\n", false);
	struct asked a;
	(void)state;
	assert_int_equal(ask(w, "who@other.test", &a), RECIPIENT_YES);
	assert_int_equal(ask(w, "root+x@example.test", &a), RECIPIENT_WAIT);
	assert_string_equal(w->s.account, "root");
	turn(w);
	give(w, 0, STORE_OK, "");
	assert_int_equal(a.n, 0); /* the other one may know it */
	recipients_account(w->r, w->s.account_id, RECIPIENT_YES);
	assert_true(a.n == 1 && a.answer == RECIPIENT_YES);
	assert_string_equal(a.source, "system");
	/* one says no, the other cannot be asked: that is no "no" */
	w->s.no_child = true;
	assert_int_equal(ask(w, "bob@example.test", &a), RECIPIENT_WAIT);
	turn(w);
	give(w, 1, STORE_OK, "");
	assert_true(a.n == 1 && a.answer == RECIPIENT_AWAY);
	w->s.no_child = false;
	assert_int_equal(ask(w, "bob@example.test", &a), RECIPIENT_WAIT);
	recipients_accounts_away(w->r);
	assert_true(a.n == 1 && a.answer == RECIPIENT_AWAY);
	recipients_account(w->r, w->s.account_id, RECIPIENT_YES); /* late */
	/* the first yes ends it; the second answer finds nobody, and is kept */
	assert_int_equal(ask(w, "carol@example.test", &a), RECIPIENT_WAIT);
	uint64_t id = w->s.account_id;
	turn(w);
	give(w, 2, STORE_OK, "carol@example.test");
	assert_true(a.n == 1 && a.answer == RECIPIENT_YES);
	recipients_account(w->r, id, RECIPIENT_NO);
	assert_int_equal(a.n, 1);
	world_end(w);
}

static void write_file(struct world *w, const char *text)
{
	FILE *f = fopen(w->file, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void test_files(void **state)
{
	struct world *w = world("[pepsi]\nRECIPIENT_DELIMITER = +\n", true);
	struct asked a;
	char big[64];
	(void)state;
	assert_int_equal(ask(w, "alice@example.test", &a), RECIPIENT_AWAY); /* it is not there: nobody knows */
	write_file(w, "# alice2@example.test\nAlice@Example.test rest\r\n\n\t bob@example.test\n@all.test\nlocal\nlast@example.test");
	recipients_tick(w->r, 0);
	static const struct {
		const char *address;
		enum recipient_answer answer;
	} c[] = { { "alice@example.test", RECIPIENT_YES }, { "alice2@example.test", RECIPIENT_NO }, { "alice+x@example.test", RECIPIENT_YES },
		{ "bob@example.test", RECIPIENT_YES }, { "rest@example.test", RECIPIENT_NO }, { "x@all.test", RECIPIENT_YES },
		{ "local@example.test", RECIPIENT_YES }, { "local+y@other.test", RECIPIENT_YES }, { "last@example.test", RECIPIENT_YES },
		{ "+x@example.test", RECIPIENT_NO } };
	for (size_t i = 0; i < sizeof c / sizeof *c; i++)
		assert_int_equal(ask(w, c[i].address, &a), c[i].answer);
	/* a new content, a piece at a time: the old one counts until the new one is whole */
	FILE *f = fopen(w->file, "w");
	for (unsigned i = 0; i < 50000; i++)
		fprintf(f, "user%u@example.test\n", i);
	fclose(f);
	recipients_tick(w->r, 0);
	assert_int_equal(ask(w, "alice@example.test", &a), RECIPIENT_YES);
	for (unsigned i = 0; i < 100 && recipient_file_reads(w->r->files[0]) < 2; i++)
		turn(w);
	assert_int_equal(recipient_file_names(w->r->files[0]), 50000);
	assert_int_equal(ask(w, "alice@example.test", &a), RECIPIENT_NO);
	for (unsigned i = 0; i < 50000; i += 777) {
		snprintf(big, sizeof big, "user%u@example.test", i);
		assert_int_equal(ask(w, big, &a), RECIPIENT_YES);
	}
	/* gone: what was read goes on */
	unlink(w->file);
	recipients_tick(w->r, 0);
	assert_int_equal(ask(w, "user1@example.test", &a), RECIPIENT_YES);
	/* over a reload it is not read again */
	struct recipients_settings set = { 100, 1000000 };
	assert_int_equal(recipients_configure(w->r, w->conf, &set, NULL), 0);
	assert_int_equal(ask(w, "user1@example.test", &a), RECIPIENT_YES);
	world_end(w);
}

static void test_hash(void **state)
{
	struct net_addr a, b, c;
	struct store_greylist_key x, y;
	(void)state;
	net_addr_parse(&a, STR("192.0.2.1"), 0);
	net_addr_parse(&b, STR("192.0.2.200"), 0);
	net_addr_parse(&c, STR("192.0.3.1"), 0);
#define SAME(n1, s1, r1, n2, s2, r2)                                                                                    \
	(greylist_hash(&n1, STR(s1), STR(r1), &x), greylist_hash(&n2, STR(s2), STR(r2), &y), memcmp(x.triplet, y.triplet, sizeof x.triplet) == 0)
	assert_true(SAME(a, "a@x.test", "r@y.test", b, "A@X.test", "R@y.test"));
	assert_memory_equal(x.net, y.net, sizeof x.net);
	assert_true(SAME(a, "bounces-17-a@x.test", "r@y.test", a, "bounces-4711-a@x.test", "r@y.test"));
	assert_true(SAME(a, "list+r=y.test@x.test", "r@y.test", a, "list+q=y.test@x.test", "r@y.test"));
	assert_false(SAME(a, "a@x1.test", "r@y.test", a, "a@x2.test", "r@y.test"));
	assert_false(SAME(a, "a@x.test", "r@y.test", a, "a@x.test", "q@y.test"));
	assert_false(SAME(a, "a@x.test", "r@y.test", c, "a@x.test", "r@y.test"));
	assert_memory_not_equal(x.net, y.net, sizeof x.net);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table), cmocka_unit_test(test_away), cmocka_unit_test(test_bounded), cmocka_unit_test(test_accounts),
		cmocka_unit_test(test_files), cmocka_unit_test(test_hash),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
