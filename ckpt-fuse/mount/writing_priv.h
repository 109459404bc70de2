// SPDX-License-Identifier: Apache-2.0
/* A file that is being written, as writing*.c share it.  With writing.op held. */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_WRITING_PRIV_H
#define BOOTSEER_CKPT_FUSE_MOUNT_WRITING_PRIV_H

#include "ckpt-fuse/mount/sending.h"
#include "ckpt-fuse/mount/unit_stage.h"
#include "ckpt-fuse/mount/writing.h"
#include "common/bytes.h"

struct writing {
	TAILQ_ENTRY(writing) link; /* writings.lock */
	struct writings *all;
	pthread_mutex_t op; /* all below; held over what the store is asked */
	char *path;         /* NULL: it has none any more */
	struct unit_stage stage;
	/* Its writer knows where units are that are not staged: those that were sent, and those
	 * of the file that goes on here.  NULL: `is_staged_whole`, or they are what was
	 * committed. */
	struct sending sending;
	bool is_staged_whole;   /* what is not staged is a hole */
	struct reading *reader; /* what was committed, to be read */
	uint64_t size;
	uint64_t generation;         /* of what was committed */
	uint64_t bytes_id;           /* the same; 0: nothing was */
	struct ckpt_version version; /* that the next commit replaces */
	uint32_t n_slots; /* columns that are being written, at most */
	struct ckpt_attr attr;
	struct buf xattrs;
	bool has_mtime; /* it was set, and is not that of the last write */
	bool is_loaded; /* `size` is known */
	bool is_dirty;
	bool is_torn; /* so it is, and who wrote it was killed; nobody wrote since */
	atomic_uint n_begun; /* anew; read without the lock, too */
	int rc;              /* bytes were lost: so all that follows fails */
	struct error err;
	/* Copy of the above, as it was when `op` was last given back. */
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

/* Take and give back `op`; what others see of the file is as of then. */
struct writing *writing_hold(struct writing *w);
void writing_unlock(struct writing *w);
static inline void cleanup_writing_unlock(struct writing *const *w)
{
	writing_unlock(*w);
}
/* AUTO_WRITING held = writing_hold(w): until the end of the scope. */
#define AUTO_WRITING \
	__attribute__((cleanup(cleanup_writing_unlock), \
		       unused)) struct writing *
void writing_show(struct writing *w);

void writing_drop_reader(struct writing *w);
/* Staged units from that one on are gone, and their memory is given back. */
void writing_drop_units(struct writing *w, uint64_t from);
#define WRITING_NO_UNIT UINT64_MAX

/* Have a segment to send to, if none is; of so many units, or of nobody knows how many (0).
 * -ENOBUFS: other files have all of the store's memory. */
int writing_begin_segment(struct writing *w, uint64_t units,
			  struct error *err) MUST_CHECK;
/* The writer's end, with a commit when `ret` is not NULL. */
int writing_end_sending(struct writing *w, struct ckpt_stat *ret,
			struct error *err) MUST_CHECK;
/* Columns that the file has are free for others. */
void writing_give_slots(struct writing *w);
/* Columns for a segment, of `most` at most, or one for a plain object. */
int writing_take_slots(struct writing *w, uint32_t most,
		       struct error *err) MUST_CHECK;
/* Units that are through leave until no more than --tail are staged. */
int writing_send_full(struct writing *w, struct error *err) MUST_CHECK;
/* Bytes of one unit; `data` NULL: zeros. */
int writing_stage_bytes(struct writing *w, uint64_t off, const char *data,
			size_t len, struct error *err) MUST_CHECK;
/* Have the unit staged, with room for `need` bytes. */
int writing_have_unit(struct writing *w, uint64_t u, size_t need,
		      struct staged_unit **ret, struct error *err) MUST_CHECK;
/* Have all of a staged unit, of which the store may have the rest. */
int writing_fill(struct writing *w, struct staged_unit *x,
		 struct error *err) MUST_CHECK;
/* The size grows to that: what was behind the end before is zeros. */
int writing_extend(struct writing *w, uint64_t size,
		   struct error *err) MUST_CHECK;
/* Bytes that were taken are gone when `rc` is negative: all that follows fails with it.
 * Returns `rc`. */
int writing_lose(struct writing *w, int rc, const struct error *err);

/* Before each change: have what it would change.  Fails as what was lost did. */
int writing_prepare(struct writing *w, struct error *err) MUST_CHECK;
/* Know where units are that are not staged.  -ESTALE: the file that goes on here is another
 * now. */
int writing_have_map(struct writing *w, struct error *err) MUST_CHECK;
/* The same of a file that is staged whole, of which something is to leave. */
int writing_have_writer(struct writing *w, struct error *err) MUST_CHECK;

#endif
