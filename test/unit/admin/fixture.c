/* Sets up and removes what the admin's tests need. */
#include "fixture.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A check that holds in every build type; this file knows no test framework. */
#define need(cond) ((cond) ? (void)0 : (fprintf(stderr, "fixture: %s\n", #cond), abort()))

static void on_status(void *arg, struct buf *json)
{
	(void)arg;
	buf_addz(json, "\"stages\":[{\"name\":\"init\",\"program\":\"pepsi-stage-route\",\"workers\":2,\"in_flight\":1,"
		       "\"done\":40,\"crashes\":0}],\"ingress\":{\"sessions\":3}");
}

static void on_metrics(void *arg, struct buf *text)
{
	(void)arg;
	buf_addz(text, "# TYPE pepsi_smtp_sessions gauge\npepsi_smtp_sessions 3\n");
}

static bool is_healthy(void *arg, char *reason, size_t size)
{
	struct fixture *f = arg;
	snprintf(reason, size, "the listeners are down");
	return f->healthy;
}

static void on_wake(void *arg)
{
	struct fixture *f = arg;
	f->woken++;
}

static void on_reload(void *arg, void (*done)(void *ctx, const char *faults, bool in_force), void *ctx)
{
	struct fixture *f = arg;
	done(ctx, f->reload_faults, false);
}

static void on_stop(void *arg)
{
	struct fixture *f = arg;
	f->stopped++;
}

static void on_reports(void *arg, const char *stage, struct buf *json)
{
	(void)arg;
	buf_addf(json, "[{\"stage\":\"%s\",\"report\":{}}]", stage ? stage : "all");
}

static void on_recipient(void *arg, struct str address, void (*done)(void *ctx, const char *answer, const char *source, const char *why), void *ctx)
{
	(void)arg;
	done(ctx, str_eq(address, STR("alice@example.test")) ? "yes" : "no", str_eq(address, STR("alice@example.test")) ? "table" : "", "");
}

static const struct config *get_config(void *arg)
{
	struct fixture *f = arg;
	return f->conf;
}

struct config *fixture_config(const char *dir, const char *text)
{
	char path[128];
	struct config_faults *faults = config_faults_new();
	snprintf(path, sizeof path, "%s/pepsi.conf", dir);
	FILE *file = fopen(path, "w");
	need(file && faults);
	fputs(text, file);
	fclose(file);
	struct config *c = config_load(path, faults);
	need(c && config_faults_n(faults, true) == 0);
	config_faults_free(faults);
	unlink(path);
	return c;
}

void fixture_open(struct fixture *f, bool db)
{
	char err[128];
	struct config_faults *faults = config_faults_new();
	*f = (struct fixture){ .healthy = true };
	snprintf(f->dir, sizeof f->dir, "/tmp/pepsi-admin-XXXXXX");
	need(mkdtemp(f->dir));
	snprintf(f->socket, sizeof f->socket, "%s/run", f->dir);
	need(!mkdir(f->socket, 0755));
	snprintf(f->socket, sizeof f->socket, "%s/run/control.sock", f->dir);
	f->conf = fixture_config(f->dir, "[pepsi]\nHOSTNAME = mx.example.test\n[pepsi-httpd]\nBIND = none\n"
					 "HOSTS = metrics.example.test\n[stage-init]\nPROGRAM = pepsi-stage-discard\n");
	f->base = event_base_new();
	f->db = (struct store_conn){ .base = f->base, .up = true, .list = "[]", .show = "{\"id\":1}",
		.counts = { .total = 15, .pending = 5, .running = 4, .paused = 3, .failed = 2, .timeout = 1,
			.accepted = 115, .received = 100, .delivered = 80, .bounced = 15, .discarded = 5 } };
	f->a = admin_new(f->conf, f->dir, geteuid(), getegid(), faults);
	need(f->base && f->a && config_faults_n(faults, true) == 0);
	config_faults_free(faults);
	/* any free port; BIND always names one */
	f->a->http_fds[0] = net_listen("127.0.0.1", 0, err, sizeof err);
	need(f->a->http_fds[0] >= 0);
	f->a->n_http = 1;
	f->port = net_listen_port(f->a->http_fds[0]);
	const struct admin_source source = { f, on_status, on_metrics, is_healthy, on_wake, on_reload, on_stop, get_config, NULL, on_recipient, on_reports };
	need(!admin_start(f->a, f->base, db ? &f->db : NULL, &source));
}

void fixture_close(struct fixture *f)
{
	char path[128];
	admin_free(f->a);
	fake_store_release(&f->db);
	config_free(f->conf);
	event_base_free(f->base);
	need(access(f->socket, F_OK)); /* it took its socket away */
	snprintf(path, sizeof path, "%s/run", f->dir);
	rmdir(path);
	rmdir(f->dir);
}
