// SPDX-License-Identifier: Apache-2.0
/*
 * Layers are read here and not by libarchive, which accepts more dialects than Go's archive/tar
 * and reads some of them differently: a layer could then give a lazy container files that
 * containerd and scanners do not find in it (tar_head.h).
 */
#include "snapshotter/convert/tar.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buf.h"
#include "common/bytes.h"
#include "snapshotter/convert/tar_sparse.h"

#define XATTRS_MAX 4096 /* xattrs of one entry */
#define XATTR_KEY "SCHILY.xattr."
/* Largest headers of one entry, or largest map of a sparse file, in bytes. */
#define HEADERS_MAX (8u << 20)

/* An xattr of a header, while the last value of each name is searched for. */
struct found_xattr {
	const char *name; /* in tar.texts */
	struct pax_text value;
	size_t at; /* its position in the header */
};

struct tar {
	struct layer *layer;
	struct tar_visitor *visitor;
	const uint8_t *piece; /* rest of the layer's last piece */
	size_t piece_len;
	bool has_ended;      /* the layer has no further piece */
	struct buf gathered; /* bytes before that piece, made contiguous */
	size_t gathered_at;  /* how many of these are used already */
	uint64_t used;       /* bytes of the layer so far */
	bool has_global;     /* a header for the whole archive */
	/* the archive has another entry with the global header's name, in any folder */
	bool has_namesake;
	struct tar_head head;
	struct tar_parts parts;
	/* The current entry's texts, each with a NUL, and its xattrs. */
	struct buf texts, values;
	struct xattr xattrs[XATTRS_MAX];
	struct found_xattr found[XATTRS_MAX];
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

/* ------------------------------------------------------------------- bytes --- */

static int next_piece(struct tar *t, struct error *err)
{
	const void *data = NULL;
	size_t n = 0;
	int rc;

	if (t->piece_len || t->has_ended)
		return 0;
	rc = layer_read(t->layer, &data, &n, err);
	t->piece = data;
	t->piece_len = rc < 0 ? 0 : n;
	t->has_ended = rc == 0 && n == 0;
	if (t->piece_len && t->visitor->came)
		t->visitor->came(t->visitor);
	return rc;
}

static size_t count_gathered_bytes(const struct tar *t)
{
	return t->gathered.len - t->gathered_at;
}

/* The contiguous bytes that were gathered; NULL before there were any. */
static const uint8_t *gathered_bytes(const struct tar *t)
{
	return t->gathered.data
		       ? (const uint8_t *)t->gathered.data + t->gathered_at
		       : NULL;
}

/* Get the next `n` bytes as one range, or as many as there are; borrowed until the next call of
 * these functions. */
static int peek_bytes(struct tar *t, uint64_t n, const uint8_t **ret,
		      size_t *ret_n, struct error *err)
{
	int rc = next_piece(t, err);

	if (rc == 0 && n > HEADERS_MAX)
		rc = error_set(err, E2BIG,
			       "more than %u MiB of headers or of a sparse "
			       "file's map",
			       HEADERS_MAX >> 20);
	if (rc == 0 && count_gathered_bytes(t) == 0) {
		buf_reset(&t->gathered);
		t->gathered_at = 0;
		if (t->piece_len >= n) {
			*ret = t->piece;
			*ret_n = (size_t)n;
			return 0;
		}
	}
	while (rc == 0 && count_gathered_bytes(t) < n && !t->has_ended) {
		size_t more = (size_t)n - count_gathered_bytes(t);

		more = more < t->piece_len ? more : t->piece_len;
		if (more && buf_append(&t->gathered, t->piece, more) < 0)
			return error_nomem(err);
		t->piece += more;
		t->piece_len -= more;
		rc = next_piece(t, err);
	}
	*ret = gathered_bytes(t);
	*ret_n = count_gathered_bytes(t) < n ? count_gathered_bytes(t)
					     : (size_t)n;
	return rc;
}

/* Get the bytes that are available without copying, `n` at most; 0: the layer has ended. */
static int peek_available(struct tar *t, uint64_t n, const uint8_t **ret,
			  size_t *ret_n, struct error *err)
{
	size_t have = count_gathered_bytes(t);
	int rc = 0;

	*ret = gathered_bytes(t);
	if (have == 0) {
		rc = next_piece(t, err);
		*ret = t->piece;
		have = t->piece_len;
	}
	*ret_n = have < n ? have : (size_t)n;
	return rc;
}

/* Use up bytes that peek_bytes() or peek_available() gave. */
static void use_bytes(struct tar *t, size_t n)
{
	size_t gathered =
		count_gathered_bytes(t) < n ? count_gathered_bytes(t) : n;

	t->used += n;
	t->gathered_at += gathered;
	if (gathered < n) {
		t->piece += n - gathered;
		t->piece_len -= n - gathered;
	}
}

static int set_tar_cut_off_error(struct error *err)
{
	return error_set(err, EBADMSG, "the tar is cut off");
}

/* Give `n` bytes to the visitor as the entry's content from `off` on; NULL: skip them. */
static int emit_content(struct tar *t, struct tar_visitor *v, uint64_t off,
			uint64_t n, struct error *err)
{
	while (n) {
		const uint8_t *p;
		size_t len;
		int rc = peek_available(t, n, &p, &len, err);

		if (rc == 0 && len == 0)
			rc = set_tar_cut_off_error(err);
		if (rc == 0 && v) {
			v->plain = t->used;
			rc = v->data(v, off, p, len, err);
		}
		if (rc < 0)
			return rc;
		use_bytes(t, len);
		off += len;
		n -= len;
	}
	return 0;
}

/* Skip the padding after an entry's content; some writers (umoci insert) leave it out after the
 * last file. */
static int skip_filling(struct tar *t, uint64_t stored, struct error *err)
{
	uint64_t n = round_up(stored, TAR_BLOCK) - stored;
	const uint8_t *p;
	size_t len;
	int rc = peek_bytes(t, n, &p, &len, err);

	if (rc == 0)
		use_bytes(t, len);
	return rc;
}

/* ------------------------------------------------------------------ xattrs --- */

static bool has_prefix(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* May the xattr be kept?  File systems refuse other namespaces, and an ordinary unpack then
 * continues without them.  overlayfs' own xattrs would tell a container's overlay things that
 * only overlayfs itself may set. */
bool tar_keeps_xattr(const char *name, uint32_t type, bool hard)
{
	if (!hard && !apply_can_have_xattr(type, name))
		return false;
	if (has_prefix(name, "trusted."))
		return !has_prefix(name, "trusted.overlay.");
	return has_prefix(name, "user.") || has_prefix(name, "security.") ||
	       strcmp(name, "system.posix_acl_access") == 0 ||
	       strcmp(name, "system.posix_acl_default") == 0;
}

/* Order by name; of the same name the last one of the header comes first. */
static int compare_found(const void *a, const void *b)
{
	const struct found_xattr *x = a, *y = b;
	int rc = strcmp(x->name, y->name);

	return rc ? rc : (x->at < y->at) - (x->at > y->at);
}

/* Find the xattrs in the header's records; their names are copied to t->texts, where they stay. */
static int find_xattrs(struct tar *t, const struct layer_entry *e,
		       size_t *ret_n, struct error *err)
{
	const struct pax_text *r = &t->head.records;
	struct pax_text key, value;
	size_t at = 0, n = 0, prefix = strlen(XATTR_KEY);

	while (r->data && pax_next(r->data, r->len, &at, &key, &value)) {
		size_t len = key.len - prefix;
		char *name = t->texts.data + t->texts.len;

		if (key.len <= prefix ||
		    memcmp(key.data, XATTR_KEY, prefix) != 0)
			continue;
		/* texts has room: a name is shorter than its record. */
		memcpy(name, key.data + prefix, len);
		name[len] = '\0';
		if (!tar_keeps_xattr(name, e->mode & S_IFMT, e->hard))
			continue;
		t->texts.len += len + 1;
		if (n == XATTRS_MAX)
			return error_set(err, E2BIG, "more than %d xattrs",
					 XATTRS_MAX);
		if (value.len > TREE_XATTR_VALUE_MAX)
			return error_set(err, E2BIG,
					 "xattr '%.64s' has %zu bytes", name,
					 value.len);
		t->found[n] = (struct found_xattr){ .name = name,
						    .value = value,
						    .at = n };
		n++;
	}
	*ret_n = n;
	return 0;
}

static int read_xattrs(struct tar *t, const struct layer_entry *e,
		       const struct xattr **ret, struct error *err)
{
	struct found_xattr *f = t->found;
	size_t n = 0, kept = 0;
	int rc = find_xattrs(t, e, &n, err);

	*ret = NULL;
	if (rc < 0)
		return rc;
	qsort(f, n, sizeof(*f), compare_found);
	for (size_t i = 0; i < n; i++) {
		if (i && strcmp(f[i].name, f[i - 1].name) == 0)
			continue;
		t->xattrs[kept] =
			(struct xattr){ .name = f[i].name,
					.value = t->values.data + t->values.len,
					.size = (uint32_t)f[i].value.len };
		memcpy(t->values.data + t->values.len, f[i].value.data,
		       f[i].value.len);
		t->values.len += f[i].value.len;
		if (kept)
			t->xattrs[kept - 1].next = &t->xattrs[kept];
		kept++;
	}
	if (kept)
		*ret = t->xattrs;
	return 0;
}

/* ----------------------------------------------------------------- headers --- */

static uint32_t kind_of(char type)
{
	switch (type) {
	case '2':
		return S_IFLNK;
	case '3':
		return S_IFCHR;
	case '4':
		return S_IFBLK;
	case '5':
		return S_IFDIR;
	case '6':
		return S_IFIFO;
	default:
		return S_IFREG;
	}
}

static const char *add_text(struct tar *t, const struct pax_text *before,
			    const struct pax_text *text)
{
	char *p = t->texts.data + t->texts.len;
	size_t n = 0;

	if (before && before->data) {
		memcpy(p, before->data, before->len);
		p[before->len] = '/';
		n = before->len + 1;
	}
	memcpy(p + n, text->data, text->len);
	n += text->len;
	p[n] = '\0';
	t->texts.len += n + 1;
	return p;
}

/* Copy the headers' values, with texts of the reader's own. */
static int make_entry(struct tar *t, size_t headers_len, struct layer_entry *e,
		      struct error *err)
{
	const struct tar_head *h = &t->head;
	/* All texts come from the headers; each needs one more byte, a NUL or a slash. */
	size_t room = headers_len + 2 * TAR_BLOCK;

	buf_reset(&t->texts);
	buf_reset(&t->values);
	if (buf_reserve(&t->texts, room) < 0 ||
	    buf_reserve(&t->values, room) < 0)
		return error_nomem(err);
	*e = (struct layer_entry){
		.path = add_text(t, &h->prefix, &h->name),
		.hard = h->type == '1',
		.mode = kind_of(h->type) | h->mode,
		.uid = h->uid,
		.gid = h->gid,
		.mtime = h->mtime,
		.mtime_nsec = h->mtime_nsec,
		.size = h->size,
	};
	if (h->type == '1' || h->type == '2')
		e->link = add_text(t, NULL, &h->link);
	if (h->type == '3' || h->type == '4') {
		e->major = h->major;
		e->minor = h->minor;
	}
	return read_xattrs(t, e, &e->xattrs, err);
}

/* Look for the next entry's header.  1: there is one.  0: the archive ends here, by zeros or
 * with the layer. */
static int find_header(struct tar *t, struct error *err)
{
	const uint8_t *p;
	size_t n;
	int rc = peek_bytes(t, TAR_BLOCK, &p, &n, err);

	if (rc < 0 || n == 0)
		return rc;
	if (n < TAR_BLOCK)
		return bytes_are_zero(p, n) ? 0 : set_tar_cut_off_error(err);
	if (!bytes_are_zero(p, n))
		return 1;
	use_bytes(t, n);
	rc = peek_bytes(t, TAR_BLOCK, &p, &n, err);
	if (rc < 0)
		return rc;
	return bytes_are_zero(p, n)
		       ? 0
		       : error_set(err, EBADMSG,
				   "damaged tar: one block of zeros");
}

/* Get the headers of the next entry, borrowed.  Their number is found by parsing from the start
 * each time, so each try looks at twice as many bytes. */
static int read_headers(struct tar *t, const uint8_t **ret, size_t *ret_len,
			struct error *err)
{
	uint64_t need = TAR_BLOCK, got = 0;
	int rc;

	do {
		uint64_t more = 2 * got < HEADERS_MAX ? 2 * got : HEADERS_MAX;

		rc = peek_bytes(t, need > more ? need : more, ret, ret_len,
				err);
		if (rc == 0 && *ret_len < need)
			rc = set_tar_cut_off_error(err);
		got = *ret_len;
		if (rc == 0)
			rc = tar_head_len(*ret, *ret_len, &need, err);
	} while (rc == 0 && need > got);
	*ret_len = (size_t)need;
	return rc;
}

/* ----------------------------------------------------------------- content --- */

/* Read the sparse map before the content; `*left` becomes the bytes after it. */
static int read_map(struct tar *t, uint64_t *left, struct error *err)
{
	uint64_t want = TAR_BLOCK, used = 0;
	const uint8_t *p;
	size_t n;
	int rc;

	do {
		want = want < *left ? want : *left;
		rc = peek_bytes(t, want, &p, &n, err);
		if (rc == 0)
			rc = tar_parts_of_content(&t->parts, t->head.size, p, n,
						  &used, err);
		if (rc == 0 && (n < want || want == *left))
			return set_tar_cut_off_error(err);
		want *= 2;
	} while (rc == 0);
	if (rc < 0)
		return rc;
	if (used > *left)
		return set_tar_cut_off_error(err);
	*left -= used;
	return emit_content(t, NULL, 0, used, err);
}

static int read_parts(struct tar *t, struct tar_visitor *v, struct error *err)
{
	uint64_t left = t->head.stored;
	int rc = 0;

	if (t->head.sparse == TAR_SPARSE_CONTENT)
		rc = read_map(t, &left, err);
	if (rc == 0 && tar_parts_sum(&t->parts) != left)
		rc = error_set(
			err, EBADMSG,
			"the map of a sparse file is not of its content");
	for (size_t i = 0; rc == 0 && i < t->parts.n; i++)
		rc = emit_content(t, v, t->parts.v[i].off, t->parts.v[i].len,
				  err);
	return rc;
}

static int read_content(struct tar *t, struct tar_visitor *v, struct error *err)
{
	int rc;

	if (t->visitor->is_bare)
		return 0;
	rc = t->head.sparse && v ? read_parts(t, v, err)
				 : emit_content(t, v, 0, t->head.stored, err);
	if (rc == 0)
		rc = skip_filling(t, t->head.stored, err);
	return rc == 0 && v ? v->end(v, err) : rc;
}

/* -------------------------------------------------------------------- walk --- */

/* Refuse a second entry with the global header's name: containerd removes files of that name. */
static int check_global_name(struct tar *t, struct error *err)
{
	struct pax_text last = t->head.name;

	while (last.len && last.data[last.len - 1] == '/')
		last.len--;
	for (size_t i = last.len; i > 0; i--) {
		if (last.data[i - 1] != '/')
			continue;
		last.data += i;
		last.len -= i;
		break;
	}
	t->has_global |= t->head.type == 'g';
	t->has_namesake |= t->head.type != 'g' && tar_is_global_name(&last);
	return t->has_global && t->has_namesake
		       ? error_set(err, EINVAL,
				   "a file has the name of a global header, "
				   "which programs read in different ways")
		       : 0;
}

static int read_entry(struct tar *t, struct tar_visitor *v,
		      struct layer_entry *e, struct error *err)
{
	const uint8_t *headers;
	bool want = false;
	size_t len;
	int rc = read_headers(t, &headers, &len, err);

	if (rc == 0)
		rc = tar_head_parse(headers, len, &t->head, err);
	if (rc == 0 && v->headers)
		rc = v->headers->put(v->headers, t->used, headers, len, err);
	if (rc < 0)
		return rc;
	rc = check_global_name(t, err);
	if (rc < 0)
		return rc;
	if (t->head.type == 'g') {
		use_bytes(t, len);
		return 0;
	}
	rc = make_entry(t, len, e, err);
	if (rc == 0 && (t->head.sparse == TAR_SPARSE_OLD ||
			t->head.sparse == TAR_SPARSE_RECORDS))
		rc = tar_parts_of_head(&t->parts, &t->head, err);
	use_bytes(t, len);
	if (rc == 0)
		rc = v->entry(v, e, &want, err);
	return rc == 0 ? read_content(t, want ? v : NULL, err) : rc;
}

/* Check that only zeros follow the archive (records are padded). */
static int check_rest(struct tar *t, struct error *err)
{
	const uint8_t *p;
	size_t n;
	int rc;

	do {
		rc = peek_available(t, UINT64_MAX, &p, &n, err);
		if (rc == 0 && !bytes_are_zero(p, n))
			rc = error_set(err, EBADMSG,
				       "data behind the end of its tar");
		if (rc < 0)
			return rc;
		use_bytes(t, n);
	} while (n);
	return 0;
}

static int walk_entries(struct tar *t, struct tar_visitor *v, struct error *err)
{
	char last[TAR_NAME_MAX] = "", name[TAR_NAME_MAX];
	int rc;

	while ((rc = find_header(t, err)) == 1) {
		struct layer_entry e = { .path = NULL };

		rc = read_entry(t, v, &e, err);
		tar_format_name(e.path ? e.path : "", name);
		if (rc < 0 && e.path)
			return error_wrap(err, rc, "entry '%s'", name);
		if (rc < 0)
			break;
		if (e.path)
			memcpy(last, name, sizeof(last));
	}
	if (rc < 0 && last[0])
		return error_wrap(err, rc, "behind entry '%s'", last);
	return rc < 0 ? rc : check_rest(t, err);
}

int tar_walk(struct layer *l, struct tar_visitor *v, struct error *err)
{
	AUTO_FREE struct tar *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return error_nomem(err);
	t->layer = l;
	t->visitor = v;
	rc = walk_entries(t, v, err);
	tar_parts_fini(&t->parts);
	buf_fini(&t->gathered);
	buf_fini(&t->texts);
	buf_fini(&t->values);
	return rc;
}
