// SPDX-License-Identifier: Apache-2.0
/*
 * Mounts of images: one for each image, however many users.  Two modes:
 *
 *   lazy      metadata image over the data path, blocks come when they are read
 *   complete  every block is in the cache: the kernel reads the cache's files
 *
 * A mount is complete when the image is whole at that moment and can be checked
 * within --complete-budget, and no recording is wanted, which would see nothing;
 * in every other case it is lazy.  After a restart a
 * mount that the kernel still has is adopted in its mode, others start lazy:
 * the start of a node does not wait for the hashing of whole images.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "snapshotter/datapath/mounts.h"
#include "snapshotter/node/mounted.h"
#include "snapshotter/node/starts.h"

/* ---------------------------------------------------------------- the modes --- */

static int mount_lazy(struct node *n, struct image *i, struct mounted *m,
		      struct error *err)
{
	int rc;

	rc = mounted_open_device(m, i, err);
	if (rc < 0)
		return rc;
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
	int rc;

	job.deadline_ns = clock_now_ns() + n->cfg->complete_budget;
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

/* What is asked of a mount. */
enum mount_why {
	MOUNT_USE,     /* somebody wants the files */
	MOUNT_START,   /* containers will start on it */
	MOUNT_RESTORE, /* it was there before this process */
};

static int mount_either(struct node *n, struct image *i, struct mounted *m,
			const struct map_file *meta, enum mount_why mount,
			struct error *err)
{
	struct error why = ERROR_INIT;
	int rc = -ENOENT;

	if (mount == MOUNT_RESTORE && i->state.complete &&
	    is_mounted(i->mountpoint)) {
		rc = adopt_complete(n, i, m, err);
		/* Busy: the mount is the lazy one. */
		if (rc != -EBUSY)
			return rc;
	}
	if (mount != MOUNT_RESTORE && n->cfg->complete_budget > 0 &&
	    !(mount == MOUNT_START && starts_would_record(n->starts, i)))
		rc = mount_complete(n, i, m, meta, &why);
	if (rc == 0)
		return 0;
	if (rc != -ENOENT && why.msg[0])
		log_info("mount", "lazy image=\"%s\" reason=\"%s\"", m->label,
			 why.msg);
	back_to_lazy(m);
	return mount_lazy(n, i, m, err);
}

static int mount_image_now(struct node *n, struct image *i, enum mount_why why,
			   struct error *err)
{
	struct map_file meta = MAP_FILE_INIT;
	AUTO(mounted) m = NULL;
	bool was_there = why == MOUNT_RESTORE && is_mounted(i->mountpoint);
	int rc;

	rc = mounted_open(n, i, &meta, &m, err);
	if (rc == 0)
		rc = mounted_make_dir(m, err);
	if (rc == 0)
		rc = mount_either(n, i, m, &meta, why, err);
	map_file_close(&meta);
	if (rc < 0) {
		atomic_fetch_add(&n->events.mounts_failed, 1);
		return rc;
	}
	log_info("mount", "mounted image=\"%s\" mode=%s path=\"%s\"", m->label,
		 m->device ? "lazy" : "complete", i->mountpoint);
	m->was_started = was_there;
	images_lock(n->images);
	i->mounted = steal_ptr(&m);
	images_unlock(n->images);
	return 0;
}

/* That reads failed is told of the image when nobody mounts it any more, too. */
static void keep_error(const struct mounted *m, struct image *i)
{
	struct device_stats d;

	if (!mounted_stats(m, &d) || d.error_at <= i->last_error_at)
		return;
	i->last_error = d.error;
	i->last_error_at = d.error_at;
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
	if (m->device)
		starts_detach(n->starts, m->device);
	images_lock(n->images);
	i->mounted = NULL;
	mounted_keep_stats(m);
	keep_error(m, i);
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
	       bool for_start, struct error *err)
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
		rc = mount_image_now(n, i, for_start ? MOUNT_START : MOUNT_USE,
				     err);
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
	rc = mount_image_now(n, i, MOUNT_RESTORE, &err);
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
