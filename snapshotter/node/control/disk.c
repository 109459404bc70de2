// SPDX-License-Identifier: Apache-2.0
/*
 * The account of ROOT's disk: its usage is measured now and then; in between, files that are
 * going to be written count as soon as they are announced (reserved).
 */
#include "snapshotter/node/control/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "blockstore/blockstore.h"
#include "common/bytes.h"
#include "common/log.h"
#include "snapshotter/node/control/gc.h"
#include "snapshotter/node/control/kubelet.h"
#include "snapshotter/node/images/images.h"

#define BLOCK_BYTES 512u /* unit of stx_blocks */
#define DEPTH_MAX 32u    /* nesting of folders; ROOT has five levels */

struct disk {
	struct disk_of of;
	/* held by one thread that frees space; locked before `lock` */
	pthread_mutex_t making_room;
	pthread_mutex_t lock; /* protects the members below */
	struct disk_usage usage;
	uint64_t reserved; /* bytes set aside by disk_reserve() */
	/* the part of `reserved` that is for environments */
	uint64_t for_environments;
};

/* ----------------------------------------------------- --- measuring ROOT --- */

static bool begins_with(const char *path, const char *with)
{
	return strncmp(path, with, strlen(with)) == 0;
}

/* The part of the usage that a file with this path below ROOT counts to; NULL:
 * the cache's blocks. */
static uint64_t *usage_part_of_path(struct disk_usage *u, const char *path)
{
	if (begins_with(path, "/cache/segment-"))
		return NULL;
	if (begins_with(path, "/cache/mounts/"))
		return &u->mounts;
	if (begins_with(path, "/cache/"))
		return &u->index;
	if (begins_with(path, "/images/" IMAGES_STAGE_PREFIX))
		return &u->stages;
	if (begins_with(path, "/images/"))
		return &u->images;
	if (begins_with(path, "/traces/"))
		return &u->traces;
	if (begins_with(path, "/p2p/"))
		return &u->peers;
	if (begins_with(path, "/environments/"))
		return &u->environments;
	return &u->other;
}

/* Get the type and blocks of a file without asking a file server: a mount below ROOT may be our
 * own, and bootseerd does not serve it before this count ends. */
static bool stat_file_locally(int dir, const char *name, struct statx *ret)
{
	/* With an empty name statx() looks at `dir` itself. */
	return statx(dir, name,
		     AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH |
			     AT_STATX_DONT_SYNC,
		     STATX_TYPE | STATX_BLOCKS, ret) == 0;
}

/* A folder whose entries are being counted, and the length of its path below ROOT. */
struct level {
	DIR *dir;
	size_t len; /* bytes of walk.path that name this folder */
};

struct walk {
	struct disk_usage *usage;
	/* ROOT's device; mounts below ROOT have another and are not counted */
	uint32_t major, minor;
	char path[PATH_MAX];
	struct level levels[DEPTH_MAX];
	size_t depth;
};

static void count_file(const struct walk *w, const struct statx *st)
{
	uint64_t *part = usage_part_of_path(w->usage, w->path);

	if (part)
		*part += st->stx_blocks * BLOCK_BYTES;
}

/* Begin to count the folder `fd`, whose path is w->path; closes `fd` at the end. */
static void enter_folder(struct walk *w, int fd)
{
	DIR *d = fd < 0 || w->depth == DEPTH_MAX ? NULL : fdopendir(fd);

	if (!d && fd >= 0)
		(void)close(fd);
	if (d)
		w->levels[w->depth++] =
			(struct level){ .dir = d, .len = strlen(w->path) };
}

static void count_folder_entry(struct walk *w, struct level *l,
			       const char *name)
{
	size_t room = sizeof(w->path) - l->len;
	int dir = dirfd(l->dir);
	struct statx st;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
	    (size_t)snprintf(w->path + l->len, room, "/%s", name) >= room ||
	    !stat_file_locally(dir, name, &st) ||
	    st.stx_attributes & STATX_ATTR_MOUNT_ROOT ||
	    st.stx_dev_major != w->major || st.stx_dev_minor != w->minor)
		return;
	count_file(w, &st);
	if (S_ISDIR(st.stx_mode))
		enter_folder(w, openat(dir, name,
				       O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
					       O_CLOEXEC));
}

void disk_look(const char *root, struct disk_usage *ret)
{
	AUTO_CLOSE int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct walk w = { .usage = ret };
	const struct dirent *e;
	struct statx st;

	*ret = (struct disk_usage){ .images = 0 };
	if (fd < 0 || !stat_file_locally(fd, "", &st))
		return;
	w.major = st.stx_dev_major;
	w.minor = st.stx_dev_minor;
	count_file(&w, &st);
	enter_folder(&w, steal_fd(&fd));
	while (w.depth) {
		struct level *l = &w.levels[w.depth - 1];

		e = readdir(l->dir);
		if (e) {
			count_folder_entry(&w, l, e->d_name);
		} else {
			(void)closedir(l->dir);
			w.depth--;
		}
	}
}

uint64_t disk_sum(const struct disk_usage *u)
{
	return u->images + u->stages + u->traces + u->peers + u->index +
	       u->environments + u->other;
}

/* Percent of the disk to keep free beyond what a kubelet wants, and the upper limit of their
 * sum. */
#define MIN_FREE 5u
#define MIN_FREE_MOST 90u

int disk_choose_min_free(const struct node_config *cfg, unsigned int *ret,
			 struct error *err)
{
	unsigned int theirs;
	int rc = node_config_min_free(cfg, ret, err);

	if (rc < 0 || *ret != NODE_MIN_FREE_AUTO)
		return rc;
	theirs = kubelet_wants_free(cfg->root) + MIN_FREE;
	*ret = theirs < MIN_FREE_MOST ? theirs : MIN_FREE_MOST;
	return 0;
}

/* ------------------------------------------------ --- the current account --- */

/* Tell the cache how many bytes of ROOT are not its own.  d->lock is held. */
static void update_cache_limit(struct disk *d)
{
	cache_set_others(d->of.cache, disk_sum(&d->usage) + d->reserved);
}

void disk_refresh(struct disk *d)
{
	struct disk_usage now;

	disk_look(d->of.cfg->root, &now);
	pthread_mutex_lock(&d->lock);
	/* Bytes of folders that are still being written are already in `reserved`, so do not
	 * count them twice. */
	if (d->reserved)
		now.stages = 0;
	d->usage = now;
	update_cache_limit(d);
	pthread_mutex_unlock(&d->lock);
}

static uint64_t bytes_above(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

void disk_get(struct disk *d, struct disk_usage *ret)
{
	pthread_mutex_lock(&d->lock);
	*ret = d->usage;
	ret->index += ret->mounts;
	ret->stages += bytes_above(d->reserved, d->for_environments);
	ret->environments += d->for_environments;
	pthread_mutex_unlock(&d->lock);
}

int disk_open(const struct disk_of *of, struct disk **ret, struct error *err)
{
	struct disk *d = calloc(1, sizeof(*d));

	if (!d)
		return error_nomem(err);
	d->of = *of;
	pthread_mutex_init(&d->making_room, NULL);
	pthread_mutex_init(&d->lock, NULL);
	disk_refresh(d);
	*ret = d;
	return 0;
}

void disk_close(struct disk *d)
{
	if (!d)
		return;
	pthread_mutex_destroy(&d->making_room);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

/* --------------------------------------------------------- --- making room --- */

/* Bytes that are missing in the quota and on the disk even if everything removable goes; 0:
 * there is enough. */
struct shortage {
	uint64_t of_quota, of_disk;
	uint64_t evict; /* bytes of cache blocks that have to be evicted */
};

static struct shortage compute_shortage(struct disk *d, uint64_t bytes)
{
	const struct node_config *cfg = d->of.cfg;
	struct shortage s = { .evict = 0 };
	struct cache_stats cache;
	uint64_t wanted, spare;
	struct statvfs st;

	cache_get_stats(d->of.cache, &cache);
	wanted = cache.others + bytes;
	spare = bytes_above(cache.bytes, cache.pinned_bytes);
	s.of_quota = bytes_above(wanted + cache.pinned_bytes, cache.quota);
	s.evict = bytes_above(wanted + cache.bytes, cache.quota);
	if (statvfs(cfg->root, &st) == 0) {
		uint64_t left = (uint64_t)st.f_bavail * st.f_frsize;
		uint64_t keep = (uint64_t)st.f_blocks * st.f_frsize / 100 *
				d->of.min_free;
		uint64_t lacks = bytes_above(keep + bytes, left);

		s.of_disk = bytes_above(lacks, spare);
		s.evict = lacks > s.evict ? lacks : s.evict;
	}
	s.evict = s.evict < spare ? s.evict : spare;
	return s;
}

static int set_no_room_error(const struct node_config *cfg,
			     const struct shortage *s, uint64_t bytes,
			     struct error *err)
{
	if (s->of_disk)
		return error_set(err, ENOSPC,
				 "the disk of '%.100s' is full: %" PRIu64
				 " KiB are wanted, and %" PRIu64
				 " KiB too few are free beside "
				 "--cache-min-free: make room there",
				 cfg->root, bytes / 1024,
				 s->of_disk / 1024 + 1);
	return error_set(err, ENOSPC,
			 "no space for %" PRIu64 " KiB, %" PRIu64
			 " more than what is in use leaves of --cache-quota: "
			 "raise it, or unmount images",
			 bytes / 1024, s->of_quota / 1024 + 1);
}

static int evict_blocks(struct disk *d, uint64_t bytes, struct error *err)
{
	struct cache_stats cache;
	uint64_t freed;

	if (!bytes)
		return 0;
	cache_get_stats(d->of.cache, &cache);
	return cache_gc(d->of.cache, bytes_above(cache.bytes, bytes), &freed,
			err);
}

int disk_reserve(struct disk *d, uint64_t bytes, struct error *err)
{
	struct shortage s;
	int64_t after = 0;
	int rc;

	pthread_mutex_lock(&d->making_room);
	s = compute_shortage(d, bytes);
	while ((s.of_quota || s.of_disk) && gc_one(d->of.gc, &after)) {
		disk_refresh(d);
		s = compute_shortage(d, bytes);
	}
	if (s.of_quota || s.of_disk)
		rc = set_no_room_error(d->of.cfg, &s, bytes, err);
	else
		rc = evict_blocks(d, s.evict, err);
	if (rc == 0) {
		pthread_mutex_lock(&d->lock);
		d->reserved += bytes;
		update_cache_limit(d);
		pthread_mutex_unlock(&d->lock);
	}
	pthread_mutex_unlock(&d->making_room);
	return rc;
}

void disk_give_way(struct disk *d)
{
	struct error err = ERROR_INIT;
	struct shortage s;
	int rc;

	pthread_mutex_lock(&d->making_room);
	s = compute_shortage(d, 0);
	rc = evict_blocks(d, s.evict, &err);
	pthread_mutex_unlock(&d->making_room);
	if (rc < 0)
		log_warning("disk", "the cache does not give way reason=\"%s\"",
			    err.msg);
}

void disk_settle(struct disk *d, uint64_t bytes, const char *path)
{
	struct disk_usage now = { .images = 0 };

	if (path)
		disk_look(path, &now);
	pthread_mutex_lock(&d->lock);
	d->reserved -= bytes;
	d->usage.images += disk_sum(&now);
	update_cache_limit(d);
	pthread_mutex_unlock(&d->lock);
}

/* --------------------------------------------------------------- environments --- */

int disk_reserve_environment(struct disk *d, uint64_t bytes, struct error *err)
{
	uint64_t most = d->of.cfg->cache_quota / 2, taken;
	int rc;

	pthread_mutex_lock(&d->lock);
	taken = d->usage.environments + d->for_environments;
	if (taken + bytes <= most)
		d->for_environments += bytes;
	pthread_mutex_unlock(&d->lock);
	if (taken + bytes > most)
		return error_set(
			err, EDQUOT,
			"environments that are mounted have %" PRIu64
			" of the %" PRIu64
			" MiB that are half of --cache-quota, and this "
			"one may take %" PRIu64
			": raise it, or lower --env-write-max",
			taken / MIB, most / MIB, bytes / MIB);
	rc = disk_reserve(d, bytes, err);
	if (rc == 0)
		return 0;
	pthread_mutex_lock(&d->lock);
	d->for_environments -= bytes;
	pthread_mutex_unlock(&d->lock);
	return rc;
}

void disk_settle_environment(struct disk *d, uint64_t bytes)
{
	/* Count the file as usage before its reservation ends, so that it is never missing from
	 * both. */
	disk_refresh(d);
	pthread_mutex_lock(&d->lock);
	d->reserved -= bytes;
	d->for_environments -= bytes;
	update_cache_limit(d);
	pthread_mutex_unlock(&d->lock);
}
