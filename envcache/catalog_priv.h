// SPDX-License-Identifier: Apache-2.0
/* The interface of the kinds of catalogs. */
#ifndef BOOTSEER_ENVCACHE_CATALOG_PRIV_H
#define BOOTSEER_ENVCACHE_CATALOG_PRIV_H

#include "envcache/bases.h"
#include "envcache/catalog.h"
#include "envcache/names.h"

#define ENV_OWNER_ROOM 200

/* The right to make the snapshot of a key.  Any one thread at a time. */
struct env_lease {
	/* Another may have it by now: its holder learns so at the commit. */
	void (*renew)(struct env_lease *l);
	/* Give it back and free it. */
	void (*end)(struct env_lease *l, bool has_failed);
};

/* The functions of a kind of catalog, those of catalog.h of the same names. */
struct env_catalog_ops {
	int (*get)(struct env_catalog *c, const struct digest *key,
		   struct env_snapshot *ret, struct error *err);
	int (*list)(struct env_catalog *c, env_list_fn *fn, void *arg,
		    struct error *err);
	int (*find)(struct env_catalog *c, const char *text, struct digest *ret,
		    struct error *err);
	int (*pass_over)(struct env_catalog *c, const struct env_snapshot *snap,
			 struct error *err);
	/* With `is_bad_alone` nothing else need be asked. */
	int (*marks)(struct env_catalog *c, const struct env_snapshot *snap,
		     bool is_bad_alone, struct env_marks *ret,
		     struct error *err);
	int (*mark_bad)(struct env_catalog *c, const struct env_snapshot *snap,
			const char *host, const char *why, struct error *err);
	void (*touch)(struct env_catalog *c, const struct env_snapshot *snap,
		      int64_t now_ms);
	int (*pin)(struct env_catalog *c, const struct digest *key,
		   bool is_pinned, struct error *err);
	int (*remove)(struct env_catalog *c, const struct digest *key,
		      struct error *err);
	/* Make a snapshot appear whose blobs are in the store.  -EEXIST: another captor
	 * was first, and nothing refers to these blobs; after any other failure something
	 * may, as an answer can be lost. */
	int (*commit)(struct env_catalog *c, const struct env_snapshot *snap,
		      struct error *err);
	/* Wait for the lease; `owner` is for people.  With ENV_TURN_MINE it is in *ret. */
	int (*take)(struct env_catalog *c, const struct digest *key,
		    const char *owner, const struct env_turn_options *opts,
		    enum env_turn_kind *ret_kind, struct env_lease **ret,
		    struct error *err);
	void (*free)(struct env_catalog *c);
};

/* First member of every catalog. */
struct env_catalog {
	const struct env_catalog_ops *ops;
	struct object_store *store; /* borrowed */
	/* A snapshot that was passed over: the next one has much in common with it, and
	 * its index may be gone. */
	struct env_base passed_over;
	bool has_passed_over;
	/* Tag of the index that the next commit replaces; NULL: there is none. */
	const char *replaces;
};

int env_catalog_commit(struct env_catalog *c, const struct env_snapshot *snap,
		       struct error *err) MUST_CHECK;

#endif
