// SPDX-License-Identifier: Apache-2.0
/* Names and variables that keeper.c and hold.c agree on, beside
 * sd_notify(3). */
#ifndef BOOTSEER_FUSE_HOLD_PRIV_H
#define BOOTSEER_FUSE_HOLD_PRIV_H

/* "PID:FD": the socket to the holder, in the process that it started. */
#define HOLD_ENV "BOOTSEER_HOLD_SOCKET"
#define HOLD_ENV_MAX 32

#define HOLD_QUICK_TRIES 32u
/* How long a child that ended is not started again: the `n_failed` ones before it ended
 * soon after their starts, too. */
int hold_delay_ms(unsigned int n_failed);

#endif
