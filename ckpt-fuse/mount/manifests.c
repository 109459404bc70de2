// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/manifests.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "common/buf.h"
#include "common/side_by_side.h"

#define ASKED_AT_ONCE 16u

/* The files whose manifests are read together. */
struct manifests_asked {
	struct object_store *store;
	struct listed *listed;
	const char *folder;
	struct listed_striped *files;
	size_t n;
	atomic_size_t next; /* index of the next file to read */
};

static void ask_manifest(const struct manifests_asked *all,
			 const struct listed_striped *file)
{
	struct error ignored = ERROR_INIT;
	int64_t asked_ns = clock_now_ns();
	AUTO_BUF path = BUF_INIT;
	struct ckpt_stat st;
	int rc = buf_printf(&path, "%s%s%s", all->folder,
			    *all->folder ? "/" : "", file->name);

	if (rc == 0)
		rc = ckpt_stat(all->store, path.data, &st, &ignored);
	if (rc == 0 && st.is_striped)
		listed_tell(all->listed, all->folder, file, &st, asked_ns);
}

static int manifests_ask_side(void *arg, unsigned int index, struct error *err)
{
	struct manifests_asked *all = arg;
	size_t i;

	(void)index;
	(void)err;
	while ((i = atomic_fetch_add(&all->next, 1)) < all->n)
		ask_manifest(all, &all->files[i]);
	return 0;
}

void manifests_ask(struct object_store *store, struct listed *listed,
		   const char *folder, const char *from, size_t most)
{
	struct manifests_asked all = { .store = store,
				       .listed = listed,
				       .folder = folder };
	AUTO_FREE struct listed_striped *files = calloc(most, sizeof(*files));

	if (!files)
		return;
	all.files = files;
	all.n = listed_striped(listed, folder, from, clock_now_ns(), files,
			       most);
	(void)!side_by_side(all.n < ASKED_AT_ONCE ? (unsigned int)all.n
						  : ASKED_AT_ONCE,
			    manifests_ask_side, &all, NULL);
	for (size_t i = 0; i < all.n; i++)
		free(files[i].name);
}
