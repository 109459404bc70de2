// SPDX-License-Identifier: Apache-2.0
/*
 * Fetches the blocks of an image before they are read: the hot set in the order of a trace, then
 * the rest, both with lower priority than demand (BootSeer paper, 4.2).
 */
#ifndef BOOTSEER_PREFETCHER_PREFETCHER_H
#define BOOTSEER_PREFETCHER_PREFETCHER_H

#include "blockstore/device.h"
#include "recorder/recorder.h"

/* ------------------------------------------------------------------ policy --- */

/* How much of the hot set the start of a container waits for. */
enum wait_kind {
	WAIT_NONE,
	WAIT_ALL,
	WAIT_SHARE,    /* a share of the hot set's stored bytes */
	WAIT_DEADLINE, /* all of it, but no longer than `ns` */
};

struct wait_policy {
	enum wait_kind kind;
	unsigned int permille; /* for WAIT_SHARE: 1..1000 */
	int64_t ns;            /* for WAIT_DEADLINE */
};

/* Parse "all", "none", "share:90%" or "deadline:5s"; pure. -EINVAL. */
int wait_policy_parse(const char *text, struct wait_policy *ret,
		      struct error *err) MUST_CHECK;

/* -------------------------------------------------------------- prefetching --- */

enum prefetch_phase {
	PREFETCH_IDLE, /* nothing was requested yet */
	/* the hot set is being fetched, or waits for its turn */
	PREFETCH_HOT,
	PREFETCH_COLD, /* the rest is being fetched */
	PREFETCH_DONE, /* all requested blocks are on the node */
	/* disk or memory of the node is short: continues by itself when that is over */
	PREFETCH_PAUSED,
	/* the registry was out of reach or too slow: tried again soon, or right now, until
	 * blocks arrive */
	PREFETCH_RETRYING,
	/* stopped by an error, or by too many of these failures: tried again from time to
	 * time, and by the next prefetch_start() */
	PREFETCH_FAILED,
	PREFETCH_STOPPED,
};
/* The name of a phase: "idle", "hot", ... */
const char *prefetch_phase_name(enum prefetch_phase phase);

struct prefetch_limits {
	/* parallel transfers of one image; at least 1 */
	unsigned int hot_streams, cold_streams;
	/* bytes a second of all images together; 0: no limit */
	uint64_t cold_rate;
	uint32_t gap;                   /* device_list.gap for the hot set */
	uint32_t hot_range, cold_range; /* device_list.range_max */
	uint32_t hot_grown;             /* device_list.range_grown */
	/* For PREFETCH_REST_IDLE: the rest waits, or pauses, until no reader and no start
	 * was active on the node for so long; at most for `settle_max_ns`, unless idle_ns()
	 * says PREFETCH_HELD. */
	int64_t settle_ns, settle_max_ns;
	/* longest time that damaged blocks of a mount wait for memory; 0: 30 s */
	int64_t repair_ns;
	/* first pause after a failure; doubled each time, up to 64 times, until a block
	 * arrives; plus up to a fourth at random; 0: 15 s */
	int64_t retry_ns;
	/* For a predicted hot set: bytes that it may be ahead of the reads, in addition to a
	 * third of the bytes read; 0: 32 MiB. There it waits for further reads, and ends after
	 * `guess_ns` without any; 0: 5 s. */
	uint64_t guess_lead;
	int64_t guess_ns;
	/* length of an image's first turn on a thread while others wait for it; 0: 10 s */
	int64_t turn_ns;
};

/* The rest waits, however long this takes. */
#define PREFETCH_HELD INT64_C(-1)

struct prefetcher_config {
	struct prefetch_limits limits;
	/* The functions may be NULL; they are called on threads of the prefetcher or the
	 * fetcher, several at once, and must not block for long. */
	/* Is the node under pressure, and `why`? Then bulk waits; for ENOSPC only blocks
	 * that need room, not the repair of blocks under a mount. */
	bool (*pressure)(void *arg, struct error *why);
	/* Unpacked bytes that unpinned blocks of one image may take on this node. */
	uint64_t (*room)(void *arg);
	/* Time since anything was last read, or PREFETCH_HELD. */
	int64_t (*idle_ns)(void *arg);
	void *arg;
};

/* Rate limits, pressure and threads, which all images of a process share. */
struct prefetcher;
int prefetcher_new(const struct prefetcher_config *cfg, struct prefetcher **ret,
		   struct error *err) MUST_CHECK;
void prefetcher_free(struct prefetcher *p); /* after all its prefetches */
DEFINE_AUTO(prefetcher)

struct prefetch_config {
	/* used by this prefetch only; borrowed, as the map, until prefetch_free() */
	struct device *dev;
	const struct blockmap *map;
	const char *label; /* name of the image in messages; copied */
	/* Fetches lists, with the contract of device_fetch_list(); NULL: the device does. */
	int (*fetch)(void *fetch_arg, const struct device_list *list,
		     struct error *err);
	void *fetch_arg;
	/* Set the bits of blocks that were read, to check predicted hot sets; must not
	 * block. NULL: not available. */
	void (*mark_read)(void *arg, uint8_t *bits);
	/* Called when all requested blocks are on the node, on a thread of the prefetcher,
	 * for which prefetch_stop() waits. May be NULL. */
	void (*done)(void *arg);
	/* Called when an error stopped the prefetch; it tries again in `retry_ns`, in the
	 * phase PREFETCH_RETRYING or _FAILED. Same thread as `done`. */
	void (*failed)(void *arg, const struct error *why, int64_t retry_ns);
	void *arg;
};

/* The prefetch of one image.  Any thread. */
struct prefetch;
int prefetch_new(struct prefetcher *p, const struct prefetch_config *cfg,
		 struct prefetch **ret, struct error *err) MUST_CHECK;
/* Stop and free a prefetch; nobody may be waiting for it. */
void prefetch_free(struct prefetch *p);
DEFINE_AUTO(prefetch)

/* Blocks outside of the hot set that are wanted. */
enum prefetch_rest {
	PREFETCH_REST_NONE,
	PREFETCH_REST_NOW, /* all, after the hot set */
	/* as _NOW, but not during a start of this or another image on the node */
	PREFETCH_REST_IDLE,
};

/*
 * Fetch the hot set, then the rest. Returns at once. Takes the contents of `hot`, also on
 * failure; NULL keeps the present hot set. A running prefetch goes on if the hot set is the
 * same, else it begins again. A predicted hot set is fetched only as far as it proves right.
 */
int prefetch_start(struct prefetch *p, struct hot_list *hot,
		   enum prefetch_rest rest, struct error *err) MUST_CHECK;

/*
 * Fetch blocks for a hot set that is still being searched for; blocking, beside a running
 * prefetch. They count for the hot set. -EBUSY: the node is under pressure; else as
 * device_fetch_list(), which `cancel` ends.
 */
int prefetch_ahead(struct prefetch *p, const uint32_t *blocks, size_t n,
		   const volatile bool *cancel, struct error *err) MUST_CHECK;

/* The search has ended without a hot set: what was fetched ahead does not count for the next
 * one. */
void prefetch_ahead_forget(struct prefetch *p);

/* Stop, and wait until no transfer is running; waiting calls get -ECANCELED.
 * prefetch_start() begins again. */
void prefetch_stop(struct prefetch *p);

/* Stop soon, without waiting; running transfers are given up as by prefetch_stop().
 * prefetch_start() may be called at any moment. */
void prefetch_cancel(struct prefetch *p);

/* Wait until the hot set is there as `policy` requires, at most until `deadline_ns`
 * (CLOCK_MONOTONIC, 0: only the policy's): 0; -ETIMEDOUT; -ECANCELED when stopped; or why it
 * failed, is paused or retried. A failed prefetch must not fail the start: readers fetch the
 * blocks that they need themselves. */
int prefetch_wait(struct prefetch *p, const struct wait_policy *policy,
		  int64_t deadline_ns, struct error *err) MUST_CHECK;

/* Wait until the prefetch does nothing more by itself (a paused one goes on later), at most
 * until `deadline_ns`. */
void prefetch_wait_end(struct prefetch *p, int64_t deadline_ns);

struct prefetch_stats {
	enum prefetch_phase phase;
	size_t hot_blocks, hot_have; /* hot_have: on the node */
	uint64_t hot_bytes, hot_have_bytes;
	/* Counting each stored place once: */
	size_t all_blocks, all_have;
	uint64_t all_bytes, all_have_bytes;
	/* Fetched by this prefetch, for the hot set and for the rest: */
	uint64_t hot_fetched_bytes, cold_fetched_bytes;
	uint64_t hot_fetched_blocks, cold_fetched_blocks;
	uint64_t pauses;   /* number of stops by pressure */
	uint64_t failures; /* number of stops by an error */
	bool is_predicted; /* the hot set */
	/* the rest of a predicted hot set is not fetched, as it was wrong */
	bool has_given_up;
	int64_t hot_ns; /* time that the hot set took; 0: not complete yet */
	/* when the hot set was complete, monotonic; 0: not yet */
	int64_t hot_at_ns;
	int64_t all_ns;     /* time until all requested blocks were there */
	struct error error; /* error of PREFETCH_RETRYING, _FAILED or _PAUSED */
};
enum prefetch_phase prefetch_get_phase(struct prefetch *p);
/* Get the counts; checks every block of the image, which takes some ns each. */
void prefetch_get_stats(struct prefetch *p, struct prefetch_stats *ret);

/* Get the blocks that this prefetch has fetched (not those that were there), with `hot_only`
 * those for the hot set, as bits by index of the map; the caller owns the (n_blocks + 7) / 8
 * bytes. */
int prefetch_fetched(struct prefetch *p, bool hot_only, uint8_t **ret_bits,
		     struct error *err) MUST_CHECK;

#endif
