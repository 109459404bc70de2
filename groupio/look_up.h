// SPDX-License-Identifier: Apache-2.0
/*
 * The address of a host, looked up on a thread of its own.  The system's resolver waits for a
 * silent server as long as its configuration says, and cannot be told to stop: whoever does not
 * want the address any more leaves the thread to itself.  One thread calls these of a look-up.
 */
#ifndef BOOTSEER_GROUPIO_LOOK_UP_H
#define BOOTSEER_GROUPIO_LOOK_UP_H

#include <stdbool.h>
#include <sys/socket.h>

#include "common/error.h"

struct look_up;

int look_up_start(const char *host, const char *port, struct look_up **ret,
		  struct error *err) MUST_CHECK;
bool look_up_is_over(const struct look_up *l);
/* Free a look-up that is over: 0 and the first address, or what gai_strerror() explains. */
int look_up_take(struct look_up *l, struct sockaddr_storage *ret,
		 socklen_t *ret_len) MUST_CHECK;
/* Frees it now, or when its thread comes back.  NULL is allowed. */
void look_up_leave(struct look_up *l);

#endif
