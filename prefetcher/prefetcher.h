// SPDX-License-Identifier: Apache-2.0
/*
 * Having the blocks of an image on the node before they are read: the hot set in
 * the order of a trace, then the rest, below demand (BootSeer paper, 4.2).
 */
#ifndef BOOTSEER_PREFETCHER_PREFETCHER_H
#define BOOTSEER_PREFETCHER_PREFETCHER_H

#include "blockstore/device.h"
#include "recorder/recorder.h"

/* ------------------------------------------------------------------ policy --- */

/* How much of the hot set a container start waits for. */
enum wait_kind {
	WAIT_NONE,
	WAIT_ALL,
	WAIT_SHARE,    /* of the hot set's stored bytes */
	WAIT_DEADLINE, /* all of it, but no longer than this */
};

struct wait_policy {
	enum wait_kind kind;
	unsigned int permille; /* WAIT_SHARE: 1..1000 */
	int64_t ns;            /* WAIT_DEADLINE */
};

/* "all", "none", "share:90%", "deadline:5s"; pure. -EINVAL. */
int wait_policy_parse(const char *text, struct wait_policy *ret,
		      struct error *err) MUST_CHECK;

/* -------------------------------------------------------------- prefetching --- */

enum prefetch_phase {
	PREFETCH_IDLE,     /* nothing asked for yet */
	PREFETCH_HOT,      /* the hot set is under way, or waits for its turn */
	PREFETCH_COLD,     /* the rest is */
	PREFETCH_DONE,     /* what was asked for is on the node */
	PREFETCH_PAUSED,   /* the node is short of disk or memory: goes on by
	                  * itself when it is not any more */
	PREFETCH_RETRYING, /* the registry was out of reach, or too slow: tried
	                    * again soon, or right now, until blocks come */
	PREFETCH_FAILED, /* stopped by an error, or that too often: tried again
	                  * now and then by itself, and by the next
	                  * prefetch_start() */
	PREFETCH_STOPPED,
};
/* "idle", "hot" and so on. */
const char *prefetch_phase_name(enum prefetch_phase phase);

struct prefetch_limits {
	unsigned int hot_streams, cold_streams; /* transfers at once, of one
	                                         * image; >= 1 */
	uint64_t cold_rate; /* bytes a second of all images together; 0: no
	                     * limit */
	uint32_t gap;       /* device_list.gap for the hot set */
	uint32_t hot_range, cold_range; /* device_list.range_max */
	uint32_t hot_grown;             /* device_list.range_grown */
	/* PREFETCH_REST_IDLE: the rest waits, or pauses, until nobody on the
	 * node has read or started for so long, at most `settle_max_ns`. */
	int64_t settle_ns, settle_max_ns;
	int64_t repair_ns; /* for so long what a mount reads, and is damaged,
	                    * waits for memory; 0: 30 s */
	int64_t retry_ns; /* first pause after a failure, doubled each time up to
	                   * 64 of it, as long as no block comes; up to a fourth
	                   * longer by chance; 0: 15 s */
	/* The lead of a predicted hot set: bytes that it may be ahead of what was
	 * read of it, beside a third of that; 0: 32 MiB.  For `guess_ns` without more
	 * being read it waits there, then ends; 0: 5 s. */
	uint64_t guess_lead;
	int64_t guess_ns;
	int64_t turn_ns; /* for so long an image is fetched while others wait for
	                   * its thread, at first; 0: 10 s */
};

struct prefetcher_config {
	struct prefetch_limits limits;
	/* All are called on threads of the prefetcher or the fetcher, several
	 * at once, must not block for long, and may be NULL. */
	/* Is the node under pressure?  Then bulk waits, for `why`; of ENOSPC only
	 * what needs room does: no block under a mount that was found wrong. */
	bool (*pressure)(void *arg, struct error *why);
	/* Unpacked bytes that blocks of one image may take on this node beside
	 * what is pinned. */
	uint64_t (*room)(void *arg);
	/* How long nobody has read. */
	int64_t (*idle_ns)(void *arg);
	void *arg;
};

/* Rate limits, pressure and threads, shared by all images of a process. */
struct prefetcher;
int prefetcher_new(const struct prefetcher_config *cfg, struct prefetcher **ret,
		   struct error *err) MUST_CHECK;
void prefetcher_free(struct prefetcher *p); /* after its prefetches */
DEFINE_AUTO(prefetcher)

struct prefetch_config {
	struct device *dev; /* of this prefetch alone; borrowed, as the map,
	                     * until prefetch_free() */
	const struct blockmap *map;
	const char *label; /* of the image, for messages; copied */
	/* Function that fetches lists, with the contract of device_fetch_list(); NULL:
	 * the device does. */
	int (*fetch)(void *fetch_arg, const struct device_list *list,
		     struct error *err);
	void *fetch_arg;
	/* Set the bits of blocks that readers have read, for hot sets that are
	 * predicted; must not block.  NULL: nobody knows. */
	void (*mark_read)(void *arg, uint8_t *bits);
	/* Called when all that was asked for is on the node. On a thread of the
	 * prefetcher, which prefetch_stop() waits for. May be NULL. */
	void (*done)(void *arg);
	/* An error stopped it; it tries again in `retry_ns`, whether it is
	 * PREFETCH_RETRYING or _FAILED.  As `done`. */
	void (*failed)(void *arg, const struct error *why, int64_t retry_ns);
	void *arg;
};

/* The prefetch of one image.  Any thread. */
struct prefetch;
int prefetch_new(struct prefetcher *p, const struct prefetch_config *cfg,
		 struct prefetch **ret, struct error *err) MUST_CHECK;
/* Stops it first; nobody waits for it or will. */
void prefetch_free(struct prefetch *p);
DEFINE_AUTO(prefetch)

/* Blocks outside of the hot set that are wanted. */
enum prefetch_rest {
	PREFETCH_REST_NONE,
	PREFETCH_REST_NOW,  /* all, after the hot set */
	PREFETCH_REST_IDLE, /* the same, but not beside a start: this one, or
	                     * another of the node that comes later */
};

/*
 * Fetch the hot set, then the rest.  Returns at once.  Takes what `hot` owns,
 * also when this fails; NULL keeps the hot set that it has.
 * What is under way goes on when the hot set is the same, and begins anew with
 * another one.  A predicted one is fetched as far as it proves right.
 */
int prefetch_start(struct prefetch *p, struct hot_list *hot,
		   enum prefetch_rest rest, struct error *err) MUST_CHECK;

/*
 * Fetch blocks of the map that a hot set will have which is still searched for; blocking,
 * beside what is under way.  They count as the hot set's.  -EBUSY: the node is under
 * pressure; as device_fetch_list(), which `cancel` ends.
 */
int prefetch_ahead(struct prefetch *p, const uint32_t *blocks, size_t n,
		   const volatile bool *cancel, struct error *err) MUST_CHECK;

/* The search has ended without a hot set: what it fetched is not part of the next one. */
void prefetch_ahead_forget(struct prefetch *p);

/* Stop, and wait until no transfer of it is under way; who waits for it gets
 * -ECANCELED.  prefetch_start() begins again. */
void prefetch_stop(struct prefetch *p);

/* Stop soon, and wait for nothing: what is under way is given up as by prefetch_stop().
 * prefetch_start() begins again at any moment. */
void prefetch_cancel(struct prefetch *p);

/* Wait until the hot set is there as `policy` wants, at most until
 * `deadline_ns` (CLOCK_MONOTONIC, 0: none but the policy's): 0; -ETIMEDOUT;
 * -ECANCELED when stopped; or why it failed, is paused or tried again.  A failure of
 * prefetch is no failure of the start: readers fetch what they need themselves. */
int prefetch_wait(struct prefetch *p, const struct wait_policy *policy,
		  int64_t deadline_ns, struct error *err) MUST_CHECK;

/* Wait until nothing more happens by itself (not while it is paused), at most
 * until `deadline_ns`. */
void prefetch_wait_end(struct prefetch *p, int64_t deadline_ns);

struct prefetch_stats {
	enum prefetch_phase phase;
	size_t hot_blocks, hot_have; /* have: on the node */
	uint64_t hot_bytes, hot_have_bytes;
	/* Each stored place once. */
	size_t all_blocks, all_have;
	uint64_t all_bytes, all_have_bytes;
	/* By this prefetch, the hot set and the rest. */
	uint64_t hot_fetched_bytes, cold_fetched_bytes;
	uint64_t hot_fetched_blocks, cold_fetched_blocks;
	uint64_t pauses;   /* times that pressure stopped it */
	uint64_t failures; /* times that an error did */
	bool is_predicted; /* the hot set */
	bool has_given_up; /* and the rest of it is not fetched: it was wrong */
	int64_t hot_ns;    /* how long the hot set took; 0 not yet */
	int64_t hot_at_ns; /* when it was there, monotonic; 0 not yet */
	int64_t all_ns;    /* and all that was asked for */
	struct error error; /* of PREFETCH_RETRYING, _FAILED and _PAUSED */
};
enum prefetch_phase prefetch_get_phase(struct prefetch *p);
/* Looks at every block of the image: some ns each. */
void prefetch_get_stats(struct prefetch *p, struct prefetch_stats *ret);

/* Which of its blocks this prefetch brought (not those that were there), with
 * `hot_only` on behalf of the hot set: set bits by index of the map;
 * (n_blocks + 7) / 8 bytes, the caller's. */
int prefetch_fetched(struct prefetch *p, bool hot_only, uint8_t **ret_bits,
		     struct error *err) MUST_CHECK;

#endif
