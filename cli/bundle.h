// SPDX-License-Identifier: Apache-2.0
/*
 * The configuration of a container (OCI runtime specification) that runs an
 * image as docker would, on the host's network.  Pure.
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
	uint32_t groups[BUNDLE_GROUPS_MAX]; /* further ones */
	size_t n_groups;
	char home[256]; /* "" unknown */
};

/*
 * Find the user that "USER", "UID", "USER:GROUP" ... of an image's configuration names,
 * by the texts of the image's /etc/passwd and /etc/group (may be NULL). Nothing is uid 0.
 * -ENOENT: a name that neither file has.
 */
int bundle_user_find(const char *who, const char *passwd, const char *group,
		     struct bundle_user *ret, struct error *err) MUST_CHECK;

/* -EINVAL: `text` is not "SOURCE:TARGET[:ro]" with absolute paths. */
int bundle_mount_check(const char *text, struct error *err) MUST_CHECK;

struct bundle_spec {
	const json_t *image;  /* the image's configuration, as stored */
	char *const *command; /* instead of its entry point; NULL ends; empty:
				   * the entry point and command it has */
	char *const *env;     /* "NAME=VALUE", over the image's; NULL */
	char *const *mounts;  /* "SOURCE:TARGET[:ro]"; NULL */
	const struct bundle_user *user;
	const char *rootfs;
};

/* `*ret` is the caller's.  -EINVAL: no command, or a mount that is none. */
int bundle_make(const struct bundle_spec *spec, json_t **ret,
		struct error *err) MUST_CHECK;

#endif
