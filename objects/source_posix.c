// SPDX-License-Identifier: Apache-2.0
/* A source that reads a file on disk. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "common/fs.h"
#include "objects/source.h"

#define PIECE_BYTES (256 * KIB) /* fits a second-level cache */

struct posix_source {
	struct source base;
	int fd;
	char *path; /* for messages */
};

static int posix_read(struct source *s, const struct source_req *req,
		      struct source_sink *sink, struct error *err)
{
	struct posix_source *p = container_of(s, struct posix_source, base);
	uint64_t off = req->off, end = req->off + req->len;
	size_t room = req->len < PIECE_BYTES ? req->len : PIECE_BYTES;
	AUTO_FREE char *piece = malloc(room);

	if (!piece)
		return error_nomem(err);
	while (off < end) {
		size_t n = end - off < room ? end - off : room;
		int rc = fs_pread_full(p->fd, piece, n, off);

		if (rc < 0)
			return error_errno(err, -rc, "read '%s'", p->path);
		rc = sink->put(sink, off, piece, n, err);
		if (rc < 0)
			return rc;
		off += n;
	}
	return 0;
}

static void posix_free(struct source *s)
{
	struct posix_source *p = container_of(s, struct posix_source, base);

	(void)close(p->fd);
	free(p->path);
	free(p);
}

static const struct source_ops posix_ops = {
	.name = "posix",
	.read = posix_read,
	.free = posix_free,
};

int posix_source_new(const char *path, struct source **ret, struct error *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	AUTO_FREE struct posix_source *p = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, errno, "open '%s'", path);
	if (!S_ISREG(st.st_mode))
		return error_set(err, EINVAL, "'%s' is not a file", path);
	p = calloc(1, sizeof(*p));
	if (!p)
		return error_nomem(err);
	p->path = strdup(path);
	if (!p->path)
		return error_nomem(err);
	p->base.ops = &posix_ops;
	p->base.size = (uint64_t)st.st_size;
	p->fd = steal_fd(&fd);
	*ret = &steal_ptr(&p)->base;
	return 0;
}
