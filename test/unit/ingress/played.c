/* The worker that a test plays (played.h). */
#include "played.h"

#include "net/parcel.h"

#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

struct played spawner;

static void start(void *arg, uint32_t token, const char *stage)
{
	(void)arg;
	spawner.started++;
	spawner.token = token;
	snprintf(spawner.stage, sizeof spawner.stage, "%s", stage);
}

static void kill_it(void *arg, pid_t pid, int sig)
{
	(void)arg;
	assert_int_equal(sig, SIGKILL);
	spawner.killed++;
	spawner.pid = pid;
}

void settle(struct world *w)
{
	for (unsigned i = 0; i < 50; i++)
		world_turn(w);
}

/* The worker that was asked for comes; our end of its channel. */
int come(struct world *w, pid_t pid)
{
	int sv[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv), 0);
	assert_true(spawner.token & INGRESS_TOKEN);
	assert_true(ingress_worker_started(w->in, spawner.token, pid, sv[0]));
	assert_int_equal(net_parcel_send(sv[1], STR(WIRE_BEFORE_READY), -1), 1);
	settle(w);
	return sv[1];
}

struct job get_job(int sock)
{
	struct job j = { .record = BUF_INIT(WIRE_BEFORE_MAX), .a = arena_new(1 << 20) };
	assert_int_equal(net_parcel_recv(sock, &j.record, &j.fd), 1);
	assert_int_equal(wire_job_get(buf_str(&j.record), j.a, &j.ms, &j.item), 0);
	return j;
}

void drop_job(struct job *j)
{
	if (j->fd >= 0)
		close(j->fd);
	arena_free(j->a);
	buf_free(&j->record);
}

void say(struct world *w, int sock, const struct wire_verdict *v, int fd)
{
	struct buf out = BUF_INIT(WIRE_BEFORE_MAX);
	assert_int_equal(wire_verdict_put(&out, v), 0);
	assert_int_equal(net_parcel_send(sock, buf_str(&out), fd), 1);
	buf_free(&out);
	settle(w);
}

void play(struct world *w)
{
	memset(&spawner, 0, sizeof spawner);
	w->in->before->sp = (struct ingress_spawner){ NULL, start, kill_it };
}
