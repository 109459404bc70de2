// SPDX-License-Identifier: Apache-2.0
/*
 * Which snapshot a key has, whose turn it is to make one, and what is noted of snapshots:
 * one interface, two kinds.  The store by itself, by conditional writes; or
 * bootseer-registry, with tokens, beside the store.  docs/environments.md says what the
 * service is believed about: the snapshots are in the store either way.
 *
 * Functions block; one thread uses a catalog, but for the turn's own.  They fail as those
 * of objects/store.h, or as service_client_do() does.
 */
#ifndef BOOTSEER_ENVCACHE_CATALOG_H
#define BOOTSEER_ENVCACHE_CATALOG_H

#include "envcache/envcache.h"

struct env_catalog;
struct service_client;

/* `s` outlives it. */
int env_catalog_of_store(struct object_store *s, struct env_catalog **ret,
			 struct error *err) MUST_CHECK;

/* A service beside a store; all is borrowed, and outlives the catalog. */
struct env_service {
	struct service_client *client;
	const char *repo; /* what the service calls the store:
			   * env_service_repo() */
	int64_t ttl_ms; /* a snapshot that is made expires after it; 0: never */
	/* Told once when the service does not answer, and the store's own index is used
	 * from then on. */
	void (*is_away)(void *arg, const char *why);
	/* Told when the service has a new snapshot and the store's index has it not; may
	 * be NULL. */
	void (*is_unlisted)(void *arg, const char *why);
	void *arg;
};
int env_catalog_of_service(struct object_store *s, const struct env_service *v,
			   struct env_catalog **ret,
			   struct error *err) MUST_CHECK;
/* HOST/REPOSITORY of docker://, the URL of other stores; without options.  The caller's;
 * NULL: memory is short. */
char *env_service_repo(const char *url);

void env_catalog_free(struct env_catalog *c); /* NULL is allowed */
DEFINE_AUTO(env_catalog)

struct object_store *env_catalog_store(const struct env_catalog *c);

/* -ENOENT: there is none of this key. */
int env_catalog_get(struct env_catalog *c, const struct digest *key,
		    struct env_snapshot *ret, struct error *err) MUST_CHECK;
/* Is it older than `ttl_ns` (0: there is no bound), and not pinned? */
bool env_catalog_is_over_age(struct env_catalog *c,
			     const struct env_snapshot *snap, int64_t ttl_ns);
/* 1: *ret is the snapshot of the key; 0: there is none, or one that is over age, which is
 * passed over. */
int env_catalog_get_fresh(struct env_catalog *c, const struct digest *key,
			  int64_t ttl_ns, struct env_snapshot *ret,
			  struct error *err) MUST_CHECK;
int env_catalog_list(struct env_catalog *c, env_list_fn *fn, void *arg,
		     struct error *err) MUST_CHECK;
/* As env_key_find(). */
int env_catalog_find(struct env_catalog *c, const char *text,
		     struct digest *ret, struct error *err) MUST_CHECK;
/* This snapshot will not do: env_catalog_get() and turns are as if there were none. */
int env_catalog_pass_over(struct env_catalog *c,
			  const struct env_snapshot *snap,
			  struct error *err) MUST_CHECK;
int env_catalog_marks(struct env_catalog *c, const struct env_snapshot *snap,
		      struct env_marks *ret, struct error *err) MUST_CHECK;
/* -EBADMSG: it was found bad; says by whom. */
int env_catalog_check_bad(struct env_catalog *c,
			  const struct env_snapshot *snap,
			  struct error *err) MUST_CHECK;
int env_catalog_mark_bad(struct env_catalog *c, const struct env_snapshot *snap,
			 const char *host, const char *why,
			 struct error *err) MUST_CHECK;
/* Note that the snapshot was used at `now_ms`; a failure is ignored. */
void env_catalog_touch(struct env_catalog *c, const struct env_snapshot *snap,
		       int64_t now_ms);
/* A service that does not answer is an error of these two. */
int env_catalog_pin(struct env_catalog *c, const struct digest *key,
		    bool is_pinned, struct error *err) MUST_CHECK;
/* -EBUSY: it is pinned, and stays. */
int env_catalog_remove(struct env_catalog *c, const struct digest *key,
		       struct error *err) MUST_CHECK;

struct env_capture_options {
	const char *program; /* for people: what made the changes */
	/* No pack of it is another snapshot's, too: env_snapshot_remove() removes all
	 * that only it may say. */
	bool is_alone;
	bool may_be_empty; /* it has more than what is in the targets: daemons */
	/* The key's snapshot, in whose place this one is put unless another is there by now;
	 * NULL: there is none.  Only the store's own catalog can. */
	const struct env_snapshot *replaces;
};
/* Read how the targets are now, after the command, and keep what differs from
 * `before` (NULL: from nothing) as the snapshot of `key`: of its blocks those that the
 * store does not have in snapshots like it.
 *   -EEXIST   another captor was first; its snapshot is there
 *   -ENODATA  nothing differs: who restored it would not have what the command is for */
int env_capture(struct env_catalog *c, const struct env_key *key,
		const struct env_targets *t, const struct env_scan *before,
		const struct env_capture_options *opts,
		struct env_snapshot *ret, struct error *err) MUST_CHECK;

/* ---------------------------------------------------------------------- the turn --- */

/* The turn to run the command of a key: one node's at a time. */
struct env_turn;

enum env_turn_kind {
	ENV_TURN_MINE,    /* run it, then end the turn */
	ENV_TURN_MADE,    /* another made the snapshot meanwhile */
	ENV_TURN_FAILED,  /* another's command failed meanwhile */
	ENV_TURN_TIMEOUT, /* `deadline_ns` is over */
};

struct env_turn_options {
	uint32_t ttl_ms; /* a turn that is not renewed for so long is lost */
	int64_t deadline_ns; /* CLOCK_MONOTONIC */
	bool may_be_made;    /* a snapshot is no reason not to have the turn */
	/* Called once, when another node has the turn: its "host:pid", or "" when that is
	 * not known; may be NULL. */
	void (*waits)(void *arg, const char *holder);
	void *arg;
};

/* Wait for the turn, or for what makes it pointless.  With ENV_TURN_MINE a thread
 * renews it until env_turn_end(). */
int env_turn_take(struct env_catalog *c, const struct digest *key,
		  const struct env_turn_options *opts,
		  enum env_turn_kind *ret_kind, struct env_turn **ret,
		  struct error *err) MUST_CHECK;
/* Give it back and free it; `has_failed` tells those who wait that the command did.
 * NULL is allowed. */
void env_turn_end(struct env_turn *t, bool has_failed);

#endif
