// SPDX-License-Identifier: Apache-2.0
/*
 * Mounts of images: one for each image, however many users.  Two modes:
 *
 *   lazy      metadata image over the data path, blocks come when they are read
 *   complete  every block is in the cache: the kernel reads the cache's files
 *
 * A mount is complete when --datapath is auto, the image is whole at that moment and
 * can be checked within NODE_COMPLETE_NS, and no recording is wanted, which would see
 * nothing; in every other case it is lazy.  After a restart a
 * mount that the kernel still has is adopted in its mode, others start lazy:
 * the start of a node does not wait for the hashing of whole images.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "blockstore/cache_mount.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/mount.h"
#include "fuse/fuse.h"
#include "snapshotter/node/constants.h"
#include "snapshotter/node/starts/mount.h"
#include "snapshotter/node/starts/mounted.h"
#include "snapshotter/node/starts/prefetch.h"
#include "snapshotter/node/starts/starts.h"

/* ---------------------------------------------------------------- the modes --- */

/* A full disk is no reason not to be mounted, or not to be there again after a
 * reboot; a successor sees from the mount itself what it is. */
static int note_mode(struct image *i, bool complete, struct error *err)
{
	int rc = image_set_complete(i, complete, err);

	return rc == -ENOSPC || rc == -EDQUOT ? 0 : rc;
}

static int mount_lazy(struct node *n, struct image *i, struct mounted *m,
		      struct error *err)
{
	int rc;

	rc = mounted_open_device(m, i, err);
	if (rc < 0)
		return rc;
	rc = note_mode(i, false, err);
	if (rc == 0)
		rc = n->datapath->ops->mount(n->datapath, &m->image, err);
	if (rc == 0)
		atomic_fetch_add(&n->events.mounts_lazy, 1);
	return rc;
}

static void use_files(struct mounted *m)
{
	m->kept = true;
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
		.name = i->hex,
		.gate = n->gate,
	};
	int rc;

	job.deadline_ns = clock_now_ns() + NODE_COMPLETE_NS;
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

static bool has_complete(const struct node *n, const struct image *i)
{
	AUTO_FREE char *meta = NULL;

	return cache_mount_path(n->cache, i->hex, "erofs", &meta, NULL) == 0 &&
	       datapath_has_complete(i->mountpoint, meta);
}

/*
 * The kernel has the mount already.  The cache has found that out by itself, and
 * keeps what the mount reads, or has frozen its files when it does not know what
 * that is.  It may not know of the mount at all: an older one, or with a name of
 * other files.
 */
static int adopt_complete(struct node *n, struct image *i, struct mounted *m,
			  struct error *err)
{
	m->kept = cache_mount_adopt(n->cache, i->hex) == 0;
	if (!m->kept)
		cache_freeze_in_use(n->cache);
	atomic_fetch_add(&n->events.mounts_adopted, 1);
	return note_mode(i, true, err);
}

static bool is_mounted(const char *path)
{
	AUTO_FREE char *canonical = NULL;
	struct mount_line line;
	int rc = mount_canonical(path, &canonical, NULL);

	if (rc == 0)
		rc = mount_find(canonical, &line, NULL);
	if (rc > 0)
		mount_line_fini(&line);
	return rc > 0;
}

/* Undo what a failed attempt put into `m`. */
static void back_to_lazy(struct mounted *m)
{
	if (m->kept)
		cache_mount_drop(m->node->cache, m->hex);
	m->kept = false;
	complete_fini(&m->complete);
	m->image.meta_path = m->meta_path;
	m->image.files = NULL;
	m->image.n_files = 0;
}

/* Reasons for a mount. */
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

	/* Also when its state was lost, and with it that it was mounted. */
	if (has_complete(n, i))
		return adopt_complete(n, i, m, err);
	if (mount != MOUNT_RESTORE && strcmp(n->cfg->datapath, "auto") == 0 &&
	    !(mount == MOUNT_START && starts_would_record(n->starts, i)))
		rc = mount_complete(n, i, m, meta, &why);
	if (rc == 0)
		return 0;
	if (rc != -ENOENT && why.msg[0])
		log_info("mount", "lazy image=\"%s\" reason=\"%s\"", m->label,
			 why.msg);
	back_to_lazy(m);
	rc = mount_lazy(n, i, m, err);
	if (rc != -EBUSY || !has_complete(n, i))
		return rc;
	/* Made since, by a child of a bootseerd that was killed. */
	mounted_close_device(m);
	return adopt_complete(n, i, m, err);
}

static int mount_image_now(struct node *n, struct image *i, enum mount_why why,
			   struct remote_call *call, struct error *err)
{
	struct map_file meta = MAP_FILE_INIT;
	AUTO(mounted) m = NULL;
	bool was_there = why == MOUNT_RESTORE && is_mounted(i->mountpoint);
	int rc;

	rc = mounted_open(n, i, call, &meta, &m, err);
	if (rc == 0)
		rc = mounted_make_dir(m, err);
	if (rc == 0)
		rc = mount_either(n, i, m, &meta, why, err);
	map_file_close(&meta);
	if (rc < 0) {
		if (rc != -EINPROGRESS)
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

/* A complete mount that could not be adopted, for want of the image's files. */
static int umount_unknown(struct node *n, struct image *i, struct error *err)
{
	struct datapath_image img = {
		.index = i->state.index,
		.name = i->hex,
		.mountpoint = i->mountpoint,
	};

	return has_complete(n, i)
		       ? n->datapath->ops->umount(n->datapath, &img, err)
		       : 0;
}

static int umount_now(struct node *n, struct image *i, struct error *err)
{
	struct mounted *m = i->mounted;
	int rc;

	if (!m)
		return umount_unknown(n, i, err);
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

/*
 * Somebody may have unmounted what this process mounted.  Whoever starts on the
 * mount point then would find an empty folder.  What containers have open of a lazy
 * mount goes on by the data path's side of it, which stays as it is; a complete one
 * needs nothing of us.
 */
static int mount_again_if_gone(struct node *n, struct image *i,
			       enum mount_why why, struct remote_call *call,
			       struct error *err)
{
	struct mounted *m = i->mounted;
	int rc;

	if (is_mounted(i->mountpoint))
		return 0;
	log_warning("mount",
		    "mounting again image=\"%s\" path=\"%s\" "
		    "reason=\"somebody unmounted it\"",
		    m->label, i->mountpoint);
	if (!m->device) {
		rc = umount_now(n, i, err);
		return rc < 0 ? rc : mount_image_now(n, i, why, call, err);
	}
	rc = mounted_make_dir(m, err);
	return rc < 0 ? rc
		      : n->datapath->ops->mount(n->datapath, &m->image, err);
}

/* ------------------------------------------------------------------ users --- */

static int wrap_image(struct image *i, int rc, struct error *err)
{
	AUTO_FREE char *label = NULL;

	if (rc == 0 || rc == -EINPROGRESS)
		return rc;
	label = image_label(i);
	error_wrap(err, rc, "image %s", label ? label : i->hex);
	if (err)
		image_note_error(i, err);
	return rc;
}

int node_mount(struct node *n, struct image *i, const char *user,
	       bool for_start, struct remote_call *call, struct error *err)
{
	enum mount_why why = for_start ? MOUNT_START : MOUNT_USE;
	bool was;
	int rc;

	rc = mounted_lock_image(n, i, call, err);
	if (rc < 0)
		return wrap_image(i, rc, err);
	images_lock(n->images);
	was = names_has(&i->state.users, user);
	rc = i->removed ? -ENOENT : 0;
	images_unlock(n->images);
	if (rc < 0)
		error_set(err, ENOENT, "it was removed meanwhile");
	else if (!call && !i->is_checked &&
		 !(i->mounted && is_mounted(i->mountpoint)))
		rc = error_set(err, EINPROGRESS, "the parser is needed");
	/* The user first: a crash leaves a user without a mount, which the
	 * next start mounts, never a mount that nobody knows. */
	if (rc == 0)
		rc = image_add_user(i, user, err);
	if (rc == 0) {
		rc = i->mounted ? mount_again_if_gone(n, i, why, call, err)
				: mount_image_now(n, i, why, call, err);
		if (rc < 0 && !was) {
			struct error ignored;
			bool gone;

			if (image_remove_user(i, user, &gone, &ignored) < 0)
				log_warning("mount", "user reason=\"%s\"",
					    ignored.msg);
		}
	}
	keyed_lock_leave(n->gate, &i->id);
	return wrap_image(i, rc, err);
}

int node_umount(struct node *n, struct image *i, const char *user,
		struct remote_call *call, bool *ret_was, struct error *err)
{
	bool last;
	int rc;

	*ret_was = false;
	rc = mounted_lock_image_long(n, i, call, err);
	if (rc < 0)
		return wrap_image(i, rc, err);
	images_lock(n->images);
	last = i->state.users.n == 0 ||
	       (i->state.users.n == 1 && names_has(&i->state.users, user));
	images_unlock(n->images);
	if (last)
		rc = umount_now(n, i, err);
	if (rc == 0)
		rc = image_remove_user(i, user, ret_was, err);
	keyed_lock_leave(n->gate, &i->id);
	if (rc == 0 && last)
		node_prefetch_leave(i);
	return wrap_image(i, rc, err);
}

/* ----------------------------------------------------------- start and end --- */

static void restore_one(struct node *n, struct image *i,
			struct remote_call *call)
{
	struct error err = ERROR_INIT;
	int rc;

	if (i->state.users.n == 0)
		return;
	rc = mount_image_now(n, i, MOUNT_RESTORE, call, &err);
	if (rc == -EINPROGRESS && call->is_local)
		return;
	i->is_not_restored = rc < 0;
	if (wrap_image(i, rc, &err) < 0)
		log_error("mount",
			  "not restored reason=\"%s\" effect=\"reads of its "
			  "containers wait or fail\"",
			  err.msg);
}

/* False: there is no memory for the list of them. */
static bool for_each(struct node *n,
		     void (*fn)(struct node *, struct image *, void *),
		     void *arg)
{
	struct error err = ERROR_INIT;
	struct image **list;
	size_t len, k;

	if (images_list(n->images, &list, &len, &err) < 0) {
		log_error("mount", "images reason=\"%s\"", err.msg);
		return false;
	}
	for (k = 0; k < len; k++)
		fn(n, list[k], arg);
	images_list_free(list, len);
	return true;
}

/* Complete mounts first: containers that need nothing of us are told of first. */
static void restore_complete(struct node *n, struct image *i, void *call)
{
	if (has_complete(n, i))
		restore_one(n, i, call);
}

static void restore_rest(struct node *n, struct image *i, void *call)
{
	if (!i->mounted && !i->is_not_restored)
		restore_one(n, i, call);
}

static void tell_frozen(struct node *n)
{
	struct cache_stats s;

	cache_get_stats(n->cache, &s);
	if (s.frozen_files)
		log_error("mount",
			  "frozen files=%llu mib=%llu reason=\"something reads "
			  "files of the cache, and which blocks is not known: "
			  "a list in ROOT/cache/mounts is damaged, or a "
			  "bootseerd before kept none\" effect=\"nothing in "
			  "them is freed or written\" cure=\"it ends with the "
			  "containers on these mounts, or the program that has "
			  "the files open\"",
			  (unsigned long long)s.frozen_files,
			  (unsigned long long)(s.frozen_bytes >> 20));
	if (s.mounts_lingering)
		log_info("mount",
			 "lingering mounts=%llu reason=\"unmounted, but still "
			 "in use\"",
			 (unsigned long long)s.mounts_lingering);
}

/* A complete mount reads the cache's files, so damage is mended where it lies,
 * by fetching the blocks again. */
static void refetch_damaged(struct node *n, struct image *i, void *n_images)
{
	struct error err = ERROR_INIT;

	if (!cache_mount_is_told(n->cache, i->hex))
		return;
	++*(unsigned int *)n_images;
	if (node_prefetch(n, i, PREFETCH_ON_DAMAGE, NULL, NULL, &err) < 0)
		log_error(
			"mount",
			"damaged block under image=%.12s is not fetched "
			"again reason=\"%s\" cure=\"bootseer image prefetch\"",
			i->hex, err.msg);
}

static void mount_on_damage(void *arg)
{
	struct node *n = arg;
	unsigned int n_images = 0;
	bool is_listed = for_each(n, refetch_damaged, &n_images);

	if (n_images)
		log_warning("mount",
			    "the disk damaged a block of the cache images=%u "
			    "action=\"it is fetched again\" cure=\"check the "
			    "disk\"",
			    n_images);
	if (is_listed && cache_mounts_told(n->cache) > n_images)
		log_warning(
			"mount",
			"the disk damaged a block of the cache reason=\"it is "
			"of an image that was removed, and what still runs on "
			"it may read wrong bytes\" cure=\"start its containers "
			"anew, and check the disk\"");
}

void node_restore(struct node *n)
{
	struct error err = ERROR_INIT;
	struct remote_call call;

	mounted_call_init(n, &call);
	call.is_local = true;
	(void)for_each(n, restore_complete, &call);
	(void)for_each(n, restore_rest, &call);
	/* Damaged images are fetched again now; the readers of all images wait
	 * for that. */
	remote_call_init(&call, &n->is_ending, NULL, clock_now_ns(),
			 NODE_RESTORE_REMOTE_NS);
	(void)for_each(n, restore_rest, &call);
	if (n->datapath->ops->resume(n->datapath, &err) < 0)
		log_error("mount", "resume reason=\"%s\"", err.msg);
	tell_frozen(n);
	cache_on_damage(n->cache, mount_on_damage, n);
}

static void take_down(struct node *n, struct image *i, void *arg)
{
	struct error err = ERROR_INIT;

	if (!i->mounted || mounted_is_complete(i->mounted))
		return;
	if (umount_now(n, i, &err) < 0)
		log_error("mount", "unmount image=%.12s reason=\"%s\"", i->hex,
			  err.msg);
}

static void let_go(struct node *n, struct image *i, void *arg)
{
	(void)n;
	mounted_free(i->mounted);
	i->mounted = NULL;
}

void node_leave(struct node *n)
{
	bool keep = !n->held && fd_keeper_is_durable(n->keeper);

	if (!keep)
		(void)for_each(n, take_down, NULL);
	n->datapath->ops->stop(n->datapath, keep);
	(void)for_each(n, let_go, NULL);
}
