// SPDX-License-Identifier: Apache-2.0
/* How the spans of a set are added; private to this folder. */
#ifndef BOOTSEER_IMAGE_SPANS_SPAN_SET_H
#define BOOTSEER_IMAGE_SPANS_SPAN_SET_H

#include "image/spans/spans.h"

/* Unpacked bytes until another span is worth its window; 0: one is now. */
uint64_t span_set_due(const struct span_set *s, uint64_t plain);

/* Begin a span in the layer that is read.  -ENOTSUP as span_set_enter(). */
int span_set_add(struct span_set *s, const struct span *span,
		 struct error *err) MUST_CHECK;
/* ... and the SPAN_WINDOW_BYTES before it, before the next one begins. */
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
 * Where the content of `first`, blocks in order of their place in the device, lies in
 * layers: written to `w`.  `parts` are of files that have their extents; what no part
 * covers is zeros.
 */
int places_write(const struct file_part *parts, size_t n_parts,
		 const struct block *first, size_t n_first,
		 struct blockmap_writer *w, struct error *err) MUST_CHECK;

#endif
