// SPDX-License-Identifier: Apache-2.0
/*
 * An index that came from the service is kept unchanged (image/artifact/offer.h) in the image's
 * folder.  It holds the windows with which unpacking of spans begins, so these are read from
 * the file, not from a registry.
 */
#ifndef BOOTSEER_NODE_OFFER_FILE_H
#define BOOTSEER_NODE_OFFER_FILE_H

#include "image/artifact/artifact.h"
#include "image/artifact/offer.h"

#define OFFER_FILE "offer"

/* Does the offer have the sizes that were signed with `a`?  -EBADMSG: it does not. */
int offer_check_sizes(const struct offer *o, const struct artifact *a,
		      struct error *err) MUST_CHECK;

/* Are the blobs of the offer in the file `fd` those of `a`, byte for byte?  -EBADMSG: they are
 * not. */
int offer_check_blobs(int fd, const struct offer *o, const struct artifact *a,
		      struct error *err) MUST_CHECK;

/* Check the offer in the folder of an image in the same way.  -ENOENT: the folder has none. */
int offer_file_check(const char *dir, const struct artifact *a,
		     struct error *err) MUST_CHECK;

/* Overwrite the folder's damaged offer in place with the bytes of a good one: mounts that have
 * the file open read the good bytes from then on. */
int offer_file_mend(const char *dir, int from, uint64_t size,
		    struct error *err) MUST_CHECK;

/* Open the offer in the folder of an image.  -ENOENT: the image has no offer. */
int offer_file_open(const char *dir, int *ret_fd, struct offer *ret,
		    struct error *err) MUST_CHECK;

/* Open the offer's metadata image and block map, as stored; both stay NULL if `dir` has no
 * offer. */
int offer_file_members(const char *dir, struct source **ret_meta,
		       struct source **ret_map, struct error *err) MUST_CHECK;

/* Replace the source of the windows among the packs of `a`, if `dir` has an offer. */
int offer_file_windows(const char *dir, const struct artifact *a,
		       struct source **packs, struct error *err) MUST_CHECK;

#endif
