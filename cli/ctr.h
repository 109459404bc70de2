// SPDX-License-Identifier: Apache-2.0
/* Run `ctr`, containerd's own command line, which is installed with every containerd. */
#ifndef BOOTSEER_CLI_CTR_H
#define BOOTSEER_CLI_CTR_H

#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

#define CTR_TIMEOUT_MS 60000 /* for commands that copy no images */

struct ctr_target {
	const char *address;   /* containerd's socket; NULL: ctr's default */
	const char *namespace; /* namespace of containerd; NULL: ctr's
	                        * default */
};

/*
 * Run ctr with at most 9 words.  `ret` (may be NULL) gets its stdout, up to the limit of `ret` or
 * 64 MiB; `in` is its stdin, or -1.
 *   -ENOENT     ctr is not installed
 *   -ETIMEDOUT  it did not end in time
 *   -EFBIG      it printed more than the limit
 *   -EIO        it failed; `err` has its own message
 */
int ctr_run(const struct ctr_target *at, const char *const words[], int in,
	    int64_t timeout_ms, struct buf *ret, struct error *err) MUST_CHECK;

#endif
