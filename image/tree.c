// SPDX-License-Identifier: Apache-2.0
/*
 * The tree in memory.  Inodes, names and values lie in an arena that only
 * grows; the children of a folder are a list, and a folder with more than
 * INDEX_FROM of them has a hash table beside it (names come from outside, so
 * the hash is keyed).
 */
#include "image/tree.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buf.h"
#include "common/hash.h"

#define ARENA_CHUNK_MIN 16384
#define ARENA_CHUNK_MAX (1u << 20)
#define INDEX_FROM 32     /* children; up to here the list is searched */
#define INTERN_SLOTS 1024 /* a power of two */
#define INTERN_MAX 1024   /* longest value that is searched for an equal one */
#define XATTR_NAME_MAX 255
#define XATTR_LIST_MAX 65536

struct chunk {
	struct chunk *next;
	uint64_t size; /* 64 bits, so that `data` is aligned to 8 */
	uint8_t data[];
};

/* Open addressing, linear probing, never more than 7/8 full. */
struct dir_index {
	struct dir_index *next, **prev; /* all indexes of the tree */
	uint32_t mask;
	struct dentry *slots[];
};

/* Equal xattr names and values are stored once; each slot holds the last value with its
 * hash. */
struct intern_slot {
	const void *data;
	uint32_t size;
};

struct tree {
	struct inode *root;
	uint64_t n_inodes;
	uint64_t memory;
	struct hash_seed seed;
	struct chunk *chunks;
	uint8_t *free; /* rest of the newest chunk */
	size_t n_free;
	struct dir_index *indexes;
	struct intern_slot interned[INTERN_SLOTS];
};

void *tree_alloc(struct tree *t, size_t size)
{
	size_t want, chunk;
	struct chunk *c;
	void *p;

	if (size > SIZE_MAX / 2)
		return NULL;
	want = (size + 7) & ~(size_t)7;
	if (want <= t->n_free) {
		p = t->free;
		t->free += want;
		t->n_free -= want;
		return p;
	}
	/* Chunks grow with the tree, so that a small tree needs little memory. */
	chunk = t->memory / 4 & ~(size_t)4095;
	if (chunk < ARENA_CHUNK_MIN)
		chunk = ARENA_CHUNK_MIN;
	if (chunk > ARENA_CHUNK_MAX)
		chunk = ARENA_CHUNK_MAX;
	chunk -= sizeof(*c);
	if (want > chunk / 4)
		chunk = want;
	c = malloc(sizeof(*c) + chunk);
	if (!c)
		return NULL;
	c->next = t->chunks;
	c->size = chunk;
	t->chunks = c;
	t->memory += sizeof(*c) + chunk;
	if (chunk - want > t->n_free) {
		t->free = c->data + want;
		t->n_free = chunk - want;
	}
	return c->data;
}

struct tree *tree_new(void)
{
	AUTO(tree) t = calloc(1, sizeof(*t));
	struct error err;

	if (!t || hash_seed_new(&t->seed, &err) < 0)
		return NULL;
	t->memory = sizeof(*t);
	t->root = tree_inode_new(t, S_IFDIR | 0755);
	if (!t->root)
		return NULL;
	t->root->dir_parent = t->root;
	t->n_inodes = 1;
	return steal_ptr(&t);
}

void tree_free(struct tree *t)
{
	struct chunk *c;
	struct dir_index *x;

	if (!t)
		return;
	while ((x = t->indexes)) {
		t->indexes = x->next;
		free(x);
	}
	while ((c = t->chunks)) {
		t->chunks = c->next;
		free(c);
	}
	free(t);
}

struct inode *tree_root(struct tree *t)
{
	return t->root;
}

uint64_t tree_n_inodes(const struct tree *t)
{
	return t->n_inodes;
}

uint64_t tree_memory(const struct tree *t)
{
	return t->memory;
}

struct inode *tree_inode_new(struct tree *t, uint32_t mode)
{
	struct inode *i = tree_alloc(t, sizeof(*i));

	if (!i)
		return NULL;
	memset(i, 0, sizeof(*i));
	i->mode = (uint16_t)mode;
	i->nlink = S_ISDIR(mode) ? 2 : 0;
	return i;
}

/* The slot that holds the name, or the free slot where it would go. */
static struct dentry **index_slot(const struct tree *t, struct dir_index *x,
				  const char *name, size_t len)
{
	uint32_t at = (uint32_t)hash_seeded(&t->seed, name, len) & x->mask;

	while (x->slots[at] && (x->slots[at]->name_len != len ||
				memcmp(x->slots[at]->name, name, len) != 0))
		at = (at + 1) & x->mask;
	return &x->slots[at];
}

static size_t index_size(const struct dir_index *x)
{
	return sizeof(*x) + ((size_t)x->mask + 1) * sizeof(x->slots[0]);
}

static void index_free(struct tree *t, struct dir_index *x)
{
	if (!x)
		return;
	*x->prev = x->next;
	if (x->next)
		x->next->prev = x->prev;
	t->memory -= index_size(x);
	free(x);
}

/* Give `dir` an index that has room for one more child. */
static int index_grow(struct tree *t, struct inode *dir)
{
	struct dir_index *x = dir->index;
	uint64_t n_slots = x ? (uint64_t)x->mask + 1 : INDEX_FROM * 2;

	if (x && (dir->n_children + UINT64_C(1)) * 8 <= n_slots * 7)
		return 0;
	while ((dir->n_children + UINT64_C(1)) * 8 > n_slots * 7)
		n_slots *= 2;
	if (n_slots > UINT32_MAX)
		return -ENOMEM;
	x = calloc(1, sizeof(*x) + n_slots * sizeof(x->slots[0]));
	if (!x)
		return -ENOMEM;
	x->mask = (uint32_t)(n_slots - 1);
	for (struct dentry *d = dir->children; d; d = d->next)
		*index_slot(t, x, d->name, d->name_len) = d;
	index_free(t, dir->index);
	x->next = t->indexes;
	x->prev = &t->indexes;
	if (x->next)
		x->next->prev = &x->next;
	t->indexes = x;
	t->memory += index_size(x);
	dir->index = x;
	return 0;
}

/* Remove an entry. Entries behind it move up into the gap, so linear probing needs no
 * tombstones. */
static void index_remove(struct tree *t, struct dir_index *x, struct dentry *d)
{
	uint32_t gap =
		(uint32_t)(index_slot(t, x, d->name, d->name_len) - x->slots);
	uint32_t at = gap;

	x->slots[gap] = NULL;
	for (;;) {
		struct dentry *e;
		uint32_t home;

		at = (at + 1) & x->mask;
		e = x->slots[at];
		if (!e)
			return;
		home = (uint32_t)hash_seeded(&t->seed, e->name, e->name_len) &
		       x->mask;
		/* An entry may move into the gap only if its home is not behind
		 * the gap. */
		if (((at - home) & x->mask) < ((at - gap) & x->mask))
			continue;
		x->slots[gap] = e;
		x->slots[at] = NULL;
		gap = at;
	}
}

struct dentry *tree_find(struct tree *t, struct inode *dir, const char *name,
			 size_t len)
{
	if (!S_ISDIR(dir->mode))
		return NULL;
	if (dir->index)
		return *index_slot(t, dir->index, name, len);
	for (struct dentry *d = dir->children; d; d = d->next)
		if (d->name_len == len && memcmp(d->name, name, len) == 0)
			return d;
	return NULL;
}

static int check_name(const char *name, size_t len)
{
	if (len > TREE_NAME_MAX)
		return -ENAMETOOLONG;
	if (len == 0 || memchr(name, '/', len) || memchr(name, '\0', len))
		return -EINVAL;
	if (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')))
		return -EINVAL;
	return 0;
}

/* Is `inode` the folder `dir` or above it? A folder without children can only be `dir`
 * itself. */
static bool is_above(const struct inode *inode, const struct inode *dir)
{
	if (inode->n_children == 0)
		return inode == dir;
	while (dir && dir != inode)
		dir = dir->dir_parent == dir ? NULL : dir->dir_parent;
	return dir != NULL;
}

int tree_link(struct tree *t, struct inode *dir, const char *name, size_t len,
	      struct inode *inode)
{
	bool is_dir = S_ISDIR(inode->mode);
	struct dentry *d;
	int rc = check_name(name, len);

	if (rc < 0)
		return rc;
	if (!S_ISDIR(dir->mode))
		return -ENOTDIR;
	if (is_dir && (inode->dir_parent || is_above(inode, dir)))
		return -EPERM;
	if (inode->nlink == UINT32_MAX || dir->nlink == UINT32_MAX ||
	    dir->n_children == UINT32_MAX)
		return -EMLINK;
	if (tree_find(t, dir, name, len))
		return -EEXIST;
	if (dir->n_children >= INDEX_FROM && index_grow(t, dir) < 0)
		return -ENOMEM;
	d = tree_alloc(t, offsetof(struct dentry, name) + len + 1);
	if (!d)
		return -ENOMEM;
	d->parent = dir;
	d->inode = inode;
	d->name_len = (uint16_t)len;
	memcpy(d->name, name, len);
	d->name[len] = '\0';

	d->next = NULL;
	d->prev = dir->children ? dir->children->prev : d;
	if (dir->children)
		dir->children->prev->next = d;
	else
		dir->children = d;
	dir->children->prev = d;
	dir->n_children++;
	if (dir->index)
		*index_slot(t, dir->index, name, len) = d;
	if (is_dir) {
		inode->dir_parent = dir;
		inode->nlink = inode->nlink ? inode->nlink : 2;
		dir->nlink++;
		t->n_inodes++;
	} else if (inode->nlink++ == 0) {
		t->n_inodes++;
	}
	return 0;
}

/* Remove one name from its folder; a folder with that name must be empty. */
static void tree_detach(struct tree *t, struct dentry *d)
{
	struct inode *dir = d->parent;
	struct inode *inode = d->inode;

	if (dir->index)
		index_remove(t, dir->index, d);
	if (d->next)
		d->next->prev = d->prev;
	else
		dir->children->prev = d->prev;
	if (d == dir->children)
		dir->children = d->next;
	else
		d->prev->next = d->next;
	d->next = NULL;
	d->prev = NULL;
	dir->n_children--;
	if (S_ISDIR(inode->mode)) {
		dir->nlink--;
		inode->dir_parent = NULL;
		inode->nlink = 0;
		index_free(t, inode->index);
		inode->index = NULL;
	} else {
		inode->nlink--;
	}
	if (inode->nlink == 0)
		t->n_inodes--;
}

void tree_unlink(struct tree *t, struct dentry *d)
{
	struct inode *top = d->inode;
	struct inode *dir = top;

	/* Always takes the first child, so that no stack is needed at any depth. */
	while (S_ISDIR(top->mode) && top->children) {
		struct dentry *c = dir->children;

		if (!c)
			dir = dir->dir_parent;
		else if (S_ISDIR(c->inode->mode) && c->inode->children)
			dir = c->inode;
		else
			tree_detach(t, c);
	}
	tree_detach(t, d);
}

/* Find or make a copy of these bytes that lives as long as the tree. */
static const void *tree_intern(struct tree *t, const void *data, size_t size)
{
	uint64_t h = size <= INTERN_MAX ? hash_seeded(&t->seed, data, size) : 0;
	struct intern_slot *s = &t->interned[h & (INTERN_SLOTS - 1)];
	void *p;

	if (size == 0)
		return "";
	if (s->data && s->size == size && memcmp(s->data, data, size) == 0)
		return s->data;
	p = tree_alloc(t, size);
	if (!p)
		return NULL;
	memcpy(p, data, size);
	if (size <= INTERN_MAX) {
		s->data = p;
		s->size = (uint32_t)size;
	}
	return p;
}

int tree_set_xattr(struct tree *t, struct inode *i, const char *name,
		   const void *value, size_t size)
{
	size_t len = strlen(name);
	size_t listed = len + 1;
	struct xattr *x;
	const void *v;

	if (len == 0)
		return -EINVAL;
	if (len > XATTR_NAME_MAX || size > TREE_XATTR_VALUE_MAX)
		return -E2BIG;
	for (x = i->xattrs; x && strcmp(x->name, name) != 0; x = x->next)
		listed += strlen(x->name) + 1;
	if (!x && listed > XATTR_LIST_MAX)
		return -E2BIG;
	v = tree_intern(t, value, size);
	if (!v)
		return -ENOMEM;
	if (!x) {
		const char *n = tree_intern(t, name, len + 1);

		x = n ? tree_alloc(t, sizeof(*x)) : NULL;
		if (!x)
			return -ENOMEM;
		x->name = n;
		x->next = i->xattrs;
		i->xattrs = x;
	}
	x->value = v;
	x->size = (uint32_t)size;
	return 0;
}

const struct xattr *tree_xattr(const struct inode *i, const char *name)
{
	const struct xattr *x = i->xattrs;

	while (x && strcmp(x->name, name) != 0)
		x = x->next;
	return x;
}

size_t tree_count_xattrs(const struct inode *i)
{
	size_t n = 0;

	for (const struct xattr *x = i->xattrs; x; x = x->next)
		n++;
	return n;
}

static int compare_names(const void *a, const void *b)
{
	const struct dentry *x = *(const struct dentry *const *)a;
	const struct dentry *y = *(const struct dentry *const *)b;
	size_t len = x->name_len < y->name_len ? x->name_len : y->name_len;
	int c = memcmp(x->name, y->name, len);

	return c ? c : (int)x->name_len - (int)y->name_len;
}

int tree_sorted(struct inode *dir, struct dentry ***ret, size_t *ret_n)
{
	size_t n = 0;
	AUTO_FREE struct dentry **list =
		calloc((size_t)dir->n_children + 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	if (S_ISDIR(dir->mode))
		for (struct dentry *d = dir->children; d; d = d->next)
			list[n++] = d;
	qsort(list, n, sizeof(*list), compare_names);
	*ret = steal_ptr(&list);
	*ret_n = n;
	return 0;
}

int tree_sort(struct inode *dir)
{
	AUTO_FREE struct dentry **list = NULL;
	struct dentry *d = dir->n_children ? dir->children : NULL;
	size_t n;

	while (d && d->next && compare_names(&d, &d->next) < 0)
		d = d->next;
	if (!d || !d->next)
		return 0;
	if (tree_sorted(dir, &list, &n) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		list[i]->prev = list[i ? i - 1 : n - 1];
		list[i]->next = i + 1 < n ? list[i + 1] : NULL;
	}
	dir->children = list[0];
	return 0;
}

int tree_put_escaped(struct buf *b, const char *name, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)name[i];
		bool plain = c >= 0x20 && c < 0x7f && c != '\\';

		if (plain ? buf_append(b, &name[i], 1)
			  : buf_printf(b, "\\x%02x", c))
			return -ENOMEM;
	}
	return 0;
}

char *tree_path(const struct dentry *d)
{
	AUTO_FREE const struct dentry **up = NULL;
	AUTO_BUF path = BUF_INIT;
	size_t n = 1;

	for (struct inode *i = d->parent; i && i->dir_parent != i;
	     i = i->dir_parent)
		n++;
	up = calloc(n, sizeof(struct dentry *));
	if (!up)
		return NULL;
	up[n - 1] = d;
	for (size_t k = n - 1; k > 0; k--) {
		struct inode *dir = up[k]->parent;
		const struct dentry *e;

		if (!dir->dir_parent) /* the branch is not linked to the root */
			break;
		for (e = dir->dir_parent->children; e->inode != dir;)
			e = e->next;
		up[k - 1] = e;
	}
	for (size_t k = 0; k < n; k++)
		if (up[k] &&
		    (buf_puts(&path, "/") < 0 ||
		     tree_put_escaped(&path, up[k]->name, up[k]->name_len) < 0))
			return NULL;
	return buf_steal(&path);
}
