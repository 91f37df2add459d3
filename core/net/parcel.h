/* Parcels between processes of ours over SOCK_SEQPACKET: some octets, and perhaps a descriptor with a body. What does not
 * fit into a datagram travels in a sealed memfd. The receiver believes nothing: a memfd must be one, sealed, and as large as
 * was said, so that nobody can cut it short under a mapping. */
#ifndef NET_PARCEL_H
#define NET_PARCEL_H

#include "base/buf.h"

/* Sends it at once. body_fd: -1, or borrowed. 1: sent. 0: there is no room now. -1: broken (errno). */
int net_parcel_send(int sock, struct str record, int body_fd);
/* The next one into out (emptied before), whose limit counts. *ret_body_fd: -1, or the caller's, not looked at yet.
 * 1: got one. 0: nothing there now. -1: the other side is gone, or what it sent is no parcel. */
int net_parcel_recv(int sock, struct buf *out, int *ret_body_fd);
/* A sealed memfd with these octets, or -1 (errno). */
int net_sealed_new(const char *name, struct str s);
/* Is fd a memfd of exactly this size that nobody can change any more? */
bool net_sealed(int fd, uint64_t size);

#endif
