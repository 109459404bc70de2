// SPDX-License-Identifier: Apache-2.0
/*
 * Environments that are unpacked: bootseerd brings the blocks as it does for a mount, and
 * whoever unpacks reads them through a file in the folder of the name.  A file of the disk
 * and no FUSE: a bootseerd that ends keeps no reader waiting.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "snapshotter/node/control/environment_priv.h"
#include "snapshotter/node/starts/prefetch.h"

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

	return fd < 0 ? error_set(err, errno, "create '%s': %s", path,
				  strerror(errno))
		      : 0;
}

/* The folder first, as of a mount: a user without one is forgotten at the next start. */
static int open_for(struct node *n, struct image *i,
		    const struct environment_query *q,
		    struct environment_files *ret, struct error *err)
{
	AUTO_FREE char *work = environment_work(n, q->name);
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
	/* All of it is going to be read, whatever --prefetch says. */
	if (rc == 0)
		rc = node_prefetch(n, i, PREFETCH_ON_ORDER_ALL, NULL, q->call,
				   err);
	return rc;
}

int environment_open(struct node *n, const struct environment_query *q,
		     struct environment_files *ret, struct error *err)
{
	struct image *i = NULL;
	int rc = environment_find(n, q, &i, err);

	if (rc < 0)
		return rc;
	rc = open_for(n, i, q, ret, err);
	if (rc == 0)
		image_touch(i);
	else
		environment_files_fini(ret);
	images_put(i);
	return rc;
}

/* A use of the image that the name has open; NULL: none. */
static int find_opened(struct node *n, const char *name, struct image **ret,
		       struct error *err)
{
	AUTO_FREE char *user = environment_user(name);
	struct image **list;
	size_t len;
	int rc = user ? images_list(n->images, &list, &len, err)
		      : error_nomem(err);

	*ret = NULL;
	if (rc < 0)
		return rc;
	for (size_t k = 0; k < len && !*ret; k++) {
		bool has;

		images_lock(n->images);
		has = names_has(&list[k]->state.users, user);
		images_unlock(n->images);
		if (has) {
			*ret = list[k];
			images_ref(*ret);
		}
	}
	images_list_free(list, len);
	return *ret ? 0
		    : error_set(err, ENOENT, "environment %.12s is not open",
				name);
}

static int check_ranges(const struct environment_range *e, size_t n,
			size_t *ret_len, struct error *err)
{
	uint64_t len = 0;

	for (size_t k = 0; k < n; k++) {
		if (e[k].len > ENVIRONMENT_READ_MAX - len)
			return error_set(err, EINVAL,
					 "parameters: more than %u bytes",
					 ENVIRONMENT_READ_MAX);
		len += e[k].len;
	}
	*ret_len = (size_t)len;
	return 0;
}

/* Also tells environments_collect() that the name is in use. */
static int write_blocks(const struct node *n, const char *name,
			const void *data, size_t len, struct error *err)
{
	AUTO_FREE char *work = environment_work(n, name);
	AUTO_FREE char *path = work ? fs_join(work, "blocks") : NULL;
	AUTO_CLOSE int fd = -1;
	int rc;

	if (!path)
		return error_nomem(err);
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return error_set(err, errno, "open '%s': %s", path,
				 strerror(errno));
	rc = fs_pwrite_full(fd, data, len, 0);
	if (rc == 0 && utimensat(AT_FDCWD, work, NULL, 0) < 0)
		rc = -errno;
	return rc < 0 ? error_set(err, -rc, "write '%s': %s", path,
				  strerror(-rc))
		      : 0;
}

int environment_read(struct node *n, const char *name,
		     const struct environment_range *ranges, size_t n_ranges,
		     struct remote_call *call, struct error *err)
{
	struct image *i = NULL;
	AUTO_FREE char *data = NULL;
	size_t len = 0, at = 0;
	int rc;

	if (!environment_is_name(name))
		return error_set(err, EINVAL,
				 "parameters: name is 32 hex digits");
	rc = check_ranges(ranges, n_ranges, &len, err);
	if (rc == 0)
		rc = find_opened(n, name, &i, err);
	if (rc < 0)
		return rc;
	data = malloc(len + 1);
	if (!data)
		rc = error_nomem(err);
	for (size_t k = 0; rc == 0 && k < n_ranges; k++) {
		rc = node_prefetch_read(n, i, ranges[k].off, data + at,
					(size_t)ranges[k].len, call, err);
		at += (size_t)ranges[k].len;
	}
	if (rc == 0)
		rc = write_blocks(n, name, data, len, err);
	images_put(i);
	return rc;
}
