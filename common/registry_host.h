// SPDX-License-Identifier: Apache-2.0
/* Parse the host in a registry's name; tell registries from object stores. */
#ifndef BOOTSEER_COMMON_REGISTRY_HOST_H
#define BOOTSEER_COMMON_REGISTRY_HOST_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

#define REGISTRY_HOST_MAX 256  /* bytes, NUL included */
#define REGISTRY_NAME_MAX 4096 /* bytes */

/*
 * Store the host of "[SCHEME://]host[:port][/...]" in lower case, without port, brackets (IPv6)
 * and final dot, so that one host has one name whatever its spelling.  Cut to REGISTRY_HOST_MAX;
 * "" when `text` has no host.
 */
void registry_host_name(const char *text, char ret[REGISTRY_HOST_MAX]);

/* Is it the URL of an object store ("s3://BUCKET/PREFIX", "file:/DIR"), not
 * "HOST[:PORT][/REPOSITORY]" of a registry? */
bool registry_host_is_store(const char *text);

/* Is the repository HOST[:PORT]/REPOSITORY the one in the first `len` bytes of `prefix`, or below
 * it?  Every repository is below "". */
bool registry_host_is_below(const char *repo, const char *prefix, size_t len);

/* The full name of an image, as containerd completes it: "nginx" becomes docker.io/library/nginx.
 * The caller owns it.  -EINVAL: it is longer than REGISTRY_NAME_MAX; -ENOMEM. */
int registry_name_complete(const char *name, char **ret,
			   struct error *err) MUST_CHECK;

#endif
