/* Which peers trickle (conn.h). Decides and tells the kernel; reads nothing. */
#include "conn_internal.h"

#include "base/clock.h"

#include <string.h>
#include <sys/socket.h>

void net_conn_patient(struct net_conn *c)
{
	c->patient = true;
}

bool net_conn_trickles(const struct net_conn *c)
{
	return c->trickles;
}

static void wake_at(struct net_conn *c, int octets)
{
	c->trickles = octets > 1;
	c->pause = c->left = 1;
	if (setsockopt(c->fd, SOL_SOCKET, SO_RCVLOWAT, &octets, sizeof octets))
		c->patient = c->trickles = false;
}

void net_conn_weigh(struct net_conn *c, const char *p, size_t n)
{
	if (!c->patient)
		return;
	bool ends = n && p[n - 1] == '\n', whole = ends && c->ended;
	c->ended = ends;
	if (n >= NET_TINY || whole) {
		c->tiny = 0;
		if (c->trickles)
			wake_at(c, 1);
		return;
	}
	if (n && memchr(p, '\n', n)) {
		c->tiny = 0;
		c->pause = c->left = 1; /* the peer has our answer: perhaps the next line comes faster */
		return;
	}
	if (c->trickles)
		return;
	int64_t now = clock_mono_us();
	if (!c->tiny++)
		c->tiny_us = now;
	if (c->tiny <= NET_TRICKLE_READS)
		return;
	if (now - c->tiny_us >= (int64_t)(c->tiny - 1) * NET_TRICKLE_GAP_US)
		wake_at(c, NET_TRICKLE_WAKE);
	else if (c->tiny == 4 * NET_TRICKLE_READS) /* what came fast long ago must not speak for what comes slowly now */
		c->tiny = 0;
}
