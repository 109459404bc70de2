// SPDX-License-Identifier: Apache-2.0
/*
 * Inside of fetching; private to device.c and fetcher*.c.
 *
 *   device.c            reads: what the cache has, and pieces of what it lacks
 *   device_fetch.c      prefetching lists of blocks
 *   device_places.c     the blocks of a map in the order of their packs
 *   device_stream.c     sequential readers, and reading ahead of them
 *   fetcher.c           threads, queues, deadlines
 *   fetcher_detour.c    flights that leave a device whose registry hangs
 *   fetcher_flight.c    blocks under way, and who waits for them
 *   fetcher_pace.c      which transfers give way to which
 *   fetcher_share.c     whose turn it is to have a thread
 *   fetcher_transfer.c  one request to a source: its range, and its bytes
 *
 * A *flight* is one block that somebody waits for or that is being fetched:
 * one for each digest, however many devices and readers want it, unless the device
 * that fetches it hangs, and others take theirs.  A *piece* is
 * one wait for one flight, a *pending* one reader with its pieces.  A *transfer*
 * fetches the flights of one contiguous range of a pack.
 *
 * One lock, fetcher.lock, guards all of it.  It is not held over reads, copies,
 * cache_put() or callbacks; the locks of the cache may be taken below it.
 */
#ifndef BOOTSEER_BLOCKSTORE_FETCHER_H
#define BOOTSEER_BLOCKSTORE_FETCHER_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "blockstore/device.h"
#include "common/hash.h"
#include "common/thread.h"

#define FLIGHT_BUCKETS 1024u
#define TRANSFER_BLOCKS_MAX 1024u
#define FLIGHT_ATTEMPTS 2 /* transfers that may bring wrong bytes for a block */
#define PRIORITIES 3
#define STREAMS 8  /* sequential readers that a device distinguishes */
#define WIDTH 2u   /* fetcher_config.width */
#define GUESSES 32 /* windows that are watched for whether they help */

struct fetch_host;

struct block_wait {
	TAILQ_ENTRY(block_wait) link;
	struct pending *owner;
	struct flight *flight; /* NULL: not begun, being copied, or done */
	size_t index;          /* of the block in the owner's device */
	uint8_t *dst;          /* NULL: the block is only wanted in the cache */
	uint32_t off, len;     /* part of the block */
	/* For pieces of a device_fetch_list(): */
	uint32_t place;    /* of the block */
	uint32_t cost;     /* stored bytes fetched for it */
	unsigned int slot; /* request that it belongs to */
	/* not in the list, but between its blocks: may fail */
	bool unasked;
	bool kept; /* the block is in the cache now */
};
TAILQ_HEAD(piece_list, block_wait);

struct pending {
	struct device *dev;
	struct device_read *read; /* NULL: a device_fetch_list() */
	TAILQ_ENTRY(pending) by_deadline;
	int64_t deadline_ns;
	bool has_expired; /* and is off that list */
	size_t n_left;    /* pieces not done */
	size_t n_copying; /* pieces whose bytes are being copied right now */
	int rc;           /* first failure */
	struct error err;
	pthread_cond_t progress; /* device_fetch_list(): a piece is done */
	struct piece_list
		done; /* pieces that are done and its caller has not seen */
	size_t n_pieces;
	struct block_wait pieces[];
};

struct flight {
	struct flight *hnext;
	struct block b;
	struct device *dev; /* device whose source fetches the block */
	size_t index;       /* of the block in that device's map */
	TAILQ_ENTRY(flight) queue;
	struct piece_list pieces;
	struct transfer *transfer; /* NULL while queued */
	/* Set while the block is being put into the cache: its bytes, for readers that come
	 * in this time, and the number of readers copying. */
	const uint8_t *data;
	unsigned int n_copying;
	enum source_priority priority;
	uint32_t window; /* bytes that may be fetched along */
	bool ahead;      /* stays queued even if nobody waits */
	/* queued flights with the same number are fetched by one request; 0: none */
	uint64_t range;
	unsigned int wrong; /* transfers that brought wrong bytes for it */
};
TAILQ_HEAD(flight_queue, flight);

struct transfer {
	struct block_sink sink;
	struct pace pace;
	struct fetcher *f;
	struct device *dev; /* NULL: no transfer is running */
	enum source_priority priority;
	atomic_bool is_awaited; /* a reader waits for a flight that is left */
	atomic_bool is_moving;  /* and bytes are coming: others give way */
	atomic_int_fast64_t moved_ns; /* when its bytes last arrived */
	atomic_bool stop;             /* the rest is not wanted any more */
	/* Measures of its speed over the last second; used by its own thread only. */
	int64_t first_ns;  /* time of the first byte; 0: none came */
	int64_t waited_ns; /* time it gave way to others since */
	uint64_t bytes;    /* stored bytes of complete blocks */
	bool is_judged;    /* its speed was judged before */
	size_t n, next;    /* number of flights; the first one not delivered */
	uint64_t unpacked; /* unpacked bytes of all its flights */
	bool joined;       /* a reader waits for a flight in a bulk transfer */
	bool cut;          /* stopped here in favour of a reader */
	struct flight *flights[TRANSFER_BLOCKS_MAX];
	struct block blocks[TRANSFER_BLOCKS_MAX];
};

struct fetcher {
	struct fetcher_config cfg;
	pthread_mutex_t lock;  /* protects all members below */
	pthread_cond_t work;   /* a queue is no longer empty, or stop */
	pthread_cond_t timer;  /* the first deadline changed, or stop */
	pthread_cond_t quiet;  /* a device lost a read or a transfer */
	pthread_cond_t copied; /* nobody copies from a flight's data any more */
	bool stop;
	unsigned int n_idle; /* threads that wait for work */
	unsigned int n_bulk; /* transfers that no reader has requested */
	unsigned int
		max_bulk;  /* bound of n_bulk: other threads are for readers */
	uint64_t n_ranges; /* range numbers given so far */
	unsigned int n_awaited;   /* transfers that readers wait for */
	bool has_guests;          /* detour_watch() was called */
	int64_t look_ns, trim_ns; /* share_look(), trimming; 0: not due */
	LIST_HEAD(, fetch_host) hosts;
	struct flight_queue queue[PRIORITIES];
	struct flight *buckets[FLIGHT_BUCKETS];
	struct hash_seed seed;            /* of what chooses one */
	TAILQ_HEAD(, pending) deadlines;  /* soonest first */
	atomic_int_fast64_t last_read_ns; /* accessed without the lock */
	/* Without the lock: so many are given way to, and nobody gives way until. */
	atomic_uint n_moving;
	atomic_int_fast64_t moving_until, hot_until;
	pthread_cond_t way;        /* n_moving became 0; used with the lock */
	struct block_rooms *rooms; /* block buffers, shared by all threads */
	unsigned int n_threads;
	struct thread timer_thread;
	struct fetch_thread {
		struct thread thread;
		struct transfer transfer;
	} threads[];
};

struct stream {
	size_t next; /* entry behind the last one fetched for it */
	uint32_t window;
	uint64_t stamp; /* order of last use; the lowest is replaced */
};

/* The window behind the block of a reader that jumped, whether it was fetched or not. */
struct guess {
	atomic_size_t miss, end;
	atomic_bool helps; /* an entry of the window was read since */
};

struct device {
	struct fetcher *f;
	const struct blockmap *map;
	char *label;
	struct fetch_host *host;
	struct block_source **packs;
	/* Protected by the fetcher's lock: */
	size_t n_reads; /* number of pendings */
	size_t n_transfers;
	unsigned int n_urgent;  /* transfers begun for readers */
	unsigned int n_awaited; /* transfers that a reader waits for now */
	unsigned int n_bulk;    /* transfers that no reader has requested */
	int64_t hangs_until; /* till then one place for bulk, others go first */
	int64_t widen_ns, narrow_ns; /* `width` changes not before */
	/* Accessed without the lock: parallel requests of a list; and whether blocks came
	 * slowly, so that short requests are better. */
	atomic_uint width;
	atomic_bool is_slow;
	/* Recent speed of one bulk request in bytes per second; 0: not known. */
	atomic_uint_fast64_t rate;
	uint64_t fetches, fetched_bytes;
	unsigned int n_waits; /* readers; since when there is one; and before */
	int64_t waits_since_ns, waited_ns;
	struct stream streams[STREAMS];
	uint64_t stamp;
	unsigned int next_guess; /* index of the oldest */
	/* Accessed without the lock. */
	struct guess guesses[GUESSES];
	/* Entries that start reading ahead when they are read; SIZE_MAX: none. Accessed
	 * without the lock. */
	atomic_size_t marks[STREAMS];
	atomic_uint_fast64_t reads, read_bytes, misses, errors;
	/* Read-locked during calls to the observers. */
	pthread_rwlock_t watch;
	struct device_observer *observers;
	atomic_bool is_watched;      /* accessed without the lock */
	pthread_mutex_t places_lock; /* held while `places` is made */
	pthread_mutex_t error_lock;  /* protects the next two */
	struct error error;          /* of the last read that failed */
	int64_t error_at;            /* seconds since 1970; 0: none did */
	struct places places;        /* made at the first use */
};

/* Count a failed read of the device. Without the lock; fetcher_flight.c. */
void device_failed(struct device *dev, const struct error *err);

/* All below: with the lock.  "Releases" says that it is let go in between. */

/* Has the transfer, though it need not give way, brought nothing for so long that readers of
 * other devices should not wait for it? fetcher_flight.c. */
bool transfer_hangs(struct transfer *t);
/* Readers of another device wait for a transfer's flights: check regularly whether it makes
 * progress. fetcher_flight.c. */
void detour_watch(struct fetcher *f);

/* fetcher_flight.c */
/* Is it a flight of this very block? A map may lie about sizes, so entries with equal
 * digests but other values never share a flight. */
bool flight_is_of(const struct flight *fl, const struct block *b);
struct flight *flight_find(struct fetcher *f, const struct block *b);
/* Head of the bucket's chain. */
struct flight **flight_bucket(struct fetcher *f, const struct block *b);
/* Make a flight that is not queued; NULL when memory is short. */
struct flight *flight_new(struct fetcher *f, struct device *dev, size_t index,
			  const struct block *b);
/* Free a flight for which nobody waits and which no transfer has. */
void flight_drop(struct fetcher *f, struct flight *fl);
void flight_enqueue(struct fetcher *f, struct flight *fl, bool first);
void flight_dequeue(struct fetcher *f, struct flight *fl);
/* Have the piece wait for the block; if that is not being fetched, it is queued with the
 * range number `range`. */
int flight_join(struct fetcher *f, struct device *dev, struct block_wait *p,
		const struct block *b, enum source_priority priority,
		uint64_t range, struct error *err) MUST_CHECK;
/* Give the bytes to the waiters; `data` NULL: from the cache. Releases. False when the cache
 * has lost them; the pieces then wait again. */
bool flight_deliver(struct fetcher *f, struct flight *fl, const uint8_t *data);
/* Give the bytes to readers that come while the flight is put into the cache, on their own
 * threads. */
void flight_deliver_early(struct fetcher *f, struct flight *fl);
/* End these early deliveries: none begins, and none is running when this returns. Releases. */
void flight_end_early(struct fetcher *f, struct flight *fl);
/* Does a reader wait for the flight? */
bool flight_has_reader(const struct flight *fl);
/* Latest deadline of the flight's readers; 0: it has none. */
int64_t flight_deadline(const struct flight *fl);
/* End the pieces that only want the block in the cache. */
void flight_kept(struct flight *fl, int rc, const struct error *err);
/* Fail the pieces that wait through the flight's device; the others go on with their own
 * device. Releases. Afterwards the flight is freed or queued. */
void flight_fail(struct fetcher *f, struct flight *fl, int rc,
		 const struct error *err);
/* Have the flight fetched through the device of its piece `p`; not while a transfer has it. */
void flight_move(struct flight *fl, const struct block_wait *p);
/* Have it fetched through the device of its first piece. */
void flight_rehome(struct flight *fl);

/* Fail a reader. Releases. */
void pending_fail(struct fetcher *f, struct pending *p, int rc,
		  const struct error *err);
/* End its waits, except for pieces that are being copied. */
void pending_detach(struct fetcher *f, struct pending *p);
void pending_add(struct fetcher *f, struct pending *p);
/* A taken piece was copied. Releases when it was the last one. */
void pending_copied(struct fetcher *f, struct pending *p);
struct pending *pending_new(struct device *dev, struct device_read *r,
			    size_t n_pieces);
void pending_free(struct pending *p);

/* fetcher_transfer.c */
/* Fetch a queued flight and its neighbours. Releases. */
void transfer_run(struct fetcher *f, struct transfer *t, struct flight *fl);
/* Stop the transfers of `dev`: pieces that wait through other devices have the rest fetched
 * there. */
void transfers_stop(struct fetcher *f, const struct device *dev);

/* fetcher_detour.c */
/* For hanging transfers: fetch the blocks that readers of other devices wait for through
 * these devices. True when such waits are left. */
bool detour_begin(struct fetcher *f);
/* Fetch a queued flight through the device of a waiting piece other than `than`, if there is
 * one. */
void detour_failed(struct flight *fl, const struct device *than);
/* Fetch it through the device of a waiting piece that may begin a transfer. */
bool detour_queued(const struct fetcher *f, struct flight *fl,
		   bool (*may)(const struct fetcher *f,
			       const struct device *dev));

#endif
