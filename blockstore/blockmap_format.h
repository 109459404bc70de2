// SPDX-License-Identifier: Apache-2.0
/*
 * Byte offsets of the block map, versions 1 and 2: docs/formats/blockmap.md has the
 * tables and the rules.  Private to blockmap*.c.
 */
#ifndef BOOTSEER_BLOCKSTORE_BLOCKMAP_FORMAT_H
#define BOOTSEER_BLOCKSTORE_BLOCKMAP_FORMAT_H

#include <stdint.h>

#define BLOCKMAP_MAGIC "BSEERMAP" /* 8 bytes, no NUL */
#define BLOCKMAP_VERSION 1u
#define BLOCKMAP_VERSION_INDEX 2u /* blocks lie in layers */

#define HEADER_SIZE 64u
#define HEADER_MAGIC 0
#define HEADER_VERSION 8
#define HEADER_N_PACKS 12
#define HEADER_N_BLOCKS 16
#define HEADER_DEVICE_SIZE 24
#define HEADER_N_SPANS 32 /* version 2; zeros in version 1 */
#define HEADER_N_PLACES 40
#define HEADER_CONTENT 48
#define HEADER_RESERVED 56 /* zeros up to HEADER_SIZE */

/* Records of blocks follow the header, so each is one cache line of a mapped
 * file; packs come last. */
#define BLOCK_SIZE 64u
#define BLOCK_DIGEST 0
#define BLOCK_VOFF 32
#define BLOCK_POFF 40
#define BLOCK_USIZE 48
#define BLOCK_CSIZE 52
#define BLOCK_PACK 56
#define BLOCK_CODEC 60
#define BLOCK_RESERVED 61 /* zeros up to BLOCK_SIZE */

#define PACK_SIZE 40u
#define PACK_DIGEST 0
#define PACK_BYTES 32

/* Records behind the packs, in version 2 only. */
#define SPAN_SIZE 40u
#define SPAN_PLAIN_OFF 0
#define SPAN_STORED_OFF 8
#define SPAN_WINDOW_OFF 16
#define SPAN_WINDOW_LEN 24
#define SPAN_PACK 28
#define SPAN_KIND 32
#define SPAN_BITS 33
#define SPAN_RESERVED 34 /* two zeros */
#define SPAN_CRC 36

#define PLACE_SIZE 24u
#define PLACE_AT 0
#define PLACE_PLAIN 8
#define PLACE_LEN 16
#define PLACE_PACK 20

#define PACKS_MAX (1u << 16)
/* Offsets stay below this, so their sums never overflow and always fit the
 * kernel's signed 64-bit offsets. */
#define OFFSET_MAX ((uint64_t)1 << 62)

#endif
