// SPDX-License-Identifier: Apache-2.0
/* Reads logins in CRI PullImage requests (runtime.v1.ImageService), without I/O. */
#ifndef BOOTSEER_CONTAINERD_PLUGIN_CRI_PULL_H
#define BOOTSEER_CONTAINERD_PLUGIN_CRI_PULL_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

#define CRI_PULL_METHOD "/runtime.v1.ImageService/PullImage"

/* The pull request; owns its texts. */
struct cri_pull {
	/* "host/repository[:tag][@digest]", as containerd writes it */
	char *image;
	char *namespace_; /* of the pod; "" when the request names none */
	/* The login for the image's registry; all NULL: none. */
	char *user, *password;
	char *identity_token;
};

/* Parse a request. -EINVAL: not a PullImage request, or its image or login is invalid. */
int cri_pull_parse(const void *message, size_t len, struct cri_pull *ret,
		   struct error *err) MUST_CHECK;
void cri_pull_fini(struct cri_pull *p);

/* Does the request contain a login? */
bool cri_pull_has_login(const struct cri_pull *p);

#endif
