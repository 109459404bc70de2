// SPDX-License-Identifier: Apache-2.0
/*
 * Maps a trace to the blocks of an image: first by content, wherever it lies in this image, then
 * by path and offset. The map is walked once, and each of its blocks is looked up among the
 * trace's digests, which are few. Both inputs may be untrusted: the hash is keyed, and the
 * blocks that paths lead to are limited.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "common/array.h"
#include "recorder/recorder_priv.h"

#define NONE UINT32_MAX
/* Limit of the blocks to which all paths of a trace lead, counting repeats. */
#define STEPS_MAX (4 * TRACE_ENTRIES_MAX)

/* Digests of a trace, and the blocks of the image that have them. */
struct contents {
	const struct trace_entry *entries;
	uint64_t key[4];
	uint32_t mask;
	uint32_t *slots; /* an entry with the digest, or NONE */
	uint32_t *found; /* for that entry: a block of the map, or NONE */
};

/* A block that was chosen for the hot list. */
struct pick {
	struct hot_block hot;
	uint32_t pack, csize;
	uint64_t poff;
	uint32_t rank; /* position in the trace */
};

struct picks {
	const struct blockmap *map;
	struct pick *v;
	size_t n, cap;
	uint8_t *seen; /* a bit for each block of the map: chosen already */
	size_t steps;
	/* the entry that is being looked for by its path */
	const struct trace_entry *entry;
	bool found;
	struct error *err;
};

/* ------------------------------------------------------------------ contents --- */

static uint32_t get_digest_slot(const struct contents *c,
				const struct digest *d)
{
	uint64_t w[4], h;

	memcpy(w, d->b, sizeof(w));
	h = (w[0] + c->key[0]) * (w[1] + c->key[1]) +
	    (w[2] + c->key[2]) * (w[3] + c->key[3]);
	return (uint32_t)(h >> 32) & c->mask;
}

/* The slot of the entry with this digest, or a free slot for it. */
static uint32_t *find_slot(const struct contents *c, const struct digest *d)
{
	uint32_t i = get_digest_slot(c, d);

	while (c->slots[i] != NONE &&
	       !digest_equal(&c->entries[c->slots[i]].block, d))
		i = (i + 1) & c->mask;
	return &c->slots[i];
}

static void contents_fini(struct contents *c)
{
	free(c->slots);
	free(c->found);
}

static int contents_make(const struct trace *t, const struct blockmap *map,
			 struct contents *c, struct error *err)
{
	uint32_t size = 16;

	while (size < 2 * t->n)
		size *= 2;
	if (getrandom(c->key, sizeof(c->key), 0) != sizeof(c->key))
		return error_set(err, EIO, "no random numbers");
	c->entries = t->entries;
	c->mask = size - 1;
	c->slots = malloc(size * sizeof(*c->slots));
	c->found = malloc((t->n + 1) * sizeof(*c->found));
	if (!c->slots || !c->found)
		return error_nomem(err);
	memset(c->slots, 0xff, size * sizeof(*c->slots));
	memset(c->found, 0xff, (t->n + 1) * sizeof(*c->found));
	for (size_t i = 0; i < t->n; i++) {
		uint32_t *slot = find_slot(c, &t->entries[i].block);

		if (*slot == NONE)
			*slot = (uint32_t)i;
	}
	for (size_t i = 0; i < map->n_blocks; i++) {
		struct block b;
		uint32_t entry;

		blockmap_block(map, i, &b);
		entry = *find_slot(c, &b.digest);
		if (entry != NONE && c->found[entry] == NONE)
			c->found[entry] = (uint32_t)i;
	}
	return 0;
}

/* -------------------------------------------------------------------- picks --- */

static int pick_entry(struct picks *p, const struct trace_entry *e,
		      size_t index)
{
	struct block b;

	p->found = true;
	if (p->seen[index / 8] & 1u << index % 8)
		return 0;
	p->seen[index / 8] |= (uint8_t)(1u << index % 8);
	if (array_grow(&p->v, p->n, &p->cap, 1024) < 0)
		return error_nomem(p->err);
	blockmap_block(p->map, index, &b);
	p->v[p->n] = (struct pick){
		.hot = { .index = (uint32_t)index,
			 .at_ms = e->at_ms,
			 .confidence = e->confidence },
		.pack = b.pack,
		.csize = b.csize,
		.poff = b.poff,
		.rank = (uint32_t)p->n,
	};
	p->n++;
	return 0;
}

/* Choose the blocks in which an entry's range of a file lies in this image. */
static int pick_range(void *arg, const struct file_range *f)
{
	struct picks *p = arg;
	uint64_t voff = f->voff, end = f->voff + f->len;
	int rc = 0;

	while (voff < end && rc == 0 && p->steps < STEPS_MAX) {
		size_t i = blockmap_find(p->map, voff);
		struct block b;

		p->steps++;
		if (i == p->map->n_blocks)
			break; /* holes hold no data */
		rc = pick_entry(p, p->entry, i);
		blockmap_block(p->map, i, &b);
		voff = b.voff + b.usize + BLOCK_ALIGN - 1;
		voff -= voff % BLOCK_ALIGN;
	}
	return rc;
}

static int pick_by_path(struct picks *p, struct file_map *files,
			const struct trace_entry *e)
{
	int rc;

	if (!files || p->steps >= STEPS_MAX)
		return 0;
	p->entry = e;
	rc = files->ops->of(files, e->path, e->off, e->len, pick_range, p,
			    p->err);
	return rc == -ENOENT ? 0 : rc;
}

static int pick_all(struct picks *p, const struct trace *t,
		    const struct contents *c, struct file_map *files,
		    struct hot_list *ret)
{
	int rc = 0;

	for (size_t i = 0; i < t->n && rc == 0; i++) {
		const struct trace_entry *e = &t->entries[i];
		uint32_t block = c->found[*find_slot(c, &e->block)];

		if (e->confidence < TRACE_HOT) {
			ret->rare++;
			continue;
		}
		p->found = false;
		if (block != NONE) {
			rc = pick_entry(p, e, block);
			ret->by_digest++;
			continue;
		}
		rc = pick_by_path(p, files, e);
		if (p->found)
			ret->by_path++;
		else
			ret->lost++;
	}
	return rc;
}

/* ------------------------------------------------------------------- places --- */

static int compare_picks_by_place(const void *a, const void *b)
{
	const struct pick *x = a, *y = b;

	if (x->pack != y->pack)
		return x->pack < y->pack ? -1 : 1;
	if (x->poff != y->poff)
		return x->poff < y->poff ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int compare_picks_by_rank(const void *a, const void *b)
{
	const struct pick *x = a, *y = b;

	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* When several blocks of the map share one stored place, keep the first. */
static void drop_shared_places(struct picks *p)
{
	size_t kept = 0;

	if (!p->n)
		return;
	qsort(p->v, p->n, sizeof(*p->v), compare_picks_by_place);
	for (size_t i = 0; i < p->n; i++)
		if (!kept || p->v[kept - 1].pack != p->v[i].pack ||
		    p->v[kept - 1].poff != p->v[i].poff)
			p->v[kept++] = p->v[i];
	p->n = kept;
	qsort(p->v, p->n, sizeof(*p->v), compare_picks_by_rank);
}

static int make_list(const struct picks *p, struct hot_list *l,
		     struct error *err)
{
	l->blocks = calloc(p->n + 1, sizeof(*l->blocks));
	if (!l->blocks)
		return error_nomem(err);
	for (size_t i = 0; i < p->n; i++) {
		l->blocks[l->n++] = p->v[i].hot;
		l->bytes += p->v[i].csize;
	}
	return 0;
}

void hot_list_fini(struct hot_list *l)
{
	free(l->blocks);
	memset(l, 0, sizeof(*l));
}

static int map_trace(const struct trace *t, const struct blockmap *map,
		     struct file_map *files, struct hot_list *ret,
		     struct error *err)
{
	struct picks p = { .map = map, .err = err };
	struct contents c = { .slots = NULL };
	struct hot_list l = { .blocks = NULL };
	int rc = contents_make(t, map, &c, err);

	if (rc == 0) {
		p.seen = calloc(map->n_blocks / 8 + 1, 1);
		rc = p.seen ? pick_all(&p, t, &c, files, &l) : error_nomem(err);
	}
	if (rc == 0) {
		drop_shared_places(&p);
		rc = make_list(&p, &l, err);
	}
	contents_fini(&c);
	free(p.seen);
	free(p.v);
	if (rc == 0)
		*ret = l;
	return rc;
}

int hot_list_make(const struct trace *t, const struct blockmap *map,
		  struct file_map *files, struct hot_list *ret,
		  struct error *err)
{
	struct trace chosen = { .entries = NULL };
	bool has_twin;
	int rc;

	if (!t->readers)
		return map_trace(t, map, files, ret, err);
	rc = prediction_choose(t, files, &chosen, &has_twin, err);
	if (rc == 0)
		rc = map_trace(&chosen, map, files, ret, err);
	if (rc == 0) {
		ret->is_predicted = true;
		ret->has_twin = has_twin;
		ret->lost += t->n - chosen.n;
	}
	free(chosen.entries);
	return rc;
}

int hot_list_add(struct hot_list *l, const struct blockmap *map,
		 const struct device_span *more, size_t n, struct error *err)
{
	static const struct trace_entry always = { .confidence =
							   TRACE_CERTAIN };
	struct hot_list all = *l;
	struct picks p = { .map = map, .entry = &always, .err = err };
	int rc = 0;

	p.seen = calloc(map->n_blocks / 8 + 1, 1);
	if (!p.seen)
		return error_nomem(err);
	for (size_t i = 0; i < l->n && rc == 0; i++) {
		const struct hot_block *b = &l->blocks[i];
		const struct trace_entry e = { .at_ms = b->at_ms,
					       .confidence = b->confidence };

		rc = pick_entry(&p, &e, b->index);
	}
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = pick_range(&p, &(struct file_range){ .voff = more[i].voff,
							  .len = more[i].len });
	if (rc == 0) {
		drop_shared_places(&p);
		all.n = 0;
		all.bytes = 0;
		rc = make_list(&p, &all, err);
	}
	if (rc == 0) {
		free(l->blocks);
		*l = all;
	}
	free(p.seen);
	free(p.v);
	return rc;
}
