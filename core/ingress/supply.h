/* Where listening sockets and the PEM files of TLS come from. At the start the process may still open them itself
 * (ingress_supply_direct); at a reload it has given that right up, and gets them from a short-lived process that has not. */
#ifndef INGRESS_SUPPLY_H
#define INGRESS_SUPPLY_H

#include "base/buf.h"
#include "config/config.h"

/* Sockets that were passed to the daemon by a service manager (sd_listen_fds(3)); the descriptors stay the holder's. */
enum { INGRESS_INHERITED_MAX = 64, INGRESS_PEM_MAX = 1 << 20 };
struct ingress_inherited {
	size_t n;
	struct {
		char name[256];
		int fd;
	} of[INGRESS_INHERITED_MAX];
};

/* One word of a listener's BIND, ready to be opened. */
struct ingress_bind {
	struct str word;           /* as it stands in the configuration */
	struct config_bind at;     /* UNIX: name is the path, expanded */
	unsigned mode;             /* of a unix socket */
	char group[64];            /* "" : none */
};

struct ingress_supply {
	void *arg;
	/* Opens what b says; up to max descriptors (systemd may pass several under one name), owned by the caller. Their
	 * number, or -1 with a sentence in err. */
	int (*sockets)(void *arg, const struct ingress_bind *b, int *ret_fd, size_t max, char *err, size_t err_size);
	/* Appends the file's octets; out is secret (buf_free_secret). 0, or -1 with a sentence in err that names the file. */
	int (*file)(void *arg, const char *path, struct buf *out, char *err, size_t err_size);
};

/* Opens everything itself. inherited: NULL: none; must outlive it. */
struct ingress_supply ingress_supply_direct(const struct ingress_inherited *inherited);

/* The words of BIND of a listener section, expanded. Each goes to fn; a fault of the text to faults. */
typedef void (*ingress_bind_fn)(void *arg, const struct ingress_bind *b);
void ingress_binds(const struct config *c, const char *section, ingress_bind_fn fn, void *arg, struct config_faults *faults);
/* The PEM files a listener section names, expanded: TLS_CERT, TLS_KEY, TLS_CLIENT_CA. */
void ingress_files(const struct config *c, const char *section, void (*fn)(void *arg, const char *path), void *arg);
bool ingress_is_listener(const char *section);

#endif
