// SPDX-License-Identifier: Apache-2.0
/* Local files of `bootseer ckpt cp`. */
#ifndef BOOTSEER_CLI_CKPT_LOCAL_H
#define BOOTSEER_CLI_CKPT_LOCAL_H

#include "ckpt-fuse/ckpt.h"

/* A file that appears under its name when it is whole. */
struct ckpt_local;

int ckpt_local_new(const char *path, struct ckpt_local **ret,
		   struct error *err) MUST_CHECK;
int ckpt_local_fd(const struct ckpt_local *l);
/* With permissions and time of `a`; owned by who runs this. */
int ckpt_local_commit(struct ckpt_local *l, const struct ckpt_attr *a,
		      struct error *err) MUST_CHECK;
void ckpt_local_free(struct ckpt_local *l);
DEFINE_AUTO(ckpt_local)

/* All files below the folder: their path, and the part of it below. */
typedef int ckpt_local_fn(void *arg, const char *path, const char *below,
			  struct error *err);
int ckpt_local_walk(const char *folder, ckpt_local_fn *fn, void *arg,
		    struct error *err) MUST_CHECK;

#endif
