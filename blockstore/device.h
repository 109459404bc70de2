// SPDX-License-Identifier: Apache-2.0
/*
 * The virtual data device of an image, and the threads that fetch its blocks:
 * demand before hot before cold, a block once however many want it.  The third
 * public header of this folder: sources and cache have users that read no
 * device.
 */
#ifndef BOOTSEER_BLOCKSTORE_DEVICE_H
#define BOOTSEER_BLOCKSTORE_DEVICE_H

#include "blockstore/blockstore.h"

/* The distinct stored places of a map, in the order of packs and offsets: who
 * has the same map has the same places. */
struct places {
	size_t n;
	uint32_t *entry; /* by place: the first entry of the map stored there */
	uint32_t *of;    /* by entry of the map: its place */
};

/* -EINVAL: two entries of one place are not the same block. */
int places_make(const struct blockmap *map, struct places *ret,
		struct error *err) MUST_CHECK;
void places_fini(struct places *p);

/* Fetch threads and windows, shared by all devices of a process. */
struct fetcher;

struct fetcher_config {
	unsigned int threads;      /* 1..256 transfers at once */
	uint32_t window;           /* bytes around a miss fetched with it */
	uint32_t window_max;       /* the same when reads are sequential */
	int64_t demand_timeout_ns; /* a reader waits no longer, then -ETIMEDOUT */
	struct cache *cache;       /* borrowed */
	unsigned int width; /* requests of a device's first list at once, until
	                     * it is seen how fast its blocks come; 0: 2 */
};

int fetcher_new(const struct fetcher_config *cfg, struct fetcher **ret,
		struct error *err) MUST_CHECK;
void fetcher_free(struct fetcher *f); /* after its devices */

/* Nanoseconds since somebody read from a device, whether or not it was there; 0
 * while one waits. */
int64_t fetcher_idle_ns(struct fetcher *f);

struct device;

/*
 * The virtual data device of one image.  `packs` are n_packs block sources in the map's
 * order; the device takes them and owns them from here, also when this fails.
 * `map` is borrowed until device_free().  `host` is the registry's, as
 * registry_host_name() takes it: devices of one host share its part of the threads.
 */
int device_new(struct fetcher *f, const struct blockmap *map, const char *label,
	       const char *host, struct block_source **packs,
	       struct device **ret, struct error *err) MUST_CHECK;
/* Fails its reads that still wait, with -EIO; no read may begin and no
 * device_fetch_list() be under way.  Does not wait for a registry. */
void device_free(struct device *d);

/* A read; the caller owns it and its buffer until `done`. */
struct device_read {
	uint64_t off;
	size_t len;
	void *buf;
	/* Exactly once; on the calling thread when everything was on the
	 * node or nothing could be begun, otherwise on a thread of the
	 * fetcher or of another reader, so it must not block for long.  `err` is borrowed, NULL
	 * when rc == 0.  All `len` bytes are there, or none is promised:
	 * -EIO (also: no block covers a byte), -EBADMSG, -ETIMEDOUT. */
	void (*done)(struct device_read *r, int rc, const struct error *err);
	struct device_read *next; /* for whoever holds it: the device */
};

/* Never blocks for a transfer; may read the cache's disk. */
void device_submit(struct device *d, struct device_read *r);

/* The same, blocking. */
int device_read_sync(struct device *d, uint64_t off, void *buf, size_t len,
		     struct error *err) MUST_CHECK;

/*
 * Sees the reads of a device: the recorder is one.  Called on whatever thread
 * reads, several at once; must not block and must not call the device.
 */
struct device_observer {
	/* A reader wants these bytes, wherever they come from. */
	void (*read)(struct device_observer *o, uint64_t off, size_t len);
	/* Block `index` of the map was not in the cache when a reader came;
	 * after read(), before it is fetched.  May be NULL. */
	void (*miss)(struct device_observer *o, size_t index);
	struct device_observer *next; /* the device's */
};

/* Several may watch one device.  device_unobserve() returns when no call into
 * the observer is under way or will come. */
void device_observe(struct device *d, struct device_observer *o);
void device_unobserve(struct device *d, struct device_observer *o);

/* Fetching of many scattered blocks. */
struct device_list {
	const uint32_t *blocks; /* entries of the map, wanted in this order;
	                         * borrowed until the call returns */
	size_t n;
	enum source_priority priority; /* SOURCE_HOT or SOURCE_COLD */
	unsigned int streams; /* transfers under way at once, 1..threads; fewer
	                       * while blocks come slowly */
	/* A range may pass over so many stored bytes that nobody asked for
	 * when that saves a request; they are kept too. */
	uint32_t gap;
	uint32_t range_max; /* stored bytes of one request; 0: window_max */
	/* The same of later requests, of which nobody waits for the first block soon:
	 * it grows with what was asked for before.  0: it does not. */
	uint32_t range_grown;
	/* Called with each block of the list that is on the node now, with
	 * what it cost: 0 when it was there already or somebody else fetches
	 * it; and with each block that came along within a gap.  On the
	 * calling thread; must not block.  May be NULL. */
	void (*have)(void *arg, uint32_t block, uint32_t fetched_bytes);
	void *arg;
	/* Asked before each request: nanoseconds to wait (a rate limit, a
	 * node under pressure), 0 to go on; at most a second at a time.  May
	 * be NULL. */
	int64_t (*pause)(void *arg, uint64_t next_bytes);
	const volatile bool *cancel; /* looked at least every 100 ms; may be
	                              * NULL */
};

/*
 * Fetch those blocks of the list that the cache lacks; blocking.  Requests start
 * in the order of the list, each for blocks that lie together in a pack.
 * Single flight with everything else.  Stops at the first failure that a retry
 * did not mend: -ECANCELED, -ENOSPC when the cache has no room, or as for a
 * read; what came until then stays.
 */
int device_fetch_list(struct device *d, const struct device_list *list,
		      struct error *err) MUST_CHECK;

/* Is block `index` of the map on the node? */
bool device_has(struct device *d, size_t index);
/* cache_has_place() of it. */
bool device_has_place(struct device *d, size_t index);

/*
 * Would device_submit() of these bytes end at once, with bytes that are all on the
 * node or with an error?  Later it may not any more: a block may be evicted.  Some
 * 100 ns a block.
 */
bool device_has_bytes(struct device *d, uint64_t off, size_t len);

struct device_stats {
	uint64_t reads, read_bytes, misses;
	uint64_t fetches, fetched_bytes; /* requests and stored bytes */
	int64_t waited_ns; /* in which some reader waited for a block */
	uint64_t blocks;   /* entries of the map */
	uint64_t errors;
	struct error error; /* of the last read that failed */
	int64_t error_at;   /* when, seconds since 1970; 0: none did */
};
void device_get_stats(struct device *d, struct device_stats *ret);

/* How many entries of the map are on the node; looks at each: some 100 ns. */
size_t device_count_held(struct device *d);

#endif
