// SPDX-License-Identifier: Apache-2.0
/*
 * Power loss, simulated: the folder of a cache is restored with files cut,
 * torn, flipped, zeroed or of different ages, and opened again. Every read gives
 * the right bytes or says that it has none.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "blockstore/cache.h"
#include "tests/unit/blockstore/cache_dir.h"

TestSuite(cache_crash, .timeout = 240);

#define N_BLOCKS 60
#define QUOTA (40 * 45056)

struct scene {
	struct cache_dir dir;
	struct image img;
	struct picture early, late;
	size_t n_runs, n_kept;
};

/* Two pictures of a cache at work, with evictions before and between. */
static void scene_make(struct scene *s)
{
	struct error err = ERROR_INIT;
	struct cache *c;
	uint64_t freed;

	memset(s, 0, sizeof(*s));
	cache_dir_make(&s->dir);
	image_make(&s->img, 7, N_BLOCKS, 44000, N_BLOCKS);
	c = cache_dir_open(&s->dir, QUOTA);
	for (size_t i = 0; i < N_BLOCKS; i++)
		cr_assert_eq(put_block(c, &s->img, i), 0);
	picture_take(&s->early, &s->dir);
	/* Holes are filled with other blocks, in another order. */
	cr_assert_eq(cache_gc(c, QUOTA / 4, &freed, &err), 0);
	for (size_t i = 0; i < N_BLOCKS; i += 2)
		cr_assert_eq(put_block(c, &s->img, N_BLOCKS - 1 - i), 0);
	picture_take(&s->late, &s->dir);
	cache_close(c);
}

static void scene_fini(struct scene *s)
{
	picture_fini(&s->early);
	picture_fini(&s->late);
	image_fini(&s->img);
	cache_dir_remove(&s->dir);
}

/* Open what is there; nothing wrong is read, and the cache works on. */
static void reopen(struct scene *s, const struct picture *p)
{
	struct cache_stats st;
	struct cache *c;

	picture_restore(p, &s->dir);
	c = cache_dir_open(&s->dir, QUOTA);
	for (size_t i = 0; i < N_BLOCKS; i++)
		if (get_block(c, &s->img, i) == 0)
			s->n_kept++;
	for (size_t i = 0; i < N_BLOCKS; i += 3) {
		cr_assert_eq(put_block(c, &s->img, i), 0);
		cr_assert_eq(get_block(c, &s->img, i), 0);
	}
	for (size_t i = 0; i < N_BLOCKS; i++)
		(void)get_block(c, &s->img, i);
	cache_get_stats(c, &st);
	cr_assert_leq(st.bytes, QUOTA);
	cache_close(c);
	s->n_runs++;
}

Test(cache_crash, an_index_cut_anywhere_loses_no_more_than_the_cut)
{
	struct scene s;

	scene_make(&s);
	for (size_t cut = 0; cut < picture_find(&s.late, "index")->size;
	     cut += 97) {
		struct picture p;
		size_t kept = s.n_kept;

		picture_copy(&p, &s.late);
		picture_find(&p, "index")->size = cut;
		reopen(&s, &p);
		if (cut > LOG_HEADER_SIZE + 10 * LOG_RECORD_SIZE)
			cr_expect_gt(s.n_kept, kept, "cut at %zu", cut);
		picture_fini(&p);
	}
	scene_fini(&s);
}

Test(cache_crash, flipped_and_zeroed_index_bytes_are_misses)
{
	struct scene s;

	scene_make(&s);
	for (size_t at = 0; at < picture_find(&s.late, "index")->size;
	     at += 71) {
		struct picture p;
		struct picture_file *f;

		picture_copy(&p, &s.late);
		f = picture_find(&p, "index");
		if (at % 2)
			f->data[at] ^= 1u << (at % 8);
		else
			memset(f->data + at, 0,
			       f->size - at < 500 ? f->size - at : 500);
		f->len = f->size;
		reopen(&s, &p);
		picture_fini(&p);
	}
	cr_expect_gt(s.n_kept / s.n_runs, 10);
	scene_fini(&s);
}

Test(cache_crash, records_that_lie_are_found_out)
{
	struct scene s;

	/* Well-formed records with a place that belongs to other bytes: what
	 * reordered writes leave. */
	scene_make(&s);
	for (uint32_t shift = 1; shift < 21; shift++) {
		struct picture p;
		struct picture_file *f;

		picture_copy(&p, &s.late);
		f = picture_find(&p, "index");
		for (size_t at = LOG_HEADER_SIZE;
		     at + LOG_RECORD_SIZE <= f->size;
		     at += LOG_RECORD_SIZE * (1 + shift % 3)) {
			struct log_record r;

			if (!log_decode(f->data + at, &r))
				continue;
			r.page = shift == 20 ? UINT32_MAX : r.page + shift;
			log_encode(&r, f->data + at);
		}
		f->len = f->size;
		reopen(&s, &p);
		picture_fini(&p);
	}
	scene_fini(&s);
}

Test(cache_crash, records_in_any_order_are_accepted)
{
	struct scene s;
	uint32_t x = 1;

	scene_make(&s);
	for (int round = 0; round < 15; round++) {
		struct picture p;
		struct picture_file *f;
		size_t n;

		picture_copy(&p, &s.late);
		f = picture_find(&p, "index");
		n = (f->size - LOG_HEADER_SIZE) / LOG_RECORD_SIZE;
		for (size_t i = n; i-- > 1;) {
			uint8_t tmp[LOG_RECORD_SIZE];
			uint8_t *a = f->data + LOG_HEADER_SIZE, *b = a;

			x = x * 1664525u + 1013904223u;
			a += i * LOG_RECORD_SIZE;
			b += (x >> 8) % i * LOG_RECORD_SIZE;
			memcpy(tmp, a, sizeof(tmp));
			memcpy(a, b, sizeof(tmp));
			memcpy(b, tmp, sizeof(tmp));
		}
		f->len = f->size;
		reopen(&s, &p);
		picture_fini(&p);
	}
	scene_fini(&s);
}

Test(cache_crash, an_index_and_segments_of_different_ages_do_not_mix)
{
	struct scene s;

	scene_make(&s);
	for (int which = 0; which < 2; which++) {
		struct picture *index = which ? &s.early : &s.late;
		struct picture *rest = which ? &s.late : &s.early;
		struct picture p;
		struct picture_file *to, *from;

		picture_copy(&p, rest);
		to = picture_find(&p, "index");
		from = picture_find(index, "index");
		free(to->data);
		to->data = calloc(1, from->size + 1);
		memcpy(to->data, from->data, from->len);
		to->len = from->len;
		to->size = from->size;
		reopen(&s, &p);
		picture_fini(&p);
	}
	scene_fini(&s);
}

Test(cache_crash, segments_cut_flipped_zeroed_or_gone_are_misses)
{
	struct scene s;

	scene_make(&s);
	for (size_t at = 0; at < picture_find(&s.late, "segment")->len;
	     at += 90011) {
		for (int kind = 0; kind < 4; kind++) {
			struct picture p;
			struct picture_file *f;
			size_t n;

			picture_copy(&p, &s.late);
			f = picture_find(&p, "segment");
			n = f->len - at < 100000 ? f->len - at : 100000;
			if (kind == 0)
				f->size = at;
			else if (kind == 1)
				f->data[at] ^= 0x10;
			else if (kind == 2)
				memset(f->data + at, 0, n);
			else /* what the place held before */
				memcpy(f->data + at,
				       picture_find(&s.early, "segment")->data +
					       at,
				       n);
			reopen(&s, &p);
			picture_fini(&p);
		}
	}
	{
		struct picture p;

		picture_copy(&p, &s.late);
		(void)snprintf(picture_find(&p, "segment")->name, 32, "gone");
		s.n_kept = 0;
		reopen(&s, &p);
		cr_expect_eq(s.n_kept, 0);
		picture_fini(&p);
	}
	scene_fini(&s);
}

Test(cache_crash, a_left_over_rewrite_and_strange_files_do_no_harm)
{
	struct scene s;
	struct picture p;

	scene_make(&s);
	picture_copy(&p, &s.late);
	for (int i = 0; i < 3; i++) {
		static const char *const names[] = { "index.new",
						     "segment-0000ffff",
						     "segment-ffffffff" };
		struct picture_file *f = &p.file[p.n++];

		(void)snprintf(f->name, sizeof(f->name), "%s", names[i]);
		f->data = calloc(1, 100);
		f->len = f->size = 99;
	}
	reopen(&s, &p);
	cr_expect_gt(s.n_kept, 20);
	picture_fini(&p);
	picture_take(&p, &s.dir);
	cr_expect_eq(p.n, 2, "an index and a segment");
	picture_fini(&p);
	scene_fini(&s);
}
