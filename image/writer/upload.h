// SPDX-License-Identifier: Apache-2.0
/* Blobs on their way to a store: a short queue and one thread. */
#ifndef BOOTSEER_IMAGE_WRITER_UPLOAD_H
#define BOOTSEER_IMAGE_WRITER_UPLOAD_H

#include "common/digest.h"
#include "common/error.h"

/* Takes a whole blob from offset 0 of `fd`, which it does not close. */
struct upload_target {
	int (*store)(struct upload_target *t, const struct digest *d,
		     uint64_t size, int fd, struct error *err);
};

struct upload;

int upload_new(struct upload_target *t, struct upload **ret,
	       struct error *err) MUST_CHECK;
void upload_free(struct upload *u); /* stops after the blob under way */
DEFINE_AUTO(upload)

/* Takes `fd`, also when it fails.  Waits while the queue is full; returns what
 * an earlier blob failed with. */
int upload_put(struct upload *u, const struct digest *d, uint64_t size, int fd,
	       struct error *err) MUST_CHECK;

/* Wait until all are stored. */
int upload_finish(struct upload *u, struct error *err) MUST_CHECK;

#endif
