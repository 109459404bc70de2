// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/folder_lister.h"

#include <errno.h>
#include <string.h>

#include "fuse/fuse.h"

void folder_lister_init(struct folder_lister *l, struct object_store *s,
			struct listed *t)
{
	*l = (struct folder_lister){ .store = s, .listed = t };
	(void)sem_init(&l->turns, 0, LISTS_AT_ONCE);
}

void folder_lister_fini(struct folder_lister *l)
{
	(void)sem_destroy(&l->turns);
}

struct list_under_way {
	struct folder_list *list;
	struct listed_list *told;
};

static int folder_lister_add(void *arg, const struct ckpt_entry *e,
			     struct error *err)
{
	const struct list_under_way *u = arg;
	struct folder_list *l = u->list;

	listed_add(u->told, e);
	/* Skip a folder that has the same name as a file, which hides it. */
	if (e->is_folder && l->n &&
	    strcmp(folder_list_name(l, l->n - 1), e->name) == 0)
		return 0;
	return folder_list_add(l, e->name, e->is_folder) < 0 ? error_nomem(err)
							     : 0;
}

/* Limit the lists at a time: if the store hangs, each would hold a thread of the mount, which reads
 * need. */
int folder_lister_list(struct folder_lister *l, const char *folder,
		       struct folder_list *ret, struct error *err)
{
	struct list_under_way u = { .list = ret };
	int rc;

	session_begin_wait();
	while (sem_wait(&l->turns) < 0 && errno == EINTR)
		;
	u.told = listed_begin(l->listed, folder);
	rc = ckpt_list(l->store, folder, folder_lister_add, &u, err);
	listed_end(l->listed, u.told, rc, clock_now_ns());
	(void)sem_post(&l->turns);
	session_end_wait();
	return rc;
}
