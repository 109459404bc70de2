// SPDX-License-Identifier: Apache-2.0
/*
 * Writes a file whose size is unknown at the open. Units are appended to segments, each at the next
 * place of the current segment, in any order and again whenever they change. Units in ended
 * segments can be read back. One thread at a time calls these functions, except ckpt_writer_room()
 * and ckpt_write_placed(), which one thread per column may call.
 */
#ifndef BOOTSEER_CKPT_FUSE_GROWING_H
#define BOOTSEER_CKPT_FUSE_GROWING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct ckpt_writer;
struct ckpt_version;

/* Begin a segment; none may be open. Each takes memory of the store for its columns. */
int ckpt_writer_begin_segment(struct ckpt_writer *w, uint32_t columns,
			      struct error *err) MUST_CHECK;
bool ckpt_writer_in_segment(const struct ckpt_writer *w);
/* Assign the next place of the segment to unit `u`; its column is ckpt_writer_column(w, place).
 * `len` is less than a unit only for the last place. Places of one column are written in the order
 * in which they were added. */
int ckpt_writer_add(struct ckpt_writer *w, uint64_t u, size_t len,
		    uint32_t *ret_place, struct error *err) MUST_CHECK;
/* Get memory to put the unit's bytes in before ckpt_write_placed(), which then needs no copy; NULL:
 * none. */
int ckpt_writer_room(struct ckpt_writer *w, uint32_t place, size_t len,
		     void **ret, struct error *err) MUST_CHECK;
int ckpt_write_placed(struct ckpt_writer *w, uint64_t u, uint32_t place,
		      const void *data, size_t len,
		      struct error *err) MUST_CHECK;
/* End the segment and make it durable. Without an open segment nothing happens. */
int ckpt_writer_end_segment(struct ckpt_writer *w,
			    struct error *err) MUST_CHECK;
/* ckpt_writer_stored(): stored bytes of a unit, also in the base; 0: a hole.
 * ckpt_writer_can_read(): are they in an ended segment? */
size_t ckpt_writer_stored(const struct ckpt_writer *w, uint64_t u);
bool ckpt_writer_can_read(const struct ckpt_writer *w, uint64_t u);
/* Read all stored bytes of the unit. */
int ckpt_writer_read(struct ckpt_writer *w, uint64_t u, void *buf,
		     struct error *err) MUST_CHECK;
/* Make the units from `n` on holes. */
void ckpt_writer_cut(struct ckpt_writer *w, uint64_t n);
/* Set the size, path and version (ckpt_write_options) for the commit. */
int ckpt_writer_set_file(struct ckpt_writer *w, const char *path, uint64_t size,
			 struct error *err) MUST_CHECK;
void ckpt_writer_set_version(struct ckpt_writer *w,
			     struct ckpt_version *version);

#endif
