// SPDX-License-Identifier: Apache-2.0
/*
 * A layer that is being fetched into a nameless file: which pieces are here, who sent each, and
 * whether the whole has the layer's digest.  Until that is verified, only pieces that the
 * registry itself sent may leave the file.  Any thread; does no networking.
 */
#ifndef BOOTSEER_NODE_MIRROR_LAYER_FILE_H
#define BOOTSEER_NODE_MIRROR_LAYER_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/digest.h"

/* bytes of a piece; the last one of a layer is shorter */
#define LAYER_PIECE (UINT32_C(1) << 20)
#define LAYER_SENDERS_MAX 254u /* nodes from which one layer is taken */

struct layer_file;

/* Make a layer without pieces; none can be kept before layer_file_begin(). */
int layer_file_new(const struct digest *digest, uint64_t size,
		   struct layer_file **ret, struct error *err) MUST_CHECK;
/* Keep pieces in the empty file `fd`, which is taken.  *broken, which outlives the layer,
 * becomes true if the file cannot be written. */
void layer_file_begin(struct layer_file *f, int fd, volatile bool *broken);
void layer_file_free(struct layer_file *f); /* NULL is allowed */

uint32_t layer_pieces(uint64_t size); /* number of pieces of a layer */
uint32_t layer_piece_bytes(uint64_t size, uint32_t piece);

/* Keep a piece from `sender` (NULL: the registry).  A piece that is here already stays.
 * Returns 0 if the registry's bytes are kept, 1 if those of a peer are.
 * -EBADMSG: that sender sent a wrong piece before; -EUSERS: there are too many senders. */
int layer_file_put(struct layer_file *f, uint32_t piece, const void *data,
		   const char *sender, struct error *err) MUST_CHECK;
bool layer_file_has(struct layer_file *f, uint32_t piece);

/* How many bytes from `pos` on, up to `max`, may be given out: pieces of the registry, or all
 * of a verified layer.  Takes time for each piece of `max`. */
uint64_t layer_file_readable(struct layer_file *f, uint64_t pos, uint64_t max);
/* Read bytes that layer_file_readable() counts. */
int layer_file_read(struct layer_file *f, uint64_t pos, void *buf,
		    size_t len) MUST_CHECK;
/* Duplicate the file's descriptor for the caller.  -ENOENT: that piece is not here. */
int layer_file_open(struct layer_file *f, uint32_t piece,
		    int *ret_fd) MUST_CHECK;

/* Continue the layer's hash with the pieces that are here, in order; one thread at a time. */
int layer_file_hash(struct layer_file *f, struct error *err) MUST_CHECK;

/*
 * When all pieces are here: does the file have the layer's digest?  0: yes, it may be given
 * out.  -EBADMSG: no.  The caller then gets each piece that a peer sent from the registry,
 * calls layer_file_mend(), and verifies again.
 */
int layer_file_verify(struct layer_file *f, struct error *err) MUST_CHECK;
/* Did a peer send the piece? */
bool layer_file_is_doubtful(struct layer_file *f, uint32_t piece);
/* Replace a peer's piece by the registry's bytes.  *ret_liar: the peer whose bytes differ,
 * named once for each peer, and not trusted any more; NULL: none.  Borrowed. */
int layer_file_mend(struct layer_file *f, uint32_t piece, const void *data,
		    const char **ret_liar, struct error *err) MUST_CHECK;

/* The file cannot be made the layer: give out no piece of it any more. */
void layer_file_drop(struct layer_file *f);

struct layer_counts {
	uint64_t registry_bytes, peers_bytes;
};
void layer_file_count(struct layer_file *f, struct layer_counts *ret);

#endif
