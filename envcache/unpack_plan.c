// SPDX-License-Identifier: Apache-2.0
#include "envcache/unpack_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "envcache/changes.h"

struct env_planner {
	struct unpack_plan *p;
	const struct loaded *l;
	const struct env_targets *targets;
	uint32_t target;
};

static int damage_error(struct error *err, const struct dentry *d,
			const char *what)
{
	AUTO_FREE char *path = tree_path(d);

	return error_set(err, EBADMSG, "the snapshot is damaged: '%.160s' %s",
			 path ? path : d->name, what);
}

/* ---------------------------------------------------------------------- pieces --- */

static int add_piece(struct unpack_plan *p, const struct unpack_piece *one,
		     struct error *err)
{
	if (p->n_pieces == p->cap_pieces) {
		size_t cap = p->cap_pieces ? p->cap_pieces * 2 : 1024;
		struct unpack_piece *v = realloc(p->pieces, cap * sizeof(*v));

		if (!v)
			return error_nomem(err);
		p->pieces = v;
		p->cap_pieces = cap;
	}
	p->pieces[p->n_pieces++] = *one;
	return 0;
}

/* Cut an extent at the boundaries of blocks. */
static int add_extent(const struct env_planner *w, const struct dentry *d,
		      const struct extent *x, uint32_t node, struct error *err)
{
	uint64_t done = 0;
	int rc = 0;

	while (rc == 0 && done < x->len) {
		size_t at = blockmap_find(&w->l->map, x->voff + done);
		struct unpack_piece one = { .block = at,
					    .off = x->off + done,
					    .node = node };
		struct block b;
		uint64_t n;

		if (at == w->l->map.n_blocks)
			return damage_error(err, d,
					    "has bytes that no block holds");
		blockmap_block(&w->l->map, at, &b);
		one.from = (uint32_t)(x->voff + done - b.voff);
		n = round_up(b.usize, BLOCK_ALIGN) - one.from;
		n = n < x->len - done ? n : x->len - done;
		/* The block's last 4096 bytes are padded with zeros, which become a hole. */
		if (one.from < b.usize) {
			one.len = (uint32_t)(n < b.usize - one.from
						     ? n
						     : b.usize - one.from);
			rc = add_piece(w->p, &one, err);
			w->p->nodes[node].n_pieces++;
		}
		done += n;
	}
	return rc;
}

static int compare_pieces(const void *a, const void *b)
{
	const struct unpack_piece *x = a, *y = b;

	if (x->block != y->block)
		return x->block < y->block ? -1 : 1;
	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return x->off < y->off ? -1 : x->off > y->off;
}

size_t unpack_plan_pieces(const struct unpack_plan *p, size_t block,
			  size_t *ret_first)
{
	size_t low = 0, high = p->n_pieces, end;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (p->pieces[mid].block < block)
			low = mid + 1;
		else
			high = mid;
	}
	for (end = low; end < p->n_pieces && p->pieces[end].block == block;)
		end++;
	*ret_first = low;
	return end - low;
}

/* ----------------------------------------------------------------------- nodes --- */

static int add_node(const struct env_planner *w, const struct dentry *d,
		    struct error *err)
{
	struct unpack_plan *p = w->p;
	struct inode *i = d->inode;
	int rc = 0;

	/* `user` is the index in the list; a hard link to a node in the list has it already. */
	if (i->user < p->n_nodes && p->nodes[i->user].inode == i)
		return 0;
	if (p->n_nodes == p->cap_nodes) {
		size_t cap = p->cap_nodes ? p->cap_nodes * 2 : 1024;
		struct unpack_node *v = realloc(p->nodes, cap * sizeof(*v));

		if (!v)
			return error_nomem(err);
		p->nodes = v;
		p->cap_nodes = cap;
	}
	i->user = p->n_nodes;
	p->nodes[p->n_nodes++] = (struct unpack_node){ .inode = i,
						       .name = d,
						       .target = w->target };
	if (!S_ISREG(i->mode) || i->data != INODE_DATA_EXTENTS)
		return 0;
	for (uint32_t k = 0; rc == 0 && k < i->n_extents; k++) {
		rc = add_extent(w, d, &i->extents[k], (uint32_t)i->user, err);
		p->bytes[w->target] += i->extents[k].len;
	}
	return rc;
}

static int add_folder(const struct env_planner *w, const struct inode *dir,
		      struct error *err)
{
	int rc = 0;

	for (const struct dentry *d = dir->children; rc == 0 && d;
	     d = d->next) {
		w->p->names[w->target]++;
		w->p->bytes[w->target] += BLOCK_ALIGN;
		if (S_ISDIR(d->inode->mode))
			rc = add_folder(w, d->inode, err);
		else if (!change_is_whiteout(d->inode))
			rc = add_node(w, d, err);
	}
	return rc;
}

/* Check that only folders on the way to targets are there; `path` is that of `dir`, "" for the
 * root. */
static int add_outer(struct env_planner *w, const struct inode *dir,
		     const char *path, struct error *err)
{
	int rc = 0;

	for (const struct dentry *d = dir->children; rc == 0 && d;
	     d = d->next) {
		AUTO_BUF below = BUF_INIT;
		bool leads = false;
		uint32_t i;

		if (buf_printf(&below, "%s/%s", path, d->name) < 0)
			return error_nomem(err);
		for (i = 0; i < w->targets->n; i++) {
			const char *t = w->targets->paths[i];

			if (strcmp(t, below.data) == 0)
				break;
			leads |= strncmp(t, below.data, below.len) == 0 &&
				 t[below.len] == '/';
		}
		if (!S_ISDIR(d->inode->mode) || (i == w->targets->n && !leads))
			return damage_error(err, d,
					    "is outside of the targets");
		if (i == w->targets->n) {
			rc = add_outer(w, d->inode, below.data, err);
			continue;
		}
		w->p->folders[i] = d->inode;
		w->target = i;
		rc = add_folder(w, d->inode, err);
	}
	return rc;
}

int unpack_plan_make(const struct loaded *l, const struct env_targets *t,
		     struct unpack_plan *ret, struct error *err)
{
	struct unpack_plan p = { .n_nodes = 0 };
	struct env_planner w = { .p = &p, .l = l, .targets = t };
	int rc = add_outer(&w, tree_root(l->tree), "", err);

	if (rc < 0) {
		unpack_plan_fini(&p);
		return rc;
	}
	/* qsort() must not get a NULL array. */
	if (p.n_pieces)
		qsort(p.pieces, p.n_pieces, sizeof(*p.pieces), compare_pieces);
	*ret = p;
	return 0;
}

void unpack_plan_fini(struct unpack_plan *p)
{
	free(p->nodes);
	free(p->pieces);
	*p = (struct unpack_plan){ .n_nodes = 0 };
}
