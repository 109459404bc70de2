// SPDX-License-Identifier: Apache-2.0
/*
 * The interface of a kind of store; its users see objects/store.h. The functions of
 * objects/store/store.c check names and ranges, count, and put the store's URL and the
 * object's name before each error, so that no kind has to.
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

/* Names that are the stores' own: uploads under way, locks. */
#define STORE_OWN ".bootseer"
#define STORE_TMP ".bootseer/tmp"
#define STORE_LOCKS ".bootseer/lock"

struct object_store_ops {
	/* Contracts of the functions of objects/store.h. */
	int (*probe)(struct object_store *s, struct error *err);
	/* NULL: probe() takes no longer. */
	int (*probe_conditions)(struct object_store *s, struct error *err);
	/* NULL: it does nothing. */
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
	/* open(), with the first bytes of the object, `most` at most, in its `head`; NULL:
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
	/* NULL: it has no room. */
	void *(*put_room)(struct object_put *p, size_t len);
	int (*put_commit)(struct object_put *p, struct object_stat *ret,
			  struct error *err);
	void (*put_free)(struct object_put *p);
	int (*remove)(struct object_store *s, const char *name, const char *tag,
		      struct error *err);
	/* Or what another tool marks it by; NULL: folders are nothing but names. */
	int (*remove_folder)(struct object_store *s, const char *folder,
			     struct error *err);
	int (*rename)(struct object_store *s, const char *from, const char *to,
		      enum object_condition condition, struct error *err);
	/* Remove old uploads, those below `folder` only, unless it is "". */
	int (*sweep)(struct object_store *s, const char *folder,
		     int64_t before_ms, size_t *ret_n, struct error *err);
	/* NULL: it has none that others could be shown. */
	int (*authorization)(struct object_store *s, const char *name,
			     struct pace *pace, char **ret, struct error *err);
	void (*free)(struct object_store *s);
	bool tells_waits; /* it counts what its requests wait for by itself */
	bool is_remote;   /* a server answers, or does not */
};

/* A kind of store, one `static const` table each; the list is in store_open.c. */
struct object_store_kind {
	const char *const *schemes; /* NULL ends it */
	/* Takes what it wants of `url`: whatever option is then left is an error.
	 * The base is filled in by store_init(). */
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

/* Whether the store has been silent while somebody waited for it. */
struct store_silence {
	atomic_uint n_calls; /* under way */
	atomic_int_fast64_t
		heard_ns; /* bytes moved, or a call ended by an answer */
	atomic_int_fast64_t told_ns; /* the heard_ns of which it was told */
	pthread_mutex_t lock;        /* of the rest */
	int64_t failed_ns;           /* when an attempt failed for `why` */
	struct error why;
};

/* First member of every store. */
struct object_store {
	const struct object_store_ops *ops;
	struct object_store_config cfg; /* ca_file is the store's */
	atomic_bool
		is_shared; /* cfg.shares_files, until nothing is to be shared */
	char *url;         /* without options, for messages */
	struct object_caps caps;
	struct store_counters count;
	struct store_memory *memory;
	struct pool *pool; /* NULL: the kind has its own way */
	struct store_silence silence;
	struct store_watch *watch; /* NULL: nobody is told of silence */
};

/* The part that objects of all kinds have; `stat` is of the version that was opened. */
struct object {
	struct object_store *store;
	char *name;
	struct object_stat stat;
	struct buf head; /* its first bytes, if they came with the open */
	atomic_uint
		n_refs; /* beside the user's: requests that nobody waits for */
};

/* The part that puts of all kinds have. */
struct object_put {
	struct object_store *store;
	char *name;
	enum object_condition condition;
	char *tag;          /* of OBJECT_MATCH */
	uint64_t size_hint; /* 0: none */
	uint64_t size;      /* bytes written */
	int rc;             /* the first failure: no commit after it */
};

/* An attempt failed, and is to be made again. */
void store_note_failure(struct object_store *s, const struct error *why);

/* Fill the base in: memory, and `n_workers` threads if that is not 0. */
int store_init(struct object_store *s, const struct object_store_ops *ops,
	       const struct store_url *url,
	       const struct object_store_config *cfg, unsigned int n_workers,
	       struct error *err) MUST_CHECK;
/* Have `w` run on a thread of the store, before all that wait where it `is_first`.  Callers
 * bound what they submit; it fails only where no thread is there and none can be begun. */
int store_submit(struct object_store *s, struct work *w, bool is_first,
		 struct error *err) MUST_CHECK;
void store_fini(struct object_store *s);

/* Fill in the base of an object or a put; fini takes what init made, or nothing. */
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

/* "STORE_TMP/<random>", the caller's; NULL when memory is short. */
char *store_temporary(void) MUST_CHECK;
/* `n` random hex digits and a NUL. */
void store_random(char *ret, size_t n);

/* Is the name the folder's, or that of something in it? */
bool store_is_below(const char *name, const char *folder);
/* May an object have the name?  What a store lists has whatever names others gave it, and
 * one with a '..' in it leads a request elsewhere. */
bool store_is_name(const char *name);
/* Is the name one of those that are no user's? */
bool store_is_own(const char *name);

/* A request of a store that tells waits took so long, of which so much until the first
 * byte of its answer.  Ranges that are read have a sink, what is put has a body; what has
 * neither is about names, and does not count. */
void store_count_answer(struct object_store *s, bool has_sink, bool has_body,
			int64_t took_ns, int64_t first_byte_ns);
/* Something waited in a queue of the store's since then; counts where the kind tells. */
void store_count_queue(struct object_store *s, struct store_waits *w,
		       int64_t since_ns);

/* A call begins, now, which is returned; it ended with `rc`, and somebody may have waited for
 * the server between. */
int64_t store_call_begin(struct object_store *s);
void store_call_end(struct object_store *s, int rc);
/* Bytes of a call moved. */
void store_note_answer(struct object_store *s);

/* When an operation that begins now is to end at the latest. */
int64_t store_deadline(const struct object_store *s);
/* The same of tidying up, for which nobody wants to wait. */
int64_t store_tidy_deadline(const struct object_store *s);

#endif
