// SPDX-License-Identifier: Apache-2.0
/*
 * The virtual data device of an image, and the threads that fetch its blocks: demand before hot
 * before cold, and a block only once however many readers want it. A public header of its own,
 * as sources and cache also have users that read no device.
 */
#ifndef BOOTSEER_BLOCKSTORE_DEVICE_H
#define BOOTSEER_BLOCKSTORE_DEVICE_H

#include "blockstore/blockstore.h"

/* The distinct stored places of a map, in the order of packs and offsets. Equal maps have
 * equal places. */
struct places {
	size_t n;
	/* for each place: the first entry of the map stored there */
	uint32_t *entry;
	uint32_t *of; /* for each entry of the map: its place */
};

/* -EINVAL: two entries with the same place are different blocks. */
int places_make(const struct blockmap *map, struct places *ret,
		struct error *err) MUST_CHECK;
void places_fini(struct places *p);

/* Fetch threads and windows, shared by all devices of a process. */
struct fetcher;

struct fetcher_config {
	unsigned int threads; /* transfers at the same time, 1..256 */
	/* bytes fetched along with a missing block */
	uint32_t window;
	uint32_t window_max; /* the same for sequential readers */
	/* longest wait of a reader, then -ETIMEDOUT */
	int64_t demand_timeout_ns;
	struct cache *cache; /* borrowed */
	/* parallel requests for a device's first list, until the speed of its blocks is
	 * known; 0: 2 */
	unsigned int width;
};

int fetcher_new(const struct fetcher_config *cfg, struct fetcher **ret,
		struct error *err) MUST_CHECK;
void fetcher_free(struct fetcher *f); /* after its devices */

/* Nanoseconds since the last read of any device, cached or not; 0 while a reader waits. */
int64_t fetcher_idle_ns(struct fetcher *f);

struct device;

/*
 * Make the virtual data device of one image. `packs` are n_packs block sources in the map's
 * order; the device takes them, also when this fails. `map` is borrowed until device_free().
 * `host` is the registry's, as registry_host_name() takes it: devices of one host share its part
 * of the threads.
 */
int device_new(struct fetcher *f, const struct blockmap *map, const char *label,
	       const char *host, struct block_source **packs,
	       struct device **ret, struct error *err) MUST_CHECK;
/* Free a device. Reads that still wait fail with -EIO; no read may begin, and no
 * device_fetch_list() may be running. Does not wait for a registry. */
void device_free(struct device *d);

/* A read; the caller owns it and its buffer until `done`. */
struct device_read {
	uint64_t off;
	size_t len;
	void *buf;
	/* Called exactly once: on the calling thread when everything was in the cache or
	 * nothing could be started, else on a thread of the fetcher or of another reader, so it
	 * must not block for long. `err` is borrowed, NULL when rc == 0. On success all `len`
	 * bytes are there, else none may be used: -EIO (also: no block covers a byte),
	 * -EBADMSG, -ETIMEDOUT. */
	void (*done)(struct device_read *r, int rc, const struct error *err);
	struct device_read *next; /* used by the device */
};

/* Begin a read. Never blocks for a transfer; may read the cache's disk. */
void device_submit(struct device *d, struct device_read *r);

/* Read, blocking. */
int device_read_sync(struct device *d, uint64_t off, void *buf, size_t len,
		     struct error *err) MUST_CHECK;

/*
 * Sees the reads of a device, as the recorder does. Called on any reading thread, several at
 * once; must not block, and must not call the device.
 */
struct device_observer {
	/* A reader wants these bytes, cached or not. */
	void (*read)(struct device_observer *o, uint64_t off, size_t len);
	/* A reader found that block `index` of the map is not in the cache. Called after
	 * read(), before the block is fetched. May be NULL. */
	void (*miss)(struct device_observer *o, size_t index);
	struct device_observer *next; /* used by the device */
};

/* A device may have several observers. When device_unobserve() returns, no call into the
 * observer is running or will come. */
void device_observe(struct device *d, struct device_observer *o);
void device_unobserve(struct device *d, struct device_observer *o);

/* A list of many scattered blocks to fetch. */
struct device_list {
	/* entries of the map, wanted in this order; borrowed until the call returns */
	const uint32_t *blocks;
	size_t n;
	enum source_priority priority; /* SOURCE_HOT or SOURCE_COLD */
	/* most transfers at the same time, 1..threads; fewer while blocks come slowly */
	unsigned int streams;
	/* A request may include up to so many stored bytes that are not in the list, if that
	 * saves a request; these blocks are kept too. */
	uint32_t gap;
	uint32_t range_max; /* stored bytes of one request; 0: window_max */
	/* The limit for later requests, whose first block nobody waits for soon: it grows
	 * with the bytes requested before. 0: it does not grow. */
	uint32_t range_grown;
	/* Called with each block of the list that is on the node now, and its cost: 0 when
	 * it was there already or another reader fetches it; also with each block fetched
	 * within a gap. On the calling thread; must not block. May be NULL. */
	void (*have)(void *arg, uint32_t block, uint32_t fetched_bytes);
	void *arg;
	/* Called before each request: returns nanoseconds to wait (for a rate limit, or a
	 * node under pressure), at most a second, or 0 to go on. May be NULL. */
	int64_t (*pause)(void *arg, uint64_t next_bytes);
	/* checked at least every 100 ms; may be NULL */
	const volatile bool *cancel;
};

/*
 * Fetch the blocks of the list that the cache lacks; blocking. Requests start in the order of
 * the list, each for blocks that lie together in a pack. A block that another reader fetches
 * already is not fetched twice. Stops at the first failure that a retry did not cure:
 * -ECANCELED, -ENOSPC when the cache has no room, or as for a read; blocks fetched until then
 * stay.
 */
int device_fetch_list(struct device *d, const struct device_list *list,
		      struct error *err) MUST_CHECK;

/* Is block `index` of the map on the node? */
bool device_has(struct device *d, size_t index);
/* cache_has_place() for block `index` of the map. */
bool device_has_place(struct device *d, size_t index);

/*
 * Would device_submit() of these bytes end at once, with all bytes from the cache or with an
 * error? Not reliable for later: a block may be evicted. Takes some 100 ns for each block.
 */
bool device_has_bytes(struct device *d, uint64_t off, size_t len);

struct device_stats {
	uint64_t reads, read_bytes, misses;
	uint64_t fetches, fetched_bytes; /* requests and stored bytes */
	/* time during which at least one reader waited for a block */
	int64_t waited_ns;
	uint64_t blocks; /* entries of the map */
	uint64_t errors;
	struct error error; /* of the last read that failed */
	/* time of that failure, seconds since 1970; 0: none */
	int64_t error_at;
};
void device_get_stats(struct device *d, struct device_stats *ret);

/* Number of the map's entries that are on the node; checks each, which takes some 100 ns. */
size_t device_count_held(struct device *d);

#endif
