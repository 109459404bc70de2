// SPDX-License-Identifier: Apache-2.0
/*
 * Decides which device gets a fetch thread. The hosts of registries share the threads, and the
 * images of a host share its part, so that neither a silent host nor one image can occupy all.
 * Private to device.c and fetcher*.c; called with the fetcher's lock, except where noted.
 */
#ifndef BOOTSEER_BLOCKSTORE_FETCHER_SHARE_H
#define BOOTSEER_BLOCKSTORE_FETCHER_SHARE_H

#include "blockstore/fetcher.h"

/* A registry's host; exists while it has devices. */
struct fetch_host {
	LIST_ENTRY(fetch_host) link;
	unsigned int n_devices;
	unsigned int n_awaited, n_bulk; /* sums over its devices */
	/* Nothing came from it while others waited: it gets only one thread until this time,
	 * or until bytes come. */
	int64_t hangs_until;
	atomic_int_fast64_t
		/* when its bytes last came; accessed without the lock */
		moved_ns;
	char name[];
};

/* Add `dev` to the devices of its host; takes the lock. */
int share_join(struct fetcher *f, struct device *dev, const char *host,
	       struct error *err) MUST_CHECK;
/* Remove `dev` from its host; takes the lock. A device that never joined is allowed. */
void share_leave(struct device *dev);

/* May a transfer of `dev` begin, for a reader or in bulk? */
bool share_may_begin(const struct fetcher *f, const struct device *dev);
bool share_may_begin_bulk(const struct fetcher *f, const struct device *dev);
/* The queued flight of a reader that a free thread should fetch next: of the host, then of
 * the image, with the fewest threads; hanging ones last. NULL: none may begin. */
struct flight *share_next_demand(struct fetcher *f);

/* Readers wait for a thread: check each second whether transfers of others hang. */
void share_watch(struct fetcher *f);
/* Called by the timer when due: takes threads from hanging transfers if others wait. */
void share_look(struct fetcher *f, int64_t now);
/* As share_look() for bulk, when its limit is reached. */
void share_look_bulk(struct fetcher *f, int64_t now);

#endif
