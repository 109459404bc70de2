// SPDX-License-Identifier: Apache-2.0
/*
 * Compresses content into a nameless file as it comes, and stores it from there: kept in memory,
 * the metadata of many files would take twice the room.
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

/* Add the next bytes; `whole` is the length of the whole content, the same in each call. */
int zstd_blob_put(struct zstd_blob *b, uint64_t whole, const void *data,
		  size_t len, struct error *err) MUST_CHECK;

/* A blob that was stored. */
struct zstd_blob_stored {
	struct oci_descriptor blob; /* digest and size; no annotations */
	/* of the blob; may be empty; the caller owns them */
	struct parts parts;
	struct digest plain; /* of the content */
	uint64_t plain_size;
};

/* Store the blob after all bytes were put. Call it once. */
int zstd_blob_store(struct zstd_blob *b, struct upload_target *to,
		    struct zstd_blob_stored *ret, struct error *err) MUST_CHECK;

#endif
