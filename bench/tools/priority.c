// SPDX-License-Identifier: Apache-2.0
/*
 * How long readers wait beside bulk:
 *
 *   bench-priority REF put MIB          upload a made-up pack
 *   bench-priority REF read MIB DIR N   of that pack, through a cache in DIR
 *
 * Readers take one random block of the first third after another, bulk is a
 * device_fetch_list() of the rest.  A line for each of the phases "off" (no
 * bulk), "bulk" (no reader) and "on": its name, N, microseconds that half, 99 %
 * and 99.9 % of the reads took at most, and bytes a second of bulk.  Plain HTTP.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "blockstore/device.h"
#include "common/bytes.h"
#include "common/clock.h"
#include "common/fs.h"
#include "net/http.h"
#include "objects/oci.h"

#define BLOCK (96u * KIB)
#define PIECE 4096u
#define THREADS 16u
#define STREAMS 8u
#define BULK_NS 4000000000LL /* duration of the measurement of bulk alone */

struct bench {
	struct oci_store *store;
	struct digest pack;
	size_t n;
	void *map_data;
	struct blockmap map;
	struct cache *cache;
	struct fetcher *fetcher;
	struct device *dev;
	uint32_t *list;
	atomic_uint_fast64_t bulk_bytes;
	bool stop; /* ends the list; accessed with __atomic_load_n() */
};

static _Noreturn void die(const char *what, const struct error *err)
{
	(void)fprintf(stderr, "bench-priority: %s: %s\n", what, err->msg);
	exit(1);
}

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

/* Fill block `i` with content that cannot be compressed. */
static void fill(uint64_t *words, size_t i)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u;

	for (size_t w = 0; w < BLOCK / sizeof(*words); w++)
		words[w] = next_random(&x);
}

/* Make the map of the pack, and with `fd` also its bytes. */
static void make_pack(struct bench *b, int fd)
{
	static uint64_t words[BLOCK / sizeof(uint64_t)];
	struct blockmap_writer *w = blockmap_writer_new();
	struct hasher *all = hasher_new();
	struct pack p = { .size = (uint64_t)b->n * BLOCK };
	struct error err = ERROR_INIT;
	uint32_t index;
	size_t len;
	int rc = w && all ? 0 : error_nomem(&err);

	for (size_t i = 0; i < b->n && rc == 0; i++) {
		struct block blk = { .voff = (uint64_t)i * BLOCK,
				     .poff = (uint64_t)i * BLOCK,
				     .usize = BLOCK,
				     .csize = BLOCK,
				     .codec = BLOCK_CODEC_RAW };

		fill(words, i);
		if (hasher_update(all, words, BLOCK) < 0 ||
		    digest_of(words, BLOCK, &blk.digest) < 0)
			rc = error_nomem(&err);
		if (rc == 0 && fd >= 0)
			rc = fs_write_full(fd, words, BLOCK);
		if (rc == 0)
			rc = blockmap_writer_block(w, &blk, &err);
	}
	if (rc == 0 && hasher_final(all, &p.digest) < 0)
		rc = error_nomem(&err);
	b->pack = p.digest;
	if (rc == 0)
		rc = blockmap_writer_pack(w, &p, &index, &err);
	if (rc == 0)
		rc = blockmap_writer_finish(w, p.size, &b->map_data, &len,
					    &err);
	if (rc == 0)
		rc = blockmap_open(b->map_data, len, &b->map, &err);
	if (rc < 0)
		die("make the pack", &err);
	blockmap_writer_free(w);
	hasher_free(all);
}

static void put(struct bench *b)
{
	struct error err = ERROR_INIT;
	FILE *f = tmpfile();

	if (!f)
		die("temporary file", &err);
	make_pack(b, fileno(f));
	if (oci_put_blob(b->store, &b->pack, (uint64_t)b->n * BLOCK, fileno(f),
			 NULL, &err) < 0)
		die("upload", &err);
	(void)fclose(f);
}

static void open_device(struct bench *b, const char *dir)
{
	struct cache_config cc = { .dir = dir, .quota = UINT64_C(64) << 30 };
	struct fetcher_config fc = { .threads = THREADS,
				     .window = MIB,
				     .window_max = 4 * MIB,
				     .demand_timeout_ns = 30000000000LL };
	struct error err = ERROR_INIT;
	struct block_source *checked = NULL;
	struct source *src = NULL;
	int rc = cache_open(&cc, &b->cache, &err);

	fc.cache = b->cache;
	if (rc == 0)
		rc = fetcher_new(&fc, &b->fetcher, &err);
	if (rc == 0)
		rc = oci_open_blob(b->store, &b->pack, (uint64_t)b->n * BLOCK,
				   &src, &err);
	if (rc == 0)
		rc = verify_source_new(src, &checked, &err);
	if (rc == 0)
		rc = device_new(b->fetcher, &b->map, "bench", "localhost",
				&checked, &b->dev, &err);
	if (rc < 0)
		die("open", &err);
}

static void count_bulk(void *arg, uint32_t block, uint32_t fetched)
{
	struct bench *b = arg;

	(void)block;
	atomic_fetch_add(&b->bulk_bytes, fetched);
}

static void *bulk_main(void *arg)
{
	struct bench *b = arg;
	size_t first = b->n / 3;
	struct device_list list = { .blocks = b->list,
				    .n = b->n - first,
				    .priority = SOURCE_COLD,
				    .streams = STREAMS,
				    .have = count_bulk,
				    .arg = b,
				    .cancel = &b->stop };
	struct error err = ERROR_INIT;
	int rc;

	for (size_t i = first; i < b->n; i++)
		b->list[i - first] = (uint32_t)i;
	rc = device_fetch_list(b->dev, &list, &err);
	if (rc < 0 && rc != -ECANCELED)
		die("bulk", &err);
	if (rc == 0)
		(void)fprintf(stderr, "bulk ended before the readers\n");
	return NULL;
}

static int compare(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Choose a random block that is not in the cache yet. */
static size_t choose(struct bench *b, uint64_t *x)
{
	for (int tries = 0; tries < 100; tries++) {
		size_t i = next_random(x) % (b->n / 3);

		if (!device_has(b->dev, i))
			return i;
	}
	return SIZE_MAX;
}

static void forget(struct bench *b)
{
	struct error err = ERROR_INIT;
	uint64_t freed;

	if (cache_gc(b->cache, 0, &freed, &err) < 0)
		die("forget", &err);
}

static void read_some(struct bench *b, size_t n, int64_t *took, uint64_t *x)
{
	struct error err = ERROR_INIT;
	uint8_t buf[PIECE];

	for (size_t i = 0; i < n;) {
		size_t block = choose(b, x);
		int64_t start = clock_now_ns();

		if (block == SIZE_MAX) {
			forget(b);
			continue;
		}
		if (device_read_sync(b->dev, (uint64_t)block * BLOCK, buf,
				     sizeof(buf), &err) < 0)
			die("read", &err);
		took[i++] = clock_now_ns() - start;
	}
}

static void phase(struct bench *b, const char *name, size_t n, bool is_bulk)
{
	int64_t *took = calloc(n + 1, sizeof(*took));
	uint64_t x = 88172645463325252u;
	pthread_t bulk;
	int64_t start;

	if (!took)
		exit(1);
	forget(b);
	atomic_store(&b->bulk_bytes, 0);
	__atomic_store_n(&b->stop, false, __ATOMIC_RELAXED);
	if (is_bulk && pthread_create(&bulk, NULL, bulk_main, b) != 0)
		exit(1);
	start = clock_now_ns();
	/* Wait until bulk has reached its speed. */
	while (is_bulk && clock_now_ns() - start < NS_PER_S)
		(void)poll(NULL, 0, 10);
	start = clock_now_ns();
	atomic_store(&b->bulk_bytes, 0);
	read_some(b, n, took, &x);
	while (!n && clock_now_ns() - start < BULK_NS)
		(void)poll(NULL, 0, 10);
	qsort(took, n, sizeof(*took), compare);
	printf("%s %zu %" PRId64 " %" PRId64 " %" PRId64 " %.0f\n", name, n,
	       took[n / 2] / 1000, took[n * 99 / 100] / 1000,
	       took[n * 999 / 1000] / 1000,
	       (double)atomic_load(&b->bulk_bytes) * 1e9 /
		       (double)(clock_now_ns() - start));
	(void)fflush(stdout);
	__atomic_store_n(&b->stop, true, __ATOMIC_RELAXED);
	if (is_bulk)
		(void)pthread_join(bulk, NULL);
	free(took);
}

int main(int argc, char **argv)
{
	struct oci_config cfg = OCI_CONFIG_INIT;
	struct error err = ERROR_INIT;
	struct oci_ref ref;
	struct bench b = { .stop = false };

	if (argc != 4 && argc != 6) {
		(void)fprintf(stderr, "usage: bench-priority REF put MIB | "
				      "REF read MIB DIR N\n");
		return 2;
	}
	cfg.plain_http = true;
	b.n = (size_t)(strtoull(argv[3], NULL, 10) * MIB / BLOCK);
	b.list = calloc(b.n + 1, sizeof(*b.list));
	if (oci_ref_parse(argv[1], &ref, &err) < 0 ||
	    oci_store_open(&ref, &cfg, false, &b.store, &err) < 0)
		die(argv[1], &err);
	if (argc == 4) {
		put(&b);
	} else {
		size_t n = (size_t)strtoull(argv[5], NULL, 10);

		make_pack(&b, -1);
		open_device(&b, argv[4]);
		phase(&b, "off", n, false);
		phase(&b, "bulk", 0, true);
		phase(&b, "on", n, true);
		device_free(b.dev);
		fetcher_free(b.fetcher);
		cache_close(b.cache);
	}
	oci_store_free(b.store);
	oci_ref_fini(&ref);
	free(b.list);
	free(b.map_data);
	return 0;
}
