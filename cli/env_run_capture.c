// SPDX-License-Identifier: Apache-2.0
/* The command is run, and what it changed kept for others. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/env_child.h"
#include "cli/env_left.h"
#include "cli/env_run.h"
#include "common/buf.h"
#include "common/clock.h"

/* `holder` is what another node, or whoever may write to the store, says. */
static void say_waits(void *arg, const char *holder)
{
	AUTO_BUF text = BUF_INIT;
	size_t len = 0;

	while (holder[len] > ' ' && holder[len] < 0x7f)
		len++;
	if (buf_printf(
		    &text,
		    "another node%s%.*s%s runs the command: waiting for what "
		    "it makes",
		    len ? " (" : "", (int)len, holder, len ? ")" : "") == 0)
		env_run_say_wait(arg, text.data);
}

/* Another node has, or has just, made it. */
static int look_up_made(struct env_run *r, struct env_snapshot *ret,
			struct error *err)
{
	int rc = env_run_look_up(r, ret, err);

	return rc ? rc
		  : error_set(err, ENOENT,
			      "the snapshot was removed meanwhile");
}

int env_run_take_turn(struct env_run *r, struct env_turn **ret_turn,
		      struct env_snapshot *ret, struct error *err)
{
	enum env_turn_kind kind = ENV_TURN_MINE;
	struct env_snapshot snap;
	const struct env_turn_options opts = {
		.ttl_ms = (uint32_t)(r->cfg->lease / NS_PER_MS),
		.deadline_ns = r->deadline_ns,
		.waits = say_waits,
		.arg = r,
	};
	int rc;

	env_run_say_stage("env.wait", STAGE_BEGIN, STAGE_NONE);
	rc = env_turn_take(r->at.catalog, &r->key.digest, &opts, &kind,
			   ret_turn, err);
	env_run_say_stage("env.wait", STAGE_END, rc < 0);
	if (rc < 0)
		return rc;
	switch (kind) {
	case ENV_TURN_MINE:
		/* The snapshot may have been made just before the turn was ours. */
		if (env_catalog_get(r->at.catalog, &r->key.digest, &snap,
				    NULL) < 0)
			return 0;
		env_snapshot_fini(&snap);
		env_turn_end(steal_ptr(ret_turn), false);
		return look_up_made(r, ret, err);
	case ENV_TURN_MADE:
		return look_up_made(r, ret, err);
	case ENV_TURN_FAILED:
		return error_set(err, ECANCELED,
				 "another node that ran it made no snapshot");
	case ENV_TURN_TIMEOUT:
		break;
	}
	return error_set(err, ETIMEDOUT,
			 "another node takes longer than --wait");
}

/* Note what the command names and made, for later runs on the same folder.  False: a file
 * that is in no key for such a note was an input this time. */
static bool note_made(struct env_run *r)
{
	struct env_inputs after;
	struct env_key words;
	const char *unwritten = NULL;
	char **names = NULL;
	int rc = env_parts_inputs(&r->cfg->parts, r->command, &r->targets,
				  r->made, &after, NULL);

	if (rc < 0)
		return !r->made;
	rc = env_inputs_made(&r->inputs, &after, r->made, &names, &unwritten,
			     NULL);
	env_inputs_fini(&after);
	if (rc == 1 && !r->cfg->service.service &&
	    env_parts_key(&r->cfg->parts, r->command, &r->targets, NULL, NULL,
			  &words, NULL) == 0) {
		(void)!env_made_put(r->at.store, &words, &r->key.digest, names,
				    NULL);
		env_key_fini(&words);
	}
	env_names_free(names);
	if (unwritten)
		fprintf(stderr,
			"bootseer env run: not captured: '%s' is not in the key, "
			"as the command made it before, but did not now: the "
			"next run has it in its key\n",
			unwritten);
	return rc >= 0 && !unwritten;
}

/* How it is now: others may have worked here while we waited. */
static int look_again(struct env_run *r, struct error *err)
{
	struct env_key now;
	bool is_same;
	int rc;

	env_scan_free(r->before);
	r->before = NULL;
	rc = env_scan_new(&r->targets, &r->before, err);
	if (rc == 0)
		rc = env_run_find_inputs(r, err);
	if (rc == 0)
		rc = env_parts_key(&r->cfg->parts, r->command, &r->targets,
				   &r->inputs, r->before, &now, err);
	if (rc < 0)
		return rc;
	is_same = digest_equal(&now.digest, &r->key.digest);
	env_key_fini(&now);
	if (!is_same)
		return error_set(err, ESTALE,
				 "what the key is of changed meanwhile");
	return env_scan_hash_recent(r->before, err);
}

static bool capture_snapshot(struct env_run *r, struct env_snapshot *ret)
{
	const struct env_capture_options opts = {
		.program = r->command[0],
		.may_be_empty = r->cfg->daemons.commands != NULL,
	};
	struct error err = ERROR_INIT;
	int rc;

	r->begun_ns = clock_now_ns();
	rc = env_capture(r->at.catalog, &r->key, &r->targets, r->before, &opts,
			 ret, &err);
	if (rc == 0) {
		if (r->targets.is_usual)
			env_near_put(r->at.store, &r->near, &r->key.digest);
		env_run_note_name(r);
		env_run_say_done(r, "captured", ret);
		r->now = ret;
	} else if (rc != -EEXIST) {
		fprintf(stderr, "bootseer env run: not captured: %s\n",
			err.msg);
	}
	return rc == 0 || rc == -EEXIST;
}

/* Processes of the command that go on are said: others do not have what runs here. */
static void say_left(const struct env_left *left)
{
	char what[ENV_LEFT_ROOM];
	size_t n = env_left_describe(left, what);

	if (n)
		fprintf(stderr,
			"bootseer env run: the command left %s, which %s not "
			"there where it is restored: start %s by --daemon\n",
			what, n > 1 ? "are" : "is", n > 1 ? "them" : "it");
}

int env_run_capture(struct env_run *r, struct env_turn *turn, int *ret_status,
		    struct env_snapshot *ret, struct error *err)
{
	struct env_left left = { .n = 0 };
	struct error why = ERROR_INIT;
	bool is_good = false;
	int status = 0, told = 0;
	int rc = look_again(r, err);

	if (rc == 0) {
		env_run_say_stage("env.install", STAGE_BEGIN, STAGE_NONE);
		env_left_adopt(true);
		rc = env_child_run(r->command, r->system, NULL, &status, &told,
				   err);
		env_left_adopt(false);
		env_left_list(&left);
		env_run_say_stage("env.install", STAGE_END,
				  rc < 0                ? 1
				  : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
							: WEXITSTATUS(status));
	}
	if (rc < 0) {
		env_turn_end(turn, true);
		return rc;
	}
	if (status == 0 && told)
		fprintf(stderr,
			"bootseer env run: not captured: the command was told "
			"to end by signal %d\n",
			told);
	else if (status == 0 && r->cfg->verify &&
		 env_run_check_programs(r, &why) < 0)
		fprintf(stderr, "bootseer env run: not captured: %s\n",
			why.msg);
	else if (status == 0 && note_made(r))
		is_good = capture_snapshot(r, ret);
	if (is_good)
		say_left(&left);
	/* Others that wait would fail one after the other. */
	env_turn_end(turn, !is_good);
	*ret_status = status;
	return 0;
}
