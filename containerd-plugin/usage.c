// SPDX-License-Identifier: Apache-2.0
#include "containerd-plugin/usage.h"

#include <errno.h>
#include <fts.h>
#include <string.h>
#include <sys/stat.h>

#define DISK_SECTOR 512 /* unit of st_blocks */

/* A file with several names, once for each name. */
struct linked {
	ino_t ino;
	blkcnt_t blocks;
};

struct count {
	int64_t blocks, inodes; /* of all others */
	struct linked *linked;
	size_t n, cap;
};

static int compare(const void *a, const void *b)
{
	const struct linked *x = a, *y = b;

	return (x->ino > y->ino) - (x->ino < y->ino);
}

static int add(struct count *c, const struct stat *st, struct error *err)
{
	if (c->n == c->cap) {
		size_t cap = c->cap ? c->cap * 2 : 64;
		struct linked *v = realloc(c->linked, cap * sizeof(*v));

		if (!v)
			return error_nomem(err);
		c->linked = v;
		c->cap = cap;
	}
	c->linked[c->n++] =
		(struct linked){ .ino = st->st_ino, .blocks = st->st_blocks };
	return 0;
}

static int walk(FTS *fts, struct count *c, struct error *err)
{
	FTSENT *e;

	for (errno = 0; (e = fts_read(fts)); errno = 0) {
		const struct stat *st = e->fts_statp;

		if (e->fts_info == FTS_DP)
			continue;
		if (e->fts_info == FTS_ERR || e->fts_info == FTS_NS ||
		    e->fts_info == FTS_DNR) {
			if (e->fts_errno == ENOENT)
				continue;
			return error_set(err, EIO, "count '%s': %s",
					 e->fts_path, strerror(e->fts_errno));
		}
		if (e->fts_info != FTS_D && st->st_nlink > 1) {
			if (add(c, st, err) < 0)
				return -ENOMEM;
			continue;
		}
		c->blocks += st->st_blocks;
		c->inodes++;
	}
	if (errno)
		return error_set(err, EIO, "count: %s", strerror(errno));
	return 0;
}

int usage_count(const char *path, int64_t *ret_size, int64_t *ret_inodes,
		struct error *err)
{
	AUTO_FREE char *copy = strdup(path);
	struct count c = { .blocks = 0 };
	FTS *fts;
	int rc;

	if (!copy)
		return error_nomem(err);
	fts = fts_open((char *[]){ copy, NULL },
		       FTS_PHYSICAL | FTS_XDEV | FTS_NOCHDIR, NULL);
	if (!fts)
		return error_set(err, EIO, "count '%s': %s", path,
				 strerror(errno));
	rc = walk(fts, &c, err);
	(void)fts_close(fts);
	if (c.n)
		qsort(c.linked, c.n, sizeof(*c.linked), compare);
	for (size_t i = 0; i < c.n; i++) {
		if (i > 0 && c.linked[i].ino == c.linked[i - 1].ino)
			continue;
		c.blocks += c.linked[i].blocks;
		c.inodes++;
	}
	free(c.linked);
	if (rc < 0)
		return rc;
	*ret_size = c.blocks * DISK_SECTOR;
	*ret_inodes = c.inodes;
	return 0;
}
