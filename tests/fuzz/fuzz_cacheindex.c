// SPDX-License-Identifier: Apache-2.0
/* A cache folder with these bytes as its index: opens, or is refused. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "blockstore/cache.h"
#include "common/fs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		__builtin_trap();
}

static void try_blocks(struct cache *c, const uint8_t *data, size_t size)
{
	static uint8_t got[BLOCK_USIZE_MAX];
	struct cache_stats st;

	cache_get_stats(c, &st);
	require(st.blocks <= size / LOG_RECORD_SIZE);
	for (size_t at = LOG_HEADER_SIZE; at + LOG_RECORD_SIZE <= size;
	     at += LOG_RECORD_SIZE) {
		struct block b = { .voff = 0 };
		struct log_record r;

		if (!log_decode(data + at, &r))
			continue;
		b.digest = r.digest;
		b.usize = r.usize;
		/* The segment holds zeros only. */
		if (cache_read(c, &b, 0, got, b.usize, NULL) == 0)
			require(block_check(&b, got, NULL) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char dir[] = "/tmp/bootseer-fuzz.XXXXXX", path[64];
	struct cache_config cfg = { .dir = dir, .quota = 1 << 20 };
	struct error err = ERROR_INIT;
	struct cache *c = NULL;
	uint64_t bytes;
	int rc;

	require(mkdtemp(dir) != NULL);
	(void)snprintf(path, sizeof(path), "%s/index", dir);
	require(fs_replace_file(path, data, size, 0600, &err) == 0);
	(void)snprintf(path, sizeof(path), "%s/segment-00000000", dir);
	require(fs_replace_file(path, "", 0, 0600, &err) == 0);
	rc = cache_open(&cfg, &c, &err);
	if (rc == 0) {
		if (log_decode_header(data, size, &bytes, &err) == 0)
			try_blocks(c, data, size);
		cache_close(c);
	} else {
		require(rc == -ENOTSUP);
	}
	require(fs_remove_tree(dir, &err) == 0);
	return 0;
}
