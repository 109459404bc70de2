// SPDX-License-Identifier: Apache-2.0
/* Giving disk space back: images nobody mounts, blocks nobody pins. */
#include <errno.h>
#include <time.h>

#include "blockstore/cache_mount.h"
#include "common/log.h"
#include "snapshotter/node/constants.h"
#include "snapshotter/node/control/gc.h"
#include "snapshotter/node/control/node.h"
#include "snapshotter/node/images/images.h"
#include "snapshotter/node/peers/image_swarm.h"
#include "snapshotter/node/starts/prefetch.h"

/* Waits for work on it for `timeout_ns` only. */
static int remove_one(struct node *n, struct image *i, int64_t timeout_ns,
		      bool *ret_removed, struct error *err)
{
	int rc;

	*ret_removed = false;
	rc = keyed_lock_enter(n->gate, &i->id, timeout_ns, err);
	if (rc < 0)
		return rc;
	/* A mount that outlives its mount point still reads its blocks. */
	rc = cache_mount_forget(n->cache, i->hex, err);
	if (rc == 0)
		rc = images_remove(i, err);
	if (rc != -EBUSY) {
		node_prefetch_drop(i);
		image_swarm_drop(i);
	}
	keyed_lock_leave(n->gate, &i->id);
	if (rc == -EBUSY)
		return 0;
	*ret_removed = rc == 0;
	if (rc == 0)
		log_info("gc", "removed image=%.12s", i->hex);
	return rc;
}

static int remove_unused(struct node *n, uint64_t *ret_n, struct error *err)
{
	struct image **list;
	bool removed;
	size_t len, k;
	int rc = images_list(n->images, &list, &len, err);

	if (rc < 0)
		return rc;
	for (k = 0; rc == 0 && k < len; k++) {
		rc = remove_one(n, list[k], NODE_GATE_TIMEOUT_NS, &removed,
				err);
		*ret_n += rc == 0 && removed;
	}
	images_list_free(list, len);
	return rc;
}

/* An image that was prepared so short a time ago is about to be mounted. */
#define GRACE_S 60

/* The oldest unused image from before `before`; `*after` moves on to it. */
static bool collect_before(struct node *n, int64_t before, int64_t *after)
{
	bool removed = false;
	struct image *i;

	while (!removed &&
	       (i = images_oldest_unused(n->images, *after, before))) {
		struct error err = ERROR_INIT;

		/* remove_one() leaves an image that is being worked on. */
		if (remove_one(n, i, 0, &removed, &err) < 0)
			log_info("gc", "left image=%.12s reason=\"%s\"", i->hex,
				 err.msg);
		images_lock(n->images);
		*after = removed ? *after : i->used_at;
		images_unlock(n->images);
		images_put(i);
	}
	return removed;
}

bool node_collect_one(struct node *n, int64_t *after)
{
	return collect_before(n, time(NULL) - GRACE_S, after);
}

void node_collect_old(struct node *n, int64_t now)
{
	int64_t after = 0;

	while (collect_before(n, now - NODE_IMAGE_MAX_AGE_S, &after))
		;
}

int node_collect_for_place(struct node *n, struct error *err)
{
	int64_t after = 0;

	while (images_count(n->images) >= IMAGES_MAX) {
		if (!node_collect_one(n, &after))
			return error_set(err, ENOSPC,
					 "the node has %u images, and all are "
					 "in use: unmount some",
					 IMAGES_MAX);
	}
	return 0;
}

int node_gc(struct node *n, bool images, bool shrink, uint64_t cache_bytes,
	    struct gc_result *ret, struct error *err)
{
	struct gc_result r = { .images = 0 };
	int rc = 0;

	if (images)
		rc = remove_unused(n, &r.images, err);
	if (rc == 0 && shrink)
		rc = cache_gc(n->cache, cache_bytes, &r.freed_bytes, err);
	if (rc == 0)
		*ret = r;
	return rc;
}
