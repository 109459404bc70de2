// SPDX-License-Identifier: Apache-2.0
/*
 * Checkpoint files: one file, striped over many objects of a store (BootSeer paper,
 * section 4.4).  docs/checkpoints.md has the design, docs/formats/checkpoint.md the
 * bytes.
 *
 * A path has no leading slash: "step-100/model.pt".  A file that is striped, and a
 * plain object of the store, are both files here; of a striped one each chunk is
 * checked against its checksum before anybody gets a byte.  Functions block as those
 * of objects/store.h do, and fail as they do; besides:
 *   -EBADMSG  the store gave other bytes than were written
 *   -EINVAL   a path that no file can have
 *   -EISDIR   it is a folder
 */
#ifndef BOOTSEER_CKPT_FUSE_CKPT_H
#define BOOTSEER_CKPT_FUSE_CKPT_H

#include "ckpt-fuse/adopt.h"
#include "ckpt-fuse/growing.h"
#include "ckpt-fuse/mount_options.h"
#include "ckpt-fuse/version.h"
#include "ckpt-fuse/xattrs.h"
#include "common/digest.h"
#include "objects/store.h"

/* Bytes of a file's or folder's name: that of its manifest has four more, and parts of
 * names have 255 at most. */
#define CKPT_NAME_MAX 251

struct ckpt_file;
struct ckpt_writer;

struct ckpt_attr {
	uint32_t mode; /* permission bits */
	uint32_t uid, gid;
	int64_t mtime_ns; /* since 1970 */
};

/* Everybody may read a plain object; what its owner keeps from others is striped, however
 * small it is. */
static inline bool ckpt_attr_is_secret(const struct ckpt_attr *a)
{
	return (a->mode & 0044) != 0044;
}

struct ckpt_stat {
	bool is_striped; /* what follows `attr` is of such files */
	uint64_t size;
	uint64_t
		bytes_id; /* the same when only attributes are others; 0: not known */
	struct ckpt_attr attr; /* of a plain one: its time, and defaults */
	uint64_t generation;
	uint32_t chunk_size, unit_chunks;
	uint32_t columns; /* of the first segment; 0: it is empty */
	size_t n_segments;
	size_t xattrs_len; /* bytes of its extended attributes */
};

/* ------------------------------------------------------------------- reading --- */

/* Open the file that is there now, which stays what it is whatever replaces it. */
int ckpt_open(struct object_store *s, const char *path, struct ckpt_file **ret,
	      struct error *err) MUST_CHECK;
/* Open a file to read it whole: a bucket sends the begin of a plain one with the open. */
int ckpt_open_whole(struct object_store *s, const char *path,
		    struct ckpt_file **ret, struct error *err) MUST_CHECK;
void ckpt_close(struct ckpt_file *f); /* with no read under way */
const struct ckpt_stat *ckpt_file_stat(const struct ckpt_file *f);

const struct buf *ckpt_file_xattrs(const struct ckpt_file *f);

/* Is it the same version of a file? */
bool ckpt_file_is_same(const struct ckpt_file *a, const struct ckpt_file *b);
/* A number that another version has not, for a process that comes later. */
uint64_t ckpt_file_bytes_id(const struct ckpt_file *f);

/* The digest that names the version's bytes: no other file or version has the same one. */
int ckpt_file_identity(const struct ckpt_file *f, struct digest *ret,
		       struct error *err) MUST_CHECK;

/* Bytes that are best read at once, by one of several threads: they lie in one object,
 * at multiples of it. */
uint64_t ckpt_file_unit(const struct ckpt_file *f);
/* Bytes that have a checksum of their own, at multiples of it; 1: none have. */
uint32_t ckpt_file_chunk(const struct ckpt_file *f);

/* The first byte from `off` on that is stored, and not in a hole; no less than the file's
 * size: there is none.  How many bytes of the file are. */
uint64_t ckpt_file_next_stored(const struct ckpt_file *f, uint64_t off);
uint64_t ckpt_file_stored(const struct ckpt_file *f);
/* Bytes of memory that its tables have while it is open, as its manifest says. */
uint64_t ckpt_file_tables(const struct ckpt_file *f);

/* Read exactly `len` bytes; any number of threads.  `deadline_ns` as object_read() has
 * it.  -ERANGE: they are not in the file. */
int ckpt_read(struct ckpt_file *f, uint64_t off, void *buf, size_t len,
	      int64_t deadline_ns, struct error *err) MUST_CHECK;

/* Can ckpt_check_bytes() judge each chunk?  Not the last one of a file that was cut within a
 * chunk: the checksum covers bytes that are not the file's any more. */
bool ckpt_file_can_check(const struct ckpt_file *f);

/* Are these bytes, which begin and end with a chunk or the file, those of the file?  Of a
 * striped one its checksums say so (-EBADMSG), of a plain one nothing does. */
int ckpt_check_bytes(const struct ckpt_file *f, uint64_t off, const void *data,
		     size_t len, struct error *err) MUST_CHECK;

/* ------------------------------------------------------------------- writing --- */

#define CKPT_SIZE_UNKNOWN UINT64_MAX
#define CKPT_SIZE_MAX (UINT64_C(8) << 40) /* of such a file */

enum ckpt_layout {
	CKPT_LAYOUT_BY_SIZE, /* small files are plain */
	CKPT_LAYOUT_STRIPED, /* all but empty ones */
	CKPT_LAYOUT_PLAIN,
};

struct ckpt_write_options {
	/* Size of the whole file.  With CKPT_SIZE_UNKNOWN the file is striped, and its units
	 * are written in any order, and again (ckpt_writer_add()). */
	uint64_t size;
	enum ckpt_layout layout; /* with a size that is known */
	uint32_t columns;        /* 1..64; 0: by the size */
	/* With a size that is not known: MiB of a unit, 1 to 4; 0: 4. */
	uint32_t unit_chunks;
	struct ckpt_attr attr;
	/* With a size that is not known: units that are not written are those of this striped
	 * file.  NULL: they are holes.  -EOPNOTSUPP: its units have another size. */
	const struct ckpt_file *base;
	/* The version that was there when the file was opened, as far as it is known: the
	 * commit fails when others have put bytes there since. After it, the version that
	 * is there then. Stays until the writer is freed; NULL: nothing is compared. */
	struct ckpt_version *version;
};

/* Does the store compare by itself, so that it costs nothing? */
static inline bool ckpt_store_compares(const struct object_store *s)
{
	struct object_caps caps = object_store_caps(s);

	return caps.is_probed && caps.has_match && caps.has_new;
}

/* Begin to write a file, which is at `path` after ckpt_commit(). */
int ckpt_write_open(struct object_store *s, const char *path,
		    const struct ckpt_write_options *opts,
		    struct ckpt_writer **ret, struct error *err) MUST_CHECK;
uint64_t ckpt_writer_unit(const struct ckpt_writer *w);
uint32_t ckpt_writer_columns(const struct ckpt_writer *w);
/* Unit `u` of the file goes to this column; the units of one are written in their
 * order, by one thread at a time; of several, side by side. */
uint32_t ckpt_writer_column(const struct ckpt_writer *w, uint64_t u);
/* Attributes, instead of those it was opened with; before ckpt_commit(). */
void ckpt_writer_set_attr(struct ckpt_writer *w, const struct ckpt_attr *attr);
/* Extended attributes, as xattrs.h has them, of a striped file; before ckpt_commit(). */
int ckpt_writer_set_xattrs(struct ckpt_writer *w, const struct buf *list,
			   struct error *err) MUST_CHECK;
/* `data` has the whole unit, or what the file has of it. */
int ckpt_write_unit(struct ckpt_writer *w, uint64_t u, const void *data,
		    struct error *err) MUST_CHECK;
/* Have all that was written durable, then make the file appear: the old one or this
 * one is there whatever happens.  `ret` may be NULL.
 *   -ESTALE  another has written the file since (ckpt_write_options.version), and it is
 *            the other one's; or another, or ckpt_gc(), has removed it meanwhile,
 *            where the store cannot compare and remove in one step
 *   -EAGAIN  of a plain file: what it was to replace is gone; `version` says so now,
 *            and it can be written again */
int ckpt_commit(struct ckpt_writer *w, struct ckpt_stat *ret,
		struct error *err) MUST_CHECK;
void ckpt_writer_free(struct ckpt_writer *w);
DEFINE_AUTO(ckpt_writer)

/* ------------------------------------------------------------------ the names --- */

struct ckpt_entry {
	const char *name; /* in the folder */
	bool is_folder, is_striped;
	/* Figures of the object; a striped file's own are ckpt_stat()'s. No tag: a list
	 * of many names would be four times as large. */
	uint64_t size;
	int64_t modified_ms;
	int64_t asked_ns; /* CLOCK_MONOTONIC: when the store was, for this one */
};

/* Returns 0, or -errno, which ckpt_list() then returns. */
typedef int ckpt_list_fn(void *arg, const struct ckpt_entry *e,
			 struct error *err);

/* List a folder ("" is the root), by name. */
int ckpt_list(struct object_store *s, const char *folder, ckpt_list_fn *fn,
	      void *arg, struct error *err) MUST_CHECK;
/* The same of a folder that has `most` names in the store; -E2BIG: it has more, and
 * nothing was told. */
int ckpt_list_short(struct object_store *s, const char *folder, size_t most,
		    ckpt_list_fn *fn, void *arg, struct error *err) MUST_CHECK;
/* Told of each object that no file can be: its name in the store, which may have any bytes;
 * returns as ckpt_list_fn does. */
struct ckpt_left_out {
	int (*fn)(void *arg, const char *name, struct error *err);
	void *arg;
};
int ckpt_list_all(struct object_store *s, const char *folder, size_t most,
		  ckpt_list_fn *fn, void *arg,
		  const struct ckpt_left_out *left_out,
		  struct error *err) MUST_CHECK;
/* The attributes that ckpt_stat() gives of a plain file of this size and time. */
struct ckpt_stat ckpt_plain_stat(uint64_t size, int64_t mtime_ns);
int ckpt_stat(struct object_store *s, const char *path, struct ckpt_stat *ret,
	      struct error *err) MUST_CHECK;
int ckpt_remove(struct object_store *s, const char *path,
		struct error *err) MUST_CHECK;
/* Give a file another name; what has that name is replaced in one step, and there all
 * the time.  -ENOENT, or -EISDIR of `from`. */
int ckpt_rename(struct object_store *s, const char *from, const char *to,
		struct error *err) MUST_CHECK;
/* Attributes of a striped file.  -ENOTSUP: it is plain, and the store keeps none. */
int ckpt_set_attr(struct object_store *s, const char *path,
		  const struct ckpt_attr *attr, struct error *err) MUST_CHECK;

/* Extended attributes of a file, or of a folder ("" is the root), as xattrs.h has them;
 * those of a plain file are none, and -ENOTSUP to change. */
int ckpt_get_xattrs(struct object_store *s, const char *path, bool is_folder,
		    struct buf *ret, struct error *err) MUST_CHECK;
int ckpt_change_xattr(struct object_store *s, const char *path, bool is_folder,
		      const struct xattr_change *c,
		      struct error *err) MUST_CHECK;

/* A folder that is there without files in it, until ckpt_folder_remove(): an empty
 * object marks it, which ckpt_list() does not show.  -EEXIST: that is there. */
int ckpt_folder_make(struct object_store *s, const char *path,
		     struct error *err) MUST_CHECK;
/* -ENOTEMPTY: files are in it. */
int ckpt_folder_remove(struct object_store *s, const char *path,
		       struct error *err) MUST_CHECK;
/* Give it another name, with all that is in it, object by object: whoever looks
 * meanwhile sees a part of it here and there, and what was not moved when this fails
 * is where it was.  There is nothing of the new name. */
int ckpt_folder_rename(struct object_store *s, const char *from, const char *to,
		       struct error *err) MUST_CHECK;
/* Is it one?  1, 0, or -errno. */
int ckpt_is_folder(struct object_store *s, const char *path,
		   struct error *err) MUST_CHECK;

/* ----------------------------------------------------------------- whole files --- */

/* Told, one thread at a time, how many bytes are done.  May be NULL. */
typedef void ckpt_progress_fn(void *arg, uint64_t done, uint64_t total);

struct ckpt_progress {
	ckpt_progress_fn *fn;
	void *arg;
};

/* The regular file `fd`, of `opts->size` bytes, to a file of the store; -EBUSY when it
 * is changed meanwhile. */
int ckpt_upload(struct object_store *s, int fd, const char *path,
		const struct ckpt_write_options *opts,
		const struct ckpt_progress *progress, struct ckpt_stat *ret,
		struct error *err) MUST_CHECK;
/* All of a file to the regular file `fd`, or, when that is -1, nowhere: it is
 * checked.  `threads` is 1 to 256, 0: as many units at a time as are worth it. */
int ckpt_download(struct ckpt_file *f, int fd, unsigned int threads,
		  const struct ckpt_progress *progress,
		  struct error *err) MUST_CHECK;

struct ckpt_gc {
	uint64_t older_ms; /* only what is older; 0: whatever its age */
	bool dry_run;
	/* Results: */
	size_t n_segments, n_objects;
	uint64_t bytes;
	/* Objects that no manifest names since less than that, and that stay until then. */
	size_t n_waiting; /* objects */
	uint64_t bytes_waiting;
	/* Objects that no manifest names and that are too young: they may be of a file
	 * that is written now. */
	size_t n_young;
	uint64_t bytes_young;
};

/* Remove columns that no manifest names, and plain objects that a manifest hides.  Columns go
 * when a call before found them unnamed, `older_ms` ago, and this one does; what it finds for
 * the first time it marks.  Whoever writes for longer than `older_ms`, or reads for so long
 * what was replaced, loses.  Nothing is removed when a manifest cannot be read, or with -EBUSY
 * when files get other names all the time. */
int ckpt_gc(struct object_store *s, struct ckpt_gc *gc,
	    struct error *err) MUST_CHECK;

/* ------------------------------------------------------------------------ mounts --- */

#define CKPT_MOUNT_FSTYPE "fuse.bootseer-ckpt" /* as mountinfo has it */
/* In a mount's folder of --run: locked (flock) by whoever begins, until it is mounted. */
#define CKPT_CLAIM_FILE "begin.lock"

#endif
