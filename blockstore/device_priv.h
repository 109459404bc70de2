// SPDX-License-Identifier: Apache-2.0
/* A device's map, places and readers; private to device*.c and fetcher*.c. */
#ifndef BOOTSEER_BLOCKSTORE_DEVICE_PRIV_H
#define BOOTSEER_BLOCKSTORE_DEVICE_PRIV_H

#include "blockstore/fetcher.h"

/* device_places.c; without the lock.  The places of the device's map, made at
 * the first call. */
int places_get(struct device *dev, const struct places **ret,
	       struct error *err) MUST_CHECK;

/* device_stream.c */
/* Bytes to fetch for a reader who misses entry `index`.  `ret_sequential`: it reads
 * sequentially. */
uint32_t stream_window(struct device *dev, size_t index,
		       struct stream **ret_stream, bool *ret_sequential);
/* The stream that goes on at `index`, or NULL. */
struct stream *stream_at(struct device *dev, size_t index);
/* Read the window at its end ahead. */
void stream_go_on(struct device *dev, struct stream *s);
/* Entry `first` was fetched ahead: when it is read, go on. */
void stream_mark(struct device *dev, struct stream *s, size_t first);
/* Entries [first, end) are being read: read on ahead where one of them is marked.  No lock. */
void stream_note(struct device *dev, size_t first, size_t end);

#endif
