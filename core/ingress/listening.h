/* Listening sockets of the ingress: opened at the start, exchanged at a reload, each with the terms that new sessions begin
 * under. A socket that is no longer wanted is closed at once; its sessions go on to their end. */
#ifndef INGRESS_LISTENING_H
#define INGRESS_LISTENING_H

#include "net/listener.h"
#include "settings.h"
#include "supply.h"

struct ingress;
struct session;
struct net_conn;

struct listening {
	struct listening *next;
	struct ingress *in;
	struct terms *terms;         /* for new sessions */
	struct ingress_bind bind;    /* word points into text */
	char *text;
	int fd;
	uint16_t port;               /* TCP: that of the socket */
	struct net_listener *listener;
	unsigned sessions;           /* those that wait for a PROXY header included */
	unsigned waiting;            /* … of these: they are nobody yet, and take no place */
	bool kept;                   /* by the reload under way */
	bool gone;                   /* closed; freed with the last session */
};

/* The sockets of one listener section, under terms t; those that are open already are taken over. */
void listening_open(struct ingress *in, const struct config *c, const char *section, struct terms *t,
    const struct ingress_supply *supply, struct config_faults *faults);
/* Begins to accept. 0 or -1. */
int listening_start(struct listening *l);
/* Before a reload: nothing is kept. After it: what is not kept is closed. */
void listening_mark(struct ingress *in);
void listening_sweep(struct ingress *in);
/* Terms of that section in force, or NULL. */
struct terms *listening_terms(const struct ingress *in, const char *section);
/* All sockets of a section stay as they are. */
void listening_keep(struct ingress *in, const char *section);
/* Stops to accept, closes the socket. */
void listening_close(struct listening *l);
/* One of its sessions ended. */
void listening_leave(struct listening *l);
void listening_free_all(struct ingress *in);

/* A client is there, and it is known who: limits, then its session. Takes fd. via: the proxy it came by, or NULL. */
struct proxy_info;
void listening_admit(struct listening *l, int fd, const struct net_addr *peer, const struct proxy_info *via);

#endif
