// SPDX-License-Identifier: Apache-2.0
/* zstd frames behind each other (RFC 8878), with a bound on the memory that a
 * frame can ask for. */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_ZSTD_STREAM_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_ZSTD_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* As containerd's decoder has it; a frame with a larger one needs more memory
 * than this to decode. */
#define ZSTD_WINDOW_LOG_MAX 29
#define ZSTD_WINDOW_MAX (UINT64_C(1) << ZSTD_WINDOW_LOG_MAX)

/* Windows up to this one, which zstd makes without --long or --ultra, are not counted
 * by a gate; how long the memory of a larger one is waited for. */
#define ZSTD_WINDOW_SMALL (UINT64_C(8) << 20)
#define ZSTD_WINDOW_WAIT_NS INT64_C(60000000000)

struct memory_claim;
struct zstd_stream;

/* The claim's gate bounds the windows of all streams together; borrowed, NULL: none
 * does. */
struct zstd_stream *zstd_stream_new(struct memory_claim *claim) MUST_CHECK;
void zstd_stream_free(struct zstd_stream *z);

/* As decoder_run(), for one step.  `*ret_inside`: the frame goes on.
 *   -ENOTSUP  the window is larger than ZSTD_WINDOW_MAX
 *   -EBUSY    its memory is not free
 *   -ECANCELED  memory_claim_take() */
int zstd_stream_run(struct zstd_stream *z, const uint8_t **in, size_t *in_len,
		    uint8_t *out, size_t cap, size_t *ret_n, bool *ret_inside,
		    struct error *err) MUST_CHECK;

#endif
