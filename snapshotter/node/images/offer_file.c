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
			return error_errno(err, -rc, "read its offer");
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

/* Make a source of one member of the offer in the file `fd`, which stays the caller's. */
static int offer_member_new(int fd, const struct offer *o, enum offer_member m,
			    struct source **ret, struct error *err)
{
	struct offer_source *p = calloc(1, sizeof(*p));

	if (!p)
		return error_nomem(err);
	p->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (p->fd < 0) {
		free(p);
		return error_errno(err, errno, "its offer");
	}
	p->base.ops = &offer_source_ops;
	p->base.size = o->size[m];
	p->begin = offer_begin(o, m);
	*ret = &p->base;
	return 0;
}

static int hash_member(int fd, const struct offer *o, enum offer_member m,
		       const struct digest *want, struct error *err)
{
	AUTO_FREE char *piece = malloc(PIECE_BYTES);
	AUTO(hasher) h = hasher_new();
	uint64_t begin = offer_begin(o, m);
	struct digest is;

	if (!piece || !h)
		return error_nomem(err);
	for (uint64_t at = 0; at < o->size[m];) {
		uint64_t left = o->size[m] - at;
		size_t n = left < PIECE_BYTES ? left : PIECE_BYTES;
		int rc = fs_pread_full(fd, piece, n, begin + at);

		if (rc < 0)
			return error_errno(err, -rc, "read the offer");
		if (hasher_update(h, piece, n) < 0)
			return error_nomem(err);
		at += n;
	}
	if (hasher_final(h, &is) < 0)
		return error_nomem(err);
	return digest_equal(&is, want)
		       ? 0
		       : error_set(err, EBADMSG,
				   "a blob of the offer is not the one that "
				   "was signed");
}

/* Point `ret`, an array of OFFER_MEMBERS, at the blobs of `a`; NULL for a blob that `a` does
 * not have. */
static void list_blobs(const struct artifact *a,
		       const struct oci_descriptor **ret)
{
	const struct oci_descriptor *last =
		a->n_packs ? &a->packs[a->n_packs - 1] : NULL;

	ret[OFFER_META] = &a->meta;
	ret[OFFER_MAP] = &a->map;
	if (last && strcmp(last->media_type, ARTIFACT_WINDOWS_TYPE) == 0)
		ret[OFFER_WINDOWS] = last;
}

int offer_check_sizes(const struct offer *o, const struct artifact *a,
		      struct error *err)
{
	const struct oci_descriptor *of[OFFER_MEMBERS] = { NULL };

	if (a->format != ARTIFACT_FORMAT_INDEX)
		return error_set(err, EBADMSG, "the offer is no index");
	list_blobs(a, of);
	for (int m = OFFER_META; m < OFFER_MEMBERS; m++)
		if (o->size[m] != (of[m] ? of[m]->size : 0))
			return error_set(err, EBADMSG,
					 "a blob of the offer has not the size "
					 "that was signed");
	return 0;
}

int offer_check_blobs(int fd, const struct offer *o, const struct artifact *a,
		      struct error *err)
{
	const struct oci_descriptor *of[OFFER_MEMBERS] = { NULL };
	int rc = offer_check_sizes(o, a, err);

	list_blobs(a, of);
	for (int m = OFFER_META; rc == 0 && m < OFFER_MEMBERS; m++)
		if (of[m])
			rc = hash_member(fd, o, (enum offer_member)m,
					 &of[m]->digest, err);
	return rc;
}

int offer_file_check(const char *dir, const struct artifact *a,
		     struct error *err)
{
	AUTO_CLOSE int fd = -1;
	struct offer o;
	int rc = offer_file_open(dir, &fd, &o, err);

	return rc < 0 ? rc : offer_check_blobs(fd, &o, a, err);
}

int offer_file_mend(const char *dir, int from, uint64_t size, struct error *err)
{
	AUTO_FREE char *path = fs_join(dir, OFFER_FILE);
	AUTO_FREE char *piece = malloc(PIECE_BYTES);
	AUTO_CLOSE int fd = -1;
	int rc = 0;

	if (!path || !piece)
		return error_nomem(err);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		rc = -errno;
	for (uint64_t at = 0; rc == 0 && at < size;) {
		size_t n = size - at < PIECE_BYTES ? size - at : PIECE_BYTES;

		rc = fs_pread_full(from, piece, n, at);
		if (rc == 0)
			rc = fs_pwrite_full(fd, piece, n, at);
		at += n;
	}
	if (rc == 0 && fsync(fd) < 0)
		rc = -errno;
	return rc < 0 ? error_errno(err, -rc, "mend '%s'", path) : 0;
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
		return error_errno(err, errno, "open '%s'", path);
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
