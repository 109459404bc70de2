// SPDX-License-Identifier: Apache-2.0
/*
 * An index that came from the service is kept as it came (image/artifact/offer.h), in the image's
 * folder: the windows that unpacking begins with are read there, in no registry.
 */
#ifndef BOOTSEER_NODE_OFFER_FILE_H
#define BOOTSEER_NODE_OFFER_FILE_H

#include "image/artifact/artifact.h"
#include "image/artifact/offer.h"

#define OFFER_FILE "offer"

/* Has the offer the sizes that were signed with `a`?  -EBADMSG: it has others. */
int offer_check_sizes(const struct offer *o, const struct artifact *a,
		      struct error *err) MUST_CHECK;

/* Are the blobs of the offer that `fd` is open on those of `a`, byte for byte?  -EBADMSG: they
 * are not. */
int offer_check_blobs(int fd, const struct offer *o, const struct artifact *a,
		      struct error *err) MUST_CHECK;

/* The same of the offer in the folder of an image.  -ENOENT: it has none. */
int offer_file_check(const char *dir, const struct artifact *a,
		     struct error *err) MUST_CHECK;

/* Write the bytes of a good offer into that of the folder, in place: mounts that have it open
 * read these from then on. */
int offer_file_mend(const char *dir, int from, uint64_t size,
		    struct error *err) MUST_CHECK;

/* Open the offer in the folder of an image.  -ENOENT: it came otherwise. */
int offer_file_open(const char *dir, int *ret_fd, struct offer *ret,
		    struct error *err) MUST_CHECK;

/* Its metadata image and block map, as they came; both stay NULL where `dir` has no offer. */
int offer_file_members(const char *dir, struct source **ret_meta,
		       struct source **ret_map, struct error *err) MUST_CHECK;

/* Replace the source of the windows among the packs of `a`, where `dir` has an offer. */
int offer_file_windows(const char *dir, const struct artifact *a,
		       struct source **packs, struct error *err) MUST_CHECK;

#endif
