// SPDX-License-Identifier: Apache-2.0
/* The state of a written file, shared by writing*.c. Functions are called with writing.op held. */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_WRITING_PRIV_H
#define BOOTSEER_CKPT_FUSE_MOUNT_WRITING_PRIV_H

#include "ckpt-fuse/mount/sending.h"
#include "ckpt-fuse/mount/unit_stage.h"
#include "ckpt-fuse/mount/writing.h"
#include "common/bytes.h"

struct writing {
	TAILQ_ENTRY(writing) link; /* writings.lock */
	struct writings *all;
	/* protects the members below; held during requests to the store */
	pthread_mutex_t op;
	char *path; /* NULL: the file has no name any more */
	struct unit_stage stage;
	/* Its writer knows the places of units that are not staged: those sent, and those of the
	 * file that is changed. Without a writer: `is_staged_whole`, or they are as committed. */
	struct sending sending;
	bool is_staged_whole;   /* units that are not staged are holes */
	struct reading *reader; /* the committed version, for reads */
	uint64_t size;
	uint64_t generation; /* generation of the committed version */
	/* bytes_id of the committed version; 0: none */
	uint64_t bytes_id;
	struct ckpt_version version; /* version that the next commit replaces */
	uint32_t n_slots;            /* columns reserved for writing */
	struct ckpt_attr attr;
	struct buf xattrs;
	/* the time was set, and is not that of the last write */
	bool has_mtime;
	bool is_loaded; /* `size` is valid */
	bool is_dirty;
	/* dirty, its writer was killed, and there was no write since */
	bool is_torn;
	/* how often it began anew; may be read without the lock */
	atomic_uint n_begun;
	/* error that lost bytes: all later calls fail with it */
	int rc;
	struct error err;
	/* Copy of the state when `op` was last released. */
	pthread_mutex_t seen_lock;
	struct writing_seen {
		uint64_t size;
		struct ckpt_attr attr;
		bool is_known, is_dirty, is_torn;
		int rc;
		struct error err;
	} seen;
};

/* writing_stage.c: the file's state, memory, and units that leave for their columns. */

/* Lock and unlock `op`; unlocking updates the copy that others see. */
struct writing *writing_hold(struct writing *w);
void writing_unlock(struct writing *w);
static inline void cleanup_writing_unlock(struct writing *const *w)
{
	writing_unlock(*w);
}
/* AUTO_WRITING held = writing_hold(w): locked until the end of the scope. */
#define AUTO_WRITING \
	__attribute__((cleanup(cleanup_writing_unlock), \
		       unused)) struct writing *
void writing_show(struct writing *w);

void writing_drop_reader(struct writing *w);
/* Drop staged units from number `from` on, and release their memory. */
void writing_drop_units(struct writing *w, uint64_t from);
#define WRITING_NO_UNIT UINT64_MAX

/* Begin a segment to send to, if there is none, for `units` units; 0: unknown number. -ENOBUFS:
 * other files use all of the store's memory. */
int writing_begin_segment(struct writing *w, uint64_t units,
			  struct error *err) MUST_CHECK;
/* Free the writer; `ret` not NULL: commit first. */
int writing_end_sending(struct writing *w, struct ckpt_stat *ret,
			struct error *err) MUST_CHECK;
/* Release the columns reserved for this file. */
void writing_give_slots(struct writing *w);
/* Reserve columns for a segment, at most `most`, or one for a plain object. */
int writing_take_slots(struct writing *w, uint32_t most,
		       struct error *err) MUST_CHECK;
/* Send full units until at most --tail bytes of them are staged. */
int writing_send_full(struct writing *w, struct error *err) MUST_CHECK;
/* Stage bytes of one unit; `data` NULL: zeros. */
int writing_stage_bytes(struct writing *w, uint64_t off, const char *data,
			size_t len, struct error *err) MUST_CHECK;
/* Stage the unit, with room for `need` bytes. */
int writing_have_unit(struct writing *w, uint64_t u, size_t need,
		      struct staged_unit **ret, struct error *err) MUST_CHECK;
/* Complete a staged unit with the bytes that the store may have. */
int writing_fill(struct writing *w, struct staged_unit *x,
		 struct error *err) MUST_CHECK;
/* Grow the file to `size`; the new bytes are zeros. */
int writing_extend(struct writing *w, uint64_t size,
		   struct error *err) MUST_CHECK;
/* If `rc` is negative, written bytes are lost: all later calls fail with it. Returns `rc`. */
int writing_lose(struct writing *w, int rc, const struct error *err);

/* Prepare a change: open the current version if needed. Fails if bytes were lost before. */
int writing_prepare(struct writing *w, struct error *err) MUST_CHECK;
/* Load the places of units that are not staged. -ESTALE: the file was replaced. */
int writing_have_map(struct writing *w, struct error *err) MUST_CHECK;
/* The same for a completely staged file from which units must be sent. */
int writing_have_writer(struct writing *w, struct error *err) MUST_CHECK;

#endif
