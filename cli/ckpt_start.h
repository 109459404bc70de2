// SPDX-License-Identifier: Apache-2.0
/* Start the process of a mount and wait until it serves. */
#ifndef BOOTSEER_CLI_CKPT_START_H
#define BOOTSEER_CLI_CKPT_START_H

#include <stdint.h>

#include "common/error.h"

/* The path of bootseer-ckpt, owned by the caller: beside this program, else its plain name, to be
 * found in PATH. */
int ckpt_start_find(char **ret, struct error *err) MUST_CHECK;

/*
 * Run the program with its log in `dir`, and wait until it says that the mount is served.  What it
 * prints before goes to stderr.
 *
 *   -EINTR      signal *ret_signal (SIGINT, SIGTERM, SIGHUP) came: the process was ended
 *   -ETIMEDOUT  it was not ready after `timeout_ms`, and was told to end
 *   -EIO        it ended; the message says why
 *   or another reason why it could not be started
 */
int ckpt_start(char *const argv[], const char *dir, int64_t timeout_ms,
	       int *ret_signal, struct error *err) MUST_CHECK;

#endif
