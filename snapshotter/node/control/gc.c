// SPDX-License-Identifier: Apache-2.0
/* Giving disk space back: removes images that nobody mounts and blocks that nobody pins. */
#include <errno.h>
#include <time.h>

#include "blockstore/cache_mount.h"
#include "common/log.h"
#include "snapshotter/node/constants.h"
#include "snapshotter/node/control/gc.h"
#include "snapshotter/node/images/images.h"
#include "snapshotter/node/peers/image_swarm.h"
#include "snapshotter/node/starts/prefetch.h"

/* Remove an image; wait at most `timeout_ns` for other work on it. */
static int remove_one(const struct gc *g, struct image *i, int64_t timeout_ns,
		      bool *ret_removed, struct error *err)
{
	int rc;

	*ret_removed = false;
	rc = keyed_lock_enter(g->gate, &i->id, timeout_ns, err);
	if (rc < 0)
		return rc;
	/* -EBUSY while a detached mount still reads the image's blocks. */
	rc = cache_mount_forget(g->cache, i->hex, err);
	if (rc == 0)
		rc = images_remove(i, err);
	if (rc != -EBUSY) {
		node_prefetch_drop(i);
		image_swarm_drop(i);
	}
	keyed_lock_leave(g->gate, &i->id);
	if (rc == -EBUSY)
		return 0;
	*ret_removed = rc == 0;
	if (rc == 0)
		log_info("gc", "removed image=%.12s", i->hex);
	return rc;
}

static int remove_unused(const struct gc *g, uint64_t *ret_n, struct error *err)
{
	struct image **list;
	bool removed;
	size_t len, k;
	int rc = images_list(g->images, &list, &len, err);

	if (rc < 0)
		return rc;
	for (k = 0; rc == 0 && k < len; k++) {
		rc = remove_one(g, list[k], NODE_GATE_TIMEOUT_NS, &removed,
				err);
		*ret_n += rc == 0 && removed;
	}
	images_list_free(list, len);
	return rc;
}

/* Seconds that an image is kept after it was prepared, since it is about to be mounted. */
#define GRACE_S 60

/* Remove the oldest unused image that was last used before `before`; `*after` advances past
 * images that cannot go. */
static bool remove_one_used_before(const struct gc *g, int64_t before,
				   int64_t *after)
{
	bool removed = false;
	struct image *i;

	while (!removed &&
	       (i = images_oldest_unused(g->images, *after, before))) {
		struct error err = ERROR_INIT;

		/* A timeout of 0: an image that is being worked on is left alone. */
		if (remove_one(g, i, 0, &removed, &err) < 0)
			log_info("gc", "left image=%.12s reason=\"%s\"", i->hex,
				 err.msg);
		images_lock(g->images);
		*after = removed ? *after : i->used_at;
		images_unlock(g->images);
		images_put(i);
	}
	return removed;
}

bool gc_one(const struct gc *g, int64_t *after)
{
	return remove_one_used_before(g, time(NULL) - GRACE_S, after);
}

void gc_old(const struct gc *g, int64_t now)
{
	int64_t after = 0;

	while (remove_one_used_before(g, now - NODE_IMAGE_MAX_AGE_S, &after))
		;
}

int gc_make_place(const struct gc *g, struct error *err)
{
	int64_t after = 0;

	while (images_count(g->images) >= IMAGES_MAX) {
		if (!gc_one(g, &after))
			return error_set(err, ENOSPC,
					 "the node has %u images, and all are "
					 "in use: unmount some",
					 IMAGES_MAX);
	}
	return 0;
}

int gc_run(const struct gc *g, bool images, bool shrink, uint64_t cache_bytes,
	   struct gc_result *ret, struct error *err)
{
	struct gc_result r = { .images = 0 };
	int rc = 0;

	if (images)
		rc = remove_unused(g, &r.images, err);
	if (rc == 0 && shrink)
		rc = cache_gc(g->cache, cache_bytes, &r.freed_bytes, err);
	if (rc == 0)
		*ret = r;
	return rc;
}
