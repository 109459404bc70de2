// SPDX-License-Identifier: Apache-2.0
/*
 * A file whose size is not known when it is opened: its units go to segments one behind the
 * other, at the next place of the one that is being written, in any order and as often as they
 * change.  What is in a segment that was ended can be read again.  Functions are called by one
 * thread at a time, but for ckpt_writer_room() and ckpt_write_placed(), which are called by one for
 * each column.
 */
#ifndef BOOTSEER_CKPT_FUSE_GROWING_H
#define BOOTSEER_CKPT_FUSE_GROWING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct ckpt_writer;
struct ckpt_version;

/* A new segment, when none is written.  Each takes memory of the store for its columns. */
int ckpt_writer_begin_segment(struct ckpt_writer *w, uint32_t columns,
			      struct error *err) MUST_CHECK;
bool ckpt_writer_in_segment(const struct ckpt_writer *w);
/* Unit `u` gets the next place of the segment, whose column is ckpt_writer_column(w, place);
 * `len` is less than a unit for the last place alone.  Those of one column are written in the
 * order in which they were added. */
int ckpt_writer_add(struct ckpt_writer *w, uint64_t u, size_t len,
		    uint32_t *ret_place, struct error *err) MUST_CHECK;
/* Where bytes of the unit may be laid before ckpt_write_placed() of them, which then copies none;
 * NULL: nowhere. */
int ckpt_writer_room(struct ckpt_writer *w, uint32_t place, size_t len,
		     void **ret, struct error *err) MUST_CHECK;
int ckpt_write_placed(struct ckpt_writer *w, uint64_t u, uint32_t place,
		      const void *data, size_t len,
		      struct error *err) MUST_CHECK;
/* Have it durable; nothing is written to it any more.  None is no error. */
int ckpt_writer_end_segment(struct ckpt_writer *w,
			    struct error *err) MUST_CHECK;
/* Bytes that are stored of a unit, also of the base's; 0: it is a hole.  And are they in a
 * segment that was ended? */
size_t ckpt_writer_stored(const struct ckpt_writer *w, uint64_t u);
bool ckpt_writer_can_read(const struct ckpt_writer *w, uint64_t u);
/* All that is stored of the unit. */
int ckpt_writer_read(struct ckpt_writer *w, uint64_t u, void *buf,
		     struct error *err) MUST_CHECK;
/* Units from `n` on are holes. */
void ckpt_writer_cut(struct ckpt_writer *w, uint64_t n);
/* Size and name, and version (ckpt_write_options), that it is committed with. */
int ckpt_writer_set_file(struct ckpt_writer *w, const char *path, uint64_t size,
			 struct error *err) MUST_CHECK;
void ckpt_writer_set_version(struct ckpt_writer *w,
			     struct ckpt_version *version);

#endif
