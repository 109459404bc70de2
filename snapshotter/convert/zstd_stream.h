// SPDX-License-Identifier: Apache-2.0
/* Decodes several zstd frames one after the other (RFC 8878), with a limit on the memory that a
 * frame can ask for. */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_ZSTD_STREAM_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_ZSTD_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* The limit of containerd's decoder; a frame with a larger window needs more memory than this
 * to decode. */
#define ZSTD_WINDOW_LOG_MAX 29
#define ZSTD_WINDOW_MAX (UINT64_C(1) << ZSTD_WINDOW_LOG_MAX)

/* Windows up to this size, which zstd makes without --long or --ultra, are not counted by a
 * gate; and the longest wait for the memory of a larger one. */
#define ZSTD_WINDOW_SMALL (UINT64_C(8) << 20)
#define ZSTD_WINDOW_WAIT_NS INT64_C(60000000000)

struct memory_claim;
struct zstd_stream;

/* The claim's gate limits the windows of all streams together; borrowed; NULL: not limited. */
struct zstd_stream *zstd_stream_new(struct memory_claim *claim) MUST_CHECK;
void zstd_stream_free(struct zstd_stream *z);

/* Decode one step, as decoder_run().  `*ret_inside`: the frame has not ended.
 *     -ENOTSUP  the window is larger than ZSTD_WINDOW_MAX
 *     -EBUSY    no memory is free for it
 *     -ECANCELED  memory_claim_take() */
int zstd_stream_run(struct zstd_stream *z, const uint8_t **in, size_t *in_len,
		    uint8_t *out, size_t cap, size_t *ret_n, bool *ret_inside,
		    struct error *err) MUST_CHECK;

#endif
