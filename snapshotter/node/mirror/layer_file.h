// SPDX-License-Identifier: Apache-2.0
/*
 * A layer on its way, in a nameless file: which pieces of it are here, who sent each, and
 * whether all of it is what its digest says.  Before that is known nothing leaves the file
 * but what the registry itself sent.  Any thread; knows of no socket.
 */
#ifndef BOOTSEER_NODE_MIRROR_LAYER_FILE_H
#define BOOTSEER_NODE_MIRROR_LAYER_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/digest.h"

#define LAYER_PIECE \
	(UINT32_C(1) << 20)    /* bytes; the last one of a layer has less */
#define LAYER_SENDERS_MAX 254u /* nodes that one layer is taken from */

struct layer_file;

/* Nothing of the layer is here yet, and nothing can be kept before layer_file_begin(). */
int layer_file_new(const struct digest *digest, uint64_t size,
		   struct layer_file **ret, struct error *err) MUST_CHECK;
/* Keep pieces in this empty file, which is taken.  *broken, which outlives the file, becomes true
 * when it cannot be written. */
void layer_file_begin(struct layer_file *f, int fd, volatile bool *broken);
void layer_file_free(struct layer_file *f); /* NULL is allowed */

uint32_t
layer_pieces(uint64_t size); /* how many a layer of so many bytes has */
uint32_t layer_piece_bytes(uint64_t size, uint32_t piece);

/* Keep a piece; `sender` NULL: the registry.  One that is here already stays as it is.  0: the
 * registry's bytes are kept; 1: those of a peer.
 * -EBADMSG: that sender sent a wrong one before; -EUSERS: there are too many senders. */
int layer_file_put(struct layer_file *f, uint32_t piece, const void *data,
		   const char *sender, struct error *err) MUST_CHECK;
bool layer_file_has(struct layer_file *f, uint32_t piece);

/* How many bytes from `pos` on may be handed out, up to `max`: those of the registry, or all of
 * a layer that was verified.  Takes as long as `max` has pieces. */
uint64_t layer_file_readable(struct layer_file *f, uint64_t pos, uint64_t max);
/* Read bytes that layer_file_readable() counts. */
int layer_file_read(struct layer_file *f, uint64_t pos, void *buf,
		    size_t len) MUST_CHECK;
/* A descriptor of the file, the caller's.  -ENOENT: that piece is not here. */
int layer_file_open(struct layer_file *f, uint32_t piece,
		    int *ret_fd) MUST_CHECK;

/* Hash what follows what was hashed, as far as it is here: one thread at a time. */
int layer_file_hash(struct layer_file *f, struct error *err) MUST_CHECK;

/*
 * All pieces are here: is it the layer?  0: it is, and may be handed out.  -EBADMSG: not.  Then
 * each piece that a peer sent is to be had from the registry, by layer_file_mend(), and this
 * asked again.
 */
int layer_file_verify(struct layer_file *f, struct error *err) MUST_CHECK;
/* Did a peer send the piece? */
bool layer_file_is_doubtful(struct layer_file *f, uint32_t piece);
/* Bytes of the registry in place of a peer's.  *ret_liar: who sent others, once for each, and
 * is not believed any more; NULL: nobody.  Borrowed. */
int layer_file_mend(struct layer_file *f, uint32_t piece, const void *data,
		    const char **ret_liar, struct error *err) MUST_CHECK;

/* The file is not the layer, and cannot be mended: nobody gets a piece of it. */
void layer_file_drop(struct layer_file *f);

struct layer_counts {
	uint64_t registry_bytes, peers_bytes;
};
void layer_file_count(struct layer_file *f, struct layer_counts *ret);

#endif
