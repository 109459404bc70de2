// SPDX-License-Identifier: Apache-2.0
/*
 * The steps of `bootseer env run`, each with its parameters and results. env_run.c calls them in
 * order; when one fails, the command is run without BootSeer.
 *
 *   env_run_key.c         key: what the command depends on, and the targets as they are
 *   envcache/catalog.h    look up: the snapshot of the key,
 *   env_run_turn.c        or the turn to make it
 *   env_run_restore.c     restore: mount or unpack it
 *   env_child.c           or run the command,
 *   envcache/capture.c    capture what it changed, and publish that
 *   env_run_merge.c       all of these for a cache that nodes add to
 */
#ifndef BOOTSEER_CLI_ENV_RUN_H
#define BOOTSEER_CLI_ENV_RUN_H

#include "cli/env.h"
#include "cli/env_daemon.h"
#include "cli/env_guess.h"
#include "cli/env_smoke.h"
#include "profiler/stage_event.h"

struct env_run_config {
	struct store_access access;
	struct env_service_access service;
	struct env_parts parts;
	char *store, *name;
	char *verify, *socket;
	struct env_daemons daemons;
	int64_t wait, lease, ttl, verify_timeout;
	bool unpack, quiet;
};

/* The key of a command, and the lock of its targets. */
struct env_run_key {
	struct env_work work;
	int64_t deadline_ns; /* until then other processes are waited for */
	bool quiet;
	struct env_key key;
	struct env_key near; /* key without a base, to guess the snapshot
	                      * by; used if no targets were named */
	int lock;            /* from env_lock_take(), for the targets; or -1 */
	bool is_others;      /* another process had the lock before */
	bool is_within;      /* the lock is held by our caller, which does not
	                      * touch the targets */
};

/* The store of the snapshots. */
struct env_run_store {
	struct env_opened at;
	int64_t ttl; /* snapshots made longer ago are not used; 0: no bound */
	struct error away; /* why the store is not used; code 0: it is used */
};

/* ---- the steps ---- */

/* Compute the key.  If no targets were named, fetch a guessed snapshot meanwhile. */
int env_run_find_key(struct env_run_key *k, struct env_run_store *s,
		     struct env_guess *g, struct error *err) MUST_CHECK;
/* Lock the targets until this process ends.  After waiting for another process, the key is
 * computed again. 1: that process did the same work, and its snapshot is *ret. */
int env_run_take_targets(struct env_run_key *k, struct env_run_store *s,
			 struct env_guess *g, struct env_snapshot *ret,
			 struct error *err) MUST_CHECK;

/* Get the turn to make the snapshot.  1: another node has made it, *ret. */
int env_run_take_turn(const struct env_run_store *s, const struct digest *key,
		      const struct env_turn_options *opts,
		      struct env_turn **ret_turn, struct env_snapshot *ret,
		      struct error *err) MUST_CHECK;

/* Parameters of a restore. */
struct env_run_restore {
	struct env_mount_job job;      /* where to restore; no snapshot yet */
	const struct env_opened *at;   /* the opened store of the job */
	struct env_smoke_check verify; /* check of the restored environment */
	bool may_mount;                /* false: always unpack */
	bool quiet;
};
/* Restore `snap` and return 1; `is_there`: another process of this system has restored it already.
 * `g` may have started the restore. *ret_is_bad: no node can use the snapshot, so it is only made
 * anew after it was removed. */
int env_run_restore(const struct env_run_restore *q, struct env_guess *g,
		    const struct env_snapshot *snap, bool is_there,
		    bool *ret_is_bad, struct error *err) MUST_CHECK;

/* ---- the run ---- */

struct env_run {
	const struct env_run_config *cfg;
	struct env_run_key key;
	struct env_run_store store;
	struct env_guess guess;
	struct env_run_restore restore;
	const struct env_snapshot *now; /* the snapshot in the targets;
	                                 * NULL: none */
	/* The snapshot is bad on all nodes, so the command runs until the snapshot is removed. */
	bool is_bad_for_all;
};

/* Fetch what the targets lack, run the command, and publish its new files.  Fails only if the
 * command could not be run. */
int env_run_merge(struct env_run *r, int *ret_status,
		  struct error *err) MUST_CHECK;

/* Log a stage, if this run belongs to a named job; otherwise the line has no reader. */
void env_run_say_stage(const char *name, enum stage_ev ev, int64_t status);
/* Report that the snapshot was captured or restored (`what`), with the time since `begun_ns`. */
void env_run_say_done(const char *what, const struct env_snapshot *s,
		      int64_t begun_ns);
/* Report what is waited for and how long at most, so that the wait is not taken for a hang. */
void env_run_say_wait(const struct env_run_key *k, const char *what);
void env_run_note_name(const struct env_run *r);

#endif
