// SPDX-License-Identifier: Apache-2.0
/*
 * Mounts of images: one for each image, however many users.  Two modes:
 *
 *     lazy      metadata image over the data path, blocks come when they are read
 *     complete  every block is in the cache: the kernel reads the cache's files
 *
 * A mount is complete when --datapath is auto, the image is whole at that moment and can be
 * checked within NODE_COMPLETE_NS, and no recording is wanted (it could not see a complete
 * mount's reads); in every other case it is lazy.  After a restart a mount that the kernel
 * still has is adopted in its mode, others start lazy: the start of a node does not wait for
 * the hashing of whole images.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "blockstore/cache_mount.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/mount.h"
#include "snapshotter/node/constants.h"
#include "snapshotter/node/starts/mount.h"
#include "snapshotter/node/starts/prefetch.h"
#include "snapshotter/node/starts/starts.h"

struct mounts {
	struct mounts_of of;
	struct starts *starts; /* NULL after mounts_forget_starts() */
	atomic_uint_fast64_t n_lazy, n_complete, n_adopted, n_failed;
	/* sums of devices that are gone; images_lock() */
	struct device_stats past;
};

/* ---------------------------------------------------------------- the modes --- */

/* Save the mode.  A full disk must not prevent a mount or its restoring after a reboot; a later
 * bootseerd finds the mode from the mount itself. */
static int note_mode(struct image *i, bool complete, struct error *err)
{
	int rc = image_set_complete(i, complete, err);

	return rc == -ENOSPC || rc == -EDQUOT ? 0 : rc;
}

static int mount_lazy(struct mounts *all, struct image *i, struct mounted *m,
		      struct error *err)
{
	int rc;

	rc = mounted_open_device(m, i, err);
	if (rc < 0)
		return rc;
	rc = note_mode(i, false, err);
	if (rc == 0)
		rc = all->of.datapath->ops->mount(all->of.datapath, &m->image,
						  err);
	if (rc == 0)
		atomic_fetch_add(&all->n_lazy, 1);
	return rc;
}

static void use_complete_files(struct mounted *m)
{
	m->kept = true;
	m->image.meta_path = m->complete.meta_path;
	m->image.files = (const char *const *)m->complete.files;
	m->image.n_files = m->complete.n_files;
}

static int mount_complete(struct mounts *all, struct image *i,
			  struct mounted *m, const struct map_file *meta,
			  struct error *err)
{
	struct complete_job job = {
		.cache = all->of.opens.cache,
		.map = &m->map,
		.meta = meta,
		.meta_digest = i->artifact.meta_raw,
		.name = i->hex,
		.gate = all->of.opens.gate,
	};
	int rc;

	job.deadline_ns = clock_now_ns() + NODE_COMPLETE_NS;
	rc = complete_prepare(&job, &m->complete, err);
	if (rc < 0)
		return rc;
	use_complete_files(m);
	rc = image_set_complete(i, true, err);
	if (rc == 0)
		rc = datapath_mount_complete(all->of.cfg->run, &m->image, err);
	if (rc == 0)
		atomic_fetch_add(&all->n_complete, 1);
	return rc;
}

static bool has_complete(const struct mounts *all, const struct image *i)
{
	AUTO_FREE char *meta = NULL;

	return cache_mount_path(all->of.opens.cache, i->hex, "erofs", &meta,
				NULL) == 0 &&
	       datapath_has_complete(i->mountpoint, meta);
}

/*
 * Adopt a complete mount that the kernel already has.  The cache has found it by itself and
 * keeps the blocks that it reads, or has frozen all its files if it does not know the blocks.
 * It may not know the mount at all: an older mount, or one with other file names.
 */
static int adopt_complete(struct mounts *all, struct image *i,
			  struct mounted *m, struct error *err)
{
	m->kept = cache_mount_adopt(all->of.opens.cache, i->hex) == 0;
	if (!m->kept)
		cache_freeze_in_use(all->of.opens.cache);
	atomic_fetch_add(&all->n_adopted, 1);
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
static void undo_complete_mount(struct mounted *m)
{
	if (m->kept)
		cache_mount_drop(m->of->cache, m->hex);
	m->kept = false;
	complete_fini(&m->complete);
	m->image.meta_path = m->meta_path;
	m->image.files = NULL;
	m->image.n_files = 0;
}

static int mount_complete_or_lazy(struct mounts *all,
				  const struct mount_request *r,
				  struct mounted *m,
				  const struct map_file *meta,
				  struct error *err)
{
	struct image *i = r->image;
	struct error why = ERROR_INIT;
	int rc = -ENOENT;

	/* Adopt it even if the image's state was lost, and with it the note that it was mounted. */
	if (has_complete(all, i))
		return adopt_complete(all, i, m, err);
	if (r->why != MOUNT_RESTORE &&
	    strcmp(all->of.cfg->datapath, "auto") == 0 &&
	    !(r->why == MOUNT_START && starts_would_record(all->starts, i)))
		rc = mount_complete(all, i, m, meta, &why);
	if (rc == 0)
		return 0;
	if (rc != -ENOENT && why.msg[0])
		log_info("mount", "lazy image=\"%s\" reason=\"%s\"", m->label,
			 why.msg);
	undo_complete_mount(m);
	rc = mount_lazy(all, i, m, err);
	if (rc != -EBUSY || !has_complete(all, i))
		return rc;
	/* The mount was made since the first check, by a child of a bootseerd that was killed. */
	mounted_close_device(m);
	return adopt_complete(all, i, m, err);
}

static int mount_image_now(struct mounts *all, const struct mount_request *r,
			   struct error *err)
{
	struct image *i = r->image;
	struct map_file meta = MAP_FILE_INIT;
	AUTO(mounted) m = NULL;
	bool was_there = r->why == MOUNT_RESTORE && is_mounted(i->mountpoint);
	int rc;

	rc = mounted_open(&all->of.opens, i, r->call, &meta, &m, err);
	if (rc == 0)
		rc = mounted_make_dir(m, err);
	if (rc == 0)
		rc = mount_complete_or_lazy(all, r, m, &meta, err);
	map_file_close(&meta);
	if (rc < 0) {
		if (rc != -EINPROGRESS)
			atomic_fetch_add(&all->n_failed, 1);
		return rc;
	}
	log_info("mount", "mounted image=\"%s\" mode=%s path=\"%s\"", m->label,
		 m->device ? "lazy" : "complete", i->mountpoint);
	m->was_started = was_there;
	images_lock(i->all);
	i->mounted = steal_ptr(&m);
	images_unlock(i->all);
	return 0;
}

/* -------------------------------------------------------- --- end of a mount --- */

/* Add a mount's figures to the totals, so that these never decrease.  Under images_lock(). */
static void keep_stats(struct mounts *all, const struct mounted *m)
{
	struct device_stats d;

	if (!mounted_stats(m, &d))
		return;
	all->past.reads += d.reads;
	all->past.read_bytes += d.read_bytes;
	all->past.misses += d.misses;
	all->past.fetches += d.fetches;
	all->past.fetched_bytes += d.fetched_bytes;
	all->past.errors += d.errors;
}

/* Keep the mount's last read error with the image, so that it is shown after the unmount too. */
static void keep_read_error(const struct mounted *m, struct image *i)
{
	struct device_stats d;

	if (!mounted_stats(m, &d) || d.error_at <= i->last_error_at)
		return;
	i->last_error = d.error;
	i->last_error_at = d.error_at;
}

/* Unmount and free `m`, the mount for the users of `i`, or one of a recording (`i` NULL). */
static int end_mount(struct mounts *all, struct mounted *m, struct image *i,
		     struct error *err)
{
	int rc =
		all->of.datapath->ops->umount(all->of.datapath, &m->image, err);

	if (rc < 0)
		return rc;
	if (i)
		log_info("mount", "unmounted image=\"%s\"", m->label);
	if (m->device)
		starts_detach(all->starts, m->device);
	images_lock(all->of.images);
	keep_stats(all, m);
	if (i) {
		i->mounted = NULL;
		keep_read_error(m, i);
	}
	images_unlock(all->of.images);
	mounted_free(m);
	return 0;
}

/* Unmount a complete mount that could not be adopted because the image's files are missing. */
static int umount_unknown(struct mounts *all, struct image *i,
			  struct error *err)
{
	struct datapath_image img = {
		.index = i->state.index,
		.name = i->hex,
		.mountpoint = i->mountpoint,
	};

	return has_complete(all, i)
		       ? all->of.datapath->ops->umount(all->of.datapath, &img,
						       err)
		       : 0;
}

static int umount_now(struct mounts *all, struct image *i, struct error *err)
{
	if (!i->mounted)
		return umount_unknown(all, i, err);
	return end_mount(all, i->mounted, i, err);
}

/*
 * Mount again what another process has unmounted: containers that start now would find an empty
 * folder.  Files that containers have open in a lazy mount are still served by the data path,
 * which stays as it is; a complete mount needs no process.
 */
static int remount_image(struct mounts *all, const struct mount_request *r,
			 struct error *err)
{
	struct mounted *m = r->image->mounted;
	int rc;

	log_warning("mount",
		    "mounting again image=\"%s\" path=\"%s\" "
		    "reason=\"somebody unmounted it\"",
		    m->label, r->image->mountpoint);
	if (!m->device) {
		rc = umount_now(all, r->image, err);
		return rc < 0 ? rc : mount_image_now(all, r, err);
	}
	rc = mounted_make_dir(m, err);
	return rc < 0 ? rc
		      : all->of.datapath->ops->mount(all->of.datapath,
						     &m->image, err);
}

/* ------------------------------------------------------------------ users --- */

static int name_image_in_error(struct image *i, int rc, struct error *err)
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

static void forget_user(struct image *i, const char *user)
{
	struct error err;
	bool gone;

	if (image_remove_user(i, user, &gone, &err) < 0)
		log_warning("mount", "user reason=\"%s\"", err.msg);
}

/* Mount for the user of `r`, inside the image's gate. */
static int mount_for_user(struct mounts *all, const struct mount_request *r,
			  struct error *err)
{
	struct image *i = r->image;
	bool was, is_removed;
	int rc;

	images_lock(i->all);
	was = names_has(&i->state.users, r->user);
	is_removed = i->removed;
	images_unlock(i->all);
	if (is_removed)
		return error_set(err, ENOENT, "it was removed meanwhile");
	if (!r->call && !i->is_checked &&
	    !(i->mounted && is_mounted(i->mountpoint)))
		return error_set(err, EINPROGRESS, "the parser is needed");
	/* Save the user first: a crash then leaves a user without a mount, which the next start
	 * of bootseerd mounts, and never a mount that is not recorded. */
	rc = image_add_user(i, r->user, err);
	if (rc < 0)
		return rc;
	if (!i->mounted)
		rc = mount_image_now(all, r, err);
	else if (!is_mounted(i->mountpoint))
		rc = remount_image(all, r, err);
	if (rc < 0 && !was)
		forget_user(i, r->user);
	return rc;
}

int mounts_mount(struct mounts *all, const struct mount_request *r,
		 bool *ret_is_complete, struct error *err)
{
	struct image *i = r->image;
	int rc = mounted_lock_image(&all->of.opens, i, r->call, err);

	if (rc < 0)
		return name_image_in_error(i, rc, err);
	rc = mount_for_user(all, r, err);
	if (rc == 0)
		*ret_is_complete = mounted_is_complete(i->mounted);
	keyed_lock_leave(all->of.opens.gate, &i->id);
	return name_image_in_error(i, rc, err);
}

int mounts_umount(struct mounts *all, const struct mount_request *r,
		  bool *ret_was, struct error *err)
{
	struct image *i = r->image;
	bool last;
	int rc;

	*ret_was = false;
	rc = mounted_lock_image_long(&all->of.opens, i, r->call, err);
	if (rc < 0)
		return name_image_in_error(i, rc, err);
	images_lock(i->all);
	last = i->state.users.n == 0 ||
	       (i->state.users.n == 1 && names_has(&i->state.users, r->user));
	images_unlock(i->all);
	if (last)
		rc = umount_now(all, i, err);
	if (rc == 0)
		rc = image_remove_user(i, r->user, ret_was, err);
	keyed_lock_leave(all->of.opens.gate, &i->id);
	if (rc == 0 && last)
		node_prefetch_leave(i);
	return name_image_in_error(i, rc, err);
}

/* ------------------------------------------------------- mounts of recordings --- */

int mounts_mount_own(struct mounts *all, struct mounted *m, struct error *err)
{
	int rc = mounted_make_dir(m, err);

	return rc < 0 ? rc
		      : all->of.datapath->ops->mount(all->of.datapath,
						     &m->image, err);
}

int mounts_umount_own(struct mounts *all, struct mounted *m, struct error *err)
{
	return end_mount(all, m, NULL, err);
}

/* ------------------------------------------ --- start and end of bootseerd --- */

static void restore_one(struct mounts *all, struct image *i,
			struct remote_call *call)
{
	const struct mount_request r = { .image = i,
					 .why = MOUNT_RESTORE,
					 .call = call };
	struct error err = ERROR_INIT;
	int rc;

	if (i->state.users.n == 0)
		return;
	rc = mount_image_now(all, &r, &err);
	if (rc == -EINPROGRESS && call->is_local)
		return;
	i->is_not_restored = rc < 0;
	if (name_image_in_error(i, rc, &err) < 0)
		log_error("mount",
			  "not restored reason=\"%s\" effect=\"reads of its "
			  "containers wait or fail\"",
			  err.msg);
}

/* Call `fn` for each image; false: there is no memory for the list. */
static bool for_each(struct mounts *all,
		     void (*fn)(struct mounts *, struct image *, void *),
		     void *arg)
{
	struct error err = ERROR_INIT;
	struct image **list;
	size_t len, k;

	if (images_list(all->of.images, &list, &len, &err) < 0) {
		log_error("mount", "images reason=\"%s\"", err.msg);
		return false;
	}
	for (k = 0; k < len; k++)
		fn(all, list[k], arg);
	images_list_free(list, len);
	return true;
}

/* Restore complete mounts first, since their containers need nothing of us but the adoption. */
static void restore_complete(struct mounts *all, struct image *i, void *call)
{
	if (has_complete(all, i))
		restore_one(all, i, call);
}

static void restore_if_unmounted(struct mounts *all, struct image *i,
				 void *call)
{
	if (!i->mounted && !i->is_not_restored)
		restore_one(all, i, call);
}

static void log_frozen_files(const struct mounts *all)
{
	struct cache_stats s;

	cache_get_stats(all->of.opens.cache, &s);
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

/* A complete mount reads the cache's files directly, so damaged blocks are repaired in place,
 * by fetching them again. */
static void refetch_damaged(struct mounts *all, struct image *i, void *n_images)
{
	struct error err = ERROR_INIT;

	if (!cache_mount_is_told(all->of.opens.cache, i->hex))
		return;
	++*(unsigned int *)n_images;
	if (node_prefetch(all->of.prefetches, i, PREFETCH_ON_DAMAGE, NULL, NULL,
			  &err) < 0)
		log_error(
			"mount",
			"damaged block under image=%.12s is not fetched "
			"again reason=\"%s\" cure=\"bootseer image prefetch\"",
			i->hex, err.msg);
}

static void mount_on_damage(void *arg)
{
	struct mounts *all = arg;
	unsigned int n_images = 0;
	bool is_listed = for_each(all, refetch_damaged, &n_images);

	if (n_images)
		log_warning("mount",
			    "the disk damaged a block of the cache images=%u "
			    "action=\"it is fetched again\" cure=\"check the "
			    "disk\"",
			    n_images);
	if (is_listed && cache_mounts_told(all->of.opens.cache) > n_images)
		log_warning(
			"mount",
			"the disk damaged a block of the cache reason=\"it is "
			"of an image that was removed, and what still runs on "
			"it may read wrong bytes\" cure=\"start its containers "
			"anew, and check the disk\"");
}

void mounts_restore(struct mounts *all)
{
	struct error err = ERROR_INIT;
	struct remote_call call;

	mounted_call_init(&all->of.opens, &call);
	call.is_local = true;
	(void)for_each(all, restore_complete, &call);
	(void)for_each(all, restore_if_unmounted, &call);
	/* Now fetch damaged images again; readers of all images wait for that. */
	remote_call_init(&call, all->of.opens.is_ending, NULL, clock_now_ns(),
			 NODE_RESTORE_REMOTE_NS);
	(void)for_each(all, restore_if_unmounted, &call);
	if (all->of.datapath->ops->resume(all->of.datapath, &err) < 0)
		log_error("mount", "resume reason=\"%s\"", err.msg);
	log_frozen_files(all);
	cache_on_damage(all->of.opens.cache, mount_on_damage, all);
}

static void take_down(struct mounts *all, struct image *i, void *arg)
{
	struct error err = ERROR_INIT;

	if (!i->mounted || mounted_is_complete(i->mounted))
		return;
	if (umount_now(all, i, &err) < 0)
		log_error("mount", "unmount image=%.12s reason=\"%s\"", i->hex,
			  err.msg);
}

static void free_mounted_image(struct mounts *all, struct image *i, void *arg)
{
	(void)all;
	mounted_free(i->mounted);
	i->mounted = NULL;
}

void mounts_take_down(struct mounts *all)
{
	(void)for_each(all, take_down, NULL);
}

void mounts_forget_starts(struct mounts *all)
{
	all->starts = NULL;
}

int mounts_open(const struct mounts_of *of, struct mounts **ret,
		struct error *err)
{
	struct mounts *all = calloc(1, sizeof(*all));

	if (!all)
		return error_nomem(err);
	all->of = *of;
	all->starts = of->starts;
	*ret = all;
	return 0;
}

void mounts_close(struct mounts *all)
{
	if (!all)
		return;
	(void)for_each(all, free_mounted_image, NULL);
	free(all);
}

void mounts_get_stats(struct mounts *all, struct mounts_stats *ret)
{
	*ret = (struct mounts_stats){
		.lazy = atomic_load(&all->n_lazy),
		.complete = atomic_load(&all->n_complete),
		.adopted = atomic_load(&all->n_adopted),
		.failed = atomic_load(&all->n_failed),
	};
	images_lock(all->of.images);
	ret->past = all->past;
	images_unlock(all->of.images);
}
