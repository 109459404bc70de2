// SPDX-License-Identifier: Apache-2.0
/* Files that a search found, their bytes, and the ranges that it adds to its result. */
#include "image/closure/closure_priv.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/array.h"

/* Limit of names looked up, of all paths together: a few seconds of processor time. */
#define LOOKUPS_MAX 8000000u

/* ------------------------------------------------------------------- files --- */

bool closure_is_spent(const struct closure *c)
{
	return c->n_lookups >= LOOKUPS_MAX;
}

static bool find_path(struct closure *c, const char *path,
		      struct rootfs_file *ret)
{
	bool is_found = !closure_is_spent(c) &&
			rootfs_find(c->img, path, ret, NULL) == 0;

	c->n_lookups += closure_is_spent(c) ? 0 : 1 + ret->n_steps;
	return is_found;
}

bool closure_find_file(struct closure *c, const char *path,
		       struct rootfs_file *ret)
{
	return find_path(c, path, ret) && S_ISREG(ret->inode.mode);
}

bool closure_find_folder(struct closure *c, const char *path,
			 struct rootfs_file *ret)
{
	return find_path(c, path, ret) && S_ISDIR(ret->inode.mode);
}

bool closure_is_folder(struct closure *c, const char *path)
{
	struct rootfs_file f;

	return closure_find_folder(c, path, &f);
}

/* Mark the file as found; true if it was found before. */
static bool mark_seen(struct closure *c, uint64_t nid)
{
	uint8_t bit = (uint8_t)(1u << nid % 8);
	bool was = nid >= c->n_nids || c->seen[nid / 8] & bit;

	if (!was)
		c->seen[nid / 8] |= bit;
	return was;
}

static int push_file(struct closure *c, const struct closure_file *f,
		     struct error *err)
{
	if (c->n_files >= CLOSURE_FILES_MAX)
		return 0;
	if (array_grow(&c->files, c->n_files, &c->cap_files, 64) < 0)
		return error_nomem(err);
	c->files[c->n_files++] = *f;
	return 0;
}

void closure_file_fini(struct closure_file *f)
{
	free(f->path);
	free(f->elf);
	free(f->dynamic);
}

int closure_visit(struct closure *c, const char *path, closure_look_fn *look,
		  uint64_t want, struct error *err)
{
	struct closure_file f = { .look = look };
	struct rootfs_file found;
	size_t before = c->n_files;
	int rc;

	if (!closure_find_file(c, path, &found) ||
	    mark_seen(c, found.inode.nid))
		return 0;
	f.inode = found.inode;
	f.want.len = want < f.inode.size ? want : f.inode.size;
	f.path = strdup(found.path);
	rc = f.path ? push_file(c, &f, err) : error_nomem(err);
	if (c->n_files == before)
		closure_file_fini(&f);
	return rc;
}

int closure_visit_program(struct closure *c, const char *path,
			  struct error *err)
{
	return closure_visit(c, path, c->look_program, CLOSURE_HEAD, err);
}

int closure_visit_again(struct closure *c, struct closure_file *f,
			const struct elf_range *want, closure_look_fn *look,
			struct error *err)
{
	struct closure_file next = *f;
	size_t before = c->n_files;
	int rc;

	next.want = *want;
	next.look = look;
	rc = push_file(c, &next, err);
	if (c->n_files > before)
		*f = (struct closure_file){ .path = NULL };
	return rc;
}

/* ------------------------------------------------------------------- bytes --- */

int closure_read(struct closure *c, const struct erofs_inode *i, uint64_t off,
		 void *buf, size_t len, struct error *err)
{
	struct erofs_map m;
	uint8_t *to = buf;
	int rc = 0;

	if (off > i->size || len > i->size - off)
		return error_set(err, EINVAL, "read past the end of a file");
	c->n_read += len;
	if (c->n_read > CLOSURE_READ_MAX)
		return error_set(err, EFBIG, "its files tell too much");
	while (rc == 0 && len) {
		size_t n;

		rc = erofs_map(c->img, i, off, &m, err);
		if (rc < 0)
			break;
		n = m.len < len ? (size_t)m.len : len;
		if (m.kind == EROFS_MAP_INLINE)
			memcpy(to, m.data, n);
		else if (m.kind == EROFS_MAP_HOLE)
			memset(to, 0, n);
		else
			rc = c->ops->read(c->arg, m.voff, to, n, err);
		to += n;
		off += n;
		len -= n;
	}
	return rc;
}

int closure_read_text(struct closure *c, const struct erofs_inode *i,
		      struct buf *ret, struct error *err)
{
	size_t len =
		i->size < CLOSURE_TEXT_MAX ? (size_t)i->size : CLOSURE_TEXT_MAX;
	int rc;

	if (buf_reserve(ret, len) < 0)
		return error_nomem(err);
	rc = closure_read(c, i, 0, ret->data, len, err);
	if (rc == 0)
		ret->len = len;
	return rc;
}

int closure_append_spans(const struct erofs_image *img,
			 const struct erofs_inode *i, uint64_t off,
			 uint64_t len, struct device_span **to, size_t *n,
			 size_t *cap, struct error *err)
{
	uint64_t end =
		len < i->size && off < i->size - len ? off + len : i->size;
	struct erofs_map m;
	int rc;

	for (; off < end && *n < CLOSURE_RANGES_MAX; off += m.len) {
		rc = erofs_map(img, i, off, &m, err);
		if (rc < 0)
			return rc;
		if (m.kind != EROFS_MAP_DEVICE)
			continue;
		if (array_grow(to, *n, cap, 256) < 0)
			return error_nomem(err);
		(*to)[(*n)++] = (struct device_span){
			m.voff, m.len < end - off ? m.len : end - off
		};
	}
	return 0;
}

int closure_add_range(struct closure *c, const struct erofs_inode *i,
		      uint64_t off, uint64_t len, struct error *err)
{
	return closure_append_spans(c->img, i, off, len, &c->ranges,
				    &c->n_ranges, &c->cap_ranges, err);
}

int closure_add_whole(struct closure *c, const char *path, struct error *err)
{
	struct rootfs_file f;

	if (!closure_find_file(c, path, &f) ||
	    f.inode.size > CLOSURE_TEXT_MAX || mark_seen(c, f.inode.nid))
		return 0;
	return closure_add_range(c, &f.inode, 0, f.inode.size, err);
}

const char *closure_env(const struct closure *c, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < c->start->n_env; i++)
		if (strncmp(c->start->env[i], name, len) == 0 &&
		    c->start->env[i][len] == '=')
			return c->start->env[i] + len + 1;
	return NULL;
}
