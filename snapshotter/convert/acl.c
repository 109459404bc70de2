// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/acl.h"

#include <stdbool.h>

#include "common/bytes.h"

#define VERSION 2u
#define HEADER 4u
#define ENTRY 8u
#define PERMISSIONS 7u

enum tag {
	TAG_OWNER = 0x01,
	TAG_USER = 0x02,
	TAG_OWNER_GROUP = 0x04,
	TAG_GROUP = 0x08,
	TAG_MASK = 0x10,
	TAG_OTHER = 0x20,
};

static bool has_tag(const uint8_t *acl, size_t size, uint16_t tag)
{
	for (size_t at = HEADER; at < size; at += ENTRY)
		if (get_le16(acl + at) == tag)
			return true;
	return false;
}

enum acl_change acl_chmod(uint8_t *acl, size_t size, uint32_t mode)
{
	enum acl_change ret = ACL_SAME;
	uint16_t group;

	if (size < HEADER + ENTRY || (size - HEADER) % ENTRY ||
	    get_le32(acl) != VERSION)
		return ACL_SAME;
	group = has_tag(acl, size, TAG_MASK) ? TAG_MASK : TAG_OWNER_GROUP;
	for (size_t at = HEADER; at < size; at += ENTRY) {
		uint16_t tag = get_le16(acl + at);
		uint32_t want;

		if (tag == TAG_OWNER)
			want = mode >> 6;
		else if (tag == group)
			want = mode >> 3;
		else if (tag == TAG_OTHER)
			want = mode;
		else
			continue;
		want &= PERMISSIONS;
		if (get_le16(acl + at + 2) == want)
			continue;
		put_le16(acl + at + 2, (uint16_t)want);
		ret = ACL_CHANGED;
	}
	if (!has_tag(acl, size, TAG_MASK) && !has_tag(acl, size, TAG_USER) &&
	    !has_tag(acl, size, TAG_GROUP))
		return ACL_GONE;
	return ret;
}
