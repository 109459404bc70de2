// SPDX-License-Identifier: Apache-2.0
/* Giving disk space back: images nobody mounts, blocks nobody pins. */
#include <errno.h>

#include "common/log.h"
#include "snapshotter/node/node.h"
#include "snapshotter/node/peers.h"
#include "snapshotter/node/prefetch.h"

static int remove_one(struct node *n, struct image *i, bool *ret_removed,
		      struct error *err)
{
	int rc;

	*ret_removed = false;
	rc = gate_enter(n->gate, &i->id, NODE_GATE_TIMEOUT_NS, err);
	if (rc < 0)
		return rc;
	rc = images_remove(i, err);
	if (rc != -EBUSY) {
		node_prefetch_drop(n, i);
		peers_drop(n, i);
	}
	gate_leave(n->gate, &i->id);
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
	int rc;

	rc = images_list(n->images, &list, &len, err);
	if (rc < 0)
		return rc;
	for (k = 0; rc == 0 && k < len; k++) {
		rc = remove_one(n, list[k], &removed, err);
		*ret_n += rc == 0 && removed;
	}
	images_list_free(list, len);
	return rc;
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
