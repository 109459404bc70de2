// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/json.h"
#include "groupio/save_bundle.h"
#include "groupio/save_plan.h"

TestSuite(save_plan, .timeout = 60);

#define NODES_MAX 8u

/* Tables of nodes, each with one rank, and what their tensors have. */
struct given {
	struct save_table tables[NODES_MAX];
};

/* Bytes that `seed` says; 0: zeros.  Nobody looks at them but by their digests. */
static void give_rank(struct given *g, unsigned int node, unsigned int rank,
		      const char *name, uint64_t len, unsigned int seed)
{
	static const char nowhere[1];
	struct save_table *t = &g->tables[node];
	struct save_tensor *x;

	cr_assert_eq(save_table_add(t, name, "U8", &len, 1, len, NULL), 0);
	x = &t->tensors[t->n - 1];
	x->rank = rank;
	x->data = nowhere;
	for (uint32_t c = 0; c < x->n_chunks && seed; c++)
		x->chunks[c] =
			(struct digest){ .b = { (uint8_t)seed, (uint8_t)c,
						(uint8_t)(seed >> 8) } };
}

static void give_tensor(struct given *g, unsigned int rank, const char *name,
			uint64_t len, uint8_t seed)
{
	give_rank(g, rank, rank, name, len, seed);
}

static struct save_plan *make_plan(struct given *g, size_t n, size_t self)
{
	struct save_plan *p = NULL;
	struct error err = ERROR_INIT;

	for (size_t i = 0; i < n; i++)
		cr_assert_eq(save_table_finish(&g->tables[i], NULL), 0);
	cr_assert_eq(save_plan_make(g->tables, n, self, &p, &err), 0, "%s",
		     err.msg);
	return p;
}

static void take_back(struct given *g)
{
	for (size_t i = 0; i < NODES_MAX; i++)
		save_table_fini(&g->tables[i]);
}

static json_t *parse_head(const struct save_plan *p)
{
	json_t *j = json_loadb(p->head.data + 8, p->head.len - 8, 0, NULL);

	cr_assert(j);
	cr_assert_eq(get_le64(p->head.data), p->head.len - 8);
	return j;
}

static const char *find_metadata(json_t *j, const char *name)
{
	return json_string_value(
		json_object_get(json_object_get(j, "__metadata__"), name));
}

static uint64_t written(const struct save_plan *p, size_t node)
{
	uint64_t n = 0;

	for (uint64_t u = 0; u < p->n_units; u++)
		n += p->units[u].writer == node ? p->stored[u] : 0;
	return n;
}

Test(save_plan, has_what_all_ranks_have_once_and_all_nodes_write_of_it)
{
	struct given g = { .tables = { { .n = 0 } } };
	struct save_plan *p;

	for (unsigned int r = 0; r < 4; r++)
		give_tensor(&g, r, "w", 128 * MIB, 7);
	p = make_plan(&g, 4, 1);
	cr_expect_eq(p->n_entries, 1);
	cr_expect_eq(p->given, 512 * MIB);
	cr_expect_eq(p->unique, 128 * MIB);
	cr_expect_eq(p->to_store, 128 * MIB + p->head.len);
	cr_expect_eq(p->entries[0].holders, 15);
	cr_expect_eq(p->entries[0].data, g.tables[1].tensors[0].data);
	for (size_t i = 0; i < 4; i++)
		cr_expect(written(p, i) >= 28 * MIB &&
			  written(p, i) <= 36 * MIB);
	for (uint64_t u = 0; u < p->n_units; u++)
		cr_expect_neq(p->units[u].writer, p->units[u].copy);
	save_plan_free(p);
	take_back(&g);
}

/* Which node behind this one has what this one lacks of the unit; 0: it lacks nothing. */
static unsigned int distance_of(const struct save_plan *p, uint64_t u,
				unsigned int self)
{
	for (size_t i = save_plan_find(p, u * p->unit);
	     i < p->n_entries && p->entries[i].start < (u + 1) * p->unit; i++)
		if (!(p->entries[i].holders >> self & 1))
			return ((unsigned int)__builtin_ctzll(
					p->entries[i].holders) +
				4 - self) %
			       4;
	return 0;
}

/* Four nodes without a byte in common: each begins with its own, and asks another one than the
 * others do. */
Test(save_plan, has_nodes_that_begin_together_ask_different_ones)
{
	struct given g = { .tables = { { .n = 0 } } };
	unsigned int asked = 0;

	for (unsigned int r = 0; r < 4; r++)
		give_tensor(&g, r, "w", 128 * MIB, (uint8_t)(r + 1));
	for (unsigned int self = 0; self < 4; self++) {
		struct save_plan *p = make_plan(&g, 4, self);
		unsigned int before = 0;
		uint64_t *order = NULL, kept = 0;
		size_t n = 0;

		cr_assert_eq(save_plan_order(p, self, &order, &n, NULL), 0);
		for (uint64_t u = 0; u < p->n_units; u++)
			kept += save_unit_is_kept(&p->units[u], self);
		cr_expect_eq(n, kept);
		for (size_t i = 0; i < n; i++) {
			const unsigned int d = distance_of(p, order[i], self);

			cr_expect(save_unit_is_kept(&p->units[order[i]], self));
			if (order[i] + 1 == p->n_units)
				cr_expect_eq(i, n - 1);
			else
				cr_expect_geq(d, before);
			if (d && !before)
				asked |= 1u << (self + d) % 4;
			before = d;
		}
		free(order);
		save_plan_free(p);
	}
	cr_expect_eq(asked, 15);
	take_back(&g);
}

/* Bytes that a node asks others for: chunks that it lacks of what it keeps. */
static uint64_t count_pulled(const struct save_plan *p, size_t node)
{
	uint8_t *seen = calloc(p->n_chunks + 1, 1);
	uint64_t n = 0;

	cr_assert_not_null(seen);
	for (uint64_t u = 0; u < p->n_units; u++) {
		const uint64_t from = u * p->unit, to = from + p->stored[u];

		if (!save_unit_is_kept(&p->units[u], node))
			continue;
		for (size_t i = save_plan_find(p, from);
		     i < p->n_entries && p->entries[i].start < to; i++) {
			const struct save_entry *e = &p->entries[i];
			const uint64_t begin =
				from > e->start ? from - e->start : 0;

			if (e->holders >> node & 1)
				continue;
			for (uint32_t c = (uint32_t)(begin / SAVE_CHUNK);
			     c < e->tensor->n_chunks &&
			     e->start + (uint64_t)c * SAVE_CHUNK < to;
			     c++) {
				if (!seen[e->first_chunk + c])
					n += save_chunk_len(e->tensor->len, c);
				seen[e->first_chunk + c] = 1;
			}
		}
	}
	free(seen);
	return n;
}

#define LAYERS 8u
#define RANKS 16u

/* 16 ranks on 4 nodes, by tensor and pipeline parallelism in `shards`: each layer has `weight` and
 * `moments` bytes of a shard, and with ZeRO the ranks that are alike share the moments. */
static void give_model(struct given *g, unsigned int shards, bool is_zero,
		       uint64_t weight, uint64_t moments)
{
	const unsigned int copies = RANKS / shards;

	for (unsigned int r = 0; r < RANKS; r++)
		for (unsigned int i = 0; i < LAYERS; i++) {
			const unsigned int shard = r % shards,
					   copy = is_zero ? r / shards : 0,
					   n = i * RANKS + shard;
			char name[64];

			(void)snprintf(name, sizeof(name), "layer%u.shard%u.w",
				       i, shard);
			give_rank(g, r / 4, r, name, weight, 1 + n);
			(void)snprintf(name, sizeof(name),
				       "layer%u.shard%u.m.%u", i, shard, copy);
			give_rank(g, r / 4, r, name,
				  is_zero ? moments / copies : moments,
				  1000 + n * RANKS + copy);
		}
}

/* Models in ratio, with all, some or none of their bytes on one node alone. */
Test(save_plan, has_each_node_be_sent_as_much_as_others_are)
{
	static const struct {
		unsigned int shards, mib;
	} models[] = { { 1, 40 }, { 4, 350 }, { 8, 1024 } };

	for (size_t i = 0; i < 6; i++) {
		const unsigned int shards = models[i / 2].shards;
		const uint64_t layer =
			models[i / 2].mib * MIB / shards / LAYERS / 64 * 64;
		struct given g = { .tables = { { .n = 0 } } };
		uint64_t most = 0, sum = 0, n, most_written = 0;
		struct save_plan *p;

		give_model(&g, shards, i % 2, layer / 7, layer * 6 / 7);
		p = make_plan(&g, 4, 0);
		for (size_t k = 0; k < 4; k++) {
			n = count_pulled(p, k);
			most = n > most ? n : most;
			sum += n;
			n = written(p, k);
			most_written = n > most_written ? n : most_written;
		}
		/* Where all is on two nodes, what is sent is the edges of units. */
		cr_expect(i % 2 ? 100 * most <= 105 * sum / 4 : most <= MIB,
			  "%zu: %" PRIu64 " of %" PRIu64, i, most, sum);
		cr_expect_leq(100 * most_written, 110 * p->to_store / 4, "%zu",
			      i);
		/* Bytes that one node alone has are sent once, except chunks at edges of units. */
		cr_expect_leq(100 * sum, 110 * 6 * p->unique / 7);
		save_plan_free(p);
		take_back(&g);
	}
}

/* A node that has most could be left alone with room for its own. */
Test(save_plan, has_each_node_be_sent_as_much_where_one_has_most)
{
	struct given g = { .tables = { { .n = 0 } } };
	struct save_plan *p;

	for (unsigned int r = 0; r < 4; r++)
		give_tensor(&g, r, "w", (r == 2 ? 384 : 128) * MIB,
			    (uint8_t)(r + 1));
	p = make_plan(&g, 4, 0);
	for (size_t k = 0; k < 4; k++)
		cr_expect(count_pulled(p, k) >= 180 * MIB &&
				  count_pulled(p, k) <= 205 * MIB,
			  "node %zu: %" PRIu64, k, count_pulled(p, k));
	save_plan_free(p);
	take_back(&g);
}

/* Units of 4 MiB would be two, of which one node alone writes most. */
Test(save_plan, has_all_nodes_write_of_a_small_file)
{
	struct given g = { .tables = { { .n = 0 } } };
	struct save_plan *p;

	for (unsigned int r = 0; r < 4; r++)
		give_tensor(&g, r, "w", 5 * MIB, 7);
	p = make_plan(&g, 4, 0);
	for (size_t i = 0; i < 4; i++)
		cr_expect(written(p, i) >= MIB && written(p, i) <= 2 * MIB);
	save_plan_free(p);
	take_back(&g);
}

Test(save_plan, finds_the_tensor_of_each_chunk)
{
	struct given g = { .tables = { { .n = 0 } } };
	struct save_plan *p;
	uint32_t c = 0;

	give_tensor(&g, 0, "a", 3 * MIB, 1);
	give_tensor(&g, 0, "b", 0, 0);
	give_tensor(&g, 0, "c", 100, 2);
	give_tensor(&g, 1, "d", 0, 0);
	give_tensor(&g, 1, "e", 2 * MIB + 5, 3);
	give_tensor(&g, 1, "f", 0, 0);
	p = make_plan(&g, 2, 0);
	for (size_t i = 0; i < p->n_entries; i++)
		for (uint32_t k = 0; k < p->entries[i].tensor->n_chunks; k++) {
			const struct save_chunk at = save_plan_chunk(p, c++);

			cr_expect_eq(at.entry, &p->entries[i]);
			cr_expect_eq(at.index, k);
		}
	cr_expect_eq(c, 7);
	save_plan_free(p);
	take_back(&g);
}

static struct digest hash_plan(struct given *g, size_t n, size_t self)
{
	struct save_plan *p = make_plan(g, n, self);
	AUTO(hasher) h = hasher_new();
	struct digest d;

	cr_assert_eq(save_plan_hash(p, h), 0);
	cr_assert_eq(hasher_final(h, &d), 0);
	save_plan_free(p);
	return d;
}

Test(save_plan, has_one_hash_on_all_nodes_and_others_of_other_tables)
{
	struct given g = { .tables = { { .n = 0 } } };
	struct digest first, second, other;

	give_tensor(&g, 0, "w", 8 * MIB, 7);
	give_tensor(&g, 1, "w", 8 * MIB, 7);
	first = hash_plan(&g, 2, 0);
	second = hash_plan(&g, 2, 1);
	cr_expect(digest_equal(&first, &second));
	/* Other bytes alone: the same names, lengths and places. */
	for (unsigned int r = 0; r < 2; r++)
		g.tables[r].tensors[0].chunks[3].b[9] = 1;
	other = hash_plan(&g, 2, 0);
	cr_expect(!digest_equal(&first, &other));
	take_back(&g);
	g = (struct given){ .tables = { { .n = 0 } } };
	give_tensor(&g, 0, "w", 8 * MIB, 7);
	give_tensor(&g, 1, "none", 0, 0);
	other = hash_plan(&g, 2, 0);
	cr_expect(!digest_equal(&first, &other));
	take_back(&g);
}

Test(save_plan, lets_others_write_of_what_one_node_alone_has)
{
	struct given g = { .tables = { { .n = 0 } } };
	struct save_plan *p;

	give_tensor(&g, 0, "w", 128 * MIB, 7);
	p = make_plan(&g, 4, 0);
	for (uint64_t u = 0; u < p->n_units; u++)
		cr_expect(save_unit_is_kept(&p->units[u], 0));
	for (size_t i = 0; i < 4; i++)
		cr_expect(written(p, i) >= 16 * MIB, "node %zu", i);
	save_plan_free(p);
	take_back(&g);
}

Test(save_plan, names_what_ranks_have_differently_by_rank)
{
	struct given g = { .tables = { { .n = 0 } } };
	struct save_plan *p;
	json_t *j;

	/* Two of data parallel, two of tensor parallel. */
	for (unsigned int r = 0; r < 4; r++)
		give_tensor(&g, r, "w", 1000, 1 + r % 2);
	p = make_plan(&g, 4, 3);
	j = parse_head(p);
	cr_expect(json_object_get(j, "w@rank0"));
	cr_expect(json_object_get(j, "w@rank1"));
	cr_expect_str_eq(find_metadata(j, "w@rank2"), "w@rank0");
	cr_expect_str_eq(find_metadata(j, "w@rank3"), "w@rank1");
	cr_expect_eq(p->n_entries, 2);
	cr_expect_eq(g.tables[3].tensors[0].entry,
		     g.tables[1].tensors[0].entry);
	json_decref(j);
	save_plan_free(p);
	take_back(&g);
}

Test(save_plan, ties_equal_weights_and_neither_zeros_nor_small_ones)
{
	struct given g = { .tables = { { .n = 0 } } };
	struct save_plan *p;
	json_t *j;

	give_tensor(&g, 0, "embed", 2 * MIB, 5);
	give_tensor(&g, 0, "head", 2 * MIB, 5);
	give_tensor(&g, 1, "head", 2 * MIB, 5);
	give_tensor(&g, 0, "a.moment", 9 * MIB, 0);
	give_tensor(&g, 0, "b.moment", 9 * MIB, 0);
	give_tensor(&g, 0, "a.norm", 4096, 6);
	give_tensor(&g, 0, "b.norm", 4096, 6);
	p = make_plan(&g, 2, 0);
	j = parse_head(p);
	cr_expect_str_eq(find_metadata(j, "head"), "embed");
	cr_expect_str_eq(find_metadata(j, "format"), "pt");
	cr_expect_eq(p->n_entries, 5);
	cr_expect_eq(p->entries[g.tables[1].tensors[0].entry].holders, 3);
	/* Zeros stand behind the rest: all but the unit where they begin, and the one where
	 * they end if it is not whole, are holes. */
	cr_expect(p->to_store <= 5 * MIB);
	json_decref(j);
	save_plan_free(p);
	take_back(&g);
}

Test(save_plan, is_the_same_on_all_nodes_by_tables_that_travelled)
{
	struct given g = { .tables = { { .n = 0 } } };
	struct save_table other[2];
	struct save_plan *p, *q;

	give_tensor(&g, 0, "a\n\"\xc3\xa4", 5 * MIB + 3, 5);
	give_tensor(&g, 0, "zeros", 6 * MIB, 0);
	give_tensor(&g, 1, "mine", 3 * MIB, 9);
	p = make_plan(&g, 2, 0);
	for (size_t i = 0; i < 2; i++) {
		AUTO_BUF text = BUF_INIT;
		struct error err = ERROR_INIT;

		cr_assert_eq(save_table_encode(&g.tables[i], &text, NULL), 0);
		cr_assert_eq(save_table_decode(text.data, text.len, &other[i],
					       &err),
			     0, "%s", err.msg);
	}
	cr_assert_eq(save_plan_make(other, 2, 1, &q, NULL), 0);
	cr_expect_eq(p->head.len, q->head.len);
	cr_expect_eq(memcmp(p->head.data, q->head.data, p->head.len), 0);
	cr_expect_eq(p->n_units, q->n_units);
	cr_expect_eq(memcmp(p->units, q->units, p->n_units * sizeof(*p->units)),
		     0);
	cr_expect_eq(memcmp(p->stored, q->stored,
			    p->n_units * sizeof(*p->stored)),
		     0);
	save_plan_free(p);
	save_plan_free(q);
	save_table_fini(&other[0]);
	save_table_fini(&other[1]);
	take_back(&g);
}

Test(save_plan, knows_zeros_and_other_bytes_by_their_digests)
{
	static char bytes[SAVE_CHUNK + 5];
	const uint64_t len = sizeof(bytes);
	struct save_table t = { .n = 0 };
	struct digest d;

	bytes[len - 1] = 1;
	cr_assert_eq(save_table_add(&t, "a", "U8", &len, 1, len, NULL), 0);
	t.tensors[0].data = bytes;
	cr_assert_eq(t.tensors[0].n_chunks, 2);
	cr_assert_eq(save_tensor_digest(&t.tensors[0], 0, NULL), 0);
	cr_assert_eq(save_tensor_digest(&t.tensors[0], 1, NULL), 0);
	cr_assert_eq(digest_of(bytes + SAVE_CHUNK, 5, &d), 0);
	cr_expect(save_chunk_is_zero(&t.tensors[0].chunks[0]));
	cr_expect(digest_equal(&t.tensors[0].chunks[1], &d));
	save_table_fini(&t);
}

Test(save_plan, refuses_a_rank_with_a_name_twice)
{
	struct given g = { .tables = { { .n = 0 } } };
	struct save_plan *p;

	give_tensor(&g, 0, "w", 100, 5);
	give_tensor(&g, 0, "w", 100, 6);
	cr_assert_eq(save_table_finish(&g.tables[0], NULL), 0);
	cr_expect_eq(save_plan_make(g.tables, 1, 0, &p, NULL), -EINVAL);
	take_back(&g);
}

static void put_count(struct buf *b, uint32_t n)
{
	uint8_t count[4];

	put_le32(count, n);
	buf_reset(b);
	cr_assert_eq(buf_append(b, count, sizeof(count)), 0);
}

/* A tensor in a table, and so many digests, of zeros, behind it. */
struct line {
	uint32_t rank;
	const char *name, *dtype;
	uint64_t dims[2];
	uint8_t n_dims;
	size_t n_digests;
};

static void put_line(struct buf *b, const struct line *l)
{
	const size_t n_name = strlen(l->name), n_type = strlen(l->dtype);
	uint8_t head[8], dim[8];

	put_le32(head, l->rank);
	put_le16(head + 4, (uint16_t)n_name);
	head[6] = (uint8_t)n_type;
	head[7] = l->n_dims;
	cr_assert_eq(buf_append(b, head, sizeof(head)), 0);
	cr_assert_eq(buf_append(b, l->name, n_name), 0);
	cr_assert_eq(buf_append(b, l->dtype, n_type), 0);
	for (size_t i = 0; i < l->n_dims; i++) {
		put_le64(dim, l->dims[i]);
		cr_assert_eq(buf_append(b, dim, sizeof(dim)), 0);
	}
	for (size_t i = 0; i < l->n_digests; i++)
		cr_assert_eq(buf_append(b, &(struct digest){ .b = { 0 } },
					DIGEST_SIZE),
			     0);
}

static int decode_table(const void *data, size_t len)
{
	struct save_table t;
	const int rc = save_table_decode(data, len, &t, NULL);

	if (rc == 0)
		save_table_fini(&t);
	cr_expect_null(t.tensors);
	return rc;
}

Test(save_plan, refuses_tables_that_are_none)
{
	static const struct line bad[] = {
		{ 4096, "a", "U8", { 1 }, 1, 1 },
		{ 0, "a", "U9", { 1 }, 1, 1 },
		{ 0, "a", "U8", { 2 * MIB }, 1, 1 },
		{ 0, "a", "U8", { 1 }, 1, 0 },
		{ 0, "a", "U8", { 1 }, 1, 2 },
		{ 0, "", "U8", { 1 }, 1, 1 },
		{ 0, "a@rank1", "U8", { 1 }, 1, 1 },
		{ 0, "__metadata__", "U8", { 1 }, 1, 1 },
		{ 0, "\xff", "U8", { 1 }, 1, 1 },
		{ 0, "a", "U8", { UINT64_C(1) << 62 }, 1, 0 },
		{ 0, "a", "I64", { UINT64_C(1) << 62, 4 }, 2, 0 },
		{ 0, "a", "U8", { UINT64_C(1) << 63, 0 }, 2, 0 },
		{ 0, "a", "F8_E4M3FN", { 1 }, 1, 1 },
	};
	static const struct line good = { 7, "ab", "U8", { 5, 2 }, 2, 1 };
	static const struct line small = { 0, "a", "U8", { 0 }, 1, 0 };
	AUTO_BUF b = BUF_INIT;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		put_count(&b, 1);
		put_line(&b, &bad[i]);
		cr_expect_lt(decode_table(b.data, b.len), 0, "%zu", i);
	}
	put_count(&b, 1);
	put_line(&b, &good);
	cr_expect_eq(decode_table(b.data, b.len), 0);
	for (size_t n = 0; n < b.len; n++)
		cr_expect_lt(decode_table(b.data, n), 0);
	b.data[12] = '\0'; /* in its name */
	cr_expect_lt(decode_table(b.data, b.len), 0);
	for (uint32_t n = SAVE_TENSORS_MAX; n <= SAVE_TENSORS_MAX + 1; n++) {
		put_count(&b, n);
		for (size_t i = 0; i < n; i++)
			put_line(&b, &small);
		cr_expect_eq(decode_table(b.data, b.len) == 0,
			     n == SAVE_TENSORS_MAX);
	}
}

/* A node whose ranks have no tensor says so: nothing would mean that its table is to be fetched. */
Test(save_plan, sends_a_table_without_tensors)
{
	const struct save_table none = { .n = 0 };
	AUTO_BUF b = BUF_INIT;

	cr_assert_eq(save_table_encode(&none, &b, NULL), 0);
	cr_expect_gt(b.len, 0);
	cr_expect_eq(decode_table(b.data, b.len), 0);
}

Test(save_plan, sends_all_tables_but_large_ones_and_what_is_at_the_path)
{
	static const struct line line = { 1, "a", "U8", { 1 }, 1, 1 };
	char large[SAVE_TOLD_MAX + 1] = { 0 };
	AUTO_BUF table = BUF_INIT;
	const struct save_seen seen = { .version = { .is_known = true,
						     .striped = "\"tag\"",
						     .generation = 7,
						     .bytes_id = UINT64_MAX },
					.owner = 1000,
					.is_behind = true };
	struct save_table tables[3] = { { .n = 0 } };
	struct save_seen got;
	AUTO_BUF text = BUF_INIT;
	struct buf texts[3];
	uint64_t absent;

	put_count(&table, 1);
	put_line(&table, &line);
	texts[0] = texts[1] = table;
	texts[2] = (struct buf){ .data = large, .len = sizeof(large) };
	cr_assert_eq(save_bundle_encode(texts, 3, &seen, &text, NULL), 0);
	cr_assert_eq(save_bundle_decode(text.data, text.len, 3, 0, tables,
					&absent, &got, NULL),
		     0);
	cr_expect_eq(tables[0].n, 0);
	cr_expect_eq(tables[1].n, 1);
	cr_expect_eq(absent, 4);
	cr_expect_str_eq(got.version.striped, seen.version.striped);
	cr_expect_str_eq(got.version.plain, "");
	cr_expect(got.version.is_known && got.is_behind);
	cr_expect_eq(got.version.generation, 7);
	cr_expect_eq(got.version.bytes_id, UINT64_MAX);
	cr_expect_eq(got.owner, 1000);
	save_table_fini(&tables[1]);
	/* As from a node that has other members. */
	for (size_t n = 1; n < 5; n++) {
		struct save_table other[4] = { { .n = 0 } };

		cr_expect(n == 3 ||
			  save_bundle_decode(text.data, text.len, n, 0, other,
					     &absent, &got, NULL) < 0);
		for (size_t i = 0; i < 4; i++)
			save_table_fini(&other[i]);
	}
}

#define ABSENT_TABLE "\xff\xff\xff\xff"

Test(save_plan, refuses_a_path_of_which_nothing_is_said)
{
	static const char *const bad[] = {
		"",
		"\xff\xff\xff",
		ABSENT_TABLE,
		ABSENT_TABLE "{\"known\":true}",
		ABSENT_TABLE "[7]",
		"{}",
	};
	struct save_table table = { .n = 0 };
	struct save_seen seen;
	uint64_t absent;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		cr_expect_lt(save_bundle_decode(bad[i], strlen(bad[i]), 1, 1,
						&table, &absent, &seen, NULL),
			     0, "%s", bad[i]);
}
