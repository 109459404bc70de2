// SPDX-License-Identifier: Apache-2.0
/* The process of a mount, until it serves. */
#ifndef BOOTSEER_CLI_CKPT_START_H
#define BOOTSEER_CLI_CKPT_START_H

#include <stdint.h>

#include "common/error.h"

/* The path of bootseer-ckpt, the caller's: beside this program, or else its name, for PATH. */
int ckpt_start_find(char **ret, struct error *err) MUST_CHECK;

/*
 * Run it, with its log in `dir`, and wait until it says that it serves; what it says before
 * goes to stderr.
 *
 *   -EINTR      SIGINT, SIGTERM or SIGHUP came, *ret_signal: the process has ended
 *   -ETIMEDOUT  it was not ready after `timeout_ms`, and is told to end
 *   -EIO        it ended, and why
 *   or another reason why it could not be started
 */
int ckpt_start(char *const argv[], const char *dir, int64_t timeout_ms,
	       int *ret_signal, struct error *err) MUST_CHECK;

#endif
