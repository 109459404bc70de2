// SPDX-License-Identifier: Apache-2.0
/*
 * libarchive understands the dialects: v7, ustar, GNU long names and sparse
 * files, PAX.  Names are bytes to us, but libarchive converts PAX names from
 * UTF-8 to the locale's charset, and normalizes them on the way.  In the C
 * locale a name that is not ASCII cannot be converted, and it then keeps the
 * bytes: so we run it under that locale.
 */
#include "snapshotter/convert/tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <string.h>
#include <sys/stat.h>

#define XATTRS_MAX 4096 /* of one entry */
#define TAR_BLOCK 512u
/* Bytes of headers before one entry.  libarchive keeps a list of the parts of a
 * sparse file, whose map it reads with them, however long that is. */
#define HEADERS_MAX (8u << 20)

struct tar {
	struct layer *layer;
	struct archive *archive;
	const uint8_t *piece; /* what libarchive reads from now */
	size_t piece_len;
	uint64_t piece_pos;   /* byte in the plain layer */
	uint64_t headers_end; /* where the headers being read must end, or 0 */
	int rc;               /* of layer_read(), when it failed */
	struct error err;
	uint32_t padding;     /* bytes that the layer's end lacked */
	uint64_t last_size;   /* of the last entry's content */
	struct xattr *xattrs; /* of the current entry */
	size_t cap_xattrs;
};

void tar_format_name(const char *path, char out[TAR_NAME_MAX])
{
	size_t n = 0;

	for (; *path; path++) {
		unsigned char c = (unsigned char)*path;

		if (n > TAR_NAME_MAX - 8) {
			memcpy(out + n, "...", 3);
			n += 3;
			break;
		}
		if (c < 0x20 || c > 0x7e || c == '\\')
			n += (size_t)snprintf(out + n, 5, "\\x%02x", c);
		else
			out[n++] = (char)c;
	}
	out[n] = '\0';
}

/*
 * Some writers (umoci insert) leave out the zeros that fill the last file's
 * block.  Unpackers take such a layer, libarchive does not: give them to it.
 */
static size_t fill_block(struct tar *t, const void **ret)
{
	static const uint8_t zeros[TAR_BLOCK];
	uint32_t part = (uint32_t)(t->piece_pos % TAR_BLOCK);

	if (part == 0 || t->padding)
		return 0;
	t->padding = TAR_BLOCK - part;
	*ret = zeros;
	return t->padding;
}

/* What was filled up must have been padding, never a part of a file. */
static int check_fill(const struct tar *t, struct error *err)
{
	uint64_t part = t->last_size % TAR_BLOCK;

	if (t->padding && (part == 0 || t->padding > TAR_BLOCK - part))
		return error_set(err, EBADMSG, "the tar is cut off");
	return 0;
}

static la_ssize_t read_piece(struct archive *a, void *arg, const void **ret)
{
	struct tar *t = arg;
	const void *data = NULL;
	size_t n = 0;
	int rc;

	t->piece_pos += t->piece_len;
	t->piece_len = 0;
	if (t->headers_end && t->piece_pos > t->headers_end)
		rc = error_set(&t->err, E2BIG,
			       "more than %u MiB of headers or of a sparse "
			       "file's map",
			       HEADERS_MAX >> 20);
	else
		rc = layer_read(t->layer, &data, &n, &t->err);
	if (rc < 0) {
		t->rc = rc;
		archive_set_error(a, EIO, "%s", "layer");
		return ARCHIVE_FATAL;
	}
	if (n == 0)
		n = fill_block(t, &data);
	t->piece = data;
	t->piece_len = n;
	*ret = data;
	return (la_ssize_t)n;
}

static int tar_error(struct tar *t, struct error *err)
{
	const char *text = archive_error_string(t->archive);

	if (t->rc < 0) {
		if (err)
			*err = t->err;
		return t->rc;
	}
	if (archive_errno(t->archive) == ENOMEM)
		return error_nomem(err);
	return error_set(err, EBADMSG, "%s", text ? text : "damaged tar");
}

static int open_archive(struct tar *t, struct error *err)
{
	t->archive = archive_read_new();
	if (!t->archive)
		return error_nomem(err);
	if (archive_read_support_format_tar(t->archive) != ARCHIVE_OK ||
	    archive_read_support_format_empty(t->archive) != ARCHIVE_OK ||
	    archive_read_open(t->archive, t, NULL, read_piece, NULL) <
		    ARCHIVE_WARN)
		return tar_error(t, err);
	return 0;
}

static bool has_prefix(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* What Linux would keep: other namespaces are refused by its file systems, and
 * an ordinary unpack then goes on without them.  What a hard link is of, only
 * the one who applies it knows. */
static bool is_kept_xattr(const char *name, mode_t type, bool hard)
{
	if (has_prefix(name, "user."))
		return hard || type == AE_IFREG || type == AE_IFDIR;
	return has_prefix(name, "security.") || has_prefix(name, "trusted.") ||
	       strcmp(name, "system.posix_acl_access") == 0 ||
	       strcmp(name, "system.posix_acl_default") == 0;
}

static int read_xattrs(struct tar *t, struct archive_entry *ae,
		       const struct xattr **ret, struct error *err)
{
	size_t n = 0, count = (size_t)archive_entry_xattr_reset(ae);
	const char *name;
	const void *value;
	size_t size;

	*ret = NULL;
	if (count > XATTRS_MAX)
		return error_set(err, E2BIG, "more than %d xattrs", XATTRS_MAX);
	if (count > t->cap_xattrs) {
		struct xattr *p = realloc(t->xattrs, count * sizeof(*p));

		if (!p)
			return error_nomem(err);
		t->xattrs = p;
		t->cap_xattrs = count;
	}
	while (n < count && archive_entry_xattr_next(ae, &name, &value,
						     &size) == ARCHIVE_OK) {
		if (!name || !is_kept_xattr(name, archive_entry_filetype(ae),
					    archive_entry_hardlink(ae)))
			continue;
		if (size > TREE_XATTR_VALUE_MAX)
			return error_set(err, E2BIG,
					 "xattr '%.64s' has %zu bytes", name,
					 size);
		t->xattrs[n] = (struct xattr){ .name = name,
					       .value = value,
					       .size = (uint32_t)size };
		if (n)
			t->xattrs[n - 1].next = &t->xattrs[n];
		n++;
	}
	if (n)
		*ret = t->xattrs;
	return 0;
}

static int read_entry(struct tar *t, struct archive_entry *ae,
		      struct layer_entry *e, struct error *err)
{
	la_int64_t uid = archive_entry_uid(ae), gid = archive_entry_gid(ae);
	la_int64_t size = archive_entry_size(ae);
	const char *hard = archive_entry_hardlink(ae);

	*e = (struct layer_entry){
		.path = archive_entry_pathname(ae),
		.hard = hard != NULL,
		.link = hard ? hard : archive_entry_symlink(ae),
		.mode = archive_entry_filetype(ae) | archive_entry_perm(ae),
		.mtime = archive_entry_mtime(ae),
		.mtime_nsec = (uint32_t)archive_entry_mtime_nsec(ae),
	};
	if (!e->path)
		return error_set(err, EBADMSG, "an entry without a name");
	/* libarchive reads "-1.5" as -1 and +0.5. */
	if (e->mtime < 0 && e->mtime_nsec) {
		e->mtime--;
		e->mtime_nsec = 1000000000 - e->mtime_nsec;
	}
	if (uid < 0 || gid < 0 || uid >= UINT32_MAX || gid >= UINT32_MAX)
		return error_set(err, EINVAL,
				 "its owner %lld:%lld is out of "
				 "range",
				 (long long)uid, (long long)gid);
	e->uid = (uint32_t)uid;
	e->gid = (uint32_t)gid;
	if (S_ISREG(e->mode) && !hard) {
		if (size < 0)
			return error_set(err, EINVAL, "its size is negative");
		e->size = (uint64_t)size;
	}
	if (S_ISBLK(e->mode) || S_ISCHR(e->mode)) {
		e->major = (uint32_t)archive_entry_rdevmajor(ae);
		e->minor = (uint32_t)archive_entry_rdevminor(ae);
	}
	return read_xattrs(t, ae, &e->xattrs, err);
}

static int read_data(struct tar *t, struct tar_visitor *v, uint64_t size,
		     struct error *err)
{
	for (;;) {
		const void *data = NULL;
		la_int64_t off = 0;
		size_t len = 0;
		int rc = archive_read_data_block(t->archive, &data, &len, &off);

		if (rc == ARCHIVE_EOF)
			return v->end(v, err);
		if (rc < ARCHIVE_WARN)
			return tar_error(t, err);
		if (off < 0 || (uint64_t)off > size ||
		    len > size - (uint64_t)off)
			return error_set(err, EBADMSG,
					 "it has bytes past its size");
		rc = v->data(v, (uint64_t)off, data, len, err);
		if (rc < 0)
			return rc;
	}
}

static int walk_entry(struct tar *t, struct archive_entry *ae,
		      struct tar_visitor *v, struct error *err)
{
	struct layer_entry e;
	char name[TAR_NAME_MAX];
	bool want = false;
	int rc;

	rc = read_entry(t, ae, &e, err);
	t->last_size = e.size;
	if (rc == 0)
		rc = v->entry(v, &e, &want, err);
	if (rc == 0 && want)
		rc = read_data(t, v, e.size, err);
	if (rc < 0) {
		tar_format_name(e.path ? e.path : "", name);
		return error_wrap(err, rc, "entry '%s'", name);
	}
	return 0;
}

/* Behind the archive only zeros may follow (records are padded). */
static int check_rest(struct tar *t, struct error *err)
{
	uint64_t pos = (uint64_t)archive_filter_bytes(t->archive, 0);
	const void *data = t->piece;
	size_t len = t->piece_len, skip = 0;

	if (pos > t->piece_pos)
		skip = pos - t->piece_pos < len ? (size_t)(pos - t->piece_pos)
						: len;
	do {
		const uint8_t *p = data;
		size_t n = len - skip;
		int rc;

		if (n &&
		    (p[skip] || memcmp(p + skip, p + skip + 1, n - 1) != 0))
			return error_set(err, EBADMSG,
					 "data behind the end of its tar");
		skip = 0;
		rc = layer_read(t->layer, &data, &len, err);
		if (rc < 0)
			return rc;
	} while (len);
	return 0;
}

/* To the next entry.  What is left of the one before is passed over first, so
 * that only headers count as such. */
static int next_entry(struct tar *t, bool is_first, struct archive_entry **ret)
{
	int rc = is_first ? ARCHIVE_OK : archive_read_data_skip(t->archive);

	if (rc < ARCHIVE_WARN)
		return rc;
	t->headers_end = t->piece_pos + t->piece_len + HEADERS_MAX;
	rc = archive_read_next_header(t->archive, ret);
	t->headers_end = 0;
	return rc;
}

static int walk_archive(struct tar *t, struct tar_visitor *v, struct error *err)
{
	struct archive_entry *ae;
	char last[TAR_NAME_MAX] = "";
	bool is_first = true;
	int rc = open_archive(t, err);

	if (rc < 0)
		return rc;
	for (;;) {
		rc = next_entry(t, is_first, &ae);
		is_first = false;
		if (rc == ARCHIVE_EOF) {
			rc = check_fill(t, err);
			return rc < 0 ? rc : check_rest(t, err);
		}
		if (rc < ARCHIVE_WARN && last[0])
			return error_wrap(err, tar_error(t, err),
					  "at or behind entry '%s'", last);
		if (rc < ARCHIVE_WARN)
			return tar_error(t, err);
		rc = walk_entry(t, ae, v, err);
		if (rc < 0)
			return rc;
		tar_format_name(archive_entry_pathname(ae), last);
	}
}

int tar_walk(struct layer *l, struct tar_visitor *v, struct error *err)
{
	struct tar t = { .layer = l };
	locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), old;
	int rc;

	if (!c)
		return error_nomem(err);
	old = uselocale(c);
	rc = walk_archive(&t, v, err);
	(void)archive_read_free(t.archive);
	free(t.xattrs);
	(void)uselocale(old);
	freelocale(c);
	return rc;
}
