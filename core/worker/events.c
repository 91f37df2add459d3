/* host->event_new() and its kin: one-shot events of a module over the worker's event loop. What the module forgets is freed with the loop. */
#include "base/clock.h"
#include "concurrent.h"

#include <stdlib.h>

struct pepsi_event {
	TAILQ_ENTRY(pepsi_event) link;
	struct concurrent *c;
	struct event *ev;
	int fd;
	pepsi_event_fn fn;
	void *arg;
};

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct pepsi_event *e = arg;
	struct concurrent *c = e->c; /* the callback may free e */
	uint32_t is = (what & EV_READ ? PEPSI_IO_READ : 0) | (what & EV_WRITE ? PEPSI_IO_WRITE : 0) | (what & EV_TIMEOUT ? PEPSI_IO_TIMEOUT : 0);
	(void)fd;
	concurrent_enter(c, NULL);
	e->fn(e->arg, is);
	concurrent_leave(c);
}

struct pepsi_event *host_event_new(const struct pepsi_conf *conf, int fd, pepsi_event_fn fn, void *arg)
{
	if (!concurrent_usable(conf, "event_new"))
		return NULL;
	if (!fn || fd < -1) {
		concurrent_misuse("event_new(): %s", fn ? "no descriptor" : "no function to call back");
		return NULL;
	}
	struct concurrent *c = concurrent_here();
	struct pepsi_event *e = calloc(1, sizeof *e);
	if (!e || !(e->ev = event_new(concurrent_base(c), fd, 0, on_event, e))) {
		free(e);
		return NULL;
	}
	e->c = c;
	e->fd = fd;
	e->fn = fn;
	e->arg = arg;
	TAILQ_INSERT_TAIL(concurrent_events(c), e, link);
	return e;
}

int32_t host_event_arm(struct pepsi_event *e, uint32_t what, int64_t timeout_ms)
{
	short flags = (short)((what & PEPSI_IO_READ ? EV_READ : 0) | (what & PEPSI_IO_WRITE ? EV_WRITE : 0));
	struct timeval tv;
	if (!e || what & ~(PEPSI_IO_READ | PEPSI_IO_WRITE) || (what && e->fd < 0)) {
		concurrent_misuse("event_arm(): %s", !e ? "no event" : e->fd < 0 ? "a timer has nothing to read or write" : "PEPSI_IO_READ, PEPSI_IO_WRITE or both");
		return PEPSI_MISUSE;
	}
	if (event_del(e->ev) || event_assign(e->ev, concurrent_base(e->c), e->fd, flags, on_event, e))
		return PEPSI_RETRY;
	if (timeout_ms < 0 && !what)
		return PEPSI_OK;
	if (timeout_ms >= 0) {
		int64_t most = INT64_C(86400000) * 365; /* a year is never, and fits everywhere */
		int64_t ms = timeout_ms < most ? timeout_ms : most;
		tv = (struct timeval){ .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	}
	return event_add(e->ev, timeout_ms >= 0 ? &tv : NULL) ? PEPSI_RETRY : PEPSI_OK;
}

void host_event_free(struct pepsi_event *e)
{
	if (!e)
		return;
	TAILQ_REMOVE(concurrent_events(e->c), e, link);
	event_free(e->ev);
	free(e);
}

void events_free(struct concurrent *c)
{
	struct pepsi_event *e;
	while ((e = TAILQ_FIRST(concurrent_events(c))))
		host_event_free(e);
}
