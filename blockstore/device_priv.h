// SPDX-License-Identifier: Apache-2.0
/* Places and sequential readers of a device; private to device*.c and fetcher*.c. */
#ifndef BOOTSEER_BLOCKSTORE_DEVICE_PRIV_H
#define BOOTSEER_BLOCKSTORE_DEVICE_PRIV_H

#include "blockstore/fetcher.h"

/* device_places.c: get the places of the device's map, made at the first call. Without the
 * lock. */
int places_get(struct device *dev, const struct places **ret,
	       struct error *err) MUST_CHECK;

/* device_stream.c */
/* Bytes to fetch for a reader that misses entry `index`; `ret_sequential`: it reads
 * sequentially. */
uint32_t stream_window(struct device *dev, size_t index,
		       struct stream **ret_stream, bool *ret_sequential);
/* The stream that continues at `index`, or NULL. */
struct stream *stream_at(struct device *dev, size_t index);
/* Fetch the next window behind the end of the stream ahead of its reader. */
void stream_go_on(struct device *dev, struct stream *s);
/* Entry `first` begins a window that was fetched ahead: have the next one fetched when the
 * entry is read. */
void stream_mark(struct device *dev, struct stream *s, size_t first);
/* Entries [first, end) are being read: where one is marked, fetch its stream's next window.
 * No lock. */
void stream_note(struct device *dev, size_t first, size_t end);

#endif
