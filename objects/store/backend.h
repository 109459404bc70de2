// SPDX-License-Identifier: Apache-2.0
/*
 * The interface between stores and their back ends; users see objects/store.h. The functions of
 * objects/store/store.c check names and ranges, count, and put the store's URL and the object's
 * name before each error, so that no back end has to.
 */
#ifndef BOOTSEER_OBJECTS_STORE_BACKEND_H
#define BOOTSEER_OBJECTS_STORE_BACKEND_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/buf.h"
#include "objects/store.h"
#include "objects/store/memory.h"
#include "objects/store/store_url.h"
#include "net/pool.h"

/* Names reserved for the store: running uploads, locks. */
#define STORE_OWN ".bootseer"
#define STORE_TMP ".bootseer/tmp"
#define STORE_LOCKS ".bootseer/lock"

struct object_store_ops {
	/* Contracts as in objects/store.h. */
	int (*probe)(struct object_store *s, struct error *err);
	/* NULL: probe() is called instead. */
	int (*probe_conditions)(struct object_store *s, struct error *err);
	/* NULL: nothing to fence. */
	int (*fence)(struct object_store *s, const char *life,
		     struct error *err);
	int (*stat)(struct object_store *s, const char *name,
		    struct object_stat *ret, struct error *err);
	int (*list)(struct object_store *s, const char *folder, bool deep,
		    object_list_fn *fn, void *arg, struct error *err);
	int (*open)(struct object_store *s, const char *name,
		    struct object **ret, struct error *err);
	/* NULL: open() is called. */
	int (*open_unasked)(struct object_store *s, const char *name,
			    struct object **ret, struct error *err);
	/* As open(), with the first bytes of the object, at most `most`, in its `head`; NULL:
	 * open() is called. */
	int (*open_head)(struct object_store *s, const char *name, size_t most,
			 struct object **ret, struct error *err);
	/* Get a whole object.  Where this is NULL, or returns -ENOTSUP (without a message), the
	 * object is opened and read instead. */
	int (*get)(struct object_store *s, const char *name, size_t max,
		   struct buf *ret, struct object_stat *ret_stat,
		   struct error *err);
	int (*read)(struct object *o, const struct object_range *ranges,
		    size_t n, int64_t deadline_ns, struct error *err);
	void (*close)(struct object *o);
	int (*put_open)(struct object_store *s, const char *name,
			const struct object_put_options *opts,
			struct object_put **ret, struct error *err);
	int (*put_write)(struct object_put *p, const void *data, size_t len,
			 struct error *err);
	/* NULL: bytes are always copied. */
	void *(*put_room)(struct object_put *p, size_t len);
	int (*put_commit)(struct object_put *p, struct object_stat *ret,
			  struct error *err);
	void (*put_free)(struct object_put *p);
	int (*remove)(struct object_store *s, const char *name, const char *tag,
		      struct error *err);
	/* Remove a folder, or the object by which another tool marks it; NULL: folders exist
	 * only as parts of names. */
	int (*remove_folder)(struct object_store *s, const char *folder,
			     struct error *err);
	int (*rename)(struct object_store *s, const char *from, const char *to,
		      enum object_condition condition, struct error *err);
	/* Remove old uploads, only below `folder` unless it is "". */
	int (*sweep)(struct object_store *s, const char *folder,
		     int64_t before_ms, size_t *ret_n, struct error *err);
	/* NULL: it has no credentials to show. */
	int (*authorization)(struct object_store *s, const char *name,
			     struct pace *pace, char **ret, struct error *err);
	void (*free)(struct object_store *s);
	bool tells_waits; /* it counts the waits of its requests by itself */
	bool is_remote;   /* it is on a server */
};

/* A kind of store: one `static const` table each; listed in store_open.c. */
struct object_store_kind {
	const char *const *schemes; /* ends with NULL */
	/* Takes its options from `url`; the remaining ones are errors. store_init() fills in
	 * the base. */
	int (*open)(struct store_url *url,
		    const struct object_store_config *cfg,
		    struct object_store **ret, struct error *err);
};

extern const struct object_store_kind file_store_kind;
extern const struct object_store_kind s3_store_kind;
extern const struct object_store_kind hdfs_store_kind;
extern const struct object_store_kind repo_store_kind;

/* As struct object_waits. */
struct store_waits {
	atomic_uint_fast64_t queue_ns, storage_ns, network_ns;
};

struct store_counters {
	atomic_uint_fast64_t n_requests, n_retries, n_hedges, n_hedges_won;
	atomic_uint_fast64_t bytes_read, bytes_written;
	struct counter_latency read, write, name;
	struct store_waits read_waits, write_waits;
};

/* Has the store been silent while a call waited for it? */
struct store_silence {
	atomic_uint n_calls;          /* running calls */
	atomic_int_fast64_t heard_ns; /* time of the last bytes or answer */
	/* Value of heard_ns when silence was last reported. */
	atomic_int_fast64_t told_ns;
	pthread_mutex_t lock; /* protects the members below */
	/* When an attempt last failed, because of `why`. */
	int64_t failed_ns;
	struct error why;
};

/* First member of every store. */
struct object_store {
	const struct object_store_ops *ops;
	struct object_store_config cfg; /* ca_file is the store's */
	/* cfg.shares_files, until object_store_keep_private(). */
	atomic_bool is_shared;
	char *url; /* without options, for messages */
	struct object_caps caps;
	struct store_counters count;
	struct store_memory *memory;
	struct pool *pool; /* NULL: the kind does without */
	struct store_silence silence;
	struct store_watch *watch; /* NULL: silence is not reported */
};

/* The common part of all objects; `stat` is of the opened version. */
struct object {
	struct object_store *store;
	char *name;
	struct object_stat stat;
	/* First bytes of the object, if they came with the open. */
	struct buf head;
	/* References of requests that are no longer waited for. */
	atomic_uint n_refs;
};

/* The common part of all puts. */
struct object_put {
	struct object_store *store;
	char *name;
	enum object_condition condition;
	char *tag;          /* tag for OBJECT_MATCH */
	uint64_t size_hint; /* 0: none */
	uint64_t size;      /* bytes written */
	int rc;             /* first failure, after which there is no commit */
	/* The stream, cut into parts; NULL: this kind of store cuts it itself. */
	struct put_parts *parts;
};

/* Note a failed attempt that will be repeated. */
void store_note_failure(struct object_store *s, const struct error *why);

/* Initialize the base: memory, and `n_workers` threads if not 0. */
int store_init(struct object_store *s, const struct object_store_ops *ops,
	       const struct store_url *url,
	       const struct object_store_config *cfg, unsigned int n_workers,
	       struct error *err) MUST_CHECK;
/* Run `w` on a thread of the store, before all waiting jobs if `is_first`. Callers limit what
 * they submit; fails only if there is no thread and none can be started. */
int store_submit(struct object_store *s, struct work *w, bool is_first,
		 struct error *err) MUST_CHECK;
void store_fini(struct object_store *s);

/* Initialize the base of an object or a put; fini undoes init, or does nothing without it. */
int store_object_init(struct object *o, struct object_store *s,
		      const char *name, struct error *err) MUST_CHECK;
void store_object_fini(struct object *o);
/* object_open(), with a head of `most` bytes where the store has open_head(). */
int store_open_head(struct object_store *s, const char *name, size_t most,
		    struct object **ret, struct error *err) MUST_CHECK;
void store_object_ref(struct object *o); /* object_close() gives it back */
int store_put_init(struct object_put *p, struct object_store *s,
		   const char *name, const struct object_put_options *opts,
		   struct error *err) MUST_CHECK;
void store_put_fini(struct object_put *p);

/* A new name "STORE_TMP/<random>", which the caller frees; NULL: no memory. */
char *store_temporary(void) MUST_CHECK;
/* `n` random hex digits and a NUL. */
void store_random(char *ret, size_t n);

/* Is the name the folder's, or below it? */
bool store_is_below(const char *name, const char *folder);
/* Is the name valid for an object? A server may list any name, and one with '..' would lead a
 * request elsewhere. */
bool store_is_name(const char *name);
/* Is the name reserved for the store? */
bool store_is_own(const char *name);

/* Count the time of a request, and the part until the first byte of its answer. A request with
 * a sink is a read, with a body a put; others are about names and are not counted. */
void store_count_answer(struct object_store *s, bool has_sink, bool has_body,
			int64_t took_ns, int64_t first_byte_ns);
/* Count a wait in a queue of the store since `since_ns`, if the kind counts waits. */
void store_count_queue(struct object_store *s, struct store_waits *w,
		       int64_t since_ns);

/* A call begins, at the returned time; it ended with `rc`. In between it may have waited for
 * the server. */
int64_t store_call_begin(struct object_store *s);
void store_call_end(struct object_store *s, int rc);
/* Note that bytes of a call were transferred. */
void store_note_answer(struct object_store *s);

/* Deadline of an operation that begins now. */
int64_t store_deadline(const struct object_store *s);
/* Deadline of a clean-up that begins now; shorter, as it delays its caller. */
int64_t store_tidy_deadline(const struct object_store *s);

#endif
