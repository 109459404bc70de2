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
#define FLIGHT_ATTEMPTS 2 /* transfers that may bring a block wrong bytes */
#define PRIORITIES 3
#define STREAMS 8  /* sequential readers that are told apart in a device */
#define WIDTH 2u   /* fetcher_config.width */
#define GUESSES 32 /* windows that are watched whether they help */

struct fetch_host;

struct block_wait {
	TAILQ_ENTRY(block_wait) link;
	struct pending *owner;
	struct flight *flight; /* NULL: not begun, being copied, or done */
	size_t index;          /* of the block in the owner's device */
	uint8_t *dst;          /* NULL: only keep it in the cache */
	uint32_t off, len;     /* part of the block */
	/* For pieces of a device_fetch_list(): */
	uint32_t place;    /* of the block */
	uint32_t cost;     /* stored bytes fetched for it */
	unsigned int slot; /* request that it belongs to */
	bool unasked;      /* lies between those asked for: may fail */
	bool kept;         /* and is in the cache now */
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
	struct device *dev; /* whose source brings the block */
	size_t index;       /* of the block in that device's map */
	TAILQ_ENTRY(flight) queue;
	struct piece_list pieces;
	struct transfer *transfer; /* NULL while queued */
	/* While it is being put into the cache: the block, for readers who come
	 * now, and how many of them copy. */
	const uint8_t *data;
	unsigned int n_copying;
	enum source_priority priority;
	uint32_t window;    /* bytes that may be fetched along unasked */
	bool ahead;         /* kept queued though nobody waits */
	uint64_t range;     /* queued side by side with others of this number,
	                     * to be fetched with one request; 0 is none */
	unsigned int wrong; /* transfers that brought other bytes */
};
TAILQ_HEAD(flight_queue, flight);

struct transfer {
	struct block_sink sink;
	struct pace pace;
	struct fetcher *f;
	struct device *dev; /* NULL: none is under way */
	enum source_priority priority;
	atomic_bool is_awaited; /* a reader waits for a flight that is left */
	atomic_bool is_moving;  /* and bytes are coming: others give way */
	atomic_int_fast64_t moved_ns; /* when bytes of it came last */
	atomic_bool stop;             /* what is left is not wanted any more */
	/* Measures of how fast the transfer is, over the last second; for its
	 * own thread. */
	int64_t first_ns;  /* since its first byte; 0: none came */
	int64_t waited_ns; /* what it has given way since */
	uint64_t bytes;    /* stored, of whole blocks */
	bool is_judged;    /* it was before */
	size_t n, next;    /* flights, and the first one not delivered */
	uint64_t unpacked; /* bytes of all of them */
	bool joined;       /* a reader waits for a flight in a bulk transfer */
	bool cut;          /* stopped by us for the sake of a reader */
	struct flight *flights[TRANSFER_BLOCKS_MAX];
	struct block blocks[TRANSFER_BLOCKS_MAX];
};

struct fetcher {
	struct fetcher_config cfg;
	pthread_mutex_t lock;  /* all below */
	pthread_cond_t work;   /* a queue is no longer empty, or stop */
	pthread_cond_t timer;  /* the first deadline changed, or stop */
	pthread_cond_t quiet;  /* a device lost a read or a transfer */
	pthread_cond_t copied; /* nobody copies from a flight's data any more */
	bool stop;
	unsigned int n_idle; /* threads that wait for work */
	unsigned int n_bulk; /* transfers that no reader asked for */
	unsigned int
		max_bulk;  /* bound of n_bulk: other threads are for readers */
	uint64_t n_ranges; /* numbers given so far */
	unsigned int n_awaited;   /* transfers that readers wait for */
	bool has_guests;          /* detour_watch() was called */
	int64_t look_ns, trim_ns; /* share_look(), trimming; 0: not due */
	LIST_HEAD(, fetch_host) hosts;
	struct flight_queue queue[PRIORITIES];
	struct flight *buckets[FLIGHT_BUCKETS];
	struct hash_seed seed;            /* of what chooses one */
	TAILQ_HEAD(, pending) deadlines;  /* soonest first */
	atomic_int_fast64_t last_read_ns; /* looked at without the lock */
	/* Without the lock: so many are given way to, and nobody gives way until. */
	atomic_uint n_moving;
	atomic_int_fast64_t moving_until, hot_until;
	pthread_cond_t way;        /* with the lock: n_moving became 0 */
	struct block_rooms *rooms; /* of all threads */
	unsigned int n_threads;
	struct thread timer_thread;
	struct fetch_thread {
		struct thread thread;
		struct transfer transfer;
	} threads[];
};

struct stream {
	size_t next; /* entry after what was fetched for it */
	uint32_t window;
	uint64_t stamp; /* of its last use */
};

/* Entries in the window behind the block of a reader who jumped, fetched or not. */
struct guess {
	atomic_size_t miss, end;
	atomic_bool helps; /* somebody read there since */
};

struct device {
	struct fetcher *f;
	const struct blockmap *map;
	char *label;
	struct fetch_host *host;
	struct block_source **packs;
	/* With the fetcher's lock: */
	size_t n_reads; /* pendings */
	size_t n_transfers;
	unsigned int n_urgent;  /* transfers begun for readers */
	unsigned int n_awaited; /* transfers that a reader awaits now */
	unsigned int n_bulk;    /* transfers that no reader asked for */
	int64_t hangs_until; /* till then one place for bulk, others go first */
	int64_t widen_ns, narrow_ns; /* `width` changes not before */
	/* Looked at without the lock: requests of a list at once; and that it
	 * was slow, so that they are better short. */
	atomic_uint width;
	atomic_bool is_slow;
	/* Bytes a second that a request of bulk brings of late; 0: not known. */
	atomic_uint_fast64_t rate;
	uint64_t fetches, fetched_bytes;
	unsigned int n_waits; /* readers; since when there is one; and before */
	int64_t waits_since_ns, waited_ns;
	struct stream streams[STREAMS];
	uint64_t stamp;
	unsigned int next_guess; /* the oldest */
	/* Looked at without the lock. */
	struct guess guesses[GUESSES];
	/* Entries that, when read, ask for more to be read ahead; SIZE_MAX is
	 * none. Looked at without the lock. */
	atomic_size_t marks[STREAMS];
	atomic_uint_fast64_t reads, read_bytes, misses, errors;
	/* Held for reading over calls to the observers. */
	pthread_rwlock_t watch;
	struct device_observer *observers;
	atomic_bool is_watched;      /* looked at without the lock */
	pthread_mutex_t places_lock; /* of making them */
	pthread_mutex_t error_lock;  /* of the two below */
	struct error error;          /* of the last read that failed */
	int64_t error_at;            /* seconds since 1970; 0: none did */
	struct places places;        /* made when first wanted */
};

/* A read of the device failed: count it.  Without the lock; fetcher_flight.c. */
void device_failed(struct device *dev, const struct error *err);

/* All below: with the lock.  "Releases" says that it is let go in between. */

/* Has the transfer brought nothing for so long, though it may, that readers of another
 * device should not wait for it any more?  fetcher_flight.c. */
bool transfer_hangs(struct transfer *t);
/* A transfer has flights that others than its device wait for: look now and then
 * whether it gets on.  fetcher_flight.c. */
void detour_watch(struct fetcher *f);

/* fetcher_flight.c */
/* Is it the block's?  A map may lie about a size: what it says of a digest is never
 * mixed with what another entry says. */
bool flight_is_of(const struct flight *fl, const struct block *b);
struct flight *flight_find(struct fetcher *f, const struct block *b);
/* The first of its chain. */
struct flight **flight_bucket(struct fetcher *f, const struct block *b);
/* A new one, not queued; NULL when memory is short. */
struct flight *flight_new(struct fetcher *f, struct device *dev, size_t index,
			  const struct block *b);
/* Forget it; nobody waits for it and no transfer has it. */
void flight_drop(struct fetcher *f, struct flight *fl);
void flight_enqueue(struct fetcher *f, struct flight *fl, bool first);
void flight_dequeue(struct fetcher *f, struct flight *fl);
/* Wait with `p` for the block, which is fetched if it is not under way; then
 * `range` becomes its range. */
int flight_join(struct fetcher *f, struct device *dev, struct block_wait *p,
		const struct block *b, enum source_priority priority,
		uint64_t range, struct error *err) MUST_CHECK;
/* Give the bytes to those who wait; releases. `data` NULL: from the cache.
 * False when the cache has lost them; what was taken then waits again. */
bool flight_deliver(struct fetcher *f, struct flight *fl, const uint8_t *data);
/* The same for who comes while the flight is put into the cache: on his own
 * thread. */
void flight_deliver_early(struct fetcher *f, struct flight *fl);
/* End early deliveries of the flight: no reader begins one, and none is under way when this
 * returns.  Releases. */
void flight_end_early(struct fetcher *f, struct flight *fl);
/* Does a reader wait for it? */
bool flight_has_reader(const struct flight *fl);
/* When the last of them gives up; 0: there is none. */
int64_t flight_deadline(const struct flight *fl);
/* End the waits that only want the block kept. */
void flight_kept(struct flight *fl, int rc, const struct error *err);
/* Fail those who wait through `dev`; the others go on with their own device.
 * Releases.  The flight is gone or queued after it. */
void flight_fail(struct fetcher *f, struct flight *fl, int rc,
		 const struct error *err);
/* Fetch it through the device of `p`, a piece of it; not while a transfer has it. */
void flight_move(struct flight *fl, const struct block_wait *p);
/* The same of the first who waits. */
void flight_rehome(struct flight *fl);

/* Fail a reader; releases. */
void pending_fail(struct fetcher *f, struct pending *p, int rc,
		  const struct error *err);
/* Stop waiting for whatever is not being copied. */
void pending_detach(struct fetcher *f, struct pending *p);
void pending_add(struct fetcher *f, struct pending *p);
/* A piece that was taken is copied.  Releases when it was the last one. */
void pending_copied(struct fetcher *f, struct pending *p);
struct pending *pending_new(struct device *dev, struct device_read *r,
			    size_t n_pieces);
void pending_free(struct pending *p);

/* fetcher_transfer.c */
/* Fetch a queued flight and what lies next to it.  Releases. */
void transfer_run(struct fetcher *f, struct transfer *t, struct flight *fl);
/* End the transfers of `dev`: who waits through another device fetches what is
 * left with that. */
void transfers_stop(struct fetcher *f, const struct device *dev);

/* fetcher_detour.c */
/* Fetch blocks of transfers that hang, and that others wait for, through the
 * waiters' own devices. True when such waits are left. */
bool detour_begin(struct fetcher *f);
/* Fetch a queued flight through the device of somebody who waits, other than `than`,
 * if there is one. */
void detour_failed(struct flight *fl, const struct device *than);
/* The same through one that may begin. */
bool detour_queued(const struct fetcher *f, struct flight *fl,
		   bool (*may)(const struct fetcher *f,
			       const struct device *dev));

#endif
