// SPDX-License-Identifier: Apache-2.0
/* Decodes gzip, zstd or uncompressed bytes; the first bytes tell which. */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_DECODE_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct decoder;
struct memory_claim;
struct span_set;

/* `claim` as for zstd_stream_new().  `spans`, borrowed, receives the points where decoding can
 * begin; may be NULL. */
struct decoder *decoder_new(struct memory_claim *claim,
			    struct span_set *spans) MUST_CHECK;
void decoder_free(struct decoder *d);
DEFINE_AUTO(decoder)

/*
 * Decode from `*in` (advanced past what was used) into `out` until the input is used up or
 * `cap` bytes were made.  Several gzip members or zstd frames count as one stream.
 *     -EBADMSG  damaged, or garbage behind the end
 *     -ENOTSUP  a zstd frame with a window over ZSTD_WINDOW_MAX
 *     -EBUSY    the memory of its window is not free
 *     -ECANCELED  memory_claim_take()
 */
int decoder_run(struct decoder *d, const uint8_t **in, size_t *in_len,
		uint8_t *out, size_t cap, size_t *ret_n,
		struct error *err) MUST_CHECK;

/* Check the end of the input: -EBADMSG when the stream is cut off. */
int decoder_finish(struct decoder *d, struct error *err) MUST_CHECK;

#endif
