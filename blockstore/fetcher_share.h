// SPDX-License-Identifier: Apache-2.0
/*
 * Decides which device gets a fetch thread. Registries' hosts share the
 * threads, and the images of a host share its part, so that neither a host that
 * does not answer nor an image has all. Private to device.c and fetcher*.c; all
 * of it with the fetcher's lock, unless a comment says otherwise.
 */
#ifndef BOOTSEER_BLOCKSTORE_FETCHER_SHARE_H
#define BOOTSEER_BLOCKSTORE_FETCHER_SHARE_H

#include "blockstore/fetcher.h"

/* A registry's host, while it has devices. */
struct fetch_host {
	LIST_ENTRY(fetch_host) link;
	unsigned int n_devices;
	unsigned int n_awaited, n_bulk; /* as of its devices */
	/* Nothing came from it while others waited: it has one place until then,
	 * or until bytes come. */
	int64_t hangs_until;
	atomic_int_fast64_t
		moved_ns; /* when bytes came last; without the lock */
	char name[];
};

/* Make `dev` one of the host's; takes the lock. */
int share_join(struct fetcher *f, struct device *dev, const char *host,
	       struct error *err) MUST_CHECK;
/* Takes the lock; a device that never joined is allowed. */
void share_leave(struct device *dev);

/* May a transfer of `dev` begin, for a reader or in bulk? */
bool share_may_begin(const struct fetcher *f, const struct device *dev);
bool share_may_begin_bulk(const struct fetcher *f, const struct device *dev);
/* The queued flight that a reader waits for and a free thread has to begin with: of
 * the host, then of the image, with the fewest threads, and last those that hang.
 * NULL: none may begin. */
struct flight *share_next_demand(struct fetcher *f);

/* Readers wait for a thread: look each second whether others hang. */
void share_watch(struct fetcher *f);
/* By the timer, when it is time to.  Takes places from what hangs, if others wait. */
void share_look(struct fetcher *f, int64_t now);
/* The same for bulk, which is full. */
void share_look_bulk(struct fetcher *f, int64_t now);

#endif
