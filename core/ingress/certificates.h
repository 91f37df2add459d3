/* The ends of the certificates in use: told in time, and shown. */
#ifndef INGRESS_CERTIFICATES_H
#define INGRESS_CERTIFICATES_H

#include "base/buf.h"

#include <stdint.h>

struct ingress;

/* Once a turn of the clock: warns (at the start, after a reload, then once a day) of certificates that end within two weeks
 * or have ended, and of listeners none of whose certificates is valid for HOSTNAME. */
void certificates_watch(struct ingress *in, int64_t now_us);
/* Prometheus lines; the members of a JSON array. */
void certificates_metrics(const struct ingress *in, struct buf *out);
void certificates_status(const struct ingress *in, struct buf *out);

#endif
