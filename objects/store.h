// SPDX-License-Identifier: Apache-2.0
/*
 * Stores of named objects: a directory (file:), a bucket (s3:), a folder of HDFS
 * (hdfs:), a repository of a registry (docker:).  An object is written once, as a
 * stream, and appears whole under its name or not at all; after that it is read by
 * ranges, replaced or removed, never changed.  docs/objects.md has the URLs, and promises.
 *
 * A name is a path without a leading slash: "data/7f/column.0".  Every function
 * blocks and may be called from several threads, but of one put only one thread at
 * a time.  Nothing waits for ever: an operation that has made no progress for
 * object_store_config.retry_ms fails.  Errors name store, object and server:
 *   -ENOENT     there is no such object
 *   -EEXIST     OBJECT_NEW: the name is taken
 *   -ESTALE     OBJECT_MATCH: the object is another; or it was replaced while read
 *   -EACCES     the credentials do not allow it
 *   -ENOSPC     no space, or the quota is used up
 *   -EBADMSG    the store got or gave other bytes than were sent
 *   -EBUSY      the store asks for patience, or a lock is held, for too long
 *   -EROFS      the store takes no writes now
 *   -ENOTSUP    this store cannot do it; object_store_caps() says so before
 *   -EINVAL     a name or URL that the store does not take
 *   -ECONNREFUSED, -ETIMEDOUT, -EPROTO, -EIO, -ENOMEM
 */
#ifndef BOOTSEER_OBJECTS_STORE_H
#define BOOTSEER_OBJECTS_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/counter.h"
#include "common/error.h"

#define OBJECT_NAME_MAX 1000
#define OBJECT_TAG_MAX 128
#define OBJECT_PARALLEL_MAX 64u

struct object_store;
struct object;
struct object_put;
struct object_lease;

struct object_store_config {
	uint64_t memory; /* bytes that puts under way hold at most, until the
	                        * store has them, and object_buffer_take() gives */
	unsigned int parallel; /* requests at a time; 0: by kind */
	uint32_t connect_timeout_ms;
	uint32_t stall_timeout_ms; /* no byte for so long: another attempt */
	uint32_t retry_ms;   /* attempts without progress; then it fails */
	const char *ca_file; /* PEM; NULL: the system's */
	/* No name that is read is written again: HDFS, which reads names, is not asked then. */
	bool is_write_once;
	bool shares_files; /* who may write to a directory may read what is put */
	/* For object_store_fence(): letters and digits; NULL: nobody asks. */
	const char *life;
};

#define OBJECT_STORE_CONFIG_INIT \
	{ \
		.memory = 256u << 20, .connect_timeout_ms = 5000, \
		.stall_timeout_ms = 20000, .retry_ms = 60000 \
	}

/* Abilities of a store: those of its kind when it is open, as found out after a probe. */
struct object_caps {
	bool is_probed;
	bool has_new;   /* OBJECT_NEW is one step of the store itself */
	bool has_match; /* the same of OBJECT_MATCH; else under a lock object */
	bool has_match_delete; /* of object_delete() with a tag */
	bool has_rename;       /* object_rename() is one step, of any size */
	bool has_replace; /* a put over an object is one step: readers see one of both */
	bool has_checksum; /* the store refuses bytes that changed on their way */
	bool is_direct; /* large transfers bypass this machine's page cache */
	bool is_uring;  /* by io_uring, not by threads */
	bool is_remote; /* a server answers, a round trip later */
	unsigned int parallel; /* requests at a time that are worth it */
	uint64_t read_size;    /* bytes of a range that is worth a request */
	uint64_t part_size;    /* bytes of a put that are sent at once */
	uint64_t
		put_once; /* largest object of a single request; 0: sizes cost none */
	uint64_t put_memory; /* for puts; UINT64_MAX: they take none */
};

struct object_stat {
	uint64_t size;
	int64_t modified_ms; /* the server's wall clock, since 1970; -1: unknown */
	char tag[OBJECT_TAG_MAX]; /* of this version: another after each put */
};

/* Open the store that the URL names; nothing is asked of a server yet.  -EINVAL says
 * what is wrong with the URL, -EACCES that credentials are missing. */
int object_store_open(const char *url, const struct object_store_config *cfg,
		      struct object_store **ret, struct error *err) MUST_CHECK;
/* Turn shares_files off. */
void object_store_keep_private(struct object_store *s);
/* With no call under way, and all objects, puts and leases of it freed. */
void object_store_free(struct object_store *s);
DEFINE_AUTO(object_store)

/* Find out by trying, with small objects below .bootseer/ that are removed again, what
 * the store can do.  Fails where it cannot be written at all. */
int object_store_probe(struct object_store *s, struct error *err) MUST_CHECK;
/* The same of what leases and conditions need alone: how fast a directory is, which takes
 * 32 MiB that are written and read again and again, is not measured. */
int object_store_probe_conditions(struct object_store *s,
				  struct error *err) MUST_CHECK;
struct object_caps object_store_caps(const struct object_store *s);
/* Fence off a dead process that had the store open with this `life`: a put that it had on
 * its way to HDFS was done before this returns, or never is. A directory has done what
 * the dead asked for; what a bucket or a registry was asked for nobody can call back. */
int object_store_fence(struct object_store *s, const char *life,
		       struct error *err) MUST_CHECK;
const char *object_store_url(const struct object_store *s);
/* The value of the Authorization header with which a registry that is the store lets
 * `name` be read, the caller's; NULL where it needs none, and of other kinds of stores.
 * `pace` may be NULL. */
struct pace;
int object_store_authorization(struct object_store *s, const char *name,
			       struct pace *pace, char **ret,
			       struct error *err) MUST_CHECK;

/* Time that requests spent waiting, all of them together, in ns. */
struct object_waits {
	uint64_t queue_ns;   /* for a thread of the store, or its memory */
	uint64_t storage_ns; /* for the first byte of an answer */
	uint64_t network_ns; /* for connections, and all other bytes */
};

struct object_store_stats {
	uint64_t n_requests, n_retries, n_hedges, n_hedges_won;
	uint64_t bytes_read, bytes_written;
	/* Calls: ranges that were read; bytes that were put, and commits; all that is
	 * about names. */
	struct counter_latency read, write, name;
	/* Waits of ranges that are read, and of bytes that are put. Where the kind of
	 * store does not tell (file:, docker:) all of such calls is storage. */
	struct object_waits read_waits, write_waits;
};
struct object_store_stats object_store_stats(struct object_store *s);

/* ---------------------------------------------------------------- objects --- */

int object_stat(struct object_store *s, const char *name,
		struct object_stat *ret, struct error *err) MUST_CHECK;

struct object_entry {
	const char *name; /* within the store, not only within the folder */
	bool is_folder; /* names that begin with it and a slash exist, or did where folders are real */
	struct object_stat stat; /* of an object */
	int64_t asked_ns; /* CLOCK_MONOTONIC of this part of the list; 0: when it was begun */
	bool is_marker; /* an object by which another tool marks the folder `name` */
	bool is_odd; /* the server has the name, and no object can here */
};

/* Returns 0, or -errno, which object_list() then returns. */
typedef int object_list_fn(void *arg, const struct object_entry *e,
			   struct error *err);

/* Tell of what is in a folder ("" is the root), in no order: objects and folders in
 * it, or with `deep` all objects below it and no folder.  One that is not there is
 * empty; the root shows no .bootseer, which is a folder as others are when it is
 * named.  Every name is one that object_open() takes, and begins with the folder's: what
 * others gave other names is left out; -EPROTO: the server lists another folder. */
int object_list(struct object_store *s, const char *folder, bool deep,
		object_list_fn *fn, void *arg, struct error *err) MUST_CHECK;
/* With markers, the folder's own too, and odd names. */
int object_list_all(struct object_store *s, const char *folder, bool deep,
		    object_list_fn *fn, void *arg,
		    struct error *err) MUST_CHECK;

/* An object to be read: the version that is there now, whatever replaces it; where the
 * store forgets replaced versions, later reads are -ESTALE. */
int object_open(struct object_store *s, const char *name, struct object **ret,
		struct error *err) MUST_CHECK;
void object_close(struct object *o); /* with no read under way */
const struct object_stat *object_opened_stat(const struct object *o);

struct object_range {
	uint64_t off;
	size_t len;
	void *buf;
};

/* Read all ranges, in parallel; those that follow one another in the object become
 * one request.  `deadline_ns` (CLOCK_MONOTONIC) is 0 for none.  -ERANGE: one of them
 * lies outside the object; on failure the buffers hold anything. */
int object_read(struct object *o, const struct object_range *ranges, size_t n,
		int64_t deadline_ns, struct error *err) MUST_CHECK;

enum object_condition {
	OBJECT_ANY,   /* whatever is there */
	OBJECT_NEW,   /* if nothing is */
	OBJECT_MATCH, /* if it is the version of the tag */
};

struct object_put_options {
	uint64_t size; /* as far as it is known; 0: it is not */
	enum object_condition condition;
	const char *tag; /* of OBJECT_MATCH */
};

/* Begin to write an object; `opts` may be NULL.  -EBUSY: other puts have all the memory. */
int object_put_open(struct object_store *s, const char *name,
		    const struct object_put_options *opts,
		    struct object_put **ret, struct error *err) MUST_CHECK;
/* Where the caller may lay the next `len` bytes, which object_put_write() then does not copy; until
 * the next call for the put.  NULL: nowhere.  Waits while memory is short. */
void *object_put_room(struct object_put *p, size_t len);
/* The next bytes, which are copied.  Waits while memory is short; a failure of bytes
 * that were taken before shows here or at the commit. */
int object_put_write(struct object_put *p, const void *data, size_t len,
		     struct error *err) MUST_CHECK;
/* The first `size` bytes of a file, by way of 4 MiB of memory. */
int object_put_fd(struct object_put *p, int fd, uint64_t size,
		  struct error *err) MUST_CHECK;
/* Make the object appear, durable, under its name if the condition holds. */
int object_put_commit(struct object_put *p, struct object_stat *ret,
		      struct error *err) MUST_CHECK;
/* Frees, and takes back what was sent when there was no commit. */
void object_put_free(struct object_put *p);
DEFINE_AUTO(object_put)

/* Memory of the store's bound, page-aligned: reads into it cost the least.  Waits until
 * `deadline_ns`; NULL: others have it.  Give it back with the same size. */
void *object_buffer_take(struct object_store *s, size_t size,
			 int64_t deadline_ns) MUST_CHECK;
void object_buffer_give(struct object_store *s, void *buf, size_t size);

/* The three at once; `ret` may be NULL. */
int object_put(struct object_store *s, const char *name, const void *data,
	       size_t len, const struct object_put_options *opts,
	       struct object_stat *ret, struct error *err) MUST_CHECK;

/* Remove it, with a tag only that version (-ESTALE: it is another). */
int object_delete(struct object_store *s, const char *name, const char *tag,
		  struct error *err) MUST_CHECK;

/* Remove a folder in which nothing is, where folders are real, and elsewhere what another
 * tool marks it by; when it is not there, nothing is done.  -ENOTEMPTY */
int object_folder_remove(struct object_store *s, const char *folder,
			 struct error *err) MUST_CHECK;

/* Give it another name; `condition` is of what has that name now, and not
 * OBJECT_MATCH.  Without object_caps.has_rename a copy and a removal. */
int object_rename(struct object_store *s, const char *from, const char *to,
		  enum object_condition condition,
		  struct error *err) MUST_CHECK;

/* The store's time, ms since 1970, as it dates an object that is made for it and removed; our
 * own time for directories and repositories, which whoever writes dates. */
int object_store_now(struct object_store *s, int64_t *ret_ms,
		     struct error *err) MUST_CHECK;

/* Was it last changed before then?  Of what has no time (-1) nobody knows: it is old only
 * where all is, before INT64_MAX. */
bool object_is_old(int64_t modified_ms, int64_t before_ms);

/* Remove what puts, probes and locks left that a crash cut off, when it is older by the store's
 * clock, and locks also two days old; with 0 whatever its age, but no locks. */
int object_store_sweep(struct object_store *s, uint64_t older_ms, size_t *ret_n,
		       struct error *err) MUST_CHECK;

/* Likewise below `folder` only, before that time of the store's: two days ago or more. */
int object_store_sweep_folder(struct object_store *s, const char *folder,
			      int64_t before_ms, size_t *ret_n,
			      struct error *err) MUST_CHECK;

/* ----------------------------------------------------------------- leases --- */

/* A lease is an object that its holder renews.  One that was not renewed for `ttl_ms` by the
 * clock of whoever wants it may be taken over; the holder before learns it at its next renewal.
 * What is written under it should carry its `generation`, which grows.  `owner` is for people. */
struct object_lease_options {
	const char *owner;
	uint32_t ttl_ms;
	int64_t deadline_ns; /* CLOCK_MONOTONIC; 0: do not wait for another's */
	/* Asked before each look: is it over?  Told that `owner` has it.  May be NULL. */
	bool (*is_over)(void *arg);
	void (*is_held)(void *arg, const char *owner);
	void *arg;
};

/* -EBUSY names the holder; -ECANCELED: is_over() said so. */
int object_lease_take(struct object_store *s, const char *name,
		      const struct object_lease_options *opts,
		      struct object_lease **ret, struct error *err) MUST_CHECK;
uint64_t object_lease_generation(const struct object_lease *l);
/* At least three times in each ttl_ms.  -ESTALE: another has it now. */
int object_lease_renew(struct object_lease *l, struct error *err) MUST_CHECK;
/* Give it back, if it still is ours, and free it. */
int object_lease_drop(struct object_lease *l, struct error *err) MUST_CHECK;
void object_lease_free(struct object_lease *l); /* without giving it back */
DEFINE_AUTO(object_lease)

#endif
