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
char *wait_policy_format(const struct wait_policy *p) MUST_CHECK;

/* -------------------------------------------------------------- prefetching --- */

enum prefetch_phase {
	PREFETCH_IDLE,   /* nothing asked for yet */
	PREFETCH_HOT,    /* the hot set is under way */
	PREFETCH_COLD,   /* the rest is */
	PREFETCH_DONE,   /* what was asked for is on the node */
	PREFETCH_PAUSED, /* the node is short of disk or memory, or `pause` */
	PREFETCH_FAILED, /* stopped by an error; tried again later by a start */
	PREFETCH_STOPPED,
};

struct prefetch_limits {
	unsigned int hot_streams, cold_streams; /* transfers at once; 8 */
	uint64_t hot_rate, cold_rate; /* bytes a second; 0 no limit.  All images
	                               * of a node together */
	uint32_t gap;                 /* device_list.gap for the hot set */
	uint32_t range_max;           /* device_list.range_max */
};

/* Rate limits, pressure and threads, shared by all images of a process. */
struct prefetcher;
struct prefetcher_config {
	struct prefetch_limits limits;
	/* Is the node under pressure (disk, memory)?  Then bulk waits.  A text
	 * for people in `why`.  May be NULL. */
	bool (*pressure)(void *arg, struct error *why);
	void *arg;
};
int prefetcher_new(const struct prefetcher_config *cfg, struct prefetcher **ret,
		   struct error *err) MUST_CHECK;
void prefetcher_free(struct prefetcher *p); /* after its prefetches */
DEFINE_AUTO(prefetcher)

/* Of one image.  Takes `hot`'s arrays; `dev` and `map` are borrowed until
 * prefetch_free(), which stops it and waits for its transfers. */
struct prefetch;
int prefetch_new(struct prefetcher *p, struct device *dev,
		 const struct blockmap *map, struct hot_list *hot,
		 const char *label, struct prefetch **ret,
		 struct error *err) MUST_CHECK;
void prefetch_free(struct prefetch *p);
DEFINE_AUTO(prefetch)

/* Start (or start again after a failure) the hot set, then with `rest` all
 * other blocks.  Returns at once. */
int prefetch_start(struct prefetch *p, bool rest, struct error *err) MUST_CHECK;

/* Wait until the hot set is there as `policy` wants, at most until
 * `deadline_ns` (CLOCK_MONOTONIC, 0: none but the policy's): 0; -ETIMEDOUT;
 * -ECANCELED when stopped; or why it failed.  A failure of prefetch is no
 * failure of the start: readers fetch what they need themselves. */
int prefetch_wait(struct prefetch *p, const struct wait_policy *policy,
		  int64_t deadline_ns, struct error *err) MUST_CHECK;

struct prefetch_stats {
	enum prefetch_phase phase;
	size_t hot_blocks, hot_have; /* have: on the node */
	uint64_t hot_bytes, hot_have_bytes;
	size_t all_blocks, all_have;
	uint64_t all_bytes, all_have_bytes;
	uint64_t fetched_bytes; /* by this prefetch */
	int64_t hot_ns;         /* how long the hot set took; 0 not yet */
	struct error error;     /* of PREFETCH_FAILED and _PAUSED */
};
void prefetch_get_stats(struct prefetch *p, struct prefetch_stats *ret);

/* Which of its blocks this prefetch brought (not those that were there): set
 * bits by index of the map; the caller's. */
int prefetch_fetched(struct prefetch *p, uint8_t **ret_bits,
		     struct error *err) MUST_CHECK;

#endif
