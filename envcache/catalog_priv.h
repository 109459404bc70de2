// SPDX-License-Identifier: Apache-2.0
/* The interface that each kind of catalog implements. */
#ifndef BOOTSEER_ENVCACHE_CATALOG_PRIV_H
#define BOOTSEER_ENVCACHE_CATALOG_PRIV_H

#include "envcache/bases.h"
#include "envcache/catalog.h"
#include "envcache/names.h"

#define ENV_OWNER_ROOM 200

/* The right to make a key's snapshot.  Used by one thread at a time. */
struct env_lease {
	/* Renew the lease.  If another node has got it meanwhile, the commit fails. */
	void (*renew)(struct env_lease *l);
	/* Release the lease and free it. */
	void (*end)(struct env_lease *l, bool has_failed);
};

/* Functions of a kind of catalog; see the functions of the same names in catalog.h. */
struct env_catalog_ops {
	int (*get)(struct env_catalog *c, const struct digest *key,
		   struct env_snapshot *ret, struct error *err);
	int (*list)(struct env_catalog *c, env_list_fn *fn, void *arg,
		    struct error *err);
	int (*find)(struct env_catalog *c, const char *text, struct digest *ret,
		    struct error *err);
	int (*pass_over)(struct env_catalog *c, const struct env_snapshot *snap,
			 struct error *err);
	/* With `is_bad_alone` only is_bad and bad_why are needed. */
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
	/* Publish a snapshot whose blobs are stored.  -EEXIST: another process was first, and
	 * nothing refers to these blobs; after other errors something may, as a reply can be
	 * lost. */
	int (*commit)(struct env_catalog *c, const struct env_snapshot *snap,
		      struct error *err);
	/* Wait for the lease; `owner` is shown to users.  With ENV_TURN_MINE, *ret is the lease. */
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
	/* A snapshot that was passed over.  The next snapshot probably shares many blocks with it,
	 * but may not find it by the index. */
	struct env_base passed_over;
	bool has_passed_over;
	/* Tag of the index that the next commit replaces; NULL: none. */
	const char *replaces;
};

int env_catalog_commit(struct env_catalog *c, const struct env_snapshot *snap,
		       struct error *err) MUST_CHECK;

#endif
