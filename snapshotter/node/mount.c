// SPDX-License-Identifier: Apache-2.0
/*
 * Mounts of images: one for each image, however many users.  Two modes:
 *
 *   lazy      metadata image over the data path, blocks come when they are read
 *   complete  every block is in the cache: the kernel reads the cache's files
 *
 * A mount is complete when the image is whole at that moment and can be checked
 * within --complete-budget; in every other case it is lazy.  After a restart a
 * mount that the kernel still has is adopted in its mode, others start lazy:
 * the start of a node does not wait for the hashing of whole images.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/fs.h"
#include "common/log.h"
#include "snapshotter/datapath/mounts.h"
#include "snapshotter/node/complete.h"
#include "snapshotter/node/node.h"

struct mounted {
	struct node *node;
	char *label;
	char *meta_path;
	struct map_file map_file; /* what `map` views */
	struct blockmap map;
	struct device *device;    /* NULL when complete */
	struct complete complete; /* with pins on `map`, when pinned */
	bool pinned;
	struct datapath_image image; /* for the data path */
};

bool mounted_is_complete(const struct mounted *m)
{
	return !m->device;
}

bool mounted_stats(const struct mounted *m, struct device_stats *ret)
{
	if (!m->device)
		return false;
	device_get_stats(m->device, ret);
	return true;
}

static void mounted_free(struct mounted *m)
{
	if (!m)
		return;
	device_free(m->device);
	if (m->pinned)
		cache_unpin(m->node->cache, &m->map);
	complete_fini(&m->complete);
	map_file_close(&m->map_file);
	free(m->label);
	free(m->meta_path);
	free(m);
}
DEFINE_AUTO(mounted)

/* ---------------------------------------------------------------- opening --- */

/* Both files are hashed before they are used: they lay on a disk. */
static int open_checked(const struct image *i, const char *name,
			const struct digest *want, char **ret_path,
			struct map_file *ret, struct error *err)
{
	AUTO_FREE char *path = image_path(i, name);
	int rc;

	if (!path)
		return error_nomem(err);
	rc = map_file_open(path, ret, err);
	if (rc == 0)
		rc = map_file_check(ret, want, path, err);
	if (rc < 0)
		return rc;
	map_file_rest(ret);
	if (ret_path)
		*ret_path = steal_ptr(&path);
	return 0;
}

/* Fetch the two files again: the disk lost them. */
static int refetch(struct node *n, const struct image *i, struct error *err)
{
	AUTO_FREE char *meta = image_path(i, "meta.erofs");
	AUTO_FREE char *map = image_path(i, "blockmap");
	AUTO_FREE char *new_meta = image_path(i, "meta.erofs.new");
	AUTO_FREE char *new_map = image_path(i, "blockmap.new");
	struct store_lease *lease = NULL;
	struct origin *origin = NULL;
	int rc;

	if (!meta || !map || !new_meta || !new_map)
		return error_nomem(err);
	rc = origin_get(n->origins, i->state.host, i->state.repo,
			i->state.plain_http, &origin, err);
	if (rc == 0)
		rc = origin_lease(origin, &lease, err);
	if (rc == 0 && ((unlink(new_meta) < 0 && errno != ENOENT) ||
			(unlink(new_map) < 0 && errno != ENOENT)))
		rc = error_set(err, errno, "remove '%s': %s", new_meta,
			       strerror(errno));
	/* What is good of the two stays until both are there anew. */
	if (rc == 0)
		rc = artifact_fetch(lease->store, &i->artifact, new_meta,
				    new_map, err);
	if (rc == 0 && (rename(new_meta, meta) < 0 || rename(new_map, map) < 0))
		rc = error_set(err, errno, "rename to '%s': %s", meta,
			       strerror(errno));
	store_lease_end(lease);
	origin_put(origin);
	return rc;
}

/* The image's files, checked; what is common to both modes. */
static int mounted_open(struct node *n, struct image *i,
			struct map_file *ret_meta, struct mounted **ret,
			struct error *err)
{
	AUTO(mounted) m = calloc(1, sizeof(*m));
	const struct artifact *a = &i->artifact;
	int rc;

	if (!m)
		return error_nomem(err);
	m->node = n;
	m->label = image_label(i);
	if (!m->label)
		return error_nomem(err);
	rc = open_checked(i, "meta.erofs", &a->meta_raw, &m->meta_path,
			  ret_meta, err);
	if (rc == 0)
		rc = open_checked(i, "blockmap", &a->map_raw, NULL,
				  &m->map_file, err);
	if (rc == 0)
		rc = blockmap_open(m->map_file.data, m->map_file.len, &m->map,
				   err);
	if (rc < 0) {
		map_file_close(ret_meta);
		return rc;
	}
	map_file_rest(&m->map_file);
	m->image = (struct datapath_image){
		.index = i->state.index,
		.name = m->label,
		.meta_path = m->meta_path,
		.mountpoint = i->mountpoint,
		.device_size = a->device_size,
	};
	*ret = steal_ptr(&m);
	return 0;
}

static int make_mountpoint(struct node *n, const struct image *i,
			   struct error *err)
{
	AUTO_FREE char *dir = NULL;

	if (asprintf(&dir, "%s/images/%s", n->cfg->run, i->hex) < 0) {
		dir = NULL;
		return error_nomem(err);
	}
	/* The last part may be a mount that hangs: it is not looked at. */
	if (mkdir(dir, 0755) < 0 && errno != EEXIST)
		return error_set(err, errno, "create '%s': %s", dir,
				 strerror(errno));
	if (mkdir(i->mountpoint, 0755) < 0 && errno != EEXIST)
		return error_set(err, errno, "create '%s': %s", i->mountpoint,
				 strerror(errno));
	return 0;
}

/* ---------------------------------------------------------------- the modes --- */

static int mount_lazy(struct node *n, struct image *i, struct mounted *m,
		      struct error *err)
{
	struct source **packs = NULL;
	struct origin *origin = NULL;
	int rc;

	rc = origin_get(n->origins, i->state.host, i->state.repo,
			i->state.plain_http, &origin, err);
	if (rc == 0)
		rc = origin_packs(origin, &i->artifact, &packs, err);
	if (rc == 0)
		rc = device_new(n->fetcher, &m->map, m->label, packs,
				&m->device, err);
	free(packs);
	origin_put(origin);
	if (rc < 0)
		return rc;
	m->image.device = m->device;
	rc = image_set_complete(i, false, err);
	/* To be there again after a reboot must be possible on a full disk; a
	 * successor sees from the mount itself what it is. */
	if (rc == -ENOSPC || rc == -EDQUOT)
		rc = 0;
	if (rc == 0)
		rc = n->datapath->ops->mount(n->datapath, &m->image, err);
	if (rc == 0)
		atomic_fetch_add(&n->events.mounts_lazy, 1);
	return rc;
}

static void use_files(struct mounted *m)
{
	m->pinned = true;
	m->image.meta_path = m->complete.meta_path;
	m->image.files = (const char *const *)m->complete.files;
	m->image.n_files = m->complete.n_files;
}

static int mount_complete(struct node *n, struct image *i, struct mounted *m,
			  const struct map_file *meta, struct error *err)
{
	struct complete_job job = {
		.cache = n->cache,
		.map = &m->map,
		.meta = meta,
		.meta_digest = i->artifact.meta_raw,
		.dir = i->dir,
	};
	struct timespec now;
	int rc;

	clock_gettime(CLOCK_MONOTONIC, &now);
	job.deadline_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec +
			  n->cfg->complete_budget;
	rc = complete_prepare(&job, &m->complete, err);
	if (rc < 0)
		return rc;
	use_files(m);
	rc = image_set_complete(i, true, err);
	if (rc == 0)
		rc = datapath_mount_complete(n->cfg->run, &m->image, err);
	if (rc == 0)
		atomic_fetch_add(&n->events.mounts_complete, 1);
	return rc;
}

/* After a restart: the kernel has the mount, its files must stay. */
static int adopt_complete(struct node *n, struct image *i, struct mounted *m,
			  struct error *err)
{
	int rc;

	rc = complete_load(i->dir, &m->complete, err);
	if (rc == 0)
		rc = cache_pin(n->cache, &m->map, err);
	if (rc < 0)
		return rc;
	use_files(m);
	rc = datapath_mount_complete(n->cfg->run, &m->image, err);
	if (rc == 0)
		atomic_fetch_add(&n->events.mounts_adopted, 1);
	return rc;
}

static bool is_mounted(const char *path)
{
	struct mount_line line;
	int rc = mount_find(path, &line, NULL);

	if (rc > 0)
		mount_line_fini(&line);
	return rc > 0;
}

/* Undo what a failed attempt put into `m`. */
static void back_to_lazy(struct mounted *m)
{
	if (m->pinned)
		cache_unpin(m->node->cache, &m->map);
	m->pinned = false;
	complete_fini(&m->complete);
	m->image.meta_path = m->meta_path;
	m->image.files = NULL;
	m->image.n_files = 0;
}

static int mount_either(struct node *n, struct image *i, struct mounted *m,
			const struct map_file *meta, bool restore,
			struct error *err)
{
	struct error why = ERROR_INIT;
	int rc = -ENOENT;

	if (restore && i->state.complete && is_mounted(i->mountpoint)) {
		rc = adopt_complete(n, i, m, err);
		/* Busy: the mount is the lazy one. */
		if (rc != -EBUSY)
			return rc;
	}
	if (!restore && n->cfg->complete_budget > 0)
		rc = mount_complete(n, i, m, meta, &why);
	if (rc == 0)
		return 0;
	if (rc != -ENOENT && why.msg[0])
		log_info("mount", "lazy image=\"%s\" reason=\"%s\"", m->label,
			 why.msg);
	back_to_lazy(m);
	return mount_lazy(n, i, m, err);
}

static int mount_image_now(struct node *n, struct image *i, bool restore,
			   struct error *err)
{
	struct map_file meta = MAP_FILE_INIT;
	AUTO(mounted) m = NULL;
	int rc;

	rc = mounted_open(n, i, &meta, &m, err);
	if (rc == -EBADMSG || rc == -ENOENT) {
		log_warning("mount",
			    "damaged image=%.12s reason=\"%s\" "
			    "action=\"fetching it again\"",
			    i->hex, err->msg);
		rc = refetch(n, i, err);
		if (rc == 0)
			rc = mounted_open(n, i, &meta, &m, err);
	}
	if (rc == 0)
		rc = make_mountpoint(n, i, err);
	if (rc == 0)
		rc = mount_either(n, i, m, &meta, restore, err);
	map_file_close(&meta);
	if (rc < 0) {
		atomic_fetch_add(&n->events.mounts_failed, 1);
		return rc;
	}
	log_info("mount", "mounted image=\"%s\" mode=%s path=\"%s\"", m->label,
		 m->device ? "lazy" : "complete", i->mountpoint);
	images_lock(n->images);
	i->mounted = steal_ptr(&m);
	images_unlock(n->images);
	return 0;
}

/* So that the node's totals never go back. */
static void keep_stats(struct node *n, const struct mounted *m)
{
	struct device_stats d;

	if (!mounted_stats(m, &d))
		return;
	n->past.reads += d.reads;
	n->past.read_bytes += d.read_bytes;
	n->past.misses += d.misses;
	n->past.fetches += d.fetches;
	n->past.fetched_bytes += d.fetched_bytes;
	n->past.errors += d.errors;
}

static int umount_now(struct node *n, struct image *i, struct error *err)
{
	struct mounted *m = i->mounted;
	int rc;

	if (!m)
		return 0;
	rc = n->datapath->ops->umount(n->datapath, &m->image, err);
	if (rc < 0)
		return rc;
	log_info("mount", "unmounted image=\"%s\"", m->label);
	images_lock(n->images);
	i->mounted = NULL;
	keep_stats(n, m);
	images_unlock(n->images);
	mounted_free(m);
	return 0;
}

/* ------------------------------------------------------------------ users --- */

static int wrap(struct image *i, int rc, struct error *err)
{
	AUTO_FREE char *label = NULL;

	if (rc == 0)
		return 0;
	label = image_label(i);
	error_wrap(err, rc, "image %s", label ? label : i->hex);
	if (err)
		image_note_error(i, err);
	return rc;
}

int node_mount(struct node *n, struct image *i, const char *user,
	       struct error *err)
{
	bool was;
	int rc;

	rc = gate_enter(n->gate, &i->id, NODE_GATE_TIMEOUT_NS, err);
	if (rc < 0)
		return wrap(i, rc, err);
	images_lock(n->images);
	was = names_has(&i->state.users, user);
	rc = i->removed ? -ENOENT : 0;
	images_unlock(n->images);
	if (rc < 0)
		error_set(err, ENOENT, "it was removed meanwhile");
	/* The user first: a crash leaves a user without a mount, which the
	 * next start mounts, never a mount that nobody knows. */
	if (rc == 0)
		rc = image_add_user(i, user, err);
	if (rc == 0 && !i->mounted) {
		rc = mount_image_now(n, i, false, err);
		if (rc < 0 && !was) {
			struct error ignored;
			bool gone;

			if (image_remove_user(i, user, &gone, &ignored) < 0)
				log_warning("mount", "user reason=\"%s\"",
					    ignored.msg);
		}
	}
	gate_leave(n->gate, &i->id);
	return wrap(i, rc, err);
}

int node_umount(struct node *n, struct image *i, const char *user,
		bool *ret_was, struct error *err)
{
	bool last;
	int rc;

	*ret_was = false;
	rc = gate_enter(n->gate, &i->id, NODE_GATE_TIMEOUT_NS, err);
	if (rc < 0)
		return wrap(i, rc, err);
	images_lock(n->images);
	last = i->state.users.n == 0 ||
	       (i->state.users.n == 1 && names_has(&i->state.users, user));
	images_unlock(n->images);
	if (last)
		rc = umount_now(n, i, err);
	if (rc == 0)
		rc = image_remove_user(i, user, ret_was, err);
	gate_leave(n->gate, &i->id);
	return wrap(i, rc, err);
}

/* ----------------------------------------------------------- start and end --- */

static void restore_one(struct node *n, struct image *i)
{
	struct error err = ERROR_INIT;
	int rc;

	if (i->state.users.n == 0)
		return;
	rc = mount_image_now(n, i, true, &err);
	if (wrap(i, rc, &err) < 0)
		log_error("mount",
			  "not restored reason=\"%s\" effect=\"reads of its "
			  "containers wait or fail\"",
			  err.msg);
}

static void for_each(struct node *n, void (*fn)(struct node *, struct image *))
{
	struct error err = ERROR_INIT;
	struct image **list;
	size_t len, k;

	if (images_list(n->images, &list, &len, &err) < 0) {
		log_error("mount", "images reason=\"%s\"", err.msg);
		return;
	}
	for (k = 0; k < len; k++)
		fn(n, list[k]);
	images_list_free(list, len);
}

/* Complete mounts first: their blocks must be pinned before anything is put
 * into the cache. */
static void restore_complete(struct node *n, struct image *i)
{
	if (!i->state.complete || !is_mounted(i->mountpoint))
		return;
	restore_one(n, i);
	if (i->mounted)
		return;
	/* Its containers read the cache's files, and nothing pins what they
	 * read: an evicted block would be a hole, which reads as zeros. */
	cache_freeze(n->cache);
	log_error("mount",
		  "image=%.12s is mounted from the cache but could not be "
		  "checked: nothing is evicted until bootseerd is started "
		  "again with that mended",
		  i->hex);
}

static void restore_rest(struct node *n, struct image *i)
{
	if (!i->mounted)
		restore_one(n, i);
}

void node_restore(struct node *n)
{
	struct error err = ERROR_INIT;

	for_each(n, restore_complete);
	for_each(n, restore_rest);
	if (n->datapath->ops->resume(n->datapath, &err) < 0)
		log_error("mount", "resume reason=\"%s\"", err.msg);
}

static void take_down(struct node *n, struct image *i)
{
	struct error err = ERROR_INIT;

	if (!i->mounted ||
	    (!n->cfg->umount_at_exit && mounted_is_complete(i->mounted)))
		return;
	if (umount_now(n, i, &err) < 0)
		log_error("mount", "unmount image=%.12s reason=\"%s\"", i->hex,
			  err.msg);
}

static void let_go(struct node *n, struct image *i)
{
	(void)n;
	mounted_free(i->mounted);
	i->mounted = NULL;
}

void node_leave(struct node *n)
{
	bool keep = !n->cfg->umount_at_exit && !n->held &&
		    fd_keeper_is_durable(n->keeper);

	if (!keep)
		for_each(n, take_down);
	n->datapath->ops->stop(n->datapath, keep);
	for_each(n, let_go);
}
