// SPDX-License-Identifier: Apache-2.0
/*
 * Folders and mounts of snapshots. ROOT/snapshots/ID/fs holds a layer (or what a container
 * wrote), ROOT/snapshots/ID/work belongs to overlayfs. Lazy layers are in snapshots_lazy.c,
 * opening and closing in snapshots_open.c.
 */
#include "containerd-plugin/snapshots.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/log.h"
#include "containerd-plugin/snapshots_priv.h"
#include "containerd-plugin/usage.h"

struct store *snapshots_store(struct snapshots *s)
{
	return s->store;
}

/* ---- folders ---- */

/* Give the top folder of a container's file system the owner that it has in the image, or
 * the root of the container's user namespace. */
static int set_owner(const char *path, const struct id_maps *maps,
		     const char *lower, struct error *err)
{
	AUTO_FREE char *first = strndup(lower, strcspn(lower, ":"));
	unsigned int uid = maps->uid, gid = maps->gid;
	struct stat st;

	if (!first)
		return error_nomem(err);
	if (!maps->uids) {
		if (!*first)
			return 0;
		if (stat(first, &st) < 0)
			return error_set(err, EIO, "layer '%s': %s", first,
					 strerror(errno));
		uid = st.st_uid;
		gid = st.st_gid;
	}
	if (lchown(path, uid, gid) < 0)
		return error_set(err, EIO, "owner of '%s': %s", path,
				 strerror(errno));
	return 0;
}

static int make_dir(const char *path, mode_t mode, struct error *err)
{
	int code;

	/* chmod(), because mkdir() applies the process's umask. */
	if (path && (mkdir(path, mode) == 0 || errno == EEXIST) &&
	    chmod(path, mode) == 0)
		return 0;
	code = !path                                ? ENOMEM
	       : errno == ENOSPC || errno == EDQUOT ? ENOSPC
						    : EIO;
	return error_set(err, code, "make folder '%s': %s", path ? path : "",
			 strerror(path ? errno : ENOMEM));
}

/* Does the snapshot need a folder of its own? A view needs one when ids are mapped:
 * containerd can map neither a read-only bind mount nor folders without a common parent. */
static bool has_upper(const struct snapshot *snap, const struct id_maps *maps)
{
	return snap->kind == SNAPSHOT_KIND_ACTIVE || maps->shifts_lower;
}

/*
 * Make the folders of a snapshot that is not committed. Nothing is synced: after a power loss
 * they may be missing, with data that a container did not sync, and ensure_folders() makes them
 * again. The folder of a committed layer is never made again, as it would be empty.
 */
static int make_folders(struct snapshots *s, const struct snapshot *snap,
			const struct id_maps *maps, const char *lower,
			struct error *err)
{
	AUTO_FREE char *top = snapshots_path(s, snap->id, "");
	AUTO_FREE char *upper = snapshots_path(s, snap->id, "fs");
	AUTO_FREE char *work = snapshots_path(s, snap->id, "work");
	int rc = make_dir(top, 0700, err);

	if (rc == 0)
		rc = make_dir(upper, 0755, err);
	if (rc == 0 && has_upper(snap, maps))
		rc = make_dir(work, 0711, err);
	if (rc == 0)
		rc = set_owner(upper, maps, lower, err);
	return rc;
}

static int ensure_folders(struct snapshots *s, const struct snapshot *snap,
			  const struct id_maps *maps, const char *lower,
			  struct error *err)
{
	AUTO_FREE char *upper = snapshots_path(s, snap->id, "fs");
	AUTO_FREE char *work = snapshots_path(s, snap->id, "work");

	if (!upper || !work)
		return error_nomem(err);
	if (access(upper, F_OK) == 0 &&
	    (!has_upper(snap, maps) || access(work, F_OK) == 0))
		return 0;
	log_warning("snapshots",
		    "folders of a snapshot were lost and are made again, "
		    "empty: snapshot=\"%s\"",
		    snap->name);
	return make_folders(s, snap, maps, lower, err);
}

/* ---- mounts ---- */

void mount_fini(struct mount *m)
{
	for (size_t i = 0; i < m->n_options; i++)
		free(m->options[i]);
	free(m->options);
	free(m->source);
	*m = (struct mount){ .type = NULL };
}

/* Add a mount option; takes `option`, which is NULL when memory was short. */
static int add_option(struct mount *m, char *option, struct error *err)
{
	char **v;

	if (!option)
		return error_nomem(err);
	v = realloc(m->options, (m->n_options + 1) * sizeof(*v));
	if (!v) {
		free(option);
		return error_nomem(err);
	}
	m->options = v;
	m->options[m->n_options++] = option;
	return 0;
}

static int add_path_option(struct mount *m, const char *name, const char *path,
			   struct error *err)
{
	AUTO_BUF b = BUF_INIT;

	if (!path || buf_printf(&b, "%s=%s", name, path) < 0)
		return error_nomem(err);
	return add_option(m, buf_steal(&b), err);
}

static int bind_mount(struct mount *m, const char *source, bool writable,
		      struct error *err)
{
	int rc;

	m->type = "bind";
	m->source = source ? strdup(source) : NULL;
	if (!m->source)
		return error_nomem(err);
	rc = add_option(m, strdup(writable ? "rw" : "ro"), err);
	return rc < 0 ? rc : add_option(m, strdup("rbind"), err);
}

static int overlay_mount(struct snapshots *s, struct mount *m,
			 const struct snapshot *snap,
			 const struct id_maps *maps, const char *lower,
			 struct error *err)
{
	AUTO_FREE char *work = snapshots_path(s, snap->id, "work");
	AUTO_FREE char *upper = snapshots_path(s, snap->id, "fs");
	int rc = 0;

	m->type = "overlay";
	m->source = strdup("overlay");
	if (!m->source)
		return error_nomem(err);
	if (s->has_index_option)
		rc = add_option(m, strdup("index=off"), err);
	if (rc == 0 && maps->shifts_lower)
		rc = add_path_option(m, "uidmap", maps->uids, err);
	if (rc == 0 && maps->shifts_lower)
		rc = add_path_option(m, "gidmap", maps->gids, err);
	if (rc == 0 && maps->shifts_lower && snap->kind == SNAPSHOT_KIND_VIEW)
		rc = add_option(m, strdup("ro"), err);
	if (rc == 0 && has_upper(snap, maps))
		rc = add_path_option(m, "workdir", work, err);
	if (rc == 0 && has_upper(snap, maps))
		rc = add_path_option(m, "upperdir", upper, err);
	return rc < 0 ? rc : add_path_option(m, "lowerdir", lower, err);
}

/* Put a folder on top of those in `lower`, which are joined by ':' from the top down. */
static int add_lower(struct buf *lower, const char *path, struct error *err)
{
	AUTO_BUF b = BUF_INIT;
	struct buf old = *lower;

	if (!path || buf_printf(&b, "%s%s%s", path, old.len ? ":" : "",
				old.len ? old.data : "") < 0)
		return error_nomem(err);
	*lower = b;
	b = old;
	return 0;
}

/* bootseerd does not have the image: its folder was damaged, lost or of an earlier version,
 * or no user of it was noted. Fetch the image again, which the snapshot names, and mount it. */
static int fetch_and_mount_tree_again(struct snapshots *s,
				      const struct snapshot *snap,
				      struct turn *turn, char **ret_path,
				      struct error *err)
{
	struct digest tree;
	int rc = turn_need(turn, TURN_ASK, snap->image, err);

	if (rc < 0)
		return rc;
	log_warning("snapshots",
		    "lazy image is asked for again: snapshot=\"%s\" "
		    "image=\"%s\" reason=\"bootseerd does not have it\"",
		    snap->name, snap->image);
	if (turn)
		turn->is_lost = false;
	rc = images_bring(s->images, snap->image, &snap->manifest,
			  snapshots_chain_of(snap), &tree, err);
	if (rc == 0 && !digest_equal(&tree, &snap->tree))
		rc = store_set_tree(s->store, snap->id, &tree, err);
	return rc < 0 ? rc
		      : snapshots_mount_tree(s, &tree, snap->id, ret_path, err);
}

/*
 * Add the mounted tree of a lazy image to `lower`. `mapped`: containerd will map ids, for the
 * folder above the last slash and all mounts below it. -EKEYREJECTED: the tree must not be used
 * any more, or cannot be mapped.
 */
static int add_tree(struct snapshots *s, const struct snapshot *snap,
		    bool mapped, struct turn *turn, struct buf *lower,
		    struct error *err)
{
	AUTO_FREE char *path = NULL;
	AUTO_BUF folder = BUF_INIT;
	int rc = -ESTALE;

	if (!turn || !turn->is_lost)
		rc = snapshots_mount_tree(s, &snap->tree, snap->id, &path, err);
	if (rc == -ESTALE && turn)
		turn->is_lost = true;
	if (rc == -ESTALE)
		rc = fetch_and_mount_tree_again(s, snap, turn, &path, err);
	if (rc == 0 && strpbrk(path, ",:\\"))
		rc = error_set(err, EHOSTDOWN,
			       "bootseerd mounts at '%s': no comma, colon or "
			       "backslash may be in it",
			       path);
	if (rc == 0 && mapped)
		rc = snapshots_check_mappable(path, snap->image, err);
	if (rc == 0 &&
	    buf_printf(&folder, "%s%s", path, mapped ? "/." : "") < 0)
		rc = error_nomem(err);
	return rc < 0 ? rc : add_lower(lower, folder.data, err);
}

/*
 * Collect the folders below a snapshot; `chain` are its ancestors from the parent down. The tree
 * of a lazy image holds all layers below it. A tree that is not trusted any more is skipped, and
 * its layers are downloaded instead, from the image `named` if known: from the bottom up, since
 * a layer may leave attributes of a folder to the layers below. The same is done when ids are
 * `mapped` and other folders lie on the tree, as containerd maps only folders with a common
 * parent.
 */
static int collect_lower(struct snapshots *s, const struct snapshot *chain,
			 size_t n, bool mapped,
			 const struct layer_source *named, struct turn *turn,
			 struct buf *lower, struct error *err)
{
	size_t from = n;

	for (size_t i = 0; i < n && from == n; i++) {
		int rc = -EKEYREJECTED;

		if (chain[i].has_tree && (!mapped || i == 0))
			rc = add_tree(s, &chain[i], mapped, turn, lower, err);
		if (rc == 0)
			from = i;
		else if (rc != -EKEYREJECTED)
			return rc;
	}
	while (from > 0) {
		const struct snapshot *snap = &chain[--from];
		struct layer_source own = { .image = NULL };
		AUTO_FREE char *path = snapshots_path(s, snap->id, "fs");
		int rc = 0;

		if (named)
			own = *named;
		own.layer = (uint32_t)(n - 1 - from);
		if (snap->remote)
			rc = snapshots_unpack(s, snap, named ? &own : NULL,
					      lower->len ? lower->data : "",
					      turn, err);
		if (rc == 0)
			rc = add_lower(lower, path, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/*
 * Mount a view of a tree. bootseerd's mounts disable set-user-id programs and devices, and a
 * bind mount would inherit that; an overlay does not. A read-only overlay needs two folders, so
 * the view's own empty folder is the second.
 */
static int mount_view_of_tree(struct snapshots *s, struct mount *m,
			      const struct snapshot *snap,
			      const struct id_maps *maps, const char *tree,
			      struct error *err)
{
	AUTO_FREE char *empty = snapshots_path(s, snap->id, "fs");
	AUTO_BUF lower = BUF_INIT;

	if (!empty || buf_printf(&lower, "%s:%s", tree, empty) < 0)
		return error_nomem(err);
	return overlay_mount(s, m, snap, maps, lower.data, err);
}

static bool is_own_folder(const struct snapshots *s, const char *path)
{
	size_t n = strlen(s->folder);

	return strncmp(path, s->folder, n) == 0 && path[n] == '/';
}

static int make_mount(struct snapshots *s, const struct snapshot *snap,
		      const struct id_maps *maps, const char *lower,
		      struct mount *ret, struct error *err)
{
	bool writable = has_upper(snap, maps);
	struct mount m = { .type = NULL };
	int rc;

	if (!*lower) {
		AUTO_FREE char *path = snapshots_path(s, snap->id, "fs");

		rc = bind_mount(&m, path, writable, err);
	} else if (!writable && !strchr(lower, ':')) {
		rc = is_own_folder(s, lower)
			     ? bind_mount(&m, lower, false, err)
			     : mount_view_of_tree(s, &m, snap, maps, lower,
						  err);
	} else {
		rc = overlay_mount(s, &m, snap, maps, lower, err);
	}
	if (rc < 0)
		mount_fini(&m);
	else
		*ret = m;
	return rc;
}

int snapshots_mounts(struct snapshots *s, const char *key, struct turn *turn,
		     struct mount *ret, struct error *err)
{
	struct snapshot *chain = NULL;
	struct id_maps maps = { .uids = NULL };
	AUTO_BUF lower = BUF_INIT;
	size_t n = 0;
	int rc = store_chain(s->store, key, &chain, &n, err);

	if (rc < 0)
		return rc;
	if (chain[0].kind == SNAPSHOT_KIND_COMMITTED)
		rc = error_set(err, EBUSY,
			       "snapshot '%s' is committed: it has "
			       "no mounts",
			       key);
	if (rc == 0 && buf_puts(&lower, "") < 0)
		rc = error_nomem(err);
	if (rc == 0)
		rc = snapshots_id_maps(&chain[0], n > 1 ? &chain[1] : NULL,
				       &maps, err);
	if (rc == 0)
		rc = collect_lower(s, chain + 1, n - 1, maps.shifts_lower, NULL,
				   turn, &lower, err);
	if (rc == 0)
		rc = ensure_folders(s, &chain[0], &maps, lower.data, err);
	if (rc == 0)
		rc = make_mount(s, &chain[0], &maps, lower.data, ret, err);
	snapshots_free(chain, n);
	return rc;
}

/* ---- Prepare, View ---- */

static void remove_folders(struct snapshots *s, uint64_t id)
{
	AUTO_FREE char *top = snapshots_path(s, id, "");
	struct error err = ERROR_INIT;

	/* If it fails, the folder is found and removed after the next start. */
	if (top && fs_remove_tree(top, &err) < 0)
		log_warning("snapshots", "%s", err.msg);
}

static int create_snapshot_on_lower(struct snapshots *s, struct snapshot *snap,
				    const struct id_maps *maps,
				    const char *lower, struct mount *ret,
				    struct error *err)
{
	int rc;

	snap->id = store_next_id(s->store);
	rc = make_folders(s, snap, maps, lower, err);
	if (rc == 0)
		rc = make_mount(s, snap, maps, lower, ret, err);
	if (rc == 0) {
		rc = store_insert(s->store, snap, err);
		if (rc < 0)
			mount_fini(ret);
	}
	if (rc < 0)
		remove_folders(s, snap->id);
	return rc;
}

static int create_ordinary(struct snapshots *s,
			   const struct create_request *req, struct turn *turn,
			   struct mount *ret, struct error *err)
{
	const struct snapshot *start_on = NULL;
	struct layer_source named;
	struct digest manifest;
	struct snapshot *chain = NULL;
	struct id_maps maps = { .uids = NULL };
	AUTO_BUF lower = BUF_INIT;
	size_t n = 0;
	int rc = 0;
	/* Borrows from the request, so it is not freed. */
	struct snapshot snap = {
		.name = (char *)(uintptr_t)req->key,
		.parent = (char *)(uintptr_t)req->parent,
		.kind = req->kind,
		.labels = *req->labels,
		.size = -1,
		.inodes = -1,
	};

	if (buf_puts(&lower, "") < 0)
		return error_nomem(err);
	if (*req->parent)
		rc = store_chain(s->store, req->parent, &chain, &n, err);
	if (rc == 0)
		rc = snapshots_id_maps(&snap, chain, &maps, err);
	if (rc == 0)
		rc = collect_lower(s, chain, n, maps.shifts_lower,
				   images_named(req->labels, &manifest, &named)
					   ? &named
					   : NULL,
				   turn, &lower, err);
	if (rc == 0)
		start_on = snapshots_start_on(&snap, chain, n);
	if (start_on)
		rc = turn_need(turn, TURN_START, start_on->image, err);
	if (start_on && rc == -EHOSTDOWN) {
		log_warning("snapshots",
			    "started without prefetch: snapshot=\"%s\" "
			    "reason=\"%s\"",
			    req->key, err->msg);
		start_on = NULL;
		rc = 0;
	}
	if (rc == 0)
		rc = create_snapshot_on_lower(s, &snap, &maps, lower.data, ret,
					      err);
	if (rc == 0 && start_on)
		snapshots_start(s, &snap, start_on);
	snapshots_free(chain, n);
	return rc;
}

int snapshots_create(struct snapshots *s, const struct create_request *req,
		     struct turn *turn, struct mount *ret, struct error *err)
{
	int rc;

	if (!*req->key)
		return error_set(err, EINVAL, "a snapshot needs a key");
	if (req->kind == SNAPSHOT_KIND_ACTIVE &&
	    labels_get(req->labels, LABEL_SNAPSHOT_REF)) {
		rc = snapshots_create_lazy(s, req, turn, err);
		if (rc < 0)
			return rc;
		if (rc > 0)
			return error_set(err, EEXIST,
					 "the layer is there: its "
					 "image is lazy");
	}
	return create_ordinary(s, req, turn, ret, err);
}

/* ---- Usage, Cleanup ---- */

static int count_usage(struct snapshots *s, const struct snapshot *snap,
		       int64_t *ret_size, int64_t *ret_inodes,
		       struct error *err)
{
	AUTO_FREE char *path = snapshots_path(s, snap->id, "fs");
	/* A committed snapshot does not change, so its usage can be stored. */
	bool is_done = snap->kind == SNAPSHOT_KIND_COMMITTED;
	int rc;

	if (!path)
		return error_nomem(err);
	rc = usage_count(path, is_done ? UINT64_MAX : USAGE_STEPS_MAX, ret_size,
			 ret_inodes, err);
	if (rc == 0 && is_done)
		rc = store_set_usage(s->store, snap->id, *ret_size, *ret_inodes,
				     err);
	return rc;
}

int snapshots_usage(struct snapshots *s, const char *key, int64_t *ret_size,
		    int64_t *ret_inodes, struct error *err)
{
	struct snapshot snap;
	int rc = store_get(s->store, key, &snap, err);

	if (rc < 0)
		return rc;
	if (snap.kind == SNAPSHOT_KIND_VIEW ||
	    (snap.remote && !snap.unpacked)) {
		*ret_size = 0;
		*ret_inodes = 0;
	} else if (snap.size >= 0) {
		*ret_size = snap.size;
		*ret_inodes = snap.inodes;
	} else {
		rc = count_usage(s, &snap, ret_size, ret_inodes, err);
	}
	snapshot_fini(&snap);
	return rc;
}

static int clean_one(struct snapshots *s, const struct garbage *g,
		     struct error *err)
{
	AUTO_FREE char *path = snapshots_path(s, g->id, "");
	int rc = 0;

	if (!path)
		return error_nomem(err);
	snapshots_start_end(s, g->id);
	if (g->has_tree)
		rc = images_umount(s->images, &g->tree, g->id, err);
	if (rc == 0 && access(path, F_OK) == 0)
		rc = fs_remove_tree(path, err);
	return rc < 0 ? rc : store_garbage_done(s->store, g->id, err);
}

/* Become the only thread that cleans up; false: another one is cleaning. */
static bool claim_cleaning(struct snapshots *s)
{
	bool free_now;

	pthread_mutex_lock(&s->lock);
	free_now = !s->cleaning;
	s->cleaning = true;
	pthread_mutex_unlock(&s->lock);
	return free_now;
}

int snapshots_cleanup(struct snapshots *s, struct error *err)
{
	AUTO_FREE struct garbage *v = NULL;
	/* bootseerd does not answer: wait for it once, not for each snapshot */
	bool hangs = false;
	struct error why = ERROR_INIT;
	size_t n = 0;
	int rc;

	if (!claim_cleaning(s))
		return 0;
	rc = store_garbage(s->store, &v, &n, err);
	for (size_t i = 0; i < n; i++) {
		why = (struct error)ERROR_INIT;
		if (v[i].has_tree && hangs)
			continue;
		if (clean_one(s, &v[i], &why) < 0)
			log_warning("snapshots",
				    "clean up later: snapshot=%" PRIu64
				    " reason=\"%s\"",
				    v[i].id, why.msg);
		hangs = hangs || why.code == ETIMEDOUT;
	}
	if (!hangs &&
	    snapshots_release_strays(s, s->config.node_timeout_ns, &why) < 0)
		log_debug("snapshots", "users are looked at later: %s",
			  why.msg);
	pthread_mutex_lock(&s->lock);
	s->cleaning = false;
	pthread_mutex_unlock(&s->lock);
	return rc;
}
