// SPDX-License-Identifier: Apache-2.0
/* Which machine a registry's name stands for, and whether it is a registry's. */
#ifndef BOOTSEER_COMMON_REGISTRY_HOST_H
#define BOOTSEER_COMMON_REGISTRY_HOST_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

#define REGISTRY_HOST_MAX 256  /* bytes, NUL included */
#define REGISTRY_NAME_MAX 4096 /* bytes */

/*
 * The host of "[SCHEME://]host[:port][/...]" in lower case, without port, brackets of an IPv6
 * address, and the dot that may end a name; cut to its room.  So one host has one
 * name, whatever ports and spellings it is asked by.  "" when `text` has none.
 */
void registry_host_name(const char *text, char ret[REGISTRY_HOST_MAX]);

/* Is it the URL of a store of objects ("s3://BUCKET/PREFIX", "file:/DIR"), rather than a
 * registry's "HOST[:PORT][/REPOSITORY]"? */
bool registry_host_is_store(const char *text);

/* Is HOST[:PORT]/REPOSITORY the one that the first `len` bytes of `prefix` name, or below it?
 * All are below none. */
bool registry_host_is_below(const char *repo, const char *prefix, size_t len);

/* An image's name as containerd completes it, the caller's: "nginx" is
 * docker.io/library/nginx.  -EINVAL: it is longer than REGISTRY_NAME_MAX; -ENOMEM. */
int registry_name_complete(const char *name, char **ret,
			   struct error *err) MUST_CHECK;

#endif
