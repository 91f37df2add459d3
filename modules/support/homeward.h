/* Bounces to return addresses of ours go to whom these were made of (stages srs and verp): the terminal that both end with. */
#ifndef SUPPORT_HOMEWARD_H
#define SUPPORT_HOMEWARD_H

#include "base/str.h"

#include <pepsi/stage.h>

/* home[i]: where recipient i leads; NULL: he stays as he is. All recipients of the message, each address once: whoever has one return address of
 * somebody's may write it a thousand times, and it is one bounce all the same. The next stage has the message then; the result is process()'s. */
int32_t homeward(const struct pepsi_host *h, struct pepsi_msg *m, char *const *home);

#endif
