// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/images/offer_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "common/fs.h"

#define PIECE_BYTES (256 * KIB)

struct offer_source {
	struct source base;
	int fd;
	uint64_t begin;
};

static int offer_source_read(struct source *s, const struct source_req *req,
			     struct source_sink *sink, struct error *err)
{
	const struct offer_source *p =
		container_of(s, struct offer_source, base);
	size_t room = req->len < PIECE_BYTES ? req->len : PIECE_BYTES;
	AUTO_FREE char *piece = malloc(room ? room : 1);
	uint64_t done = 0;

	if (!piece)
		return error_nomem(err);
	while (done < req->len) {
		size_t n = req->len - done < room ? req->len - done : room;
		int rc = fs_pread_full(p->fd, piece, n,
				       p->begin + req->off + done);

		if (rc < 0)
			return error_set(err, -rc, "read its offer: %s",
					 strerror(-rc));
		rc = sink->put(sink, req->off + done, piece, n, err);
		if (rc < 0)
			return rc;
		done += n;
	}
	return 0;
}

static void offer_source_free(struct source *s)
{
	struct offer_source *p = container_of(s, struct offer_source, base);

	(void)close(p->fd);
	free(p);
}

static const struct source_ops offer_source_ops = {
	.name = "offer",
	.read = offer_source_read,
	.free = offer_source_free,
};

int offer_member_new(int fd, const struct offer *o, enum offer_member m,
		     struct source **ret, struct error *err)
{
	struct offer_source *p = calloc(1, sizeof(*p));

	if (!p)
		return error_nomem(err);
	p->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (p->fd < 0) {
		free(p);
		return error_set(err, errno, "its offer: %s", strerror(errno));
	}
	p->base.ops = &offer_source_ops;
	p->base.size = o->size[m];
	p->begin = offer_begin(o, m);
	*ret = &p->base;
	return 0;
}

int offer_file_open(const char *dir, int *ret_fd, struct offer *ret,
		    struct error *err)
{
	AUTO_FREE char *path = fs_join(dir, OFFER_FILE);
	uint8_t head[OFFER_HEAD];
	AUTO_CLOSE int fd = -1;
	struct stat st;
	int rc;

	if (!path)
		return error_nomem(err);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, errno, "open '%s': %s", path,
				 strerror(errno));
	rc = fs_pread_full(fd, head, sizeof(head), 0);
	if (rc < 0)
		return error_set(err, EBADMSG, "'%s' is damaged", path);
	rc = offer_parse_head(head, sizeof(head), (uint64_t)st.st_size, ret,
			      err);
	if (rc == 0)
		*ret_fd = steal_fd(&fd);
	return rc;
}

int offer_file_members(const char *dir, struct source **ret_meta,
		       struct source **ret_map, struct error *err)
{
	AUTO(source) meta = NULL;
	AUTO(source) map = NULL;
	AUTO_CLOSE int fd = -1;
	struct offer o;
	int rc = offer_file_open(dir, &fd, &o, err);

	if (rc == -ENOENT)
		return 0;
	if (rc == 0)
		rc = offer_member_new(fd, &o, OFFER_META, &meta, err);
	if (rc == 0)
		rc = offer_member_new(fd, &o, OFFER_MAP, &map, err);
	if (rc < 0)
		return rc;
	*ret_meta = steal_ptr(&meta);
	*ret_map = steal_ptr(&map);
	return 0;
}

int offer_file_windows(const char *dir, const struct artifact *a,
		       struct source **packs, struct error *err)
{
	struct source *windows = NULL;
	AUTO_CLOSE int fd = -1;
	struct offer o;
	size_t last = a->n_packs - 1;
	int rc;

	if (a->format != ARTIFACT_FORMAT_INDEX || a->n_packs == 0 ||
	    strcmp(a->packs[last].media_type, ARTIFACT_WINDOWS_TYPE) != 0)
		return 0;
	rc = offer_file_open(dir, &fd, &o, err);
	if (rc == -ENOENT)
		return 0;
	if (rc == 0 && o.size[OFFER_WINDOWS] != a->packs[last].size)
		rc = error_set(err, EBADMSG,
			       "the windows in its offer are not its own");
	if (rc == 0)
		rc = offer_member_new(fd, &o, OFFER_WINDOWS, &windows, err);
	if (rc < 0)
		return rc;
	source_free(packs[last]);
	packs[last] = windows;
	return 0;
}
