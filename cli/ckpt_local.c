// SPDX-License-Identifier: Apache-2.0
#include "cli/ckpt_local.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"

struct ckpt_local {
	const char *path; /* borrowed */
	struct buf tmp;   /* its name until then; empty: it has none */
	int fd;
};

int ckpt_local_new(const char *path, struct ckpt_local **ret, struct error *err)
{
	AUTO(ckpt_local) l = calloc(1, sizeof(*l));

	if (!l)
		return error_nomem(err);
	l->path = path;
	l->fd = -1;
	if (buf_printf(&l->tmp, "%s.XXXXXX", path) < 0)
		return error_nomem(err);
	l->fd = mkostemp(l->tmp.data, O_CLOEXEC);
	if (l->fd < 0) {
		int rc = error_set(err, errno, "cannot be made: %s",
				   strerror(errno));

		buf_fini(&l->tmp);
		return rc;
	}
	*ret = steal_ptr(&l);
	return 0;
}

int ckpt_local_fd(const struct ckpt_local *l)
{
	return l->fd;
}

int ckpt_local_commit(struct ckpt_local *l, const struct ckpt_attr *a,
		      struct error *err)
{
	const struct timespec times[2] = {
		{ .tv_nsec = UTIME_OMIT },
		{ .tv_sec =
			  a->mtime_ns / NS_PER_S - (a->mtime_ns % NS_PER_S < 0),
		  .tv_nsec = (a->mtime_ns % NS_PER_S + NS_PER_S) % NS_PER_S },
	};

	/* Whose it is changes: no set-user-id of somebody else. */
	if (fchmod(l->fd, a->mode & 0777) < 0 || futimens(l->fd, times) < 0 ||
	    fsync(l->fd) < 0 || rename(l->tmp.data, l->path) < 0)
		return error_set(err, errno, "cannot be made: %s",
				 strerror(errno));
	buf_fini(&l->tmp);
	return 0;
}

void ckpt_local_free(struct ckpt_local *l)
{
	if (!l)
		return;
	if (l->fd >= 0)
		(void)close(l->fd);
	if (l->tmp.data)
		(void)unlink(l->tmp.data);
	buf_fini(&l->tmp);
	free(l);
}

static int walk_one(const FTSENT *e, size_t skip, ckpt_local_fn *fn, void *arg,
		    struct error *err)
{
	const char *below = e->fts_path + skip;

	while (*below == '/')
		below++;
	switch (e->fts_info) {
	case FTS_D:
	case FTS_DP:
		return 0;
	case FTS_F:
		return fn(arg, e->fts_path, below, err);
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS:
		return error_set(err, e->fts_errno, "'%s': %s", e->fts_path,
				 strerror(e->fts_errno));
	default:
		return error_set(err, EINVAL,
				 "'%s' is no file and no folder: stores keep "
				 "nothing else",
				 e->fts_path);
	}
}

int ckpt_local_walk(const char *folder, ckpt_local_fn *fn, void *arg,
		    struct error *err)
{
	AUTO_FREE char *top = strdup(folder);
	char *const tops[] = { top, NULL };
	size_t skip = strlen(folder);
	FTS *fts;
	FTSENT *e;
	int rc = 0;

	if (!top)
		return error_nomem(err);
	fts = fts_open(tops, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL);
	if (!fts)
		return error_set(err, errno, "'%s': %s", folder,
				 strerror(errno));
	while (rc == 0 && (e = fts_read(fts)))
		rc = walk_one(e, skip, fn, arg, err);
	(void)fts_close(fts);
	return rc;
}
