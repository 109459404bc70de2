// SPDX-License-Identifier: Apache-2.0
/*
 * Two tables: names, each with its folder, and runs of bytes sorted by their place in the
 * device. Runs may overlap, since files share blocks, as often as an image likes; so a tree over
 * the runs' ends leads from each run that covers a place to the next one, past those between.
 * Paths are looked up in the image itself.
 */
#include "image/erofs/file_map.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/array.h"
#include "image/erofs/format.h"

#define NO_NAME UINT32_MAX

/* A folder, or a file with data; the first is the root. */
struct path_name {
	const char *text; /* in the image, no NUL */
	uint32_t parent;  /* index of its folder's name, smaller than its own */
	uint32_t path_len;
	uint8_t len;
};

struct device_run {
	uint64_t voff, len;
	uint64_t off; /* in the file */
	uint32_t name;
};

struct erofs_file_map {
	struct file_map base;
	const struct erofs_image *img;
	struct path_name *names;
	size_t n_names, cap_names;
	struct device_run *runs;
	size_t n_runs, cap_runs;
	/* A binary tree over the runs: ends[1] is its root, and the leaves, from index
	 * `leaves` on, are the runs. Each value is the furthest end of the runs below. */
	uint64_t *ends;
	size_t leaves; /* a power of two */
};

/* State while the map is built. */
struct file_map_builder {
	struct erofs_file_map *m;
	struct error *err;
	/* one bit for each nid: file or folder was found already */
	uint8_t *seen;
	uint64_t n_nids;
	uint64_t budget; /* steps that an image of this size can need */
	uint64_t *dirs;  /* nids of folders still to be read */
	uint32_t *dir_names;
	size_t n_dirs, cap_dirs;
	uint32_t dir; /* index of the name of the folder that is read now */
};

/* Length of the path of a name of `len` bytes in that folder. Stops growing above
 * FILE_MAP_PATH_MAX, so that no depth makes it wrap around. */
static uint32_t path_len(const struct erofs_file_map *m, uint32_t parent,
			 size_t len)
{
	uint32_t before;

	if (!m->n_names) /* the root */
		return 0;
	before = m->names[parent].path_len;
	return before > FILE_MAP_PATH_MAX ? before : before + 1 + (uint32_t)len;
}

static int add_name(struct file_map_builder *b, const char *text, size_t len,
		    uint32_t parent, uint32_t *ret)
{
	struct erofs_file_map *m = b->m;

	if (m->n_names == NO_NAME)
		return error_set(b->err, EINVAL, "EROFS: too many names");
	if (array_grow(&m->names, m->n_names, &m->cap_names, 256) < 0)
		return error_nomem(b->err);
	m->names[m->n_names] = (struct path_name){
		.text = text,
		.parent = parent,
		.path_len = path_len(m, parent, len),
		.len = (uint8_t)len,
	};
	*ret = (uint32_t)m->n_names++;
	return 0;
}

static int add_run(struct file_map_builder *b, const struct device_run *r)
{
	struct erofs_file_map *m = b->m;
	struct device_run *last = m->n_runs ? &m->runs[m->n_runs - 1] : NULL;

	if (last && last->name == r->name &&
	    last->voff + last->len == r->voff &&
	    last->off + last->len == r->off) {
		last->len += r->len;
		return 0;
	}
	if (array_grow(&m->runs, m->n_runs, &m->cap_runs, 256) < 0)
		return error_nomem(b->err);
	m->runs[m->n_runs++] = *r;
	return 0;
}

/* Count steps, which a valid image needs in proportion to its size; fail above the budget. */
static int file_map_spend(struct file_map_builder *b, uint64_t steps)
{
	if (steps > b->budget)
		return error_set(b->err, EINVAL,
				 "EROFS: parts of the image are used twice");
	b->budget -= steps;
	return 0;
}

static unsigned int chunk_bits(const struct erofs_inode *i)
{
	return i->layout == EROFS_LAYOUT_CHUNK_BASED
		       ? EROFS_BLKSZBITS + (i->u & EROFS_CHUNK_BLKBITS)
		       : 63;
}

/* Add a file's runs. Its name is added with the first run, as most small files have none. */
static int add_file(struct file_map_builder *b, const struct erofs_inode *i,
		    const char *text, size_t len)
{
	struct device_run r = { .name = NO_NAME };
	struct erofs_map map;
	uint64_t off;
	int rc = 0;

	for (off = 0; rc == 0 && off < i->size; off += map.len) {
		rc = erofs_map(b->m->img, i, off, &map, b->err);
		if (rc == 0)
			rc = file_map_spend(b, 1 + (map.len >> chunk_bits(i)));
		if (rc < 0 || map.kind != EROFS_MAP_DEVICE)
			continue;
		/* The path is longer than the map can hold, so the file is left out. */
		if (path_len(b->m, b->dir, len) > FILE_MAP_PATH_MAX)
			break;
		if (r.name == NO_NAME)
			rc = add_name(b, text, len, b->dir, &r.name);
		r.voff = map.voff;
		r.len = map.len;
		r.off = off;
		if (rc == 0)
			rc = add_run(b, &r);
	}
	return rc;
}

static int push_dir(struct file_map_builder *b, uint64_t nid, uint32_t name)
{
	size_t cap = b->cap_dirs;

	if (array_grow(&b->dirs, b->n_dirs, &cap, 256) < 0 ||
	    array_grow(&b->dir_names, b->n_dirs, &b->cap_dirs, 256) < 0)
		return error_nomem(b->err);
	b->dirs[b->n_dirs] = nid;
	b->dir_names[b->n_dirs++] = name;
	return 0;
}

static bool is_dots(const char *name, size_t len)
{
	return name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.'));
}

static int take_entry(void *arg, const char *name, size_t len, uint64_t nid,
		      uint8_t type, uint64_t cookie)
{
	struct file_map_builder *b = arg;
	struct erofs_inode i;
	uint32_t id;
	int rc;

	(void)type;
	(void)cookie;
	rc = file_map_spend(b, 1);
	if (rc < 0 || is_dots(name, len))
		return rc;
	rc = erofs_inode(b->m->img, nid, &i, b->err);
	if (rc < 0 || (!S_ISDIR(i.mode) && !S_ISREG(i.mode)))
		return rc;
	/* Skip a second name of a file that was added, and a folder that contains itself. */
	if (nid >= b->n_nids || b->seen[nid / 8] & 1u << nid % 8)
		return 0;
	b->seen[nid / 8] |= (uint8_t)(1u << nid % 8);
	if (S_ISREG(i.mode))
		return add_file(b, &i, name, len);
	rc = add_name(b, name, len, b->dir, &id);
	return rc < 0 ? rc : push_dir(b, nid, id);
}

static int read_dirs(struct file_map_builder *b)
{
	uint32_t root;
	int rc = add_name(b, "", 0, 0, &root);

	if (rc == 0)
		rc = push_dir(b, b->m->img->root_nid, root);
	while (rc == 0 && b->n_dirs) {
		struct erofs_inode i;

		b->n_dirs--;
		b->dir = b->dir_names[b->n_dirs];
		rc = erofs_inode(b->m->img, b->dirs[b->n_dirs], &i, b->err);
		if (rc == 0)
			rc = erofs_readdir(b->m->img, &i, 0, take_entry, b,
					   b->err);
	}
	return rc;
}

static int compare_runs_by_offset(const void *a, const void *b)
{
	const struct device_run *x = a, *y = b;

	if (x->voff != y->voff)
		return x->voff < y->voff ? -1 : 1;
	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	return x->off < y->off ? -1 : x->off > y->off;
}

static int sort_runs(struct erofs_file_map *m, struct error *err)
{
	if (m->n_runs)
		qsort(m->runs, m->n_runs, sizeof(*m->runs),
		      compare_runs_by_offset);
	for (m->leaves = 1; m->leaves < m->n_runs; m->leaves *= 2)
		;
	m->ends = calloc(2 * m->leaves, sizeof(*m->ends));
	if (!m->ends)
		return error_nomem(err);
	for (size_t i = 0; i < m->n_runs; i++)
		m->ends[m->leaves + i] = m->runs[i].voff + m->runs[i].len;
	for (size_t k = m->leaves; k-- > 1;)
		m->ends[k] = m->ends[2 * k] > m->ends[2 * k + 1]
				     ? m->ends[2 * k]
				     : m->ends[2 * k + 1];
	return 0;
}

/* ------------------------------------------------------------------- using --- */

/* Write the path into the end of `buf`, and return its beginning. */
static const char *path_of(const struct erofs_file_map *m, uint32_t name,
			   char buf[FILE_MAP_PATH_MAX + 1])
{
	char *p = buf + FILE_MAP_PATH_MAX;

	*p = '\0';
	for (; name != 0; name = m->names[name].parent) {
		const struct path_name *n = &m->names[name];

		p -= n->len;
		memcpy(p, n->text, n->len);
		*--p = '/';
	}
	return p;
}

/* Index of the first run from `i` on that ends behind `voff`, or n_runs. */
static size_t next_run(const struct erofs_file_map *m, size_t i, uint64_t voff)
{
	size_t k = m->leaves + i;

	if (i >= m->n_runs)
		return m->n_runs;
	/* Go up and to the right to a node with a run that ends behind `voff` below it ... */
	while (m->ends[k] <= voff) {
		while (k % 2)
			k /= 2;
		if (k == 0)
			return m->n_runs;
		k++;
	}
	/* ... and down to the first such run. */
	while (k < m->leaves)
		k = m->ends[2 * k] > voff ? 2 * k : 2 * k + 1;
	return k - m->leaves;
}

static int map_device_range(struct file_map *base, uint64_t voff, uint64_t len,
			    file_range_fn *each, void *arg, struct error *err)
{
	struct erofs_file_map *m =
		container_of(base, struct erofs_file_map, base);
	char buf[FILE_MAP_PATH_MAX + 1];
	uint64_t end = len > UINT64_MAX - voff ? UINT64_MAX : voff + len;
	size_t i;
	int rc = 0;

	(void)err;
	for (i = next_run(m, 0, voff);
	     rc == 0 && i < m->n_runs && m->runs[i].voff < end;
	     i = next_run(m, i + 1, voff)) {
		const struct device_run *r = &m->runs[i];
		uint64_t skip = voff > r->voff ? voff - r->voff : 0;
		struct file_range range;

		range.voff = r->voff + skip;
		range.file_off = r->off + skip;
		range.len = r->len - skip;
		if (range.len > end - range.voff)
			range.len = end - range.voff;
		range.path = path_of(m, r->name, buf);
		rc = each(arg, &range);
	}
	return rc;
}

/* Find a regular file by its path. No link is followed, since traces hold resolved paths. */
static int find_file(const struct erofs_file_map *m, const char *path,
		     struct erofs_inode *ret, struct error *err)
{
	uint64_t nid = m->img->root_nid;
	int rc = erofs_inode(m->img, nid, ret, err);

	while (rc == 0) {
		size_t len;

		path += strspn(path, "/");
		len = strcspn(path, "/");
		if (len == 0)
			break;
		if (!S_ISDIR(ret->mode) || is_dots(path, len))
			return error_set(err, ENOENT, "no such file");
		rc = erofs_lookup(m->img, ret, path, len, &nid, err);
		if (rc == 0)
			rc = erofs_inode(m->img, nid, ret, err);
		path += len;
	}
	if (rc == 0 && !S_ISREG(ret->mode))
		rc = error_set(err, ENOENT, "no regular file");
	return rc;
}

static int map_file_range(struct file_map *base, const char *path, uint64_t off,
			  uint64_t len, file_range_fn *each, void *arg,
			  struct error *err)
{
	struct erofs_file_map *m =
		container_of(base, struct erofs_file_map, base);
	struct file_range range = { .path = path };
	struct erofs_inode i;
	struct erofs_map map;
	uint64_t end;
	int rc = find_file(m, path, &i, err);

	if (rc < 0)
		return rc;
	end = len > i.size || off > i.size - len ? i.size : off + len;
	for (; rc == 0 && off < end; off += map.len) {
		rc = erofs_map(m->img, &i, off, &map, err);
		if (rc < 0 || map.kind != EROFS_MAP_DEVICE)
			continue;
		range.file_off = off;
		range.voff = map.voff;
		range.len = map.len < end - off ? map.len : end - off;
		rc = each(arg, &range);
	}
	return rc;
}

static const struct file_map_ops ops = { .at = map_device_range,
					 .of = map_file_range };

void erofs_file_map_free(struct file_map *base)
{
	struct erofs_file_map *m;

	if (!base)
		return;
	m = container_of(base, struct erofs_file_map, base);
	free(m->names);
	free(m->runs);
	free(m->ends);
	free(m);
}

int erofs_file_map_new(const struct erofs_image *img, struct file_map **ret,
		       struct error *err)
{
	struct erofs_file_map *m = calloc(1, sizeof(*m));
	struct file_map_builder b = { .m = m, .err = err };
	int rc;

	if (!m)
		return error_nomem(err);
	m->base.ops = &ops;
	m->img = img;
	b.n_nids = (img->len - img->meta_off) / EROFS_SLOT + 1;
	/* Each step accounts for bytes of the image: a chunk has 8, an entry 12 and its
	 * name. */
	b.budget = img->len / 4 + b.n_nids;
	b.seen = calloc(b.n_nids / 8 + 1, 1);
	if (!b.seen)
		rc = error_nomem(err);
	else if (img->n_devices != 1)
		rc = error_set(err, EINVAL, "EROFS: one device wanted");
	else
		rc = read_dirs(&b);
	if (rc == 0)
		rc = sort_runs(m, err);
	free(b.seen);
	free(b.dirs);
	free(b.dir_names);
	if (rc < 0) {
		erofs_file_map_free(&m->base);
		return rc;
	}
	*ret = &m->base;
	return 0;
}
