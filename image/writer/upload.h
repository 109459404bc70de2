// SPDX-License-Identifier: Apache-2.0
/* Uploads blobs to a store: a short queue and one thread. */
#ifndef BOOTSEER_IMAGE_WRITER_UPLOAD_H
#define BOOTSEER_IMAGE_WRITER_UPLOAD_H

#include "common/digest.h"
#include "common/error.h"

/* Stores a whole blob, read from offset 0 of `fd`, which it does not close. */
struct upload_target {
	int (*store)(struct upload_target *t, const struct digest *d,
		     uint64_t size, int fd, struct error *err);
};

struct upload;

int upload_new(struct upload_target *t, struct upload **ret,
	       struct error *err) MUST_CHECK;
/* stops after the blob that is being stored */
void upload_free(struct upload *u);
DEFINE_AUTO(upload)

/* Add a blob; takes over `fd`, also when it fails. Waits while the queue is full; returns
 * the error of an earlier blob that failed. */
int upload_put(struct upload *u, const struct digest *d, uint64_t size, int fd,
	       struct error *err) MUST_CHECK;

/* Wait until all blobs are stored. */
int upload_finish(struct upload *u, struct error *err) MUST_CHECK;

#endif
