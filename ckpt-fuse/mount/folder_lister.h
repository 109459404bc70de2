// SPDX-License-Identifier: Apache-2.0
/*
 * Lists folders in the store. A list in the making holds all names of its folder in memory, so at
 * most LISTS_AT_ONCE are made at a time. Any thread.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_FOLDER_LISTER_H
#define BOOTSEER_CKPT_FUSE_MOUNT_FOLDER_LISTER_H

#include <semaphore.h>

#include "ckpt-fuse/mount/handles.h"
#include "ckpt-fuse/mount/listed.h"

#define LISTS_AT_ONCE 8u

struct folder_lister {
	struct object_store *store; /* `store` and `listed` are borrowed */
	struct listed *listed;      /* gets the names of each list */
	sem_t turns; /* LISTS_AT_ONCE less the number of running lists */
};

void folder_lister_init(struct folder_lister *l, struct object_store *s,
			struct listed *t);
void folder_lister_fini(struct folder_lister *l);

/* List the folder; waits while LISTS_AT_ONCE others run. */
int folder_lister_list(struct folder_lister *l, const char *folder,
		       struct folder_list *ret, struct error *err) MUST_CHECK;

#endif
