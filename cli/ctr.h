// SPDX-License-Identifier: Apache-2.0
/* Questions to containerd by `ctr`, which every containerd brings. */
#ifndef BOOTSEER_CLI_CTR_H
#define BOOTSEER_CLI_CTR_H

#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

#define CTR_TIMEOUT_MS 60000 /* for what is not copied */

struct ctr_target {
	const char *address;   /* containerd's socket; NULL: ctr's default */
	const char *namespace; /* of containerd; NULL: ctr's default */
};

/*
 * Run ctr with these words, 9 at most.  `ret` (or NULL) is what it prints on stdout,
 * up to its limit, or 64 MiB when it has none; `in` is its stdin, or -1.
 *   -ENOENT     there is no ctr
 *   -ETIMEDOUT  it did not end in time
 *   -EFBIG      it prints more
 *   -EIO        it failed; `err` has what it says of that
 */
int ctr_run(const struct ctr_target *at, const char *const words[], int in,
	    int64_t timeout_ms, struct buf *ret, struct error *err) MUST_CHECK;

#endif
