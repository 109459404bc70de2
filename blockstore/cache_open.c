// SPDX-License-Identifier: Apache-2.0
/* Opening a cache folder, whatever state a crash left it in. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>

#include "blockstore/cache.h"
#include "common/bytes.h"
#include "common/cond.h"
#include "common/fs.h"

static int lock_dir(struct cache *c, struct error *err)
{
	c->dir_fd = open(c->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->dir_fd < 0)
		return error_errno(err, errno, "open '%s'", c->dir);
	c->lock_fd = openat(c->dir_fd, "lock",
			    O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (c->lock_fd < 0)
		return error_errno(err, errno, "open '%s/lock'", c->dir);
	if (flock(c->lock_fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno == EWOULDBLOCK)
		return error_set(
			err, EBUSY,
			"cache '%s' is used by another process: end that "
			"(another bootseerd?), or choose another "
			"folder (--root)",
			c->dir);
	return error_errno(err, errno, "lock '%s'", c->dir);
}

/* Remove segment files without blocks. */
static int remove_unused_segment_files(struct cache *c, struct error *err)
{
	int fd = openat(c->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!dir) {
		int rc = error_errno(err, errno, "list '%s'", c->dir);
		fd_close(fd);
		return rc;
	}
	while ((e = readdir(dir))) {
		unsigned int n;
		char extra;

		if (strcmp(e->d_name, "index.new") == 0)
			(void)unlinkat(c->dir_fd, e->d_name, 0);
		if (sscanf(e->d_name, "segment-%8x%c", &n, &extra) != 1)
			continue;
		if (n < CACHE_SEGMENTS_MAX && c->segments[n].used) {
			if (c->segments[n].frozen ||
			    c->segments[n].n_free < c->segment_pages)
				continue;
			free(steal_ptr(&c->segments[n].used));
			(void)close(steal_fd(&c->fds[n]));
		}
		(void)unlinkat(c->dir_fd, e->d_name, 0);
	}
	(void)closedir(dir);
	return 0;
}

/* Open the index. One that cannot be read only costs time: start with an empty one. */
static int open_index(struct cache *c, struct error *err)
{
	uint8_t header[LOG_HEADER_SIZE];
	uint64_t segment_bytes = 0;
	int rc = -EINVAL;

	c->log_fd = openat(c->dir_fd, "index", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (c->log_fd < 0 && errno != ENOENT)
		return error_errno(err, errno, "open '%s/index'", c->dir);
	if (c->log_fd >= 0 &&
	    fs_pread_full(c->log_fd, header, sizeof(header), 0) == 0)
		rc = log_decode_header(header, sizeof(header), &segment_bytes,
				       err);
	if (rc == -ENOTSUP)
		return rc;
	if (rc == 0) {
		c->segment_bytes = segment_bytes;
		c->segment_pages = (uint32_t)(segment_bytes / CACHE_PAGE);
	} else if (c->log_fd >= 0) {
		(void)close(steal_fd(&c->log_fd));
	}
	/* For the blocks that mounts read, the mounts' lists are a better source than the
	 * index. */
	rc = mounts_load(c, rc == 0, err);
	if (rc == 0)
		rc = kernel_mounts_load(c, err);
	return rc == 0 && c->log_fd >= 0 ? log_replay(c, err) : rc;
}

static int cache_open_recover(struct cache *c, struct error *err)
{
	int rc = open_index(c, err);

	if (rc == 0)
		rc = freeze_unknown(c, err);
	if (rc == 0)
		rc = remove_unused_segment_files(c, err);
	if (rc < 0)
		return rc;
	space_sweep(c);
	c->open_segment = c->n_segments ? c->n_segments - 1 : 0;
	evict_refresh_limit(c);
	rc = log_compact(c, c->log_fd < 0 || !c->log_records, err);
	/* A disk that is full, over a quota or unwritable can still serve the blocks on it,
	 * with the old index. Without memory nothing works. */
	return rc == -ENOMEM || c->log_fd < 0 ? rc : 0;
}

static int check_cache_config(const struct cache_config *cfg, struct error *err)
{
	if (cfg->segment_bytes && (cfg->segment_bytes < CACHE_SEGMENT_MIN ||
				   cfg->segment_bytes > CACHE_SEGMENT_BYTES ||
				   cfg->segment_bytes % CACHE_PAGE))
		return error_set(err, EINVAL,
				 "cache: segments of %" PRIu64
				 " bytes, want %llu to %llu",
				 cfg->segment_bytes, CACHE_SEGMENT_MIN,
				 CACHE_SEGMENT_BYTES);
	return 0;
}

static void init_locks(struct cache *c)
{

	(void)pthread_mutex_init(&c->mounts_lock, NULL);
	(void)pthread_mutex_init(&c->scrub_lock, NULL);
	(void)pthread_mutex_init(&c->space, NULL);
	(void)pthread_cond_init(&c->freed, NULL);
	cond_init(&c->stopping);
}

int cache_open(const struct cache_config *cfg, struct cache **ret,
	       struct error *err)
{
	struct cache *c;
	int rc = check_cache_config(cfg, err);

	if (rc < 0)
		return rc;
	c = aligned_alloc(64, round_up(sizeof(*c), 64));
	if (!c)
		return error_nomem(err);
	memset(c, 0, sizeof(*c));
	c->dir_fd = -1;
	c->lock_fd = -1;
	c->log_fd = -1;
	c->quota = cfg->quota;
	c->min_free = cfg->min_free;
	c->scrub_rate = cfg->scrub_rate;
	c->scrub_every_ns = cfg->scrub_every_ns;
	c->segment_bytes =
		cfg->segment_bytes ? cfg->segment_bytes : CACHE_SEGMENT_BYTES;
	c->segment_pages = (uint32_t)(c->segment_bytes / CACHE_PAGE);
	init_locks(c);
	rc = table_init(c, err);
	if (rc == 0)
		rc = space_init(c, err);
	if (rc == 0 && !(c->dir = strdup(cfg->dir)))
		rc = error_nomem(err);
	if (rc == 0)
		rc = fs_mkdir_p(c->dir, 0700, err);
	if (rc == 0)
		rc = lock_dir(c, err);
	if (rc == 0)
		rc = cache_open_recover(c, err);
	if (rc == 0)
		rc = watch_start(c, err);
	if (rc == 0)
		rc = scrub_start(c, err);
	if (rc < 0) {
		cache_close(c);
		return rc;
	}
	*ret = c;
	return 0;
}

void cache_close(struct cache *c)
{
	if (!c)
		return;
	watch_stop(c);
	scrub_stop(c);
	if (c->segments)
		space_fini(c);
	table_fini(c);
	mounts_fini(c);
	fd_close(c->log_fd);
	fd_close(c->lock_fd);
	fd_close(c->dir_fd);
	(void)pthread_cond_destroy(&c->stopping);
	(void)pthread_cond_destroy(&c->freed);
	(void)pthread_mutex_destroy(&c->space);
	(void)pthread_mutex_destroy(&c->scrub_lock);
	(void)pthread_mutex_destroy(&c->mounts_lock);
	free(c->dir);
	free(c);
}
