// SPDX-License-Identifier: Apache-2.0
/*
 * Checkpoint files: one file, striped over many objects of a store (BootSeer paper, section 4.4).
 * docs/checkpoints.md has the design, docs/formats/checkpoint.md the bytes.
 *
 * A path has no leading slash: "step-100/model.pt". A "file" is either striped or a plain object of
 * the store. Each chunk of a striped file is checked against its checksum before a reader gets a
 * byte of it. Functions block and fail as those of objects/store.h do, and besides return:
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

/* Bytes of a file's or folder's name: the name of its manifest has four more, and a store allows
 * 255. */
#define CKPT_NAME_MAX 251

struct ckpt_file;
struct ckpt_writer;

struct ckpt_attr {
	uint32_t mode; /* permission bits */
	uint32_t uid, gid;
	int64_t mtime_ns; /* since 1970 */
};

/* Must the file be striped, however small, because its mode denies others to read it? Everybody may
 * read a plain object. */
static inline bool ckpt_attr_is_secret(const struct ckpt_attr *a)
{
	return (a->mode & 0044) != 0044;
}

struct ckpt_stat {
	/* the members after `attr` are valid for striped files only */
	bool is_striped;
	uint64_t size;
	/* the same for versions that differ in attributes only; 0: unknown */
	uint64_t bytes_id;
	/* for a plain file: its time, and default values */
	struct ckpt_attr attr;
	uint64_t generation;
	uint32_t chunk_size, unit_chunks;
	uint32_t columns; /* of the first segment; 0: the file is empty */
	size_t n_segments;
	size_t xattrs_len; /* bytes of the file's extended attributes */
};

/* ------------------------------------------------------------------- reading --- */

/* Open the current version of a file. Reads get this version even after the file is replaced. */
int ckpt_open(struct object_store *s, const char *path, struct ckpt_file **ret,
	      struct error *err) MUST_CHECK;
/* Open a file to read all of it: for a plain one, a bucket sends the first bytes in the same
 * request. */
int ckpt_open_whole(struct object_store *s, const char *path,
		    struct ckpt_file **ret, struct error *err) MUST_CHECK;
void ckpt_close(struct ckpt_file *f); /* no read may be running */
const struct ckpt_stat *ckpt_file_stat(const struct ckpt_file *f);

const struct buf *ckpt_file_xattrs(const struct ckpt_file *f);

/* Are both the same version of a file? */
bool ckpt_file_is_same(const struct ckpt_file *a, const struct ckpt_file *b);
/* A number that identifies the version, also in a later process. */
uint64_t ckpt_file_bytes_id(const struct ckpt_file *f);

/* Compute a digest that identifies the version's bytes; no other file or version has the same. */
int ckpt_file_identity(const struct ckpt_file *f, struct digest *ret,
		       struct error *err) MUST_CHECK;

/* Size of a unit: a range, at multiples of this size, that lies in one object and is best read at
 * once by one thread. */
uint64_t ckpt_file_unit(const struct ckpt_file *f);
/* Size of a chunk: a range, at multiples of this size, with its own checksum; 1: the file has no
 * checksums. */
uint32_t ckpt_file_chunk(const struct ckpt_file *f);

/* ckpt_file_next_stored(): the first byte at or after `off` that is not in a hole; the file's size
 * or more: none. ckpt_file_stored(): number of bytes that are not in holes. */
uint64_t ckpt_file_next_stored(const struct ckpt_file *f, uint64_t off);
uint64_t ckpt_file_stored(const struct ckpt_file *f);
/* Memory that the file's tables take while it is open, by its manifest. */
uint64_t ckpt_file_tables(const struct ckpt_file *f);

/* Read exactly `len` bytes; any number of threads. `deadline_ns` is as for object_read(). -ERANGE:
 * the range is not within the file. */
int ckpt_read(struct ckpt_file *f, uint64_t off, void *buf, size_t len,
	      int64_t deadline_ns, struct error *err) MUST_CHECK;

/* Can ckpt_check_bytes() check every chunk? Not the last one of a file that was truncated within a
 * chunk: its checksum covers bytes beyond the end. */
bool ckpt_file_can_check(const struct ckpt_file *f);

/* Check that the bytes, which begin and end at a chunk's or the file's boundary, are those of
 * the file. For a striped file its checksums tell (-EBADMSG); those of a plain file cannot be
 * checked. */
int ckpt_check_bytes(const struct ckpt_file *f, uint64_t off, const void *data,
		     size_t len, struct error *err) MUST_CHECK;

/* ------------------------------------------------------------------- writing --- */

#define CKPT_SIZE_UNKNOWN UINT64_MAX
#define CKPT_SIZE_MAX (UINT64_C(8) << 40) /* bytes of a striped file */

enum ckpt_layout {
	CKPT_LAYOUT_BY_SIZE, /* small files are plain */
	CKPT_LAYOUT_STRIPED, /* all files except empty ones are striped */
	CKPT_LAYOUT_PLAIN,
};

struct ckpt_write_options {
	/* Size of the whole file. With CKPT_SIZE_UNKNOWN the file is striped, and its units can be
	 * written in any order and more than once (ckpt_writer_add()). */
	uint64_t size;
	enum ckpt_layout layout; /* used if the size is known */
	uint32_t columns;        /* 1..64; 0: chosen by size */
	/* If the size is unknown: MiB of a unit, 1 to 4; 0: 4. */
	uint32_t unit_chunks;
	struct ckpt_attr attr;
	/* If the size is unknown: units that are not written are taken from this striped file.
	 * NULL: they are holes. -EOPNOTSUPP: its units have another size. */
	const struct ckpt_file *base;
	/* The version that existed when the file was opened, as far as known. The commit fails if
	 * others have written the file since, and then stores the current version here. Must stay
	 * valid until the writer is freed; NULL: nothing is compared. */
	struct ckpt_version *version;
};

/* Can the store compare versions itself (conditional put), so that comparing costs nothing? */
static inline bool ckpt_store_compares(const struct object_store *s)
{
	struct object_caps caps = object_store_caps(s);

	return caps.is_probed && caps.has_match && caps.has_new;
}

/* Begin to write a file, which appears at `path` with ckpt_commit(). */
int ckpt_write_open(struct object_store *s, const char *path,
		    const struct ckpt_write_options *opts,
		    struct ckpt_writer **ret, struct error *err) MUST_CHECK;
uint64_t ckpt_writer_unit(const struct ckpt_writer *w);
uint32_t ckpt_writer_columns(const struct ckpt_writer *w);
/* The column that gets unit `u`. The units of a column are written in order, by one thread at a
 * time; different columns in parallel. */
uint32_t ckpt_writer_column(const struct ckpt_writer *w, uint64_t u);
/* Replace the attributes given at the open; call before ckpt_commit(). */
void ckpt_writer_set_attr(struct ckpt_writer *w, const struct ckpt_attr *attr);
/* Set the extended attributes (in the format of xattrs.h) of a striped file; call before
 * ckpt_commit(). */
int ckpt_writer_set_xattrs(struct ckpt_writer *w, const struct buf *list,
			   struct error *err) MUST_CHECK;
/* Write unit `u`; `data` is the whole unit, shorter only at the end of the file. */
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
	const char *name; /* name within the folder */
	bool is_folder, is_striped;
	/* Size and time of the object; those of a striped file are in ckpt_stat(). The tag is left
	 * out, to keep long lists small. */
	uint64_t size;
	int64_t modified_ms;
	/* CLOCK_MONOTONIC: when the store was asked for this entry */
	int64_t asked_ns;
};

/* Called with an entry; returns 0, or -errno, which ends ckpt_list() and is its result. */
typedef int ckpt_list_fn(void *arg, const struct ckpt_entry *e,
			 struct error *err);

/* List a folder ("": the root), in the order of names. */
int ckpt_list(struct object_store *s, const char *folder, ckpt_list_fn *fn,
	      void *arg, struct error *err) MUST_CHECK;
/* The same for a folder with at most `most` names in the store; -E2BIG: it has more, and `fn` was
 * not called. */
int ckpt_list_short(struct object_store *s, const char *folder, size_t most,
		    ckpt_list_fn *fn, void *arg, struct error *err) MUST_CHECK;
/* Called with the name of each object that cannot be a file; the name may contain any bytes.
 * Returns as ckpt_list_fn does. */
struct ckpt_left_out {
	int (*fn)(void *arg, const char *name, struct error *err);
	void *arg;
};
int ckpt_list_all(struct object_store *s, const char *folder, size_t most,
		  ckpt_list_fn *fn, void *arg,
		  const struct ckpt_left_out *left_out,
		  struct error *err) MUST_CHECK;
/* The result of ckpt_stat() for a plain file of this size and time. */
struct ckpt_stat ckpt_plain_stat(uint64_t size, int64_t mtime_ns);
int ckpt_stat(struct object_store *s, const char *path, struct ckpt_stat *ret,
	      struct error *err) MUST_CHECK;
int ckpt_remove(struct object_store *s, const char *path,
		struct error *err) MUST_CHECK;
/* Rename a file; a file of the new name is replaced in one step. -ENOENT or -EISDIR: of `from`. */
int ckpt_rename(struct object_store *s, const char *from, const char *to,
		struct error *err) MUST_CHECK;
/* Change the attributes of a striped file. -ENOTSUP: the file is plain, and the store keeps none
 * for it. */
int ckpt_set_attr(struct object_store *s, const char *path,
		  const struct ckpt_attr *attr, struct error *err) MUST_CHECK;

/* Get or change the extended attributes (format: xattrs.h) of a file or folder ("": the root). A
 * plain file has none, and changing them is -ENOTSUP. */
int ckpt_get_xattrs(struct object_store *s, const char *path, bool is_folder,
		    struct buf *ret, struct error *err) MUST_CHECK;
int ckpt_change_xattr(struct object_store *s, const char *path, bool is_folder,
		      const struct xattr_change *c,
		      struct error *err) MUST_CHECK;

/* Make a folder that exists without files, marked by an empty object, until ckpt_folder_remove().
 * -EEXIST: something has the name. */
int ckpt_folder_make(struct object_store *s, const char *path,
		     struct error *err) MUST_CHECK;
/* Remove a folder. -ENOTEMPTY: it contains files. */
int ckpt_folder_remove(struct object_store *s, const char *path,
		       struct error *err) MUST_CHECK;
/* Rename a folder, object by object: others see parts under both names meanwhile, and a failure
 * leaves the rest under the old name. Nothing may exist under the new name. */
int ckpt_folder_rename(struct object_store *s, const char *from, const char *to,
		       struct error *err) MUST_CHECK;
/* Is `path` a folder? 1, 0, or -errno. */
int ckpt_is_folder(struct object_store *s, const char *path,
		   struct error *err) MUST_CHECK;

/* ----------------------------------------------------------------- whole files --- */

/* Called with the number of bytes done so far, by one thread at a time. May be NULL. */
typedef void ckpt_progress_fn(void *arg, uint64_t done, uint64_t total);

struct ckpt_progress {
	ckpt_progress_fn *fn;
	void *arg;
};

/* Copy the regular file `fd`, of `opts->size` bytes, to the store. -EBUSY: the file was changed
 * meanwhile. */
int ckpt_upload(struct object_store *s, int fd, const char *path,
		const struct ckpt_write_options *opts,
		const struct ckpt_progress *progress, struct ckpt_stat *ret,
		struct error *err) MUST_CHECK;
/* Copy a whole file to the regular file `fd`; -1: only check its bytes. `threads` is 1 to 256; 0:
 * as many as there are units worth reading in parallel. */
int ckpt_download(struct ckpt_file *f, int fd, unsigned int threads,
		  const struct ckpt_progress *progress,
		  struct error *err) MUST_CHECK;

struct ckpt_gc {
	uint64_t older_ms; /* remove only older objects; 0: any age */
	bool dry_run;
	/* Results: */
	size_t n_segments, n_objects;
	uint64_t bytes;
	/* Unnamed objects that are marked, but for less than older_ms. */
	size_t n_waiting; /* number of objects */
	uint64_t bytes_waiting;
	/* Unnamed objects that are too young: they may belong to a file that is being written. */
	size_t n_young;
	uint64_t bytes_young;
};

/* Remove columns that no manifest names, and plain objects hidden by a manifest. A column is
 * removed if an earlier call marked it as unnamed at least `older_ms` ago and it is still unnamed;
 * this call marks those it finds for the first time. So a write that takes longer than `older_ms`
 * fails, and so does a read of a replaced version after that time. Nothing is removed if a manifest
 * cannot be read, or with -EBUSY if files are being renamed all the time. */
int ckpt_gc(struct object_store *s, struct ckpt_gc *gc,
	    struct error *err) MUST_CHECK;

/* ------------------------------------------------------------------------ mounts --- */

/* file system type in mountinfo */
#define CKPT_MOUNT_FSTYPE "fuse.bootseer-ckpt"
/* File in a mount's folder of --run, locked (flock) by a starting process until it is mounted. */
#define CKPT_CLAIM_FILE "begin.lock"

#endif
