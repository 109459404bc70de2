// SPDX-License-Identifier: Apache-2.0
/* Tests blocks of files being read when memory is short. */
#include <criterion/criterion.h>
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt-fuse/mount/reading.h"
#include "ckpt_fixture.h"
#include "common/clock.h"
#include "common/crc32c.h"

#define PLACES 5u

static struct budget budget;
static struct readings all;
static struct reading *reading;

static void setup(void)
{
	struct error err = ERROR_INIT;

	ckpt_setup();
	/* Read-ahead memory for three blocks of a chunk. */
	budget_init(&budget, 64 * MIB, 3 * MIB);
	all = (struct readings){ .budget = &budget };
	cr_assert_eq(pool_new(NULL, 2, 0, &all.pool, &err), 0, "%s", err.msg);
	readings_init(&all);
	put("f", data, 6 * UNIT, 2);
	cr_assert_eq(reading_new(&all, open_file("f"), &reading, &err), 0);
}

static void teardown(void)
{
	reading_unref(reading);
	pool_free(all.pool);
	cr_expect_eq(budget.used, 0);
	readings_fini(&all);
	budget_fini(&budget);
	ckpt_teardown();
}

TestSuite(reading, .init = setup, .fini = teardown, .timeout = 120);

/* Read some bytes; do they come from a block? */
static bool is_lent(uint64_t off)
{
	struct error err = ERROR_INIT;
	struct reading_loan loan;
	bool is_block;

	cr_assert_eq(reading_lend(reading, off, 4096, &loan, &err), 4096, "%s",
		     err.msg);
	cr_expect_eq(memcmp(loan.parts[0].iov_base, data + off, 4096), 0);
	is_block = !loan.own;
	reading_return(reading, &loan);
	return is_block;
}

Test(reading, goes_on_where_others_left_a_rest_of_each_block)
{
	/* The reads are too far apart to look sequential. */
	for (size_t i = 0; i < PLACES; i++)
		cr_expect(is_lent(MIB + i * 5 * MIB), "%zu", i);
	cr_expect_leq(budget.ahead, 3 * MIB);
}

Test(reading, bytes_that_two_had_are_used_and_not_fewer_than_none)
{
	struct error err = ERROR_INIT;
	struct reading_loan loans[2];

	for (size_t i = 0; i < 2; i++)
		cr_assert_eq(reading_lend(reading, 0, MIB, &loans[i], &err),
			     MIB);
	cr_expect_eq(loans[0].blocks[0], loans[1].blocks[0]);
	for (size_t i = 0; i < 2; i++)
		reading_return(reading, &loans[i]);
	cr_expect_eq(all.bytes_unused, 0);
}

Test(reading, takes_no_block_from_who_reads_it)
{
	struct error err = ERROR_INIT;
	struct reading_loan loans[3];

	for (size_t i = 0; i < 3; i++)
		cr_assert_eq(reading_lend(reading, MIB + i * 5 * MIB, 4096,
					  &loans[i], &err),
			     4096);
	cr_expect_not(is_lent(16 * MIB));
	for (size_t i = 0; i < 3; i++) {
		cr_expect_eq(memcmp(loans[i].parts[0].iov_base,
				    data + MIB + i * 5 * MIB, 4096),
			     0);
		reading_return(reading, &loans[i]);
	}
	cr_expect(is_lent(21 * MIB));
}

Test(reading, that_stays_gives_nobody_work)
{
	struct error err = ERROR_INIT;
	struct reading *stays = NULL;
	struct budget mine;
	struct readings lone = { .budget = &mine, .readahead_most = 64 * MIB };

	/* There is no pool, so read-ahead would fail the test. */
	budget_init(&mine, 64 * MIB, 32 * MIB);
	readings_init(&lone);
	cr_assert_eq(reading_new(&lone, open_file("f"), &stays, &err), 0);
	reading_stay(stays);
	for (uint64_t off = 0; off < 12 * MIB; off += 64 * 1024) {
		struct reading_loan loan;

		cr_assert_eq(reading_lend(stays, off, 4096, &loan, &err), 4096);
		cr_expect_eq(memcmp(loan.parts[0].iov_base, data + off, 4096),
			     0);
		cr_expect_null(loan.own);
		reading_return(stays, &loan);
	}
	reading_unref(stays);
	readings_fini(&lone);
	cr_expect_eq(mine.used, 0);
	budget_fini(&mine);
}

#define SIDE_BY_SIDE 6u

/* Ranks of a job read their files in parallel. Memory for two units of each is less than one of
 * them would have ahead if it were alone. */
Test(reading, files_that_are_read_side_by_side_are_fetched_once)
{
	struct error err = ERROR_INIT;
	struct reading *r[SIDE_BY_SIDE];
	struct budget mine;
	struct readings some = { .budget = &mine,
				 .readahead_most = 64 * MIB,
				 .pool = all.pool };

	budget_init(&mine, 128 * MIB, 2 * SIDE_BY_SIDE * UNIT);
	readings_init(&some);
	for (unsigned int i = 0; i < SIDE_BY_SIDE; i++)
		cr_assert_eq(reading_new(&some, open_file("f"), &r[i], &err),
			     0);
	for (uint64_t off = 0; off < 6 * UNIT; off += 128 * KIB)
		for (unsigned int i = 0; i < SIDE_BY_SIDE; i++) {
			struct reading_loan loan;

			cr_assert_eq(reading_lend(r[i], off, 128 * KIB, &loan,
						  &err),
				     128 * KIB);
			cr_expect_null(loan.own);
			cr_expect_eq(memcmp(loan.parts[0].iov_base, data + off,
					    loan.parts[0].iov_len),
				     0);
			reading_return(r[i], &loan);
		}
	cr_expect_leq(some.bytes_ahead, SIDE_BY_SIDE * 6 * UNIT);
	for (unsigned int i = 0; i < SIDE_BY_SIDE; i++)
		reading_unref(r[i]);
	cr_expect_eq(some.n_active, 0);
	readings_fini(&some);
	budget_fini(&mine);
}

#define PARTS 4u

/* Programs load a part each of the same file. */
Test(reading, parts_of_a_file_that_are_read_side_by_side_are_fetched_once)
{
	const uint64_t part = 6 * UNIT / PARTS, step = 128 * KIB;
	struct error err = ERROR_INIT;
	struct reading *r;
	struct budget mine;
	struct readings some = { .budget = &mine,
				 .readahead_most = 64 * MIB,
				 .pool = all.pool };

	budget_init(&mine, 256 * MIB, 128 * MIB);
	readings_init(&some);
	cr_assert_eq(reading_new(&some, open_file("f"), &r, &err), 0);
	for (uint64_t off = 0; off < part; off += step)
		for (unsigned int i = 0; i < PARTS; i++) {
			struct reading_loan loan;

			cr_assert_eq(reading_lend(r, i * part + off, step,
						  &loan, &err),
				     (int64_t)step);
			cr_expect_eq(memcmp(loan.parts[0].iov_base,
					    data + i * part + off,
					    loan.parts[0].iov_len),
				     0);
			reading_return(r, &loan);
		}
	cr_expect_leq(some.bytes_ahead, 6 * UNIT * 105 / 100, "%zu",
		      (size_t)some.bytes_ahead);
	reading_unref(r);
	readings_fini(&some);
	budget_fini(&mine);
}

/* Open a file of holes with `n` chunks, whose tables take memory. */
static struct ckpt_file *with_chunks(uint64_t n)
{
	struct manifest *m = NULL;
	struct error err = ERROR_INIT;
	struct ckpt_file *f;
	AUTO_BUF out = BUF_INIT;

	cr_assert_eq(manifest_new(1, n, &m, &err), 0);
	m->chunk_size = 4096;
	m->unit_chunks = 1;
	m->size = n * 4096;
	m->segments[0].length = m->size;
	m->segments[0].columns = 1;
	cr_assert_eq(manifest_encode(m, &out, &err), 0, "%s", err.msg);
	put_object("forged.bsm", out.data, out.len);
	manifest_free(m);
	f = open_file("forged");
	cr_expect_geq(ckpt_file_tables(f), n * 4);
	return f;
}

/* Otherwise a writer to the store could use all memory of the nodes that read. */
Test(reading, tables_of_open_files_are_of_the_budget)
{
	struct error err = ERROR_INIT;
	struct reading *large, *other, *small;
	const uint64_t used = budget.used;

	/* A quarter of the 64 MiB is for large tables. */
	cr_assert_eq(reading_new(&all, with_chunks(3 * MIB), &large, &err), 0);
	cr_expect_geq(budget.used, used + 12 * MIB);
	cr_expect_eq(reading_new(&all, with_chunks(3 * MIB), &other, &err),
		     -ENOBUFS);
	cr_expect_not_null(strstr(err.msg, "--memory"), "%s", err.msg);
	cr_assert_eq(reading_new(&all, open_file("f"), &small, &err), 0);
	reading_unref(small);
	reading_unref(large);
	cr_expect_eq(budget.used, used);
	cr_expect_eq(reading_new(&all, with_chunks(5 * MIB), &other, &err),
		     -ENOBUFS);
	cr_expect_eq(budget.used, used);
}

/* Make a group with only this mount. */
static struct group *lone_group(void)
{
	static const char secret[GROUP_SECRET_MIN] = "a secret";
	char key[] = "/tmp/bootseer-reading.XXXXXX";
	struct group_config cfg = { .key_file = key,
				    .places = "127.0.0.1:1",
				    .memory = 32 * MIB,
				    .fetches = 1,
				    .wait_ns = NS_PER_S };
	struct group *g = NULL;
	int fd = mkstemp(key);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, secret, sizeof(secret)), sizeof(secret));
	(void)close(fd);
	cr_assert_eq(group_new(&cfg, &g, NULL), 0);
	(void)unlink(key);
	return g;
}

/* A group keeps files open for a while after their close. */
Test(reading, tables_of_closed_files_give_way_to_those_that_are_opened)
{
	struct error err = ERROR_INIT;
	const uint64_t used = budget.used;
	struct reading *r;

	all.group = lone_group();
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(reading_new(&all, with_chunks(3 * MIB), &r, &err),
			     0, "%s", err.msg);
		reading_unref(r);
		cr_expect_geq(budget.used, used + 12 * MIB);
	}
	group_free(all.group);
	all.group = NULL;
	cr_expect_eq(budget.used, used);
}

/* By default, the tails of eight written files take all memory. */
Test(reading, begins_while_writers_have_all_the_memory)
{
	struct error err = ERROR_INIT;
	struct reading *r = NULL;
	struct budget mine;
	struct readings lone = { .budget = &mine, .tables_own = KIB };

	budget_init(&mine, 64 * MIB, 32 * MIB);
	readings_init(&lone);
	cr_assert(budget_take(&mine, mine.most));
	cr_assert_eq(reading_new(&lone, open_file("f"), &r, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(mine.used, mine.most);
	reading_unref(r);
	budget_give(&mine, mine.most);
	/* Larger tables are counted, and released. */
	cr_assert_eq(reading_new(&lone, with_chunks(KIB), &r, &err), 0);
	cr_expect_geq(mine.used, 3 * KIB);
	reading_unref(r);
	cr_expect_eq(mine.used, 0);
	readings_fini(&lone);
	budget_fini(&mine);
}

/* Blocks the only thread that reads ahead. */
struct keeper {
	struct work work;
	sem_t go;
};

static void keep(struct work *w)
{
	struct keeper *k = container_of(w, struct keeper, work);

	(void)sem_wait(&k->go);
}

Test(reading, who_leaves_a_file_waits_for_nothing_that_is_read_ahead_of_it)
{
	struct keeper k = { .work.run = keep };
	struct error err = ERROR_INIT;
	struct reading *left = NULL;
	struct reading_loan loan;
	struct budget mine;
	struct readings lone = { .budget = &mine, .readahead_most = 64 * MIB };

	budget_init(&mine, 64 * MIB, 32 * MIB);
	cr_assert_eq(pool_new(NULL, 1, 0, &lone.pool, &err), 0, "%s", err.msg);
	cr_assert_eq(sem_init(&k.go, 0, 0), 0);
	cr_assert_eq(pool_submit(lone.pool, &k.work), 0);
	readings_init(&lone);
	cr_assert_eq(reading_new(&lone, open_file("f"), &left, &err), 0);
	/* Read all of the first unit, which the reader itself fetches. */
	for (uint64_t off = 0; off < MIB; off += 64 * KIB) {
		cr_assert_eq(reading_lend(left, off, 64 * KIB, &loan, &err),
			     64 * KIB);
		reading_return(left, &loan);
	}
	cr_expect_gt(mine.ahead, UNIT);
	reading_unref(left);
	(void)sem_post(&k.go);
	pool_free(lone.pool);
	cr_expect_eq(mine.used, 0);
	/* Queued reads were not made. */
	cr_expect_eq(lone.bytes_ahead, UNIT);
	readings_fini(&lone);
	budget_fini(&mine);
}

/* Rewrite the manifest with chunks of 4 KiB and units of `unit_chunks` chunks. */
static void cut_into_small_units(const char *path, uint64_t size,
				 uint32_t unit_chunks)
{
	const uint32_t chunk = 4096;
	struct error err = ERROR_INIT;
	struct manifest_name name;
	struct ckpt_file *f;
	struct buf out = BUF_INIT;
	struct manifest *m;

	put(path, data, size, 1);
	f = open_file(path);
	cr_assert_eq(manifest_new(1, size / chunk, &m, &err), 0);
	m->chunk_size = chunk;
	m->unit_chunks = unit_chunks;
	m->size = size;
	m->generation = 1;
	m->attr.mode = 0600;
	m->segments[0] = ckpt_file_manifest(f)->segments[0];
	for (uint64_t i = 0; i < size / chunk; i++)
		m->crcs[i] = crc32c(0, data + i * chunk, chunk);
	cr_assert_eq(manifest_encode(m, &out, &err), 0, "%s", err.msg);
	cr_assert_eq(manifest_name(path, &name, &err), 0);
	put_object(name.s, out.data, out.len);
	buf_fini(&out);
	manifest_free(m);
	ckpt_close(f);
}

static bool is_lent_right(uint64_t off)
{
	struct error err = ERROR_INIT;
	struct reading_loan loan;
	size_t at = 0;
	bool is_right = true;

	cr_assert_eq(reading_lend(reading, off, 4096, &loan, &err), 4096, "%s",
		     err.msg);
	for (size_t i = 0; i < loan.n; i++) {
		cr_assert_leq(loan.parts[i].iov_len, 4096 - at);
		is_right = is_right &&
			   memcmp(loan.parts[i].iov_base, data + off + at,
				  loan.parts[i].iov_len) == 0;
		at += loan.parts[i].iov_len;
	}
	reading_return(reading, &loan);
	return is_right && at == 4096;
}

/* The manifest must not decide places in memory: a unit may be smaller than a read, or no multiple
 * of it. */
Test(reading, has_the_bytes_that_were_asked_for_whatever_a_unit_is)
{
	static const uint32_t units[] = { 1, 3, 64 };
	struct error err = ERROR_INIT;

	for (size_t i = 0; i < 3; i++) {
		struct reading *kept = reading;

		cut_into_small_units("odd", 6 * UNIT, units[i]);
		cr_assert_eq(reading_new(&all, open_file("odd"), &reading,
					 &err),
			     0);
		for (uint64_t off = 512 * KIB; off < 6 * UNIT - 4096;
		     off += 300 * KIB + 512)
			cr_expect(is_lent_right(off), "%u %zu", units[i],
				  (size_t)off);
		reading_unref(reading);
		reading = kept;
	}
}
