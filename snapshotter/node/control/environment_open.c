// SPDX-License-Identifier: Apache-2.0
/*
 * Environments that a client unpacks instead of mounting: bootseerd fetches the blocks as for a
 * mount, and the client reads them through a file in the folder of the name.  The file is on
 * disk, not on FUSE, so a reader never hangs when bootseerd ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "snapshotter/node/control/environment_priv.h"
#include "snapshotter/node/starts/prefetch.h"

#define PIECE (1u << 20)

void environment_files_fini(struct environment_files *f)
{
	free(f->meta);
	free(f->map);
	free(f->blocks);
	*f = (struct environment_files){ .meta = NULL };
}

static int make_blocks(const char *path, struct error *err)
{
	AUTO_CLOSE int fd =
		open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd < 0 ? error_errno(err, errno, "create '%s'", path) : 0;
}

/* Make the folder first, as for a mount: a user without a folder is removed at the next start
 * of bootseerd. */
static int open_environment_files(const struct environments *envs,
				  struct image *i,
				  const struct environment_query *q,
				  struct environment_files *ret,
				  struct error *err)
{
	AUTO_FREE char *work = environment_work(envs, q->name);
	AUTO_FREE char *user = environment_user(q->name);
	int rc;

	if (!work || !user)
		return error_nomem(err);
	*ret = (struct environment_files){
		.meta = image_path(i, "meta.erofs"),
		.map = image_path(i, "blockmap"),
		.blocks = fs_join(work, "blocks"),
	};
	if (!ret->meta || !ret->map || !ret->blocks)
		return error_nomem(err);
	rc = environment_make_work(work, err);
	if (rc == 0)
		rc = make_blocks(ret->blocks, err);
	if (rc == 0)
		rc = image_add_user(i, user, err);
	/* The client is going to read all blocks, so prefetch all, whatever --prefetch says. */
	if (rc == 0)
		rc = node_prefetch(envs->prefetches, i, PREFETCH_ON_UNPACK,
				   NULL, q->call, err);
	return rc;
}

int environment_open(const struct environments *envs,
		     const struct environment_query *q,
		     struct environment_files *ret, struct error *err)
{
	struct image *i = NULL;
	int rc = environment_find(envs, q, &i, err);

	if (rc < 0)
		return rc;
	rc = open_environment_files(envs, i, q, ret, err);
	if (rc == 0)
		image_touch(i);
	else
		environment_files_fini(ret);
	images_put(i);
	return rc;
}

int environment_image(const struct environments *envs, const char *name,
		      struct image **ret, struct error *err)
{
	AUTO_FREE char *user = environment_user(name);
	struct image **list;
	size_t len;
	int rc = user ? images_list(envs->images, &list, &len, err)
		      : error_nomem(err);

	*ret = NULL;
	if (rc < 0)
		return rc;
	for (size_t k = 0; k < len && !*ret; k++)
		if (image_has_user(list[k], user)) {
			*ret = list[k];
			images_ref(*ret);
		}
	images_list_free(list, len);
	return *ret ? 0
		    : error_set(err, ENOENT, "environment %.12s is not open",
				name);
}

static int check_ranges(const struct environment_range *r, size_t n,
			struct error *err)
{
	uint64_t len = 0;

	for (size_t k = 0; k < n; k++) {
		if (r[k].len > ENVIRONMENT_READ_MAX - len)
			return error_set(err, EINVAL,
					 "parameters: more than %u bytes",
					 ENVIRONMENT_READ_MAX);
		len += r[k].len;
	}
	return 0;
}

/* Copy a range's bytes to the offset `*at` of the file, and advance it; only one `piece` at a
 * time is in memory. */
static int copy_range(const struct environments *envs, struct image *i,
		      const struct environment_range *r, char *piece, int fd,
		      uint64_t *at, struct remote_call *call, struct error *err)
{
	int rc = 0;

	for (uint64_t done = 0; rc == 0 && done < r->len;) {
		uint64_t left = r->len - done;
		size_t len = left < PIECE ? (size_t)left : PIECE;

		if (pace_level(&call->pace) == PACE_STOP)
			return error_set(err, ECANCELED,
					 "whoever asked has left");
		rc = node_prefetch_read(envs->prefetches, i, r->off + done,
					piece, len, call, err);
		if (rc == 0) {
			rc = fs_pwrite_full(fd, piece, len, *at);
			if (rc < 0)
				error_errno(err, -rc, "write blocks");
		}
		done += len;
		*at += len;
	}
	return rc;
}

/* Open the file of blocks for writing; this also marks the name as in use for
 * environments_collect(). */
static int open_blocks(const struct environments *envs, const char *name,
		       int *ret, struct error *err)
{
	AUTO_FREE char *work = environment_work(envs, name);
	AUTO_FREE char *path = work ? fs_join(work, "blocks") : NULL;
	AUTO_CLOSE int fd = -1;

	if (!path)
		return error_nomem(err);
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || utimensat(AT_FDCWD, work, NULL, 0) < 0)
		return error_errno(err, errno, "open '%s'", path);
	*ret = steal_fd(&fd);
	return 0;
}

int environment_read(const struct environments *envs, const char *name,
		     const struct environment_range *ranges, size_t n_ranges,
		     struct remote_call *call, struct error *err)
{
	AUTO_FREE char *piece = malloc(PIECE);
	struct image *i = NULL;
	AUTO_CLOSE int fd = -1;
	uint64_t at = 0;
	int rc;

	if (!piece)
		return error_nomem(err);
	if (!environment_is_name(name))
		return error_set(err, EINVAL,
				 "parameters: name is 32 hex digits");
	rc = check_ranges(ranges, n_ranges, err);
	if (rc == 0)
		rc = environment_image(envs, name, &i, err);
	if (rc == 0)
		rc = open_blocks(envs, name, &fd, err);
	for (size_t k = 0; rc == 0 && k < n_ranges; k++)
		rc = copy_range(envs, i, &ranges[k], piece, fd, &at, call, err);
	images_put(i);
	return rc;
}
