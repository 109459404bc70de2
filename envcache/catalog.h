// SPDX-License-Identifier: Apache-2.0
/*
 * A catalog knows the snapshot of each key, whose turn it is to make one, and the marks on
 * snapshots.  There are two kinds with one interface: the store alone, by conditional writes; or
 * bootseer-registry, with tokens, beside the store.  The snapshots are in the store in both cases;
 * docs/environments.md says what the service is trusted with.
 *
 * Functions block.  A catalog is used by one thread, besides the turn's own.  Errors are those of
 * objects/store.h, or of service_client_do().
 */
#ifndef BOOTSEER_ENVCACHE_CATALOG_H
#define BOOTSEER_ENVCACHE_CATALOG_H

#include "envcache/envcache.h"

struct env_catalog;
struct service_client;

/* The catalog of a store alone; the store must outlive it. */
int env_catalog_of_store(struct object_store *s, struct env_catalog **ret,
			 struct error *err) MUST_CHECK;

/* A service beside a store; all is borrowed, and outlives the catalog. */
struct env_service {
	struct service_client *client;
	const char *repo; /* name of the store in the service */
	int64_t ttl_ms;   /* new snapshots expire after this time; 0: never */
	/* Called once when the service does not answer; from then on the store's own index is
	 * used. */
	void (*is_away)(void *arg, const char *why);
	/* Called when a new snapshot is in the service but could not be put into the store's
	 * index; may be NULL. */
	void (*is_unlisted)(void *arg, const char *why);
	void *arg;
};
int env_catalog_of_service(struct object_store *s, const struct env_service *v,
			   struct env_catalog **ret,
			   struct error *err) MUST_CHECK;
/* The store's name in the service: HOST/REPOSITORY of docker://, else the URL without options.
 * The caller owns it; NULL: memory is short. */
char *env_service_repo(const char *url);

void env_catalog_free(struct env_catalog *c); /* NULL is allowed */
DEFINE_AUTO(env_catalog)

struct object_store *env_catalog_store(const struct env_catalog *c);

/* Get the snapshot of a key.  -ENOENT: there is none. */
int env_catalog_get(struct env_catalog *c, const struct digest *key,
		    struct env_snapshot *ret, struct error *err) MUST_CHECK;
/* Is the snapshot older than `ttl_ns` (0: no bound) and not pinned? */
bool env_catalog_is_over_age(struct env_catalog *c,
			     const struct env_snapshot *snap, int64_t ttl_ns);
/* Get a snapshot younger than `ttl_ns`. 1: *ret is it; 0: there is none, or it was too old and
 * passed over. */
int env_catalog_get_fresh(struct env_catalog *c, const struct digest *key,
			  int64_t ttl_ns, struct env_snapshot *ret,
			  struct error *err) MUST_CHECK;
int env_catalog_list(struct env_catalog *c, env_list_fn *fn, void *arg,
		     struct error *err) MUST_CHECK;
/* Find the full key for its first digits; see env_key_find(). */
int env_catalog_find(struct env_catalog *c, const char *text,
		     struct digest *ret, struct error *err) MUST_CHECK;
/* Ignore this snapshot from now on: env_catalog_get() and turns treat the key as having none. */
int env_catalog_pass_over(struct env_catalog *c,
			  const struct env_snapshot *snap,
			  struct error *err) MUST_CHECK;
int env_catalog_marks(struct env_catalog *c, const struct env_snapshot *snap,
		      struct env_marks *ret, struct error *err) MUST_CHECK;
/* -EBADMSG: the snapshot was marked bad; the message says by which host. */
int env_catalog_check_bad(struct env_catalog *c,
			  const struct env_snapshot *snap,
			  struct error *err) MUST_CHECK;
int env_catalog_mark_bad(struct env_catalog *c, const struct env_snapshot *snap,
			 const char *host, const char *why,
			 struct error *err) MUST_CHECK;
/* Note that the snapshot was used at `now_ms`; a failure is ignored. */
void env_catalog_touch(struct env_catalog *c, const struct env_snapshot *snap,
		       int64_t now_ms);
/* Pin or unpin.  This and the next function fail if the service does not answer. */
int env_catalog_pin(struct env_catalog *c, const struct digest *key,
		    bool is_pinned, struct error *err) MUST_CHECK;
/* Remove a snapshot.  -EBUSY: it is pinned. */
int env_catalog_remove(struct env_catalog *c, const struct digest *key,
		       struct error *err) MUST_CHECK;

struct env_capture_options {
	const char *program; /* program that made the changes */
	/* Store all packs in the snapshot's own folder, so that env_snapshot_remove() removes all
	 * data. */
	bool is_alone;
	bool may_be_empty; /* allowed without changes in the targets, as it
	                    * has more than those: a daemon's dump */
	/* Replace this snapshot of the key, unless another replaced it meanwhile; NULL: the key
	 * must have none.  Only for a store's own catalog. */
	const struct env_snapshot *replaces;
};
/*
 * Scan the targets after the command, and store their differences from `before` (NULL: all of
 * them) as the snapshot of `key`.  Blocks that similar snapshots have in the store are not stored
 * again.
 *   -EEXIST   another process published a snapshot of this key first
 *   -ENODATA  nothing differs, so a restore would not replace the command
 */
int env_capture(struct env_catalog *c, const struct env_key *key,
		const struct env_targets *t, const struct env_scan *before,
		const struct env_capture_options *opts,
		struct env_snapshot *ret, struct error *err) MUST_CHECK;

/* ---------------------------------------------------------------------- the turn --- */

/* The turn to run the command of a key: one node's at a time. */
struct env_turn;

enum env_turn_kind {
	ENV_TURN_MINE,    /* run the command, then end the turn */
	ENV_TURN_MADE,    /* another node made the snapshot meanwhile */
	ENV_TURN_FAILED,  /* another node's command failed meanwhile */
	ENV_TURN_TIMEOUT, /* `deadline_ns` has passed */
};

struct env_turn_options {
	uint32_t ttl_ms; /* a turn that is not renewed for this long is lost */
	int64_t deadline_ns; /* CLOCK_MONOTONIC */
	bool may_be_made;    /* wait for the turn even if there is a snapshot */
	/* Called once, if another node has the turn, with its "host:pid" ("": unknown); may be
	 * NULL. */
	void (*waits)(void *arg, const char *holder);
	void *arg;
};

/* Wait for the turn, or until it is not needed any more.  With ENV_TURN_MINE a thread renews it
 * until env_turn_end(). */
int env_turn_take(struct env_catalog *c, const struct digest *key,
		  const struct env_turn_options *opts,
		  enum env_turn_kind *ret_kind, struct env_turn **ret,
		  struct error *err) MUST_CHECK;
/* Release the turn and free it; `has_failed` tells waiting nodes that the command failed.  NULL is
 * allowed. */
void env_turn_end(struct env_turn *t, bool has_failed);

#endif
