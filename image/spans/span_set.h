// SPDX-License-Identifier: Apache-2.0
/* Functions by which the decoders add spans to a set; private to this folder. */
#ifndef BOOTSEER_IMAGE_SPANS_SPAN_SET_H
#define BOOTSEER_IMAGE_SPANS_SPAN_SET_H

#include "image/spans/spans.h"

/* Unpacked bytes until another span pays for its window; 0: begin one now. */
uint64_t span_set_due(const struct span_set *s, uint64_t plain);

/* Begin a span in the current layer. -ENOTSUP as span_set_enter(). */
int span_set_add(struct span_set *s, const struct span *span,
		 struct error *err) MUST_CHECK;
/* Keep the window of the last span, the SPAN_WINDOW_BYTES before it; call it before the next
 * span begins. */
int span_set_keep_window(struct span_set *s, const uint8_t *window,
			 struct error *err) MUST_CHECK;

/* A part of a file and the part of a layer that holds it. */
struct file_part {
	const struct inode *inode;
	uint64_t off; /* in the file */
	uint64_t len;
	uint64_t plain;
	uint32_t pack;
};

/*
 * Write to `w` where in the layers the content of the blocks `first` lies; these are in order of
 * their place in the device. `parts` are of files that have their extents. Bytes of the content
 * that no part covers are zeros.
 */
int places_write(const struct file_part *parts, size_t n_parts,
		 const struct block *first, size_t n_first,
		 struct blockmap_writer *w, struct error *err) MUST_CHECK;

#endif
