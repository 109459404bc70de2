// SPDX-License-Identifier: Apache-2.0
/* Units that are in the store already: which are found, and which are named. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt-fuse/unit_map.h"
#include "common/side_by_side.h"
#include "groupio/save_known.h"

TestSuite(save_known, .timeout = 60);

#define TENSOR (80 * MIB)
#define N_UNITS (TENSOR / SAVE_UNIT + 1) /* the header shifts its tensor */
#define UNITS_MANY 4200u

/* A save of one rank, whose tensor has the bytes that `seeds` say, MiB by MiB. */
struct one_save {
	struct save_table table;
	struct save_plan *plan;
	uint8_t *fates;
	struct ckpt_place *at;
};

static void begin_save(struct one_save *s, uint64_t len,
		       uint8_t (*seed)(uint32_t chunk, unsigned int step),
		       unsigned int step)
{
	static const char nowhere[1];
	struct error err = ERROR_INIT;
	struct save_tensor *x;

	*s = (struct one_save){ .plan = NULL };
	cr_assert_eq(save_table_add(&s->table, "w", "U8", &len, 1, len, &err),
		     0);
	x = &s->table.tensors[0];
	x->data = nowhere;
	for (uint32_t c = 0; c < x->n_chunks; c++)
		x->chunks[c] =
			(struct digest){ .b = { seed(c, step), (uint8_t)c,
						(uint8_t)(c >> 8), 1 } };
	cr_assert_eq(save_table_finish(&s->table, &err), 0);
	cr_assert_eq(save_plan_make(&s->table, 1, 0, &s->plan, &err), 0, "%s",
		     err.msg);
	s->fates = malloc(s->plan->n_units);
	s->at = calloc(s->plan->n_units, sizeof(*s->at));
	cr_assert(s->fates && s->at);
	memset(s->fates, UNIT_CHANGED, s->plan->n_units);
}

static void end_save(struct one_save *s)
{
	save_plan_free(s->plan);
	save_table_fini(&s->table);
	free(s->fates);
	free(s->at);
}

static size_t count_fates(const struct one_save *s, enum unit_fate fate)
{
	size_t n = 0;

	for (uint64_t u = 0; u < s->plan->n_units; u++)
		n += s->fates[u] == fate;
	return n;
}

static void name_segment(struct unit_map *map, const struct ckpt_columns *c)
{
	struct ckpt_segment s = { .columns = c->n, .rotation = c->rotation };

	memcpy(s.id, c->id, sizeof(s.id));
	cr_assert_eq(unit_map_add_segment(map, &s, NULL), 0);
}

/* Units of a fate in a new segment, as the writer of a part does it. */
static void add_units(const struct one_save *s, struct unit_map *map,
		      enum unit_fate fate, uint8_t id)
{
	const struct ckpt_columns c = { .id = { id, fate }, .n = 2 };
	uint32_t place;

	name_segment(map, &c);
	for (uint64_t u = 0; u < s->plan->n_units; u++) {
		const uint32_t crcs[4] = { (uint32_t)u, id };

		if (s->fates[u] != fate)
			continue;
		cr_assert_eq(unit_map_add_unit(map, u, s->plan->stored[u],
					       &place, NULL),
			     0);
		unit_map_set_crcs(map, u, place, crcs);
	}
}

/* The part of a save that is done as its fates say; its new columns have `id`. */
static void make_part(const struct one_save *s, uint8_t id, struct buf *ret)
{
	struct unit_map map = { .unit = s->plan->unit };
	struct manifest *m;

	for (uint64_t u = 0; u < s->plan->n_units; u++) {
		const struct ckpt_place *at = &s->at[u];
		struct unit_place p = { .segment = (uint32_t)map.n_segments,
					.place = at->place,
					.len = at->len };

		if (s->fates[u] != UNIT_NAMED)
			continue;
		memcpy(p.crcs, at->crcs, sizeof(p.crcs));
		name_segment(&map, &at->columns);
		cr_assert_eq(unit_map_name_unit(&map, u, &p, NULL), 0);
	}
	add_units(s, &map, UNIT_CHANGED, id);
	add_units(s, &map, UNIT_UNCHANGED, id);
	cr_assert_eq(manifest_new(0, 0, &m, NULL), 0);
	m->chunk_size = MAP_CHUNK_SIZE;
	m->unit_chunks = s->plan->unit / MAP_CHUNK_SIZE;
	m->size = s->plan->size;
	cr_assert_eq(unit_map_fill(&map, m, NULL), 0);
	cr_assert_eq(manifest_encode(m, ret, NULL), 0);
	manifest_free(m);
	unit_map_fini(&map);
}

static void choose_units(struct known_units *k, struct one_save *s)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(known_units_choose(k, s->plan, s->fates, s->at, &err), 0,
		     "%s", err.msg);
}

static void note_save(struct known_units *k, const struct one_save *s,
		      uint8_t id)
{
	struct buf part = BUF_INIT;
	struct error err = ERROR_INIT;

	make_part(s, id, &part);
	cr_assert_eq(known_units_note(k, s->plan, &part, &err), 0, "%s",
		     err.msg);
	buf_fini(&part);
}

/* A step that becomes durable: how many units does it name, and does it store once more? */
static void save_step(struct known_units *k,
		      uint8_t (*seed)(uint32_t chunk, unsigned int step),
		      unsigned int step, size_t n_named, size_t n_again)
{
	struct one_save s;

	begin_save(&s, TENSOR, seed, step);
	cr_assert_eq(s.plan->n_units, N_UNITS);
	choose_units(k, &s);
	cr_expect_eq(count_fates(&s, UNIT_NAMED), n_named, "step %u: %zu named",
		     step, count_fates(&s, UNIT_NAMED));
	cr_expect_eq(count_fates(&s, UNIT_UNCHANGED), n_again,
		     "step %u: %zu again", step,
		     count_fates(&s, UNIT_UNCHANGED));
	note_save(k, &s, (uint8_t)step);
	end_save(&s);
}

static uint8_t seed_same(uint32_t chunk, unsigned int step)
{
	(void)chunk;
	(void)step;
	return 7;
}

static uint8_t seed_quarter(uint32_t chunk, unsigned int step)
{
	return chunk < 10 ? (uint8_t)step : 7;
}

/* The last 12 of 80 MiB stay as they were. */
static uint8_t seed_most(uint32_t chunk, unsigned int step)
{
	return chunk < 68 ? (uint8_t)step : 7;
}

Test(save_known, are_named_where_they_are_as_before)
{
	struct known_units *k = known_units_new();

	cr_assert_not_null(k);
	save_step(k, seed_same, 1, 0, 0);
	save_step(k, seed_same, 2, N_UNITS, 0);
	save_step(k, seed_same, 3, N_UNITS, 0);
	known_units_free(k);
}

Test(save_known, are_named_where_a_part_has_changed)
{
	struct known_units *k = known_units_new();
	struct one_save s;

	save_step(k, seed_quarter, 1, 0, 0);
	/* Ten MiB and the header are in three units. */
	save_step(k, seed_quarter, 2, N_UNITS - 3, 0);
	begin_save(&s, TENSOR, seed_quarter, 3);
	choose_units(k, &s);
	for (uint64_t u = 3; u < N_UNITS; u++) {
		cr_expect_eq(s.at[u].columns.id[0], 1);
		cr_expect_eq(s.at[u].place, u);
		cr_expect_eq(s.at[u].len, s.plan->stored[u]);
		cr_expect_eq(s.at[u].crcs[0], u);
	}
	end_save(&s);
	known_units_free(k);
}

/* Else the store would keep all of a step for the little that later ones have of it. */
Test(save_known, are_stored_once_more_by_themselves_where_most_has_changed)
{
	struct known_units *k = known_units_new();

	save_step(k, seed_most, 1, 0, 0);
	save_step(k, seed_most, 2, 0, N_UNITS - 18);
	save_step(k, seed_most, 3, N_UNITS - 18, 0);
	save_step(k, seed_most, 4, N_UNITS - 18, 0);
	known_units_free(k);
}

/* MiB from `first` on are alike. */
static void make_alike(struct one_save *s, uint32_t first)
{
	struct save_tensor *x = &s->table.tensors[0];

	for (uint32_t c = first; c < x->n_chunks; c++)
		x->chunks[c] = (struct digest){ .b = { 1, 1, 1, 1 } };
	memset(s->fates, UNIT_CHANGED, s->plan->n_units);
}

/* A tensor may be one unit again and again.  Columns are kept for units of the save that are named
 * there, however few places these have: never for less than half of what is kept. */
Test(save_known, are_one_for_many_that_are_alike)
{
	struct known_units *k = known_units_new();
	struct one_save s;
	uint32_t place;

	begin_save(&s, TENSOR, seed_same, 1);
	make_alike(&s, 23);
	note_save(k, &s, 1);
	make_alike(&s, 3);
	choose_units(k, &s);
	cr_expect_eq(count_fates(&s, UNIT_NAMED), N_UNITS - 1);
	place = s.at[1].place;
	for (uint64_t u = 1; u < N_UNITS - 1; u++)
		cr_expect_eq(s.at[u].place, place);
	end_save(&s);
	begin_save(&s, TENSOR, seed_most, 2);
	make_alike(&s, 67);
	choose_units(k, &s);
	cr_expect_eq(count_fates(&s, UNIT_NAMED), 0);
	cr_expect_eq(count_fates(&s, UNIT_UNCHANGED), 4);
	end_save(&s);
	known_units_free(k);
}

Test(save_known, are_forgotten_when_no_save_has_them_any_more)
{
	struct known_units *k = known_units_new();

	save_step(k, seed_same, 1, 0, 0);
	for (unsigned int i = 0; i < 16; i++) {
		struct one_save s;

		begin_save(&s, 9 * MIB, seed_quarter, 20 + i);
		choose_units(k, &s);
		note_save(k, &s, (uint8_t)(20 + i));
		end_save(&s);
	}
	save_step(k, seed_same, 2, 0, 0);
	known_units_free(k);
}

/* A unit here, a unit there: each would be a piece of the manifest, which has room for so many. */
Test(save_known, are_stored_again_where_there_would_be_too_many_pieces)
{
	struct known_units *k = known_units_new();
	struct one_save s;

	begin_save(&s, UNITS_MANY * (uint64_t)SAVE_UNIT, seed_same, 1);
	note_save(k, &s, 1);
	choose_units(k, &s);
	cr_expect_eq(count_fates(&s, UNIT_NAMED), UNITS_MANY + 1);
	for (uint64_t u = 0; u < UNITS_MANY; u += 3)
		s.table.tensors[0].chunks[4 * u + 2].b[9] = 1;
	memset(s.fates, UNIT_CHANGED, s.plan->n_units);
	choose_units(k, &s);
	cr_expect_eq(count_fates(&s, UNIT_NAMED), UNITS_MANY * 2 / 3 + 1);
	/* Each of so many nodes has a 64th of the pieces. */
	s.plan->n_nodes = 64;
	memset(s.fates, UNIT_CHANGED, s.plan->n_units);
	choose_units(k, &s);
	cr_expect_eq(count_fates(&s, UNIT_CHANGED), UNITS_MANY + 1);
	end_save(&s);
	known_units_free(k);
}

static int save_on_thread(void *arg, unsigned int index, struct error *err)
{
	struct known_units *k = arg;

	(void)err;
	for (unsigned int i = 0; i < 5; i++) {
		struct one_save s;

		begin_save(&s, TENSOR, index % 2 ? seed_quarter : seed_most,
			   1 + index);
		choose_units(k, &s);
		note_save(k, &s, (uint8_t)(1 + index));
		end_save(&s);
	}
	return 0;
}

Test(save_known, of_several_saves_at_a_time)
{
	struct known_units *k = known_units_new();
	struct error err = ERROR_INIT;

	cr_expect_eq(side_by_side(4, save_on_thread, k, &err), 0, "%s",
		     err.msg);
	known_units_free(k);
}

/* ------------------------------------------------------------------------ digests --- */

Test(save_known, units_have_the_digest_of_their_bytes)
{
	struct one_save one, two;
	struct digest a, b;
	struct error err = ERROR_INIT;

	begin_save(&one, TENSOR, seed_same, 1);
	begin_save(&two, TENSOR, seed_same, 2);
	for (uint64_t u = 0; u < N_UNITS; u++) {
		cr_assert_eq(save_plan_unit_digest(one.plan, u, &a, &err), 0);
		cr_assert_eq(save_plan_unit_digest(two.plan, u, &b, &err), 0);
		cr_expect(digest_equal(&a, &b));
	}
	/* A chunk at a unit's end is of two. */
	two.table.tensors[0].chunks[3].b[20] = 1;
	for (uint64_t u = 0; u < N_UNITS; u++) {
		cr_assert_eq(save_plan_unit_digest(one.plan, u, &a, &err), 0);
		cr_assert_eq(save_plan_unit_digest(two.plan, u, &b, &err), 0);
		cr_expect_eq(digest_equal(&a, &b), u > 1, "unit %u",
			     (unsigned int)u);
	}
	/* The header is in the first. */
	two.table.tensors[0].chunks[3].b[20] = 0;
	two.plan->head.data[20] ^= 1;
	cr_assert_eq(save_plan_unit_digest(one.plan, 0, &a, &err), 0);
	cr_assert_eq(save_plan_unit_digest(two.plan, 0, &b, &err), 0);
	cr_expect(!digest_equal(&a, &b));
	end_save(&one);
	end_save(&two);
}

/* Bytes alike, their length, and what stands before them: the places of their units are not of one
 * length. */
Test(save_known, units_of_a_small_file_are_none_of_a_large_one)
{
	struct one_save large, small;
	struct digest a, b;
	struct error err = ERROR_INIT;
	uint64_t u, v;

	begin_save(&large, TENSOR, seed_same, 1);
	begin_save(&small, TENSOR / 2, seed_same, 1);
	make_alike(&large, 0);
	make_alike(&small, 0);
	cr_assert_neq(large.plan->unit, small.plan->unit);
	u = large.plan->n_units - 1;
	v = small.plan->n_units - 1;
	cr_assert_eq(large.plan->stored[u], small.plan->stored[v]);
	cr_assert_eq(save_plan_unit_digest(large.plan, u, &a, &err), 0);
	cr_assert_eq(save_plan_unit_digest(small.plan, v, &b, &err), 0);
	cr_expect_not(digest_equal(&a, &b));
	end_save(&large);
	end_save(&small);
}
