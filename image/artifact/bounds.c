// SPDX-License-Identifier: Apache-2.0
/*
 * Limits on the unpacked sizes of an artifact, from its manifest and config alone:
 * docs/formats/artifact.md, "Sizes". A few bytes of zstd unpack to gigabytes, and anybody who
 * may push an artifact chooses every number in it; so each number is compared with the bytes
 * that must really be sent.
 */
#include <errno.h>
#include <inttypes.h>

#include "blockstore/blockstore.h"
#include "common/bytes.h"
#include "image/artifact/artifact.h"

#define FREE_BYTES (16 * MIB) /* allowed in any case */
#define RATIO_MAX 256u        /* unpacked bytes allowed for each byte sent */
#define INODE_BYTES 2048u     /* an inode's name, attributes, xattrs */
/* Chunk indexes take a byte for so many bytes of files: at least 8 for 4 KiB. */
#define CHUNK_SHARE 512u
#define FOLDER_BYTES 16384u /* the folder, its state, a recording's list */
#define MAP_HEADER 64u
#define MAP_BLOCK 64u
#define MAP_PACK 40u
/* only of an index, for each block; its spans are in FREE_BYTES */
#define MAP_PLACE 24u

/* a + b * c, or UINT64_MAX when that overflows. */
static uint64_t add_product(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t product, sum;

	if (__builtin_mul_overflow(b, c, &product) ||
	    __builtin_add_overflow(a, product, &sum))
		return UINT64_MAX;
	return sum;
}

static int check_blob(const char *what, uint64_t unpacked, uint64_t blob,
		      struct error *err)
{
	if (unpacked > add_product(FREE_BYTES, blob, RATIO_MAX))
		return error_set(err, EINVAL,
				 "artifact: a %s of %" PRIu64
				 " bytes that is sent as %" PRIu64,
				 what, unpacked, blob);
	/* zstd never makes its input so much larger. */
	if (blob > add_product(FREE_BYTES, unpacked, 2))
		return error_set(err, EINVAL,
				 "artifact: a %s of %" PRIu64
				 " bytes that is sent as %" PRIu64,
				 what, unpacked, blob);
	return 0;
}

int artifact_check_sizes(const struct artifact *a, struct error *err)
{
	uint64_t meta_max =
		add_product(FREE_BYTES + a->image_size / CHUNK_SHARE,
			    a->n_inodes, INODE_BYTES);
	bool is_index = a->format == ARTIFACT_FORMAT_INDEX;
	uint64_t map_max =
		add_product(MAP_HEADER + (uint64_t)MAP_PACK * a->n_packs +
				    (is_index ? FREE_BYTES : 0),
			    a->device_size / BLOCK_ALIGN + 1,
			    MAP_BLOCK + (is_index ? MAP_PLACE : 0));

	if (a->meta_size > meta_max)
		return error_set(err, EINVAL,
				 "artifact: metadata of %" PRIu64
				 " bytes is too much for %" PRIu64 " inodes",
				 a->meta_size, a->n_inodes);
	if (a->map_size > map_max)
		return error_set(err, EINVAL,
				 "artifact: a block map of %" PRIu64
				 " bytes is too much for a device of %" PRIu64,
				 a->map_size, a->device_size);
	if (check_blob("metadata image", a->meta_size, a->meta.size, err) < 0)
		return -EINVAL;
	return check_blob("block map", a->map_size, a->map.size, err);
}

static uint64_t whole_pages(uint64_t bytes)
{
	return (bytes + BLOCK_ALIGN - 1) / BLOCK_ALIGN * BLOCK_ALIGN;
}

uint64_t artifact_disk_bytes(const struct artifact *a)
{
	return whole_pages(a->meta_size) + whole_pages(a->map_size) +
	       whole_pages(a->manifest_json.len) +
	       whole_pages(a->config_json.len) +
	       whole_pages(a->image_config.len) + FOLDER_BYTES;
}
