// SPDX-License-Identifier: Apache-2.0
/* gzip, zstd or no compression at all, told apart by the first bytes. */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_DECODE_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct decoder;
struct memory_claim;
struct span_set;

/* `claim` as for zstd_stream_new().  `spans`, borrowed, takes where the stream can be
 * entered; NULL: nobody asks. */
struct decoder *decoder_new(struct memory_claim *claim,
			    struct span_set *spans) MUST_CHECK;
void decoder_free(struct decoder *d);
DEFINE_AUTO(decoder)

/*
 * Decode from `*in` (advanced past what was used) into `out` until the input
 * is used up or `cap` bytes were made.  Streams behind each other (gzip
 * members, zstd frames) are one.
 *   -EBADMSG  damaged, or garbage behind the end
 *   -ENOTSUP  a zstd frame with a window over ZSTD_WINDOW_MAX
 *   -EBUSY    the memory of its window is not free
 *   -ECANCELED  memory_claim_take()
 */
int decoder_run(struct decoder *d, const uint8_t **in, size_t *in_len,
		uint8_t *out, size_t cap, size_t *ret_n,
		struct error *err) MUST_CHECK;

/* No more input comes: -EBADMSG when the stream is cut short. */
int decoder_finish(struct decoder *d, struct error *err) MUST_CHECK;

#endif
