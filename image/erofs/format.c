// SPDX-License-Identifier: Apache-2.0
#include "image/erofs/format.h"

#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"

static const char *const xattr_prefixes[] = {
	[1] = "user.",
	[2] = "system.posix_acl_access",
	[3] = "system.posix_acl_default",
	[4] = "trusted.",
	[6] = "security.",
};

uint8_t erofs_file_type(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return EROFS_FT_REG;
	case S_IFDIR:
		return EROFS_FT_DIR;
	case S_IFCHR:
		return EROFS_FT_CHR;
	case S_IFBLK:
		return EROFS_FT_BLK;
	case S_IFIFO:
		return EROFS_FT_FIFO;
	case S_IFSOCK:
		return EROFS_FT_SOCK;
	case S_IFLNK:
		return EROFS_FT_SYMLINK;
	default:
		return 0;
	}
}

uint32_t erofs_crc32c(const void *data, size_t len)
{
	const uint8_t *p = data;
	uint32_t crc = ~UINT32_C(0);

	/* The checksum is computed once for an image, so a table would not pay. */
	for (size_t i = 0; i < len; i++) {
		crc ^= p[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
	}
	return crc;
}

uint8_t erofs_xattr_index(const char *name, const char **ret_rest)
{
	for (uint8_t i = 1; i < ARRAY_SIZE(xattr_prefixes); i++) {
		const char *prefix = xattr_prefixes[i];
		size_t len = prefix ? strlen(prefix) : 0;
		bool whole;

		if (!prefix || strncmp(name, prefix, len) != 0)
			continue;
		/* A prefix that ends in '.' needs a name behind it; the prefix of an ACL is
		 * the whole name. */
		whole = prefix[len - 1] != '.';
		if (whole != (name[len] == '\0'))
			continue;
		*ret_rest = name + len;
		return i;
	}
	return 0;
}

const char *erofs_xattr_prefix(uint8_t index)
{
	return index < ARRAY_SIZE(xattr_prefixes) ? xattr_prefixes[index]
						  : NULL;
}
