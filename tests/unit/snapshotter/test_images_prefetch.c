// SPDX-License-Identifier: Apache-2.0
/* The parts of the node's prefetch without I/O: the file of a hot set, and pressure. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "snapshotter/node/starts/hot_file.h"
#include "snapshotter/node/starts/pressure.h"

#define MIB (UINT64_C(1) << 20)

TestSuite(images_prefetch, .timeout = 120);

Test(images_prefetch, a_hot_set_is_read_back_in_its_order)
{
	struct hot_block blocks[] = { { .index = 7, .at_ms = 3 },
				      { .index = 0 },
				      { .index = UINT32_MAX } };
	struct hot_list hot = { .blocks = blocks, .n = 3 }, back;
	AUTO_BUF text = BUF_INIT;

	cr_assert_eq(hot_file_format(&hot, &text, NULL), 0);
	cr_expect_str_eq(text.data,
			 "{\"format\": 1, \"blocks\": [7,0,4294967295]}\n");
	cr_assert_eq(hot_file_parse(text.data, text.len, &back, NULL), 0);
	cr_assert_eq(back.n, 3);
	cr_expect_eq(back.blocks[0].index, 7);
	cr_expect_eq(back.blocks[1].index, 0);
	cr_expect_eq(back.blocks[2].index, UINT32_MAX);
	hot_list_fini(&back);
}

Test(images_prefetch, a_damaged_hot_set_is_refused)
{
	static const char *const bad[] = {
		"",
		"[]",
		"{\"format\":2,\"blocks\":[]}",
		"{\"format\":1,\"blocks\":{}}",
		"{\"format\":1,\"blocks\":[-1]}",
		"{\"format\":1,\"blocks\":[4294967296]}",
		"{\"format\":1,\"blocks\":[1.5]}",
		"{\"format\":1,\"blocks\":[\"1\"]}",
		"{\"format\":1,\"blocks\":[],\"more\":1}",
		"{\"format\":1,\"blocks\":[1",
	};
	struct hot_list l = { .blocks = NULL };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_eq(hot_file_parse(bad[i], strlen(bad[i]), &l, NULL),
			     -EINVAL, "%s", bad[i]);
	cr_expect_null(l.blocks);
}

static const struct pressure_facts plenty = {
	.disk_free = 10000 * MIB,
	.disk_reserve = 500 * MIB,
	.quota = 1000 * MIB,
	.cached = 1000 * MIB,
	.memory = 3000 * MIB,
	.memory_available = 1000 * MIB,
};

Test(images_prefetch, a_full_cache_alone_is_no_pressure)
{
	struct error why = ERROR_INIT;

	cr_expect_eq(pressure_room(&plenty), 1000 * MIB);
	cr_expect(!pressure_judge(&plenty, &why));
}

Test(images_prefetch, a_cache_full_of_pinned_blocks_is)
{
	struct pressure_facts f = plenty;
	struct error why = ERROR_INIT;

	f.pinned = 940 * MIB;
	cr_expect(!pressure_judge(&f, &why));
	f.pinned = 951 * MIB;
	cr_expect(pressure_judge(&f, &why));
	cr_expect_eq(why.code, ENOSPC);
	cr_expect_str_eq(why.msg, "951 of the cache's 1000 MiB are in use by "
				  "mounts (--cache-quota)");
	f.pinned = 2000 * MIB;
	cr_expect_eq(pressure_room(&f), 0);
}

Test(images_prefetch, a_disk_filled_by_others_is)
{
	struct pressure_facts f = plenty;
	struct error why = ERROR_INIT;

	/* The cache has to get smaller, but still has room for bulk transfers. */
	f.disk_free = 100 * MIB;
	cr_expect_eq(pressure_limit(&f), 600 * MIB);
	cr_expect(!pressure_judge(&f, &why));
	f.cached = 410 * MIB;
	cr_expect(pressure_judge(&f, &why));
	cr_expect(strstr(why.msg, "the disk is full: 100 MiB are free, and "
				  "500 are to stay so"),
		  "%s", why.msg);
	f.cached = 0;
	cr_expect_eq(pressure_limit(&f), 0);
	cr_expect(pressure_judge(&f, &why));
}

Test(images_prefetch, short_memory_is)
{
	struct pressure_facts f = plenty;
	struct error why = ERROR_INIT;

	pressure_parse_meminfo("MemTotal:       3072000 kB\n"
			       "MemFree:          10000 kB\n"
			       "MemAvailable:    102300 kB\n",
			       &f);
	cr_expect_eq(f.memory, 3000 * MIB);
	cr_expect_eq(f.memory_available, UINT64_C(102300) * 1024);
	cr_expect(pressure_judge(&f, &why));
	cr_expect(strstr(why.msg, "99 of 3000 MiB"), "%s", why.msg);
	f.memory_available = 200 * MIB;
	pressure_parse_stall("some avg10=33.10 avg60=0.00 avg300=0.00 total=1\n"
			     "full avg10=9.99 avg60=0.00 avg300=0.00 total=1\n",
			     &f);
	cr_expect_eq(f.memory_stall, 999);
	cr_expect(!pressure_judge(&f, &why));
	pressure_parse_stall("full avg10=10.00 avg60=0.00", &f);
	cr_expect(pressure_judge(&f, &why));
	cr_expect(strstr(why.msg, "10 %"), "%s", why.msg);
}

Test(images_prefetch, what_the_kernel_does_not_tell_is_no_pressure)
{
	struct pressure_facts f = plenty;
	struct error why = ERROR_INIT;

	f.memory = f.memory_available = 0;
	pressure_parse_meminfo("MemTotal: many\n", &f);
	pressure_parse_stall("some avg10=99.00", &f);
	cr_expect(!pressure_judge(&f, &why));
}
