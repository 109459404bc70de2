// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "p2p/engine/relay.h"
#include "tests/unit/blockstore/cache_dir.h"

TestSuite(relay, .timeout = 120);

#define IMAGE 7u
#define SIZE (8u * 4096u)

static void put(struct relay *r, uint32_t piece, uint32_t len, int want)
{
	static uint8_t data[SIZE];

	memset(data, (int)piece, len);
	cr_assert_eq(relay_put(r, IMAGE, piece, data, len), want);
}

/* Is the piece here, and right? */
static bool has(struct relay *r, uint32_t piece, uint32_t len)
{
	static uint8_t data[SIZE];
	struct relay_ref ref;

	if (!relay_get(r, IMAGE, piece, &ref))
		return false;
	cr_expect_eq(ref.len, len);
	cr_assert_eq(fs_pread_full(ref.fd, data, len, ref.off), 0);
	for (uint32_t k = 0; k < len; k++)
		cr_assert_eq(data[k], (uint8_t)piece);
	relay_done(r, &ref);
	return true;
}

Test(relay, what_is_put_is_got_until_it_is_the_oldest)
{
	AUTO(relay) r = NULL;
	struct cache_dir dir;

	cache_dir_make(&dir);
	cr_assert_eq(relay_open(dir.path, SIZE, &r, NULL), 0);
	for (uint32_t k = 0; k < 4; k++)
		put(r, k, 8000, 0);
	for (uint32_t k = 0; k < 4; k++)
		cr_expect(has(r, k, 8000));
	cr_expect_not(has(r, 9, 1));
	cr_expect_eq(relay_used(r), SIZE);
	put(r, 3, 8000, -EEXIST);
	/* It needs the places of the two oldest. */
	put(r, 4, 9000, 0);
	cr_expect_not(has(r, 0, 8000));
	cr_expect_not(has(r, 1, 8000));
	cr_expect(has(r, 2, 8000));
	cr_expect(has(r, 4, 9000));
	cr_expect_eq(relay_used(r), SIZE - 4096);
	put(r, 5, SIZE, 0);
	cr_expect_eq(relay_used(r), SIZE);
	cr_expect(has(r, 5, SIZE));
	put(r, 6, 1, 0);
	cr_expect_eq(relay_used(r), 4096);
	cache_dir_remove(&dir);
}

Test(relay, what_is_being_sent_stays)
{
	AUTO(relay) r = NULL;
	struct relay_ref ref;
	struct cache_dir dir;

	cache_dir_make(&dir);
	cr_assert_eq(relay_open(dir.path, SIZE, &r, NULL), 0);
	for (uint32_t k = 0; k < 4; k++)
		put(r, k, 8192, 0);
	cr_assert(relay_get(r, IMAGE, 1, &ref));
	for (uint32_t k = 10; k < 20; k++) {
		put(r, k, 8192, 0);
		cr_expect(has(r, 1, 8192));
		cr_expect(has(r, k, 8192));
	}
	put(r, 30, 7 * 4096, -ENOSPC);
	relay_done(r, &ref);
	put(r, 30, 7 * 4096, 0);
	cr_expect(has(r, 30, 7 * 4096));
	cr_expect_not(has(r, 1, 8192));
	cache_dir_remove(&dir);
}

Test(relay, what_the_kernel_still_has_to_send_does_not_change)
{
	AUTO(relay) r = NULL;
	AUTO_CLOSE int in = -1, out = -1;
	uint8_t got[4096];
	struct relay_ref ref;
	struct cache_dir dir;
	int ends[2];
	loff_t off;

	cache_dir_make(&dir);
	cr_assert_eq(relay_open(dir.path, 4096, &r, NULL), 0);
	put(r, 1, 4096, 0);
	cr_assert_eq(pipe(ends), 0);
	in = ends[0];
	out = ends[1];
	cr_assert(relay_get(r, IMAGE, 1, &ref));
	off = (loff_t)ref.off;
	/* The pipe has the page itself, as a socket after sendfile() has. */
	cr_assert_eq(splice(ref.fd, &off, out, NULL, 4096, 0), 4096);
	relay_done(r, &ref);
	put(r, 2, 4096, 0);
	cr_expect(has(r, 2, 4096));
	cr_assert_eq(read(in, got, sizeof(got)), 4096);
	for (size_t k = 0; k < sizeof(got); k++)
		cr_assert_eq(got[k], 1, "byte %zu", k);
	cache_dir_remove(&dir);
}
