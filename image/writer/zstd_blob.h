// SPDX-License-Identifier: Apache-2.0
/*
 * Content that is compressed into a nameless file as it comes, and stored from
 * there: the metadata of many files would fill the memory twice.
 */
#ifndef BOOTSEER_IMAGE_WRITER_ZSTD_BLOB_H
#define BOOTSEER_IMAGE_WRITER_ZSTD_BLOB_H

#include "image/artifact/parts.h"

struct upload_target;
struct zstd_blob;

/* `temp_dir` as for temp_file(); `level` of zstd, 0: 12. */
int zstd_blob_new(const char *temp_dir, int level, struct zstd_blob **ret,
		  struct error *err) MUST_CHECK;
void zstd_blob_free(struct zstd_blob *b);
DEFINE_AUTO(zstd_blob)

/* The next bytes; `whole` is how many there will be in all, the same each time. */
int zstd_blob_put(struct zstd_blob *b, uint64_t whole, const void *data,
		  size_t len, struct error *err) MUST_CHECK;

/* A blob that was stored. */
struct zstd_blob_stored {
	struct oci_descriptor blob; /* digest and size; no annotations */
	struct parts parts;         /* of the blob, or none: the caller's */
	struct digest plain;        /* of the content */
	uint64_t plain_size;
};

/* All was put: store the blob.  Call it once. */
int zstd_blob_store(struct zstd_blob *b, struct upload_target *to,
		    struct zstd_blob_stored *ret, struct error *err) MUST_CHECK;

#endif
