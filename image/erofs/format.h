// SPDX-License-Identifier: Apache-2.0
/* Numbers of the EROFS on-disk format; the tables are in docs/formats/erofs.md. */
#ifndef BOOTSEER_IMAGE_EROFS_FORMAT_H
#define BOOTSEER_IMAGE_EROFS_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define EROFS_BLKSZBITS 12

/* Superblock: offsets from byte 1024. */
#define EROFS_SB_POS 1024
#define EROFS_SB_SIZE 128
#define EROFS_MAGIC 0xE0F5E1E2u
enum {
	SB_MAGIC = 0,
	SB_CHECKSUM = 4,
	SB_FEATURE_COMPAT = 8,
	SB_BLKSZBITS = 12,
	SB_EXTSLOTS = 13,
	SB_ROOT_NID = 14,
	SB_INOS = 16,
	SB_BUILD_TIME = 24,
	SB_BUILD_TIME_NSEC = 32,
	SB_BLOCKS = 36,
	SB_META_BLKADDR = 40,
	SB_XATTR_BLKADDR = 44,
	SB_UUID = 48,
	SB_VOLUME_NAME = 64,
	SB_FEATURE_INCOMPAT = 80,
	SB_EXTRA_DEVICES = 86,
	SB_DEVT_SLOTOFF = 88,
	SB_DIRBLKBITS = 90,
	SB_XATTR_PREFIX_COUNT = 91,
	SB_PACKED_NID = 96,
};
#define EROFS_COMPAT_SB_CHKSUM 0x1u
#define EROFS_COMPAT_MTIME 0x2u
#define EROFS_INCOMPAT_CHUNKED_FILE 0x4u
#define EROFS_INCOMPAT_DEVICE_TABLE 0x8u

/* Device slot. */
#define EROFS_DEVT_SIZE 128
enum { DEVT_TAG = 0, DEVT_BLOCKS = 64, DEVT_MAPPED_BLKADDR = 68 };

/* Inode. */
#define EROFS_SLOT 32 /* nids count units of so many bytes */
#define EROFS_COMPACT_SIZE 32
#define EROFS_EXTENDED_SIZE 64
enum {
	INO_FORMAT = 0,
	INO_XATTR_ICOUNT = 2,
	INO_MODE = 4,
	/* extended */
	INO_SIZE = 8,
	INO_U = 16,
	INO_INO = 20,
	INO_UID = 24,
	INO_GID = 28,
	INO_MTIME = 32,
	INO_MTIME_NSEC = 40,
	INO_NLINK = 44,
	/* compact */
	INO_C_NLINK = 6,
	INO_C_SIZE = 8,
	INO_C_UID = 24,
	INO_C_GID = 26,
};
#define EROFS_FORMAT_EXTENDED 0x1u
#define EROFS_FORMAT_LAYOUT_SHIFT 1
#define EROFS_FORMAT_ALL 0xfu
enum {
	EROFS_LAYOUT_FLAT_PLAIN = 0,
	EROFS_LAYOUT_FLAT_INLINE = 2,
	EROFS_LAYOUT_CHUNK_BASED = 4,
};

/* Chunk-based files: i_u, and the indexes behind the xattrs. */
#define EROFS_CHUNK_BLKBITS 0x1fu
#define EROFS_CHUNK_INDEXES 0x20u
#define EROFS_CHUNK_ALL 0x3fu
#define EROFS_CHUNK_INDEX_SIZE 8
enum { CHUNK_DEVICE = 2, CHUNK_BLKADDR = 4 };
#define EROFS_NULL_ADDR 0xffffffffu

/* Folders. */
#define EROFS_DIRENT_SIZE 12
enum { DIRENT_NID = 0, DIRENT_NAMEOFF = 8, DIRENT_TYPE = 10 };
enum {
	EROFS_FT_REG = 1,
	EROFS_FT_DIR,
	EROFS_FT_CHR,
	EROFS_FT_BLK,
	EROFS_FT_FIFO,
	EROFS_FT_SOCK,
	EROFS_FT_SYMLINK,
};

/* Xattrs. */
#define EROFS_XATTR_HEADER 12
#define EROFS_XATTR_ENTRY 4
#define EROFS_XATTR_SHARED_MAX 255
enum { XH_SHARED_COUNT = 4, XE_NAME_LEN = 0, XE_INDEX = 1, XE_SIZE = 2 };

/* EROFS_FT_* of a mode; 0: no kind of file that EROFS has. */
uint8_t erofs_file_type(uint32_t mode);

/* CRC-32C as the superblock stores it: seeded with ~0, not inverted at the end. */
uint32_t erofs_crc32c(const void *data, size_t len);

/* Index of the namespace of an xattr's name, with the rest of the name in `*ret_rest`; 0
 * when EROFS does not have the namespace. */
uint8_t erofs_xattr_index(const char *name, const char **ret_rest);

/* Prefix of the namespace with this index, or NULL when there is none. */
const char *erofs_xattr_prefix(uint8_t index);

#endif
