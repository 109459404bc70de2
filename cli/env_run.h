// SPDX-License-Identifier: Apache-2.0
/*
 * The steps of `bootseer env run`, in their order; env_run.c takes them.  Each returns
 * 0, or 1 where it says so, or -errno: then the command is run as if BootSeer were not
 * there.
 *
 *   env_run_key.c      key: what the command depends on, and the targets as they are
 *   env_run_restore.c  look up: is there a snapshot of the key?  restore: mount or unpack it
 *   env_run_capture.c  or: wait for another node, run the command, capture, publish
 *   env_run_merge.c    all of these for a cache that nodes add to
 */
#ifndef BOOTSEER_CLI_ENV_RUN_H
#define BOOTSEER_CLI_ENV_RUN_H

#include "cli/env.h"
#include "cli/env_daemon.h"
#include "cli/env_guess.h"
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

struct env_run {
	const struct env_run_config *cfg;
	char *const *command;
	struct env_targets targets;
	struct env_scan *before;
	struct env_inputs inputs;
	char **made; /* files that the command makes itself; NULL: none is known */
	struct env_key key;
	struct env_opened at;
	const struct env_snapshot *now; /* in the targets; NULL: none is */
	int64_t deadline_ns, begun_ns;
	int system;     /* that the targets are ours, or -1 */
	bool is_others; /* some were another's when we looked at them */
	bool is_within; /* which runs us, and does not touch them meanwhile */
	struct env_key near; /* without a base; where nobody named targets */
	struct env_guess guess;
	struct error no_store; /* code 0: it may be asked */
	/* The snapshot is damaged or bad, so the command is run until it is removed. */
	bool is_bad_for_all;
};

/* Find `r->key`. */
int env_run_find_key(struct env_run *r, struct error *err) MUST_CHECK;
/* Keep others from working on the targets until this process ends; where one had to be
 * waited for, the key is found anew.  1: the one that was waited for has done the same, and
 * *ret is what it did. */
int env_run_take_targets(struct env_run *r, struct env_snapshot *ret,
			 struct error *err) MUST_CHECK;

/* 1: *ret is the snapshot of the key.  One that is older than --ttl is passed over. */
int env_run_look_up(struct env_run *r, struct env_snapshot *ret,
		    struct error *err) MUST_CHECK;
/* Put it into place; `is_there`: another process of this system has. */
int env_run_restore(struct env_run *r, const struct env_snapshot *snap,
		    bool is_there, struct error *err) MUST_CHECK;

/* Have the right to make the snapshot.  1: another node has made it, *ret. */
int env_run_take_turn(struct env_run *r, struct env_turn **ret_turn,
		      struct env_snapshot *ret, struct error *err) MUST_CHECK;
/* Run the command, capture what it changed into *ret, and publish that.  Ends the turn. */
int env_run_capture(struct env_run *r, struct env_turn *turn, int *ret_status,
		    struct env_snapshot *ret, struct error *err) MUST_CHECK;

/* Fetch what the targets lack, run the command, add what is new.  A failure is the
 * command's: it could not be run. */
int env_run_merge(struct env_run *r, int *ret_status,
		  struct error *err) MUST_CHECK;

/* ---- what several steps say and do ---- */

/* For the log of a job that says its name; others have nobody who reads it. */
void env_run_say_stage(const char *name, enum stage_ev ev, int64_t status);
void env_run_say_done(const struct env_run *r, const char *what,
		      const struct env_snapshot *s);
/* For how long something is waited for at most, so that nobody takes it for a hang. */
void env_run_say_wait(const struct env_run *r, const char *what);
void env_run_note_name(const struct env_run *r);
/* Run --verify. */
int env_run_check_programs(const struct env_run *r,
			   struct error *err) MUST_CHECK;
/* Was the snapshot made so long ago that it is made anew? */
bool env_run_is_over_age(const struct env_run *r,
			 const struct env_snapshot *snap);
/* Find what the command depends on beside its words; into r->inputs. */
int env_run_find_inputs(struct env_run *r, struct error *err) MUST_CHECK;

#endif
