// SPDX-License-Identifier: Apache-2.0
/* The service manager's side of a start: sd_notify(3) and sd_listen_fds(3). */
#ifndef BOOTSEER_COMMON_NOTIFY_H
#define BOOTSEER_COMMON_NOTIFY_H

/* Send a state such as "READY=1" or "STOPPING=1" to the service manager, if there is one. */
void notify_send(const char *state);

/* The listening socket that the service manager passed to this process, or -1.  The caller owns
 * it; further calls return -1. */
int notify_take_socket(void);

#endif
