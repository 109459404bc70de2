// SPDX-License-Identifier: Apache-2.0
/*
 * Byte offsets of the block map, version 1: docs/formats/blockmap.md has the
 * tables and the rules.  Private to blockmap*.c.
 */
#ifndef BOOTSEER_BLOCKSTORE_BLOCKMAP_FORMAT_H
#define BOOTSEER_BLOCKSTORE_BLOCKMAP_FORMAT_H

#include <stdint.h>

#define BLOCKMAP_MAGIC "BSEERMAP" /* 8 bytes, no NUL */
#define BLOCKMAP_VERSION 1u

#define HEADER_SIZE 64u
#define HEADER_MAGIC 0
#define HEADER_VERSION 8
#define HEADER_N_PACKS 12
#define HEADER_N_BLOCKS 16
#define HEADER_DEVICE_SIZE 24
#define HEADER_RESERVED 32 /* zeros up to HEADER_SIZE */

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

#define PACKS_MAX (1u << 16)
/* Offsets stay below this, so their sums never overflow and always fit the
 * kernel's signed 64-bit offsets. */
#define OFFSET_MAX ((uint64_t)1 << 62)

#endif
