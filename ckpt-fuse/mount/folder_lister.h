// SPDX-License-Identifier: Apache-2.0
/*
 * Lists of folders as the store has them.  A list has all names of its folder in memory while it
 * is made, so that no more than LISTS_AT_ONCE are made at a time.  Any thread.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_FOLDER_LISTER_H
#define BOOTSEER_CKPT_FUSE_MOUNT_FOLDER_LISTER_H

#include <semaphore.h>

#include "ckpt-fuse/mount/handles.h"
#include "ckpt-fuse/mount/listed.h"

#define LISTS_AT_ONCE 8u

struct folder_lister {
	struct object_store *store; /* borrowed, as the next */
	struct listed *listed;      /* told of each list */
	sem_t turns; /* LISTS_AT_ONCE, less those that are made now */
};

void folder_lister_init(struct folder_lister *l, struct object_store *s,
			struct listed *t);
void folder_lister_fini(struct folder_lister *l);

/* List the folder, when others have left a turn. */
int folder_lister_list(struct folder_lister *l, const char *folder,
		       struct folder_list *ret, struct error *err) MUST_CHECK;

#endif
