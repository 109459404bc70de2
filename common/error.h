// SPDX-License-Identifier: Apache-2.0
/* Errors are values that travel with their context; see docs/style.md. */
#ifndef BOOTSEER_COMMON_ERROR_H
#define BOOTSEER_COMMON_ERROR_H

#include "common/cleanup.h"

#define ERROR_MSG_MAX 512 /* bytes, terminating NUL included */

/*
 * Why an operation failed.  A plain value: it owns no memory, needs no
 * release call, and may be copied between threads by assignment.
 */
struct error {
	int code;                /* positive errno; 0 when unset */
	char msg[ERROR_MSG_MAX]; /* outermost context first, no newline */
};

#define ERROR_INIT \
	{ \
		.code = 0 \
	}

/*
 * Record `code` (a positive errno) and a message in `err`, which may be NULL.
 * Returns -code.  Does not change errno.
 */
int error_set(struct error *err, int code, const char *fmt, ...) PRINTF(3, 4);

/*
 * Put "context: " before the message of `err`, which may be NULL. A message that gets too long is
 * cut at its end.  Returns `rc` unchanged.
 */
int error_wrap(struct error *err, int rc, const char *fmt, ...) PRINTF(3, 4);

/*
 * Returns an ending for the message of an operation that failed with `code`: ":
 * run it as root, for example with sudo" when rights are missing and this
 * process is not root, "" otherwise.
 */
const char *error_root_hint(int code);

/* error_set(), with the system's text for `code` after the message: ": No such file ...". */
int error_errno(struct error *err, int code, const char *fmt, ...) PRINTF(3, 4);

/* error_set() for a failed allocation. */
int error_nomem(struct error *err);

/* Record that listening on `where` failed with errno `code`, and how to mend that.  `option` is
 * the option that sets the address, such as "--listen".  Returns -code. */
int error_listen(struct error *err, int code, const char *where,
		 const char *option);

#endif
