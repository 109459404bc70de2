// SPDX-License-Identifier: Apache-2.0
/*
 * Layers of lazy images.  All but the top one are snapshots without content; the
 * top one is the whole tree, which bootseerd mounts.  When an ordinary image
 * turns out to share a layer that was left out, it is downloaded then.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "containerd-plugin/snapshots_priv.h"

#define NS_PER_S INT64_C(1000000000)

/* The chain id of a committed snapshot: containerd names its own
 * "NAMESPACE/NUMBER/CHAINID". */
static const char *chain_of(const struct snapshot *snap)
{
	const char *label = labels_get(&snap->labels, LABEL_SNAPSHOT_REF);
	const char *slash = strrchr(snap->name, '/');

	if (label)
		return label;
	return slash ? slash + 1 : snap->name;
}

/* What images_find() says, with a warning when nobody can tell. */
static bool is_lazy(struct snapshots *s, const struct create_request *req,
		    const char *parent_chain, struct image_layer *ret)
{
	struct error why = ERROR_INIT;

	switch (images_find(s->images, req->labels, parent_chain, ret, &why)) {
	case IMAGES_LAZY:
		return true;
	case IMAGES_UNKNOWN:
		log_warning("snapshots",
			    "layer is unpacked as an ordinary one: "
			    "layer=%s reason=\"%s\"",
			    labels_get(req->labels, LABEL_SNAPSHOT_REF),
			    why.msg);
		return false;
	default:
		return false;
	}
}

/* Have the top of an image mounted; what images_mount() says. */
static int mount_top(struct snapshots *s, const struct image_layer *layer,
		     uint64_t id)
{
	struct error why = ERROR_INIT;
	AUTO_FREE char *path = NULL;
	int rc = images_mount(s->images, &layer->tree, id, 0, &path, &why);

	if (rc < 0)
		log_warning("snapshots",
			    "lazy image is not mounted: image=\"%s\" "
			    "reason=\"%s\"",
			    layer->image, why.msg);
	return rc;
}

/*
 * A snapshot of this layer is there.  It may so far have been a lower one.  When
 * nobody knows whether its tree is mounted, it stays noted, so that its removal
 * unmounts it; a container's start asks again.
 */
static int reuse(struct snapshots *s, const struct snapshot *found,
		 const struct image_layer *layer, struct error *err)
{
	int rc;

	if (!layer->is_top || !found->remote || found->unpacked ||
	    found->has_tree)
		return 1;
	rc = store_set_tree(s->store, found->id, &layer->tree, err);
	if (rc < 0)
		return rc;
	rc = mount_top(s, layer, found->id);
	if (rc == 0 || rc == -EINPROGRESS)
		return 1;
	return store_set_tree(s->store, found->id, NULL, err);
}

/*
 * Add the snapshot.  The tree is noted before it is mounted, so that whatever
 * happens in between, Cleanup knows what to unmount: also what a removed one
 * may have mounted, for all we know.  1: it is there; 0: it cannot be lazy.
 * -ESTALE: images_find() should be asked again.
 */
static int add(struct snapshots *s, const struct create_request *req,
	       const char *name, const struct image_layer *layer,
	       struct error *err)
{
	/* Borrows what others own; never freed. */
	struct snapshot snap = {
		.id = store_next_id(s->store),
		.name = (char *)(uintptr_t)name,
		.parent = (char *)(uintptr_t)req->parent,
		.kind = SNAPSHOT_KIND_COMMITTED,
		.labels = *req->labels,
		.remote = true,
		.has_tree = layer->is_top,
		.tree = layer->tree,
		.image = layer->image,
		.manifest = layer->manifest,
		.layer = layer->layer,
	};
	int rc = store_insert(s->store, &snap, err), mounted;

	if (rc < 0)
		return rc;
	mounted = layer->is_top ? mount_top(s, layer, snap.id) : 0;
	if (mounted == 0)
		return 1;
	rc = store_remove(s->store, name, err);
	if (rc == 0 && mounted == -ESTALE)
		rc = error_set(err, ESTALE, "bootseerd forgot image '%s'",
			       layer->image);
	return rc;
}

/* The layer's name is taken: by itself, or by one with another parent. */
static int add_beside(struct snapshots *s, const struct create_request *req,
		      const char *chain, const struct image_layer *layer,
		      struct error *err)
{
	AUTO_BUF name = BUF_INIT;
	struct snapshot found;
	const char *label;
	bool same;
	int rc = store_get(s->store, chain, &found, err);

	if (rc < 0)
		return rc;
	label = labels_get(&found.labels, LABEL_SNAPSHOT_REF);
	same = found.kind == SNAPSHOT_KIND_COMMITTED && label &&
	       strcmp(label, chain) == 0 &&
	       strcmp(found.parent, req->parent) == 0;
	if (same)
		rc = reuse(s, &found, layer, err);
	snapshot_fini(&found);
	if (same)
		return rc;
	if (buf_printf(&name, "%s#%" PRIu64, chain, store_next_id(s->store)) <
	    0)
		return error_nomem(err);
	return add(s, req, name.data, layer, err);
}

/* Ask what the layer is, and add it if that is one of a lazy image. */
static int find_and_add(struct snapshots *s, const struct create_request *req,
			const char *parent_chain, struct error *err)
{
	const char *chain = labels_get(req->labels, LABEL_SNAPSHOT_REF);
	struct image_layer layer;
	int rc;

	if (!is_lazy(s, req, parent_chain, &layer))
		return 0;
	rc = add(s, req, chain, &layer, err);
	if (rc == -EEXIST)
		rc = add_beside(s, req, chain, &layer, err);
	free(layer.image);
	return rc;
}

int snapshots_create_lazy(struct snapshots *s, const struct create_request *req,
			  struct error *err)
{
	struct snapshot parent = { .id = 0 };
	const char *chain = "";
	int rc;

	if (*req->parent) {
		rc = store_get(s->store, req->parent, &parent, err);
		if (rc < 0)
			return error_wrap(err, rc, "parent");
		chain = chain_of(&parent);
	}
	rc = find_and_add(s, req, chain, err);
	/* "node gc" took it since it was asked for; once is enough. */
	if (rc == -ESTALE)
		rc = find_and_add(s, req, chain, err);
	snapshot_fini(&parent);
	return rc == -ESTALE ? 0 : rc;
}

/* ---- layers that were left out ---- */

/* Fill ROOT/snapshots/ID/fs, all or nothing, durable. */
static int fetch(struct snapshots *s, const struct snapshot *snap,
		 struct error *err)
{
	AUTO_FREE char *top = snapshots_path(s, snap->id, "");
	AUTO_FREE char *upper = snapshots_path(s, snap->id, "fs");
	AUTO_FREE char *part = snapshots_path(s, snap->id, "part");
	AUTO_CLOSE int fd = -1;
	int rc;

	if (!top || !upper || !part)
		return error_nomem(err);
	/* What a crash left. */
	if (access(top, F_OK) == 0 && fs_remove_tree(top, err) < 0)
		return -EIO;
	if (mkdir(top, 0700) < 0 || mkdir(part, 0755) < 0 ||
	    chmod(part, 0755) < 0)
		return error_set(err, EIO, "make folder '%s': %s", part,
				 strerror(errno));
	log_info("snapshots",
		 "fetching a layer that an ordinary image shares "
		 "with a lazy one: layer=%s image=\"%s\"",
		 chain_of(snap), snap->image);
	rc = images_apply(s->images, snap->image, &snap->manifest, snap->layer,
			  part, err);
	if (rc < 0)
		return rc;
	fd = open(part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || syncfs(fd) < 0 || rename(part, upper) < 0)
		return error_set(err, EIO, "'%s': %s", part, strerror(errno));
	if (fs_sync_dir(top, err) < 0 || fs_sync_dir(s->folder, err) < 0)
		return -EIO;
	return store_set_unpacked(s->store, snap->id, err);
}

/* The place of `id` in the table, or of a free one for 0; NULL: none. */
static uint64_t *find_place(struct snapshots *s, uint64_t id)
{
	for (size_t i = 0; i < UNPACKING_MAX; i++)
		if (s->unpacking[i] == id)
			return &s->unpacking[i];
	return NULL;
}

/* Be the only one who unpacks `id`. */
static int claim(struct snapshots *s, uint64_t id, struct error *err)
{
	int64_t deadline = clock_now_ns() + s->config.layer_timeout_ns;
	struct timespec ts = { .tv_sec = deadline / NS_PER_S,
			       .tv_nsec = deadline % NS_PER_S };
	uint64_t *place;
	int rc = 0;

	pthread_mutex_lock(&s->lock);
	while (find_place(s, id) || !(place = find_place(s, 0))) {
		if (pthread_cond_timedwait(&s->changed, &s->lock, &ts) == 0)
			continue;
		rc = error_set(err, EHOSTDOWN,
			       "a layer is being fetched for "
			       "too long");
		break;
	}
	if (rc == 0)
		*place = id;
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static void release(struct snapshots *s, uint64_t id)
{
	pthread_mutex_lock(&s->lock);
	*find_place(s, id) = 0;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

int snapshots_unpack(struct snapshots *s, const struct snapshot *snap,
		     struct error *err)
{
	struct snapshot now;
	int rc;

	if (snap->unpacked)
		return 0;
	rc = claim(s, snap->id, err);
	if (rc < 0)
		return rc;
	/* Another thread may have done it meanwhile. */
	rc = store_get(s->store, snap->name, &now, err);
	if (rc == 0) {
		if (!now.unpacked)
			rc = fetch(s, &now, err);
		snapshot_fini(&now);
	}
	release(s, snap->id);
	return rc;
}
