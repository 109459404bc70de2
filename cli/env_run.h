// SPDX-License-Identifier: Apache-2.0
/*
 * The steps of `bootseer env run`, each with what it needs and what it finds.  env_run.c takes
 * them in their order; when one fails, the command is run as if BootSeer were not there.
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

/* The key of a command, and that its targets are ours. */
struct env_run_key {
	struct env_work work;
	int64_t deadline_ns; /* until when others are waited for */
	bool quiet;
	struct env_key key;
	struct env_key near; /* without a base; where nobody named targets */
	int lock;            /* of the targets, env_lock_take(); or -1 */
	bool is_others;      /* some were another's when we looked at them */
	bool is_within; /* which runs us, and does not touch them meanwhile */
};

/* The store of the snapshots. */
struct env_run_store {
	struct env_opened at;
	int64_t ttl; /* ns; a snapshot that is older is made anew; 0: none is */
	struct error away; /* why it is not asked; code 0: it may be */
};

/* ---- the steps ---- */

/* Find the key, and begin to fetch a guess meanwhile where nobody named targets. */
int env_run_find_key(struct env_run_key *k, struct env_run_store *s,
		     struct env_guess *g, struct error *err) MUST_CHECK;
/* Keep others from working on the targets until this process ends; where one had to be
 * waited for, the key is found anew.  1: the one that was waited for has done the same, and
 * *ret is what it did. */
int env_run_take_targets(struct env_run_key *k, struct env_run_store *s,
			 struct env_guess *g, struct env_snapshot *ret,
			 struct error *err) MUST_CHECK;

/* Have the right to make the snapshot.  1: another node has made it, *ret. */
int env_run_take_turn(const struct env_run_store *s, const struct digest *key,
		      const struct env_turn_options *opts,
		      struct env_turn **ret_turn, struct env_snapshot *ret,
		      struct error *err) MUST_CHECK;

/* How snapshots are put into place. */
struct env_run_restore {
	struct env_mount_job job;      /* where; without snapshot and check */
	const struct env_opened *at;   /* the job's store */
	struct env_smoke_check verify; /* of what is there then */
	bool may_mount;                /* else it is unpacked */
	bool quiet;
};
/* Put it into place, and return 1; `is_there`: another process of this system has.  `g` may
 * have begun to.  *ret_is_bad: nobody can use it, so it is made anew only when it was removed. */
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
	const struct env_snapshot *now; /* in the targets; NULL: none is */
	/* The snapshot is damaged or bad, so the command is run until it is removed. */
	bool is_bad_for_all;
};

/* Fetch what the targets lack, run the command, add what is new.  A failure is the
 * command's: it could not be run. */
int env_run_merge(struct env_run *r, int *ret_status,
		  struct error *err) MUST_CHECK;

/* For the log of a job that says its name; others have nobody who reads it. */
void env_run_say_stage(const char *name, enum stage_ev ev, int64_t status);
/* Say that the snapshot was captured or restored (`what`), in the time since `begun_ns`. */
void env_run_say_done(const char *what, const struct env_snapshot *s,
		      int64_t begun_ns);
/* For how long something is waited for at most, so that nobody takes it for a hang. */
void env_run_say_wait(const struct env_run_key *k, const char *what);
void env_run_note_name(const struct env_run *r);

#endif
