/* Runs scripts against the engine: a tiny driver without sockets. */
#include "peer.h"

#include "base/buf.h"

enum { MAX_RCPTS = 8 };

static const char *outcome_name(enum smtp_outcome o)
{
	static const char *const names[] = { "none", "ok", "transient", "permanent", "lost", "protocol" };
	return names[o];
}

static struct str z(const char *s)
{
	return str_from(s);
}

struct run {
	const struct script *s;
	struct smtp_client *c;
	struct smtp_client_msg msg;
	struct smtp_client_rcpt rcpts[MAX_RCPTS];
	struct buf sent, log;
	int messages; /* begun */
	bool tls, asked;
};

static void result_line(struct buf *b, const struct smtp_result *r)
{
	buf_addf(b, "%s%s %s %u %s %.*s\n", outcome_name(r->outcome), r->maybe ? "?" : "", smtp_phase_name(r->phase), r->code,
	    r->status[0] ? r->status : "-", STR_ARG(r->text));
}

static void on_ready(struct run *r)
{
	buf_addz(&r->log, "ready\n");
	if (r->s->tls && !r->tls && (smtp_client_caps(r->c, NULL) & SMTP_CAP_STARTTLS)) {
		r->tls = true;
		assert_int_equal(smtp_client_starttls(r->c), 0);
		assert_int_equal(smtp_client_quit(r->c), -1);
	} else if (r->s->auth && !r->asked) {
		r->asked = true;
		assert_int_equal(smtp_client_auth(r->c, r->s->auth), 0);
		assert_int_equal(smtp_client_send(r->c, &r->msg), -1);
	} else if (r->messages && smtp_client_full(r->c)) {
		buf_addz(&r->log, "full\n");
		assert_int_equal(smtp_client_send(r->c, &r->msg), -1);
		assert_int_equal(smtp_client_quit(r->c), 0);
	} else if (r->messages < (r->s->pair ? 2 : 1)) {
		r->messages++;
		assert_int_equal(smtp_client_send(r->c, &r->msg), 0);
	} else {
		assert_int_equal(smtp_client_quit(r->c), 0);
	}
}

static void on_event(struct run *r, enum smtp_client_event ev)
{
	switch (ev) {
	case SMTP_CEV_READY:
		on_ready(r);
		break;
	case SMTP_CEV_STARTTLS:
		buf_addz(&r->log, "starttls\n");
		smtp_client_feed(r->c, "250 late plaintext\r\n", 20);
		smtp_client_tls_started(r->c);
		break;
	case SMTP_CEV_TLS_REFUSED:
		buf_addz(&r->log, "tls-refused\n");
		break;
	case SMTP_CEV_SIGNED_IN:
		buf_addf(&r->log, "signed-in %s\n", smtp_client_auth_mech(r->c));
		assert_int_equal(smtp_client_auth_fault(r->c), SMTP_AUTH_NONE);
		assert_int_equal(smtp_client_auth(r->c, r->s->auth), -1);
		break;
	case SMTP_CEV_AUTH_FAILED:
		buf_addf(&r->log, "auth-failed %s ", smtp_auth_fault_name(smtp_client_auth_fault(r->c)));
		result_line(&r->log, smtp_client_failure(r->c));
		break;
	case SMTP_CEV_DONE:
		buf_addz(&r->log, "done\n");
		for (size_t i = 0; i < r->msg.n_rcpts; i++) {
			assert_int_equal(r->rcpts[i].result.text.p[r->rcpts[i].result.text.n], 0);
			result_line(&r->log, &r->rcpts[i].result);
		}
		break;
	case SMTP_CEV_CLOSED:
		buf_addz(&r->log, "closed ");
		result_line(&r->log, smtp_client_failure(r->c));
		break;
	case SMTP_CEV_NONE:
		break;
	}
}

/* Events and output until nothing moves; chunk: how many octets one write takes. */
static void turn(struct run *r, size_t chunk)
{
	struct str seg[SMTP_CLIENT_SEGMENTS];
	bool moved = true;
	while (moved) {
		enum smtp_client_event ev;
		moved = false;
		while ((ev = smtp_client_next(r->c))) {
			moved = true;
			on_event(r, ev);
		}
		size_t n = smtp_client_out(r->c, seg), left = chunk;
		for (size_t i = 0; i < n && left; i++) {
			size_t take = seg[i].n < left ? seg[i].n : left;
			buf_add(&r->sent, seg[i].p, take);
			left -= take;
			moved |= take > 0;
		}
		if (chunk - left)
			smtp_client_sent(r->c, chunk - left);
	}
}

/* split: feed the answers in two parts cut there; SIZE_MAX: octet by octet; 0: whole. Returns the longest answer. */
static size_t run(const struct script *s, size_t split, size_t chunk)
{
	struct smtp_client_conf conf = { .helo = STR("us"), .lmtp = s->lmtp, .tls = s->implicit };
	struct run r = { .s = s, .c = smtp_client_new(&conf), .sent = BUF_INIT(1 << 20), .log = BUF_INIT(1 << 16) };
	struct str to = z(s->to), word;
	size_t longest = 0;
	char junk[3000];
	memset(junk, 'x', sizeof junk);
	assert_non_null(r.c);
	r.msg = (struct smtp_client_msg){ .mail_from = z(s->from), .headers = z(s->headers), .body = z(s->body),
		.rcpts = r.rcpts, .ret = z(s->ret), .envid = z(s->envid), .body_8bit = s->body_8bit,
		.smtputf8 = s->smtputf8, .body_binary = s->binary, .require_tls = s->require_tls, .has_priority = s->urgent, .priority = 4, .whole = s->whole, .downgrade = s->downgrade, .chunking = s->chunking,
		.deliver_mode = s->urgent ? 'R' : 0, .deliver_by = 60 };
	while (r.msg.n_rcpts < MAX_RCPTS && str_word(&to, " ", &word)) {
		r.rcpts[r.msg.n_rcpts].notify = z(s->notify);
		r.rcpts[r.msg.n_rcpts].orcpt = z(s->orcpt);
		r.rcpts[r.msg.n_rcpts++].address = word;
	}
	for (size_t i = 0; i < 16 && s->steps[i].client; i++) {
		struct str answer = z(s->steps[i].server);
		bool eof = str_iends(answer, STR(EOF_));
		turn(&r, chunk);
		if (strcmp(buf_z(&r.sent), s->steps[i].client))
			print_error("%s step %zu: client sent \"%s\", not \"%s\"\n", s->name, i, buf_z(&r.sent),
			    s->steps[i].client);
		assert_string_equal(buf_z(&r.sent), s->steps[i].client);
		buf_reset(&r.sent);
		if (eof)
			answer.n -= strlen(EOF_);
		if (str_eq(answer, STR(LONG_)))
			answer = str_n(junk, sizeof junk);
		longest = answer.n > longest ? answer.n : longest;
		if (split == SIZE_MAX) {
			for (size_t k = 0; k < answer.n; k++) {
				char one = answer.p[k]; /* from the stack: the engine must have copied it */
				smtp_client_feed(r.c, &one, 1);
				one = 0;
				turn(&r, chunk);
			}
		} else {
			size_t at = split < answer.n ? split : answer.n;
			smtp_client_feed(r.c, answer.p, at);
			if (split)
				turn(&r, chunk);
			smtp_client_feed(r.c, answer.p + at, answer.n - at);
		}
		if (eof)
			smtp_client_lost(r.c, NULL);
	}
	turn(&r, chunk);
	assert_string_equal(buf_z(&r.sent), "");
	if (strcmp(buf_z(&r.log), s->result))
		print_error("%s (split %zu):\n%swanted:\n%s", s->name, split, buf_z(&r.log), s->result);
	assert_string_equal(buf_z(&r.log), s->result);
	buf_free(&r.sent);
	buf_free(&r.log);
	smtp_client_free(r.c);
	return longest;
}

void peer_check(const struct script *s)
{
	size_t longest = run(s, 0, SIZE_MAX);
	run(s, SIZE_MAX, SIZE_MAX);
	run(s, SIZE_MAX, 1);
	run(s, 0, 1);
	run(s, 0, 7);
	for (size_t i = 1; i < longest && i < 400; i++)
		run(s, i, SIZE_MAX);
}

void peer_check_all(const struct script *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		peer_check(&s[i]);
}
