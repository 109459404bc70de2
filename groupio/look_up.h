// SPDX-License-Identifier: Apache-2.0
/*
 * Looks up the address of a host on a separate thread. The system's resolver may wait long for a
 * silent server and cannot be cancelled; so a caller that needs the address no longer abandons
 * the thread. The functions of one look-up must be called by one thread.
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
/* Abandon a look-up: freed now, or when its thread returns. NULL is allowed. */
void look_up_leave(struct look_up *l);

#endif
