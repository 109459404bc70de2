// SPDX-License-Identifier: Apache-2.0
/*
 * The index of environment snapshots in the database: which snapshot a key of a store has, and
 * which captor holds the key's lease. All functions block: call them on pool threads only. Times
 * are wall-clock milliseconds passed in by the caller, so that replicas and restarts agree and
 * tests can set them.
 */
#ifndef BOOTSEER_REGISTRY_ENV_DB_H
#define BOOTSEER_REGISTRY_ENV_DB_H

#include "registry/db.h"

/* keys of all stores; one token may have as many as are left */
#define ENV_KEYS_MAX 100000
#define ENV_REPO_KEYS_MAX 10000 /* keys of one repository */
#define ENV_LEASE_MAX_MS 600000
#define ENV_WORDS_MAX 255 /* bytes of a host's or a program's name */
#define ENV_WHY_MAX 200

/* A key of a store; texts are borrowed. `owner` is the name of the caller's token or
 * certificate. */
struct env_name {
	const char *repo, *key, *owner;
	int64_t now_ms;
};

/* A published snapshot: `capture` is the folder of its blobs, `description` the digest of its
 * description. */
struct env_published {
	const char *capture, *description, *by, *program;
	int64_t stored, ttl_ms; /* 0: it does not expire */
};

/* A key as the index has it; texts are borrowed for the duration of the callback. */
struct env_known {
	const char *key;
	bool has_snapshot; /* the key has a snapshot that has not expired */
	const char *capture, *description, *by, *program, *token, *bad;
	int64_t stored, made_ms, used_ms, expires_ms;
	bool is_pinned;
	const char *holder; /* captor that has the lease; "": none */
	int64_t lease_ms;   /* time until the lease ends */
	int64_t generation; /* of the lease that was taken last */
	/* how many commands failed under leases of this key */
	int64_t failures;
};

/* -ENOMEM, or 0. */
typedef int env_known_fn(void *arg, const struct env_known *e);

/* Call `fn` once; for an unknown key with an entry that has no snapshot and no lease. */
int env_db_get(struct db *db, const struct env_name *n, env_known_fn *fn,
	       void *arg, struct error *err) MUST_CHECK;

/* Which snapshots of a store are listed, in the order of their keys. */
struct env_filter {
	const char *repo, *begins, *after; /* "": any */
	int64_t now_ms, limit;
};
int env_db_list(struct db *db, const struct env_filter *f, env_known_fn *fn,
		void *arg, struct error *err) MUST_CHECK;

/* A request for a lease. */
struct env_lease_wish {
	const char *by; /* host and process, for messages */
	/* a snapshot that the caller cannot use; "": any will do */
	const char *instead;
	/* the key's failures when the caller began to wait; < 0: the caller does not wait */
	int64_t failures;
	int64_t ttl_ms;
};
/* Take a key's lease. Returns 1, and stores its generation: the caller has the lease. 0: another
 * captor has the lease, or there is a snapshot. -EDQUOT: too many keys are kept in all, in the
 * store or for the owner. */
int env_db_take(struct db *db, const struct env_name *n,
		const struct env_lease_wish *w, int64_t *ret_generation,
		struct error *err) MUST_CHECK;
/* Change something under a lease: env_db_renew(), env_db_drop() and env_db_publish() return 1, or
 * 0: the caller has lost the lease of that generation. */
int env_db_renew(struct db *db, const struct env_name *n, int64_t generation,
		 struct error *err) MUST_CHECK;
int env_db_drop(struct db *db, const struct env_name *n, int64_t generation,
		bool has_failed, struct error *err) MUST_CHECK;
/* Publishing the same snapshot again returns 1 too: the first answer may have been lost. Returns 0
 * also if another snapshot was pinned in between. */
int env_db_publish(struct db *db, const struct env_name *n, int64_t generation,
		   const struct env_published *p, struct error *err) MUST_CHECK;

/* env_db_used(), env_db_bad() and env_db_pin() return how many keys they changed: 0 or 1. */
int env_db_used(struct db *db, const struct env_name *n, const char *capture,
		struct error *err) MUST_CHECK;
int env_db_bad(struct db *db, const struct env_name *n, const char *capture,
	       const char *why, struct error *err) MUST_CHECK;
int env_db_pin(struct db *db, const struct env_name *n, bool is_pinned,
	       struct error *err) MUST_CHECK;
/* Remove the key's snapshot and end its lease. Returns 0: the snapshot is pinned and stays. */
int env_db_remove(struct db *db, const struct env_name *n,
		  struct error *err) MUST_CHECK;

/* Remove snapshots that were not used since `unused_ms` and are not pinned, snapshots that expired
 * a day ago, and keys without a snapshot for a day. Returns how many were removed. */
int env_db_sweep(struct db *db, int64_t unused_ms, int64_t now_ms,
		 struct error *err) MUST_CHECK;

#endif
