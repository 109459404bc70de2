// SPDX-License-Identifier: Apache-2.0
/* Logins in CRI PullImage requests (runtime.v1.ImageService), read without I/O. */
#ifndef BOOTSEER_CONTAINERD_PLUGIN_CRI_PULL_H
#define BOOTSEER_CONTAINERD_PLUGIN_CRI_PULL_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

#define CRI_PULL_METHOD "/runtime.v1.ImageService/PullImage"

/* All texts are owned. */
struct cri_pull {
	char *image; /* "host/repository[:tag][@digest]", as containerd has it */
	char *namespace_; /* of the pod; "" when the request names none */
	/* The login that containerd shows to the image's registry; all NULL: none. */
	char *user, *password;
	char *identity_token;
};

/* -EINVAL: it is no such request, or its image or login is none. */
int cri_pull_parse(const void *message, size_t len, struct cri_pull *ret,
		   struct error *err) MUST_CHECK;
void cri_pull_fini(struct cri_pull *p);

/* Does it carry a login? */
bool cri_pull_has_login(const struct cri_pull *p);

#endif
