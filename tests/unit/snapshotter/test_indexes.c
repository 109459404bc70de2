// SPDX-License-Identifier: Apache-2.0
/* The indexes of images: none is given to two images, whatever the disk lost. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/fs.h"
#include "snapshotter/node/images/images.h"
#include "snapshotter/node/images/indexes.h"

static char dir[64], run[80], file[80];
static struct indexes *x;

static void reopen(void)
{
	indexes_close(x);
	x = NULL;
	cr_assert_eq(indexes_open(dir, run, &x, NULL), 0);
}

static void setup(void)
{
	strcpy(dir, "/tmp/indexes.XXXXXX");
	cr_assert(mkdtemp(dir));
	(void)snprintf(run, sizeof(run), "%s/run", dir);
	(void)snprintf(file, sizeof(file), "%s/next-index", dir);
	reopen();
}

static void teardown(void)
{
	indexes_close(x);
	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}

TestSuite(indexes, .init = setup, .fini = teardown, .timeout = 60);

/* Claim an index for an image whose id is all `c`. */
static uint64_t claim(char c, uint64_t wanted)
{
	char hex[IMAGE_HEX_MAX];
	uint64_t index = INDEX_NONE;

	memset(hex, c, sizeof(hex) - 1);
	hex[sizeof(hex) - 1] = '\0';
	cr_assert_eq(indexes_claim(x, hex, wanted, &index, NULL), 0);
	return index;
}

Test(indexes, an_image_that_comes_back_has_its_index_again)
{
	uint64_t a = claim('a', INDEX_NONE), b = claim('b', INDEX_NONE);

	cr_expect_neq(a, b);
	cr_expect_eq(claim('a', INDEX_NONE), a);
	reopen();
	cr_expect_eq(claim('b', INDEX_NONE), b);
	cr_expect_eq(claim('a', b), a);
}

Test(indexes, what_the_kernel_may_have_is_never_anothers)
{
	uint64_t a = claim('a', INDEX_NONE);

	cr_assert_eq(unlink(file), 0);
	reopen();
	cr_expect_neq(claim('b', INDEX_NONE), a);
	cr_expect_neq(claim('c', a), a);
}

Test(indexes, one_that_an_image_on_the_disk_says_it_has_is_kept_for_it)
{
	indexes_reserve(x, 7);
	cr_expect_gt(claim('a', INDEX_NONE), 7);
	cr_expect_eq(claim('b', 7), 7);
}

Test(indexes, a_damaged_number_is_not_believed)
{
	/* The last text has more digits than a 64-bit number. */
	static const char *const texts[] = { "", "x", "99999999999\n", "-1\n",
					     "12345678901234567890123\n" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		cr_assert_eq(fs_replace_file(file, texts[i], strlen(texts[i]),
					     0600, NULL),
			     0);
		reopen();
		cr_expect_lt(claim((char)('a' + i), UINT64_C(1) << 40), 100,
			     "%s", texts[i]);
	}
}
