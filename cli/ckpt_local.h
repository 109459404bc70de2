// SPDX-License-Identifier: Apache-2.0
/* Local files that `bootseer ckpt cp` writes or reads. */
#ifndef BOOTSEER_CLI_CKPT_LOCAL_H
#define BOOTSEER_CLI_CKPT_LOCAL_H

#include "ckpt-fuse/ckpt.h"

/* A file that gets its name only when it is complete. */
struct ckpt_local;

int ckpt_local_new(const char *path, struct ckpt_local **ret,
		   struct error *err) MUST_CHECK;
int ckpt_local_fd(const struct ckpt_local *l);
/* Give the file its name, with permissions and time of `a`; the owner is this process's user. */
int ckpt_local_commit(struct ckpt_local *l, const struct ckpt_attr *a,
		      struct error *err) MUST_CHECK;
void ckpt_local_free(struct ckpt_local *l);
DEFINE_AUTO(ckpt_local)

/* Call `fn` for all files below the folder, with the path and its part below the folder. */
typedef int ckpt_local_fn(void *arg, const char *path, const char *below,
			  struct error *err);
int ckpt_local_walk(const char *folder, ckpt_local_fn *fn, void *arg,
		    struct error *err) MUST_CHECK;

#endif
