// SPDX-License-Identifier: Apache-2.0
/* POSIX ACLs as Linux keeps them in system.posix_acl_access (linux/posix_acl_xattr.h):
 * version 2, then entries of a tag, permissions and an id. */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_ACL_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_ACL_H

#include <stddef.h>
#include <stdint.h>

enum acl_change {
	ACL_SAME,
	ACL_CHANGED,
	ACL_GONE, /* it says no more than the mode does, so Linux removes it */
};

/*
 * Change an access ACL in place, as chmod(2) to `mode` does: owner and
 * others get the mode's permissions, and so does the mask, or the group where there is
 * none.  Bytes that are no valid ACL stay as they are.
 */
enum acl_change acl_chmod(uint8_t *acl, size_t size, uint32_t mode);

#endif
