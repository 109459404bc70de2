// SPDX-License-Identifier: Apache-2.0
/*
 * The configuration of a container (OCI runtime specification) that runs an image as docker would,
 * on the host's network.  Does no I/O.
 */
#ifndef BOOTSEER_CLI_BUNDLE_H
#define BOOTSEER_CLI_BUNDLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

#define BUNDLE_GROUPS_MAX 64u

struct bundle_user {
	uint32_t uid, gid;
	uint32_t groups[BUNDLE_GROUPS_MAX]; /* supplementary groups */
	size_t n_groups;
	char home[256]; /* "": unknown */
};

/*
 * Find the user that "USER", "UID", "USER:GROUP" ... in an image's configuration names, in the
 * texts of the image's /etc/passwd and /etc/group (may be NULL). "" is uid 0.  -ENOENT: neither
 * file has the name.
 */
int bundle_user_find(const char *who, const char *passwd, const char *group,
		     struct bundle_user *ret, struct error *err) MUST_CHECK;

/* -EINVAL: `text` is not "SOURCE:TARGET[:ro]" with absolute paths. */
int bundle_mount_check(const char *text, struct error *err) MUST_CHECK;

struct bundle_spec {
	const json_t *image;  /* the image's configuration, as stored */
	char *const *command; /* replaces the image's own; NULL ends; empty:
	                       * not */
	char *const *env;     /* "NAME=VALUE", over the image's; may be NULL */
	char *const *mounts;  /* "SOURCE:TARGET[:ro]"; may be NULL */
	const struct bundle_user *user;
	const char *rootfs;
};

/* Make the configuration, which the caller owns.  -EINVAL: there is no command, or a mount is
 * malformed. */
int bundle_make(const struct bundle_spec *spec, json_t **ret,
		struct error *err) MUST_CHECK;

#endif
