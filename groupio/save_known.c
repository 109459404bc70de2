// SPDX-License-Identifier: Apache-2.0
#include "groupio/save_known.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/hash.h"

/* A unit is forgotten when so many saves did not have it: a job may save several files a
 * step. */
#define SAVES_KEPT 16u
/* units of this node: 512 GiB, whose entries take 20 MiB */
#define UNITS_MAX (1u << 17)

/* Columns (objects of the store) that hold known units. */
struct known_columns {
	LIST_ENTRY(known_columns) of_all;
	struct ckpt_columns id;
	uint64_t n_units; /* units that were stored in them */
	uint64_t n_known; /* known units in them that are in the table */
	/* units in them that equal units of the current save */
	uint64_t n_equal;
};

struct known_unit {
	UT_hash_handle hh;
	struct digest digest;
	struct known_columns *columns;
	uint32_t place, len;
	uint32_t crcs[ARRAY_SIZE(((struct ckpt_place *)0)->crcs)];
	uint64_t save; /* number of the last save that had the unit */
};

struct known_units {
	pthread_mutex_t lock; /* all below */
	struct known_unit *table;
	LIST_HEAD(, known_columns) columns;
	uint64_t n_saves; /* saves noted so far */
};

struct known_units *known_units_new(void)
{
	struct known_units *k = calloc(1, sizeof(*k));

	if (k)
		(void)pthread_mutex_init(&k->lock, NULL);
	return k;
}

static void columns_unref(struct known_columns *c)
{
	if (--c->n_known)
		return;
	LIST_REMOVE(c, of_all);
	free(c);
}

static void forget_unit(struct known_units *k, struct known_unit *x)
{
	HASH_DEL(k->table, x);
	columns_unref(x->columns);
	free(x);
}

void known_units_free(struct known_units *k)
{
	struct known_unit *x, *next;

	if (!k)
		return;
	HASH_ITER(hh, k->table, x, next)
	{
		forget_unit(k, x);
	}
	(void)pthread_mutex_destroy(&k->lock);
	free(k);
}

static struct known_unit *find_unit(struct known_units *k,
				    const struct digest *d)
{
	struct known_unit *x;

	HASH_FIND(hh, k->table, d, sizeof(*d), x);
	return x;
}

/* ------------------------------------------------------------------------ choosing --- */

/* Mark changed units whose bytes are known as UNIT_UNCHANGED, and set their places. */
static int mark_units_with_known_bytes(struct known_units *k,
				       const struct save_plan *p,
				       uint8_t *fates, struct ckpt_place *at,
				       struct error *err)
{
	for (uint64_t u = 0; u < p->n_units; u++) {
		const struct known_unit *x;
		struct digest d;

		if (fates[u] != UNIT_CHANGED)
			continue;
		if (save_plan_unit_digest(p, u, &d, err) < 0)
			return -ENOMEM;
		x = find_unit(k, &d);
		if (!x || x->len != p->stored[u])
			continue;
		fates[u] = UNIT_UNCHANGED;
		x->columns->n_equal++;
		at[u] = (struct ckpt_place){ .columns = x->columns->id,
					     .place = x->place,
					     .len = x->len };
		memcpy(at[u].crcs, x->crcs, sizeof(at[u].crcs));
	}
	return 0;
}

static struct known_columns *find_columns(struct known_units *k,
					  const struct ckpt_columns *id)
{
	struct known_columns *c;

	LIST_FOREACH(c, &k->columns, of_all)
	if (memcmp(&c->id, id, sizeof(*id)) == 0)
		return c;
	return NULL;
}

/* Columns stay in the store as long as any unit in them is named. So unchanged units are
 * named only if they are at least half of what was stored together; other unchanged units are
 * stored again, in columns of their own, and named from then on. */
static void name_units(struct known_units *k, const struct save_plan *p,
		       uint8_t *fates, const struct ckpt_place *at)
{
	for (uint64_t u = 0; u < p->n_units; u++) {
		const struct known_columns *c;

		if (fates[u] != UNIT_UNCHANGED)
			continue;
		c = find_columns(k, &at[u].columns);
		if (c && 2 * c->n_equal >= c->n_units)
			fates[u] = UNIT_NAMED;
	}
}

/* Does unit `u` follow the unit before it in the same columns? */
static bool is_unit_behind_previous(const uint8_t *fates,
				    const struct ckpt_place *at, uint64_t u)
{
	const struct ckpt_place *a = &at[u - (u > 0)], *b = &at[u];

	if (!u || fates[u] != fates[u - 1])
		return false;
	return fates[u] != UNIT_NAMED ||
	       (memcmp(&a->columns, &b->columns, sizeof(a->columns)) == 0 &&
		a->place + 1 == b->place);
}

/* Would naming give too many pieces for the manifest, which holds those of all nodes? Naming
 * is optional, so the save must not fail for it. */
static bool has_too_many_pieces(const struct save_plan *p, const uint8_t *fates,
				const struct ckpt_place *at)
{
	const uint64_t most = CKPT_PARTS_PIECES / p->n_nodes;
	uint64_t n = 0, n_whole = 0;

	for (uint64_t u = 0; u < p->n_units; u++) {
		if (fates[u] == UNIT_OTHERS)
			continue;
		n += !is_unit_behind_previous(fates, at, u);
		n_whole += !u || fates[u - 1] == UNIT_OTHERS;
	}
	return n > most && n > n_whole;
}

int known_units_choose(struct known_units *k, const struct save_plan *p,
		       uint8_t *fates, struct ckpt_place *at, struct error *err)
{
	struct known_columns *c;
	int rc;

	(void)pthread_mutex_lock(&k->lock);
	LIST_FOREACH(c, &k->columns, of_all)
	c->n_equal = 0;
	rc = mark_units_with_known_bytes(k, p, fates, at, err);
	if (rc == 0)
		name_units(k, p, fates, at);
	(void)pthread_mutex_unlock(&k->lock);
	if (rc == 0 && !has_too_many_pieces(p, fates, at))
		return 0;
	for (uint64_t u = 0; u < p->n_units; u++)
		if (fates[u] != UNIT_OTHERS)
			fates[u] = UNIT_CHANGED;
	return rc;
}

/* -------------------------------------------------------------------------- noting --- */

static struct known_columns *get_or_add_columns(struct known_units *k,
						const struct ckpt_columns *id)
{
	struct known_columns *c = find_columns(k, id);

	if (c)
		return c;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->id = *id;
	LIST_INSERT_HEAD(&k->columns, c, of_all);
	return c;
}

static struct known_unit *get_or_add_known_unit(struct known_units *k,
						const struct digest *d)
{
	struct known_unit *x = find_unit(k, d);

	if (x || HASH_COUNT(k->table) >= UNITS_MAX)
		return x;
	x = calloc(1, sizeof(*x));
	if (!x)
		return NULL;
	x->digest = *d;
	HASH_ADD(hh, k->table, digest, sizeof(x->digest), x);
	if (hash_has_added(x))
		return x;
	free(x);
	return NULL;
}

struct noting {
	struct known_units *k;
	const struct save_plan *plan;
	uint64_t save;
};

/* Note where a unit is stored. With the lock. When memory is short the unit is not noted,
 * and the next save stores it again. */
static int note_unit(void *arg, uint64_t u, const struct ckpt_place *at,
		     struct error *err)
{
	const struct noting *n = arg;
	struct known_columns *c, *before;
	struct known_unit *x;
	struct digest d;

	if (u >= n->plan->n_units)
		return 0;
	if (save_plan_unit_digest(n->plan, u, &d, err) < 0)
		return -ENOMEM;
	c = get_or_add_columns(n->k, &at->columns);
	if (!c)
		return error_nomem(err);
	c->n_known++; /* keeps the columns until the end of this function */
	x = get_or_add_known_unit(n->k, &d);
	if (x) {
		before = x->columns;
		x->columns = c;
		c->n_known++;
		if (before)
			columns_unref(before);
		x->place = at->place;
		x->len = at->len;
		memcpy(x->crcs, at->crcs, sizeof(x->crcs));
		x->save = n->save;
	}
	if (c->n_units < at->place + UINT64_C(1))
		c->n_units = at->place + UINT64_C(1);
	columns_unref(c);
	return 0;
}

int known_units_note(struct known_units *k, const struct save_plan *p,
		     const struct buf *part, struct error *err)
{
	struct noting n = { .k = k, .plan = p };
	struct known_unit *x, *next;
	int rc;

	(void)pthread_mutex_lock(&k->lock);
	n.save = ++k->n_saves;
	rc = ckpt_part_places(part, note_unit, &n, err);
	HASH_ITER(hh, k->table, x, next)
	{
		if (x->save + SAVES_KEPT <= n.save)
			forget_unit(k, x);
	}
	(void)pthread_mutex_unlock(&k->lock);
	return rc;
}
