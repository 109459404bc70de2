// SPDX-License-Identifier: Apache-2.0
/* A file that is being written, as writing*.c share it.  With writing.op held. */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_WRITING_PRIV_H
#define BOOTSEER_CKPT_FUSE_MOUNT_WRITING_PRIV_H

#include "ckpt-fuse/mount/sending.h"
#include "ckpt-fuse/mount/tail.h"
#include "ckpt-fuse/mount/writing.h"
#include "common/bytes.h"

#define WRITING_UNIT (4 * MIB)

struct writing {
	TAILQ_ENTRY(writing) link; /* writings.lock */
	struct writings *all;
	pthread_mutex_t op; /* all below; held over what the store is asked */
	char *path;         /* NULL: it has none any more */
	struct tail tail;
	struct sending sending;
	struct ckpt_file
		*base; /* the bytes before the tail, while none are sent */
	struct reading *reader;      /* what was committed, to be read */
	uint64_t size;               /* beyond the tail's end are zeros */
	uint64_t generation;         /* of what was committed */
	uint64_t bytes_id;           /* the same; 0: nothing was */
	struct ckpt_version version; /* that the next commit replaces */
	uint32_t n_slots; /* columns that are being written, at most */
	struct ckpt_attr attr;
	struct buf xattrs;
	uint32_t columns; /* that were asked for; 0: by the size */
	bool has_mtime;   /* it was set, and is not that of the last write */
	bool is_loaded;   /* `size` and the tail are known */
	bool is_dirty;
	atomic_uint n_begun; /* anew; read without the lock, too */
	int rc;              /* bytes were lost: so all that follows fails */
	struct error err;
	/* Of the above, as it was when `op` was last given back. */
	pthread_mutex_t seen_lock;
	struct writing_seen {
		uint64_t size;
		struct ckpt_attr attr;
		bool is_known, is_dirty;
		int rc;
		struct error err;
	} seen;
};

/* A plain object has no extended attributes, and no mode but one that lets all read it. */
static inline bool writing_needs_manifest(const struct writing *w)
{
	return w->xattrs.len || ckpt_attr_is_secret(&w->attr);
}

/* Take and give back `op`; what others see of the file is as of then. */
void writing_lock(struct writing *w);
void writing_unlock(struct writing *w);

/* Files that the store has, which were opened for this one. */
void writing_drop_base(struct writing *w);
void writing_drop_reader(struct writing *w);
/* Staged bytes from `end` on are gone, and their memory is given back. */
void writing_cut_tail(struct writing *w, uint64_t end);

/* writing_stage.c: memory, and units that leave for their columns. */

/* Have a writer to send to; `size` is the whole file's, or CKPT_SIZE_UNKNOWN.  -ENOBUFS:
 * other files have all of the store's memory. */
int writing_begin_sending(struct writing *w, uint64_t size,
			  struct error *err) MUST_CHECK;
/* The writer's end, with a commit when `ret` is not NULL. */
int writing_end_sending(struct writing *w, struct ckpt_stat *ret,
			struct error *err) MUST_CHECK;
/* Columns that the file has are free for others. */
void writing_give_slots(struct writing *w);
/* Take so many bytes of the mount's memory, also by sending what is whole.  -ENOBUFS */
int writing_reserve(struct writing *w, uint64_t bytes,
		    struct error *err) MUST_CHECK;
/* Bytes at `off`, which is in the tail or its end; `data` NULL: zeros. */
int writing_stage_bytes(struct writing *w, uint64_t off, const char *data,
			size_t len, struct error *err) MUST_CHECK;
/* Zeros from the tail's end up to `to`, if that is behind it. */
int writing_stage_zeros(struct writing *w, uint64_t to,
			struct error *err) MUST_CHECK;
/* -EFBIG: from the tail's end up to `to` are more zeros than anybody may have. */
int writing_check_hole(const struct writing *w, uint64_t to,
		       struct error *err) MUST_CHECK;
/* Bytes that were taken are gone when `rc` is negative: all that follows fails with it.
 * Returns `rc`. */
int writing_lose(struct writing *w, int rc, const struct error *err);

/* writing_load.c: what an existing file is opened with. */

/* Before each change: have what it would change.  Fails as what was lost did. */
int writing_prepare(struct writing *w, struct error *err) MUST_CHECK;
/* Have the file open that goes on at the tail's start, if one does.  -ESTALE: it is
 * another now. */
int writing_open_base(struct writing *w, struct error *err) MUST_CHECK;

/* writing_commit.c: have what was written in the store; w->path is not NULL. */
int writing_store(struct writing *w, struct error *err) MUST_CHECK;
/* What writing_commit() does. */
int writing_commit_locked(struct writing *w, struct error *err) MUST_CHECK;

#endif
