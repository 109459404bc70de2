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
	/* Limit of memory for puts and object_buffer_take(). */
	uint64_t memory;
	unsigned int parallel; /* requests at once; 0: default of the kind */
	uint32_t connect_timeout_ms;
	uint32_t stall_timeout_ms; /* no byte for so long: another attempt */
	uint32_t retry_ms;   /* attempts without progress; then it fails */
	const char *ca_file; /* PEM; NULL: the system's */
	/* Objects that are read are never replaced, so HDFS, which reads by name, need not
	 * check that. */
	bool is_write_once;
	bool shares_files; /* writers of a directory may read its objects */
	/* Identity for object_store_fence(): letters and digits; NULL: not used. */
	const char *life;
};

#define OBJECT_STORE_CONFIG_INIT \
	{ \
		.memory = 256u << 20, .connect_timeout_ms = 5000, \
		.stall_timeout_ms = 20000, .retry_ms = 60000 \
	}

/* Abilities of a store: at first those of its kind, after a probe as tested. */
struct object_caps {
	bool is_probed;
	bool has_new;   /* OBJECT_NEW is atomic in the store */
	bool has_match; /* so is OBJECT_MATCH; else a lock object is used */
	bool has_match_delete; /* object_delete() with a tag is atomic */
	bool has_rename;       /* object_rename() is atomic, for any size */
	bool has_replace;      /* a put replaces an object in one step */
	bool has_checksum;     /* the store refuses bytes damaged in transfer */
	bool is_direct; /* large transfers bypass this machine's page cache */
	bool is_uring;  /* uses io_uring, not threads */
	bool is_remote; /* a server, with the delay of a round trip */
	unsigned int parallel; /* useful number of requests at once */
	uint64_t read_size;    /* useful size of a range, in bytes */
	uint64_t part_size;    /* bytes of a put sent in one request */
	uint64_t
		put_once; /* largest object of a single request; 0: sizes cost none */
	uint64_t put_memory; /* memory for puts; UINT64_MAX: they need none */
};

struct object_stat {
	uint64_t size;
	int64_t modified_ms; /* the server's wall clock, since 1970; -1: unknown */
	/* Identifies this version; changes with each put. */
	char tag[OBJECT_TAG_MAX];
};

/* Open the store that the URL names; no request is made yet. -EINVAL says what is wrong with
 * the URL, -EACCES that credentials are missing. */
int object_store_open(const char *url, const struct object_store_config *cfg,
		      struct object_store **ret, struct error *err) MUST_CHECK;
/* Turn shares_files off. */
void object_store_keep_private(struct object_store *s);
/* Call with no call running, and all objects, puts and leases of the store freed. */
void object_store_free(struct object_store *s);
DEFINE_AUTO(object_store)

/* Test what the store can do, with small objects below .bootseer/ that are removed again. Fails
 * if the store cannot be written. */
int object_store_probe(struct object_store *s, struct error *err) MUST_CHECK;
/* Test only what leases and conditions need, not the speed of a directory, which takes repeated
 * writes and reads of 32 MiB. */
int object_store_probe_conditions(struct object_store *s,
				  struct error *err) MUST_CHECK;
struct object_caps object_store_caps(const struct object_store *s);
/* Fence off a dead process that had the store open with this `life`: when this returns, its
 * running puts to HDFS are done or can never be done. A directory has done all requests by
 * then; requests to a bucket or a registry cannot be cancelled. */
int object_store_fence(struct object_store *s, const char *life,
		       struct error *err) MUST_CHECK;
const char *object_store_url(const struct object_store *s);
/* Get the value of the Authorization header for reading `name`, if the store is a registry; the
 * caller frees it. NULL: none is needed, or another kind of store. `pace` may be NULL. */
struct pace;
int object_store_authorization(struct object_store *s, const char *name,
			       struct pace *pace, char **ret,
			       struct error *err) MUST_CHECK;

/* Sum of the times that requests waited, in ns. */
struct object_waits {
	uint64_t queue_ns;   /* waiting for a thread or memory of the store */
	uint64_t storage_ns; /* waiting for the first byte of answers */
	uint64_t network_ns; /* waiting for connections and the other bytes */
};

struct object_store_stats {
	uint64_t n_requests, n_retries, n_hedges, n_hedges_won;
	uint64_t bytes_read, bytes_written;
	/* Calls that read ranges; that put bytes or commit; and that are about names. */
	struct counter_latency read, write, name;
	/* Waits of reads and of puts. For kinds that do not measure (file:, docker:) the whole
	 * time counts as storage. */
	struct object_waits read_waits, write_waits;
};
struct object_store_stats object_store_stats(struct object_store *s);

/* ---------------------------------------------------------------- objects --- */

int object_stat(struct object_store *s, const char *name,
		struct object_stat *ret, struct error *err) MUST_CHECK;

struct object_entry {
	/* Full name in the store, not relative to the folder. */
	const char *name;
	/* Other names begin with it and a slash, or a real folder. */
	bool is_folder;
	struct object_stat stat; /* of an object */
	int64_t asked_ns; /* CLOCK_MONOTONIC of this part; 0: of the list */
	bool is_marker;   /* an object by which another tool marks a folder */
	bool is_odd;      /* the server has it, but it is not valid here */
};

/* Returns 0, or -errno, which object_list() then returns. */
typedef int object_list_fn(void *arg, const struct object_entry *e,
			   struct error *err);

/* List a folder ("" is the root), unordered: its objects and folders, or with `deep` all
 * objects below it and no folders. A missing folder is empty; the root does not show .bootseer,
 * which can be listed by its name. Each name can be given to object_open() and begins with the
 * folder's; other names are left out; -EPROTO: the server lists another folder. */
int object_list(struct object_store *s, const char *folder, bool deep,
		object_list_fn *fn, void *arg, struct error *err) MUST_CHECK;
/* List markers too, also the folder's own, and names that are not valid here. */
int object_list_all(struct object_store *s, const char *folder, bool deep,
		    object_list_fn *fn, void *arg,
		    struct error *err) MUST_CHECK;

/* Open the present version of an object to read it, even if it is replaced later; if the store
 * does not keep replaced versions, later reads fail with -ESTALE. */
int object_open(struct object_store *s, const char *name, struct object **ret,
		struct error *err) MUST_CHECK;
void object_close(struct object *o); /* call with no read running */
const struct object_stat *object_opened_stat(const struct object *o);

struct object_range {
	uint64_t off;
	size_t len;
	void *buf;
};

/* Read all ranges, in parallel; adjacent ones become one request. `deadline_ns`
 * (CLOCK_MONOTONIC): 0: none. -ERANGE: a range lies outside the object; on failure the buffers
 * are undefined. */
int object_read(struct object *o, const struct object_range *ranges, size_t n,
		int64_t deadline_ns, struct error *err) MUST_CHECK;

enum object_condition {
	OBJECT_ANY,   /* replace any object */
	OBJECT_NEW,   /* only if the name is free */
	OBJECT_MATCH, /* only if the object is the version of the tag */
};

struct object_put_options {
	uint64_t size; /* expected size; 0: unknown */
	enum object_condition condition;
	const char *tag; /* tag for OBJECT_MATCH */
};

/* Begin to write an object; `opts` may be NULL. -EBUSY: other puts use all the memory. */
int object_put_open(struct object_store *s, const char *name,
		    const struct object_put_options *opts,
		    struct object_put **ret, struct error *err) MUST_CHECK;
/* Memory for the next `len` bytes, from which object_put_write() need not copy; valid until the
 * next call for the put. NULL: none. Waits while memory is short. */
void *object_put_room(struct object_put *p, size_t len);
/* Write the next bytes, which are copied. Waits while memory is short; a failure of earlier
 * bytes is reported here or at the commit. */
int object_put_write(struct object_put *p, const void *data, size_t len,
		     struct error *err) MUST_CHECK;
/* Write the first `size` bytes of a file, through 4 MiB of memory. */
int object_put_fd(struct object_put *p, int fd, uint64_t size,
		  struct error *err) MUST_CHECK;
/* Make the object appear, durable, under its name if the condition holds. */
int object_put_commit(struct object_put *p, struct object_stat *ret,
		      struct error *err) MUST_CHECK;
/* Free the put; without a commit, remove what was sent. */
void object_put_free(struct object_put *p);
DEFINE_AUTO(object_put)

/* Take page-aligned memory of the store, into which reads are fastest. Waits until
 * `deadline_ns`; NULL: it is in use. Give it back with the same size. */
void *object_buffer_take(struct object_store *s, size_t size,
			 int64_t deadline_ns) MUST_CHECK;
void object_buffer_give(struct object_store *s, void *buf, size_t size);

/* Open, write and commit in one call; `ret` may be NULL. */
int object_put(struct object_store *s, const char *name, const void *data,
	       size_t len, const struct object_put_options *opts,
	       struct object_stat *ret, struct error *err) MUST_CHECK;

/* Remove an object; with a tag only that version (-ESTALE: it is another). */
int object_delete(struct object_store *s, const char *name, const char *tag,
		  struct error *err) MUST_CHECK;

/* Remove an empty folder, where folders are real, or the object by which another tool marks it;
 * success if there is none. -ENOTEMPTY */
int object_folder_remove(struct object_store *s, const char *folder,
			 struct error *err) MUST_CHECK;

/* Rename an object; `condition` is about `to`, and not OBJECT_MATCH. Without
 * object_caps.has_rename: a copy and a removal. */
int object_rename(struct object_store *s, const char *from, const char *to,
		  enum object_condition condition,
		  struct error *err) MUST_CHECK;

/* The store's time, ms since 1970, from the date of an object that is put and removed; this
 * machine's time for directories and repositories, where the writer sets the date. */
int object_store_now(struct object_store *s, int64_t *ret_ms,
		     struct error *err) MUST_CHECK;

/* Was the object changed before `before_ms`? An unknown time (-1) is only before INT64_MAX. */
bool object_is_old(int64_t modified_ms, int64_t before_ms);

/* Remove leftovers of crashed puts, probes and locks that are older than this by the store's
 * clock, locks also two days old; 0: of any age, but no locks. */
int object_store_sweep(struct object_store *s, uint64_t older_ms, size_t *ret_n,
		       struct error *err) MUST_CHECK;

/* As object_store_sweep(), only below `folder`, and from before this time of the store, at
 * least two days ago. */
int object_store_sweep_folder(struct object_store *s, const char *folder,
			      int64_t before_ms, size_t *ret_n,
			      struct error *err) MUST_CHECK;

/* ----------------------------------------------------------------- leases --- */

/* A lease is an object that its holder renews. If it is not renewed for `ttl_ms` by the clock
 * of another process, that process may take it over; the old holder notices at its next
 * renewal. Data written under the lease should carry its `generation`, which grows. `owner` is
 * for people. */
struct object_lease_options {
	const char *owner;
	uint32_t ttl_ms;
	/* CLOCK_MONOTONIC; 0: do not wait for another holder. */
	int64_t deadline_ns;
	/* is_over() is called before each check: stop waiting? is_held() reports the present
	 * holder. May be NULL. */
	bool (*is_over)(void *arg);
	void (*is_held)(void *arg, const char *owner);
	void *arg;
};

/* Take the lease. -EBUSY names the holder; -ECANCELED: is_over() returned true. */
int object_lease_take(struct object_store *s, const char *name,
		      const struct object_lease_options *opts,
		      struct object_lease **ret, struct error *err) MUST_CHECK;
uint64_t object_lease_generation(const struct object_lease *l);
/* Renew at least three times in each ttl_ms. -ESTALE: another process holds it now. */
int object_lease_renew(struct object_lease *l, struct error *err) MUST_CHECK;
/* Give the lease back, if this process still holds it, and free it. */
int object_lease_drop(struct object_lease *l, struct error *err) MUST_CHECK;
void object_lease_free(struct object_lease *l); /* without giving it back */
DEFINE_AUTO(object_lease)

#endif
