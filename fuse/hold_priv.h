// SPDX-License-Identifier: Apache-2.0
/* Names and variables on which keeper.c and hold.c agree, besides sd_notify(3). */
#ifndef BOOTSEER_FUSE_HOLD_PRIV_H
#define BOOTSEER_FUSE_HOLD_PRIV_H

/* "PID:FD": descriptor of the socket to the holder, in the process with that PID. */
#define HOLD_ENV "BOOTSEER_HOLD_SOCKET"
#define HOLD_ENV_MAX 32

#define HOLD_QUICK_TRIES 32u
/* Pause before a child is restarted; `n_failed` children before ended soon after their
 * starts. */
int hold_delay_ms(unsigned int n_failed);

#endif
