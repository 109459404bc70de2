// SPDX-License-Identifier: Apache-2.0
/*
 * Layers of lazy images. All but the top layer are snapshots without content; the top one stands
 * for the whole tree, which bootseerd mounts. If an ordinary image later shares a layer without
 * content, the layer is downloaded then.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "containerd-plugin/snapshots_priv.h"

#define PART "part."

const char *snapshots_chain_of(const struct snapshot *snap)
{
	const char *label = labels_get(&snap->labels, LABEL_SNAPSHOT_REF);
	const char *slash = strrchr(snap->name, '/');

	if (label)
		return label;
	return slash ? slash + 1 : snap->name;
}

/* Ask images_find(), and log a warning when bootseerd cannot tell. 1: lazy; 0: not; -EPERM:
 * the image is not for this snapshotter; -ERESTART as of turn_need(). */
static int is_lazy(struct snapshots *s, const struct create_request *req,
		   const char *parent_chain, struct turn *turn,
		   struct image_layer *ret, struct error *err)
{
	struct error why = ERROR_INIT;

	switch (images_find(s->images, req->labels, parent_chain, turn, ret,
			    &why)) {
	case IMAGES_LATER:
		return -ERESTART;
	case IMAGES_LAZY:
		return 1;
	case IMAGES_FOREIGN:
		return error_set(err, EPERM, "%s", why.msg);
	case IMAGES_UNKNOWN:
		log_warning("snapshots",
			    "layer is unpacked as an ordinary one: "
			    "layer=%s reason=\"%s\"",
			    labels_get(req->labels, LABEL_SNAPSHOT_REF),
			    why.msg);
		return 0;
	default:
		return 0;
	}
}

/* Mount the tree of an image's top layer; results as of snapshots_mount_tree(). */
static int mount_top_layer_tree(struct snapshots *s,
				const struct image_layer *layer, uint64_t id)
{
	struct error why = ERROR_INIT;
	AUTO_FREE char *path = NULL;
	int rc = snapshots_mount_tree(s, &layer->tree, id, &path, &why);

	if (rc < 0)
		log_warning("snapshots",
			    "lazy image is not mounted: image=\"%s\" "
			    "reason=\"%s\"",
			    layer->image, why.msg);
	return rc;
}

/* -ESTALE if bootseerd no longer has the image, or the snapshot to mount for is gone:
 * images_find() must be called again. Else 0. */
static int check_ask_again(const struct image_layer *layer, int mounted,
			   struct error *err)
{
	if (mounted == -ESTALE)
		return error_set(err, ESTALE, "bootseerd forgot image '%s'",
				 layer->image);
	return mounted == -ENOENT
		       ? error_set(err, ESTALE,
				   "the snapshot of image '%s' was removed",
				   layer->image)
		       : 0;
}

/*
 * A snapshot of this layer exists; until now it may have been a lower layer only. If it is
 * unknown whether its tree is mounted, the tree stays noted, so that removal unmounts it; the
 * start of a container asks again. -ESTALE as in add_snapshot().
 */
static int reuse_snapshot(struct snapshots *s, const struct snapshot *found,
			  const struct image_layer *layer, struct error *err)
{
	/* Note the tree's image too, since the image may have to be fetched again. */
	const struct snapshot top = { .tree = layer->tree,
				      .image = layer->image,
				      .manifest = layer->manifest,
				      .layer = layer->layer };
	int rc, mounted;

	if (!layer->is_top || !found->remote || found->unpacked ||
	    found->has_tree)
		return 1;
	rc = store_set_top(s->store, found->id, &top, err);
	/* Another call was first, and undoes only its own changes. */
	if (rc < 0)
		return rc == -EBUSY ? 1 : rc;
	mounted = mount_top_layer_tree(s, layer, found->id);
	if (mounted == 0 || mounted == -EINPROGRESS)
		return 1;
	rc = store_set_tree(s->store, found->id, NULL, err);
	return rc < 0 ? rc : check_ask_again(layer, mounted, err);
}

/*
 * Add the snapshot. Its tree is noted before it is mounted, so that whatever happens in between,
 * Cleanup knows what to unmount, even for a removed snapshot that may have a mount. 1: added; 0:
 * it cannot be lazy; -ESTALE: call images_find() again.
 */
static int add_snapshot(struct snapshots *s, const struct create_request *req,
			const char *name, const struct image_layer *layer,
			struct error *err)
{
	/* Borrows its members, so it is not freed. */
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
	mounted = layer->is_top ? mount_top_layer_tree(s, layer, snap.id) : 0;
	if (mounted == 0)
		return 1;
	rc = mounted == -ENOENT ? 0 : store_remove(s->store, name, err);
	return rc < 0 ? rc : check_ask_again(layer, mounted, err);
}

/* The layer's name is taken: by the same layer, or by one with another parent. */
static int add_snapshot_beside_same_name(struct snapshots *s,
					 const struct create_request *req,
					 const char *chain,
					 const struct image_layer *layer,
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
		rc = reuse_snapshot(s, &found, layer, err);
	snapshot_fini(&found);
	if (same)
		return rc;
	if (buf_printf(&name, "%s#%" PRIu64, chain, store_next_id(s->store)) <
	    0)
		return error_nomem(err);
	return add_snapshot(s, req, name.data, layer, err);
}

/* Ask what the layer is, and add it if it belongs to a lazy image. */
static int find_and_add(struct snapshots *s, const struct create_request *req,
			const char *parent_chain, struct turn *turn,
			struct error *err)
{
	const char *chain = labels_get(req->labels, LABEL_SNAPSHOT_REF);
	struct image_layer layer;
	int rc = is_lazy(s, req, parent_chain, turn, &layer, err);

	if (rc <= 0)
		return rc;
	rc = add_snapshot(s, req, chain, &layer, err);
	if (rc == -EEXIST)
		rc = add_snapshot_beside_same_name(s, req, chain, &layer, err);
	free(layer.image);
	return rc;
}

int snapshots_create_lazy(struct snapshots *s, const struct create_request *req,
			  struct turn *turn, struct error *err)
{
	struct snapshot parent = { .id = 0 };
	const char *chain = "";
	int rc;

	if (*req->parent) {
		rc = store_get(s->store, req->parent, &parent, err);
		if (rc < 0)
			return error_wrap(err, rc, "parent");
		chain = snapshots_chain_of(&parent);
	}
	rc = find_and_add(s, req, chain, turn, err);
	/* "node gc" deleted the image after it was found; one retry is enough. */
	if (rc == -ESTALE)
		rc = find_and_add(s, req, chain, turn, err);
	snapshot_fini(&parent);
	return rc == -ESTALE ? 0 : rc;
}

/* ---- layers without content that are needed ---- */

/* Path of "part.HEX" in the snapshot's folder: the folder of a layer being downloaded. */
static char *part_path(struct snapshots *s, const struct unpacking *u)
{
	char name[sizeof(PART) + 16];

	snprintf(name, sizeof(name), PART "%016" PRIx64, u->part);
	return snapshots_path(s, u->id, name);
}

static void unpacking_begin(struct snapshots *s, struct unpacking *u)
{
	pthread_mutex_lock(&s->lock);
	u->next = s->unpacking;
	s->unpacking = u;
	pthread_mutex_unlock(&s->lock);
}

/* End a download; `is_done`: the layer is complete, so others need not download it. */
static void unpacking_end(struct snapshots *s, const struct unpacking *u,
			  bool is_done)
{
	struct unpacking **p;

	pthread_mutex_lock(&s->lock);
	for (p = &s->unpacking; *p != u; p = &(*p)->next)
		;
	*p = u->next;
	if (u->turn && !atomic_load(&u->turn->is_gone))
		atomic_store(&u->turn->is_cut, false);
	for (struct unpacking *i = s->unpacking; is_done && i; i = i->next) {
		if (i->id == u->id && i->turn)
			atomic_store(&i->turn->is_cut, true);
	}
	pthread_mutex_unlock(&s->lock);
}

static bool is_in_use(struct snapshots *s, uint64_t part)
{
	bool found = false;

	pthread_mutex_lock(&s->lock);
	for (const struct unpacking *i = s->unpacking; i && !found; i = i->next)
		found = i->part == part;
	pthread_mutex_unlock(&s->lock);
	return found;
}

/* Remove what a crash left, or a bootseerd that was still writing when its call was given
 * up. Names are never reused, so folders not in use stay unused. */
static void sweep_downloads(struct snapshots *s, uint64_t id, const char *top)
{
	DIR *dir = opendir(top);
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		const char *number = e->d_name + strlen(PART);
		AUTO_FREE char *path = NULL;
		struct error why = ERROR_INIT;

		if (strncmp(e->d_name, PART, strlen(PART)) != 0 ||
		    is_in_use(s, strtoull(number, NULL, 16)))
			continue;
		path = snapshots_path(s, id, e->d_name);
		if (path && fs_remove_tree(path, &why) < 0)
			log_debug("snapshots", "%s", why.msg);
	}
	if (dir)
		closedir(dir);
}

/* Make an empty folder `part` in the snapshot's folder `top`. */
static int make_part(const char *top, const char *part, struct error *err)
{
	if (access(part, F_OK) == 0 && fs_remove_tree(part, err) < 0)
		return -EIO;
	if ((mkdir(top, 0700) < 0 && errno != EEXIST) ||
	    mkdir(part, 0755) < 0 || chmod(part, 0755) < 0)
		return error_set(err, EIO, "make folder '%s': %s", part,
				 strerror(errno));
	return 0;
}

/* Have bootseerd fill `part`; start over if bootseerd was restarted. */
static int apply_layer(struct snapshots *s, const struct layer_source *source,
		       const char *top, const char *part, const char *lower,
		       const struct turn *turn, struct error *err)
{
	int64_t deadline = clock_now_ns() + s->config.layer_timeout_ns;
	int rc;

	do {
		rc = make_part(top, part, err);
		if (rc == 0)
			rc = images_apply(s->images, source, part, lower, turn,
					  err);
	} while (rc == -ECONNRESET && clock_now_ns() < deadline);
	if (rc == -ECONNRESET)
		rc = error_set(err, EHOSTDOWN,
			       "cannot fetch a layer that was left out for a "
			       "lazy image: bootseerd ends each time, see its "
			       "log");
	return rc;
}

/* Make `part` durable, and rename it to the layer's folder `upper`, unless another thread,
 * or this program before a crash, has done so: that folder is complete too. */
static int keep_download(struct snapshots *s, const char *part,
			 const char *upper, struct error *err)
{
	AUTO_CLOSE int fd = open(part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = 0;

	if (fd < 0 || syncfs(fd) < 0)
		return error_set(err, EIO, "'%s': %s", part, strerror(errno));
	pthread_mutex_lock(&s->lock);
	if (access(upper, F_OK) < 0 && rename(part, upper) < 0)
		rc = error_set(err, EIO, "'%s': %s", part, strerror(errno));
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static int download_layer(struct snapshots *s, const struct snapshot *snap,
			  const struct layer_source *source, const char *top,
			  const char *upper, const char *lower,
			  struct turn *turn, struct error *err)
{
	struct unpacking u = { .id = snap->id, .turn = turn };
	AUTO_FREE char *part = NULL;
	int rc;

	if (getrandom(&u.part, sizeof(u.part), 0) != sizeof(u.part))
		return error_set(err, EIO, "getrandom: %s", strerror(errno));
	part = part_path(s, &u);
	if (!part)
		return error_nomem(err);
	log_info("snapshots",
		 "fetching a layer that an ordinary image shares "
		 "with a lazy one: layer=%s image=\"%s\"",
		 snapshots_chain_of(snap), source->image);
	unpacking_begin(s, &u);
	sweep_downloads(s, snap->id, top);
	rc = apply_layer(s, source, top, part, lower, turn, err);
	if (rc == 0)
		rc = keep_download(s, part, upper, err);
	unpacking_end(s, &u, rc == 0);
	/* If it cannot be removed now, the next download removes it. */
	if (access(part, F_OK) == 0)
		(void)!fs_remove_tree(part, NULL);
	return rc;
}

/* Fill ROOT/snapshots/ID/fs from one image: complete and durable, or not at all. */
static int fetch_from_image(struct snapshots *s, const struct snapshot *snap,
			    const struct layer_source *source,
			    const char *lower, struct turn *turn,
			    struct error *err)
{
	AUTO_FREE char *top = snapshots_path(s, snap->id, "");
	AUTO_FREE char *upper = snapshots_path(s, snap->id, "fs");
	int rc = 0;

	if (!top || !upper)
		return error_nomem(err);
	if (access(upper, F_OK) < 0) {
		rc = turn_need_layer(turn, snap->id, source->image,
				     s->config.layer_timeout_ns, err);
		if (rc == 0)
			rc = download_layer(s, snap, source, top, upper, lower,
					    turn, err);
	}
	/* A download from another host was first. */
	if (rc < 0 && rc != -ERESTART && access(upper, F_OK) == 0)
		rc = 0;
	if (rc < 0)
		return rc;
	if (fs_sync_dir(top, err) < 0 || fs_sync_dir(s->folder, err) < 0)
		return -EIO;
	return store_set_unpacked(s->store, snap->id, err);
}

static bool is_fetch_result_final(int rc)
{
	return rc == 0 || rc == -ECANCELED || rc == -ERESTART;
}

/*
 * Download a layer from the image that needs it, else from the lazy image that left it out: that
 * registry may belong to others, and be slow or gone. The chain id ensures the same content from
 * both.
 */
static int fetch_layer_from_any_source(struct snapshots *s,
				       const struct snapshot *snap,
				       const struct layer_source *own,
				       const char *lower, struct turn *turn,
				       struct error *err)
{
	struct layer_source lazy = { .image = snap->image,
				     .manifest = &snap->manifest,
				     .layer = snap->layer };
	bool was_tried = turn && turn->without == snap->id;
	struct error why = was_tried ? turn->why : (struct error)ERROR_INIT;
	struct layer_source first;
	struct digest chain_id;
	int rc;

	if (own && !was_tried &&
	    digest_parse(snapshots_chain_of(snap), &chain_id, NULL) == 0) {
		first = *own;
		first.chain_id = &chain_id;
		rc = fetch_from_image(s, snap, &first, lower, turn, &why);
		if (is_fetch_result_final(rc))
			return rc < 0 ? error_set(err, -rc, "%s", why.msg) : 0;
		log_info("snapshots",
			 "a layer is fetched from the lazy image that left it "
			 "out: layer=%s image=\"%s\" reason=\"%s\"",
			 snapshots_chain_of(snap), snap->image, why.msg);
		/* The other image may belong to another host's queue; then the call begins
		 * again. */
		if (turn) {
			turn->without = snap->id;
			turn->why = why;
		}
	}
	rc = fetch_from_image(s, snap, &lazy, lower, turn, err);
	if (is_fetch_result_final(rc))
		return rc;
	/* Report the failure of the image that is wanted: its registry is the one to repair. */
	if (why.code) {
		rc = error_set(err, -rc, "%s", why.msg);
		rc = error_wrap(err, rc,
				"image '%.80s' left a layer out: remove it, or "
				"mend this",
				snap->image);
	} else {
		rc = error_wrap(err, rc,
				"pull it with its own name (crictl, ctr-remote "
				"or nerdctl), or remove image '%.80s'",
				snap->image);
	}
	return rc;
}

int snapshots_unpack(struct snapshots *s, const struct snapshot *snap,
		     const struct layer_source *own, const char *lower,
		     struct turn *turn, struct error *err)
{
	struct snapshot now;
	int rc;

	if (snap->unpacked)
		return 0;
	/* Another thread may have downloaded it meanwhile. */
	rc = store_get(s->store, snap->name, &now, err);
	if (rc < 0)
		return rc;
	if (!now.unpacked)
		rc = fetch_layer_from_any_source(s, &now, own, lower, turn,
						 err);
	snapshot_fini(&now);
	return rc;
}
