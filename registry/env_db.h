// SPDX-License-Identifier: Apache-2.0
/*
 * The index of environment snapshots in the database: which snapshot a key of a store has,
 * and which captor holds the key's lease.  All of it blocks: threads of the pool only.
 * Times are milliseconds of the wall clock, and the caller's: replicas and restarts have
 * one, and a test has its own.
 */
#ifndef BOOTSEER_REGISTRY_ENV_DB_H
#define BOOTSEER_REGISTRY_ENV_DB_H

#include "registry/db.h"

#define ENV_KEYS_MAX 100000 /* of all stores; of a token as many as are left */
#define ENV_REPO_KEYS_MAX 10000 /* keys of one repository */
#define ENV_LEASE_MAX_MS 600000
#define ENV_WORDS_MAX 255 /* bytes of a host's or a program's name */
#define ENV_WHY_MAX 200

/* A key of a store; texts are borrowed.  `owner` is whose token or certificate it is. */
struct env_name {
	const char *repo, *key, *owner;
	int64_t now_ms;
};

/* Which snapshot it is: the folder of its blobs, and the digest of its description. */
struct env_published {
	const char *capture, *description, *by, *program;
	int64_t stored, ttl_ms; /* 0: it does not expire */
};

/* A key as the index has it; texts are borrowed by whoever is called with it. */
struct env_known {
	const char *key;
	bool has_snapshot; /* one that has not expired */
	const char *capture, *description, *by, *program, *token, *bad;
	int64_t stored, made_ms, used_ms, expires_ms;
	bool is_pinned;
	const char *holder; /* of the lease; "": nobody */
	int64_t lease_ms;   /* it lasts so long yet */
	int64_t generation; /* of the lease that was taken last */
	int64_t failures;   /* commands that failed under leases */
};

/* -ENOMEM, or 0. */
typedef int env_known_fn(void *arg, const struct env_known *e);

/* Calls `fn` once; of a key that was never heard of with an entry that has nothing. */
int env_db_get(struct db *db, const struct env_name *n, env_known_fn *fn,
	       void *arg, struct error *err) MUST_CHECK;

/* A filter of lists: snapshots of a store in the order of their keys. */
struct env_filter {
	const char *repo, *begins, *after; /* "": any */
	int64_t now_ms, limit;
};
int env_db_list(struct db *db, const struct env_filter *f, env_known_fn *fn,
		void *arg, struct error *err) MUST_CHECK;

/* A request for a lease. */
struct env_lease_wish {
	const char *by;      /* for people */
	const char *instead; /* a snapshot that will not do; "": any will */
	int64_t failures; /* as they were when it began to wait; < 0: it did not */
	int64_t ttl_ms;
};
/* 1, and the generation: the caller has it.  0: another captor has, or there is a
 * snapshot.  -EDQUOT: too many keys are kept, of all, the store or the owner. */
int env_db_take(struct db *db, const struct env_name *n,
		const struct env_lease_wish *w, int64_t *ret_generation,
		struct error *err) MUST_CHECK;
/* The next functions return 1; 0: the lease of that generation is not the caller's any more. */
int env_db_renew(struct db *db, const struct env_name *n, int64_t generation,
		 struct error *err) MUST_CHECK;
int env_db_drop(struct db *db, const struct env_name *n, int64_t generation,
		bool has_failed, struct error *err) MUST_CHECK;
/* Again with the same is 1, too: the answer may have been lost.  0 also: another snapshot
 * was pinned meanwhile. */
int env_db_publish(struct db *db, const struct env_name *n, int64_t generation,
		   const struct env_published *p, struct error *err) MUST_CHECK;

/* The next functions return how many keys they changed: 0 or 1. */
int env_db_used(struct db *db, const struct env_name *n, const char *capture,
		struct error *err) MUST_CHECK;
int env_db_bad(struct db *db, const struct env_name *n, const char *capture,
	       const char *why, struct error *err) MUST_CHECK;
int env_db_pin(struct db *db, const struct env_name *n, bool is_pinned,
	       struct error *err) MUST_CHECK;
/* Forget the snapshot; whoever has the lease of its key loses it.  One that is pinned
 * stays: 0. */
int env_db_remove(struct db *db, const struct env_name *n,
		  struct error *err) MUST_CHECK;

/* Forget what was not used since `unused_ms` and is not pinned, snapshots that expired a
 * day ago, and keys that have had none for a day; how many. */
int env_db_sweep(struct db *db, int64_t unused_ms, int64_t now_ms,
		 struct error *err) MUST_CHECK;

#endif
