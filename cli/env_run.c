// SPDX-License-Identifier: Apache-2.0
/*
 * `bootseer env run`: run a set-up command, or restore the snapshot of its results.  An error on
 * the way to the snapshot is reported in one line, and the command is run.  The steps are in files
 * of their own (env_run.h); here each step gets the results of those before.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/env_child.h"
#include "cli/env_left.h"
#include "cli/env_run.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/text.h"
#include "profiler/emit/emit.h"
#include "snapshotter/client.h"

#define EXIT_USAGE 2
#define UNKNOWN_SHOWN 4u

static const struct option_spec options[] = {
	{ .key = "store",
	  .type = OPTION_STRING,
	  .offset = offsetof(struct env_run_config, store),
	  .arg = "URL",
	  .help = "Where snapshots are kept: file:///DIR, s3://BUCKET/PREFIX, "
		  "hdfs://HOST:PORT/DIR or docker://REGISTRY/REPOSITORY." },
	ENV_PARTS_OPTIONS(struct env_run_config),
	{ .key = "name",
	  .type = OPTION_STRING,
	  .offset = offsetof(struct env_run_config, name),
	  .arg = "NAME",
	  .help = "Note in the store that this is what NAME had last: 'bootseer "
		  "env prefetch' finds it so before its key is known." },
	{ .key = "wait",
	  .type = OPTION_DURATION,
	  .offset = offsetof(struct env_run_config, wait),
	  .def = "30m",
	  .min = "0s",
	  .max = "1d",
	  .help = "Wait so long for another node that runs the command; then "
		  "it is run here, too." },
	{ .key = "lease",
	  .type = OPTION_DURATION,
	  .offset = offsetof(struct env_run_config, lease),
	  .def = "15s",
	  .min = "1s",
	  .max = "10m",
	  .help = "A node that runs the command and is not heard of for so "
		  "long has died." },
	{ .key = "socket",
	  .type = OPTION_STRING,
	  .offset = offsetof(struct env_run_config, socket),
	  .arg = "PATH",
	  .help = "Where the bootseerd listens that mounts the snapshot; else "
		  "$BOOTSEER_SOCKET, else " NODE_SOCKET_DEFAULT
		  ", when it is there." },
	{ .key = "unpack",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct env_run_config, unpack),
	  .help = "Unpack the snapshot, also where bootseerd could mount "
		  "it. Blocks that bootseerd has, or gets from other nodes, "
		  "are not read from the store." },
	{ .key = "ttl",
	  .type = OPTION_DURATION,
	  .offset = offsetof(struct env_run_config, ttl),
	  .def = "0s",
	  .min = "0s",
	  .max = "365d",
	  .help = "A snapshot that was made longer ago is not used, but made "
		  "anew: for requirements that are not pinned. 0: no bound." },
	{ .key = "verify",
	  .type = OPTION_STRING,
	  .offset = offsetof(struct env_run_config, verify),
	  .arg = "COMMAND",
	  .help = "Run this by the shell after a restore, and before a "
		  "capture. When it fails after a restore all is taken back, "
		  "the snapshot is bad for everybody, and the command is "
		  "run." },
	{ .key = "verify-timeout",
	  .type = OPTION_DURATION,
	  .offset = offsetof(struct env_run_config, verify_timeout),
	  .def = "2m",
	  .min = "1s",
	  .max = "1h",
	  .help = "A --verify command that takes longer has failed." },
	{ .key = "daemon",
	  .type = OPTION_LIST,
	  .offset = offsetof(struct env_run_config, daemons.commands),
	  .arg = "NAME=COMMAND",
	  .help = "Start this by the shell once the environment is there, on "
		  "each node, unless it runs already. It outlives this "
		  "command." },
	{ .key = "daemon-ready",
	  .type = OPTION_LIST,
	  .offset = offsetof(struct env_run_config, daemons.ready),
	  .arg = "NAME=COMMAND",
	  .help = "Wait for the daemon of this name until this succeeds by "
		  "the shell." },
	{ .key = "daemon-timeout",
	  .type = OPTION_DURATION,
	  .offset = offsetof(struct env_run_config, daemons.timeout),
	  .def = "1m",
	  .min = "1s",
	  .max = "1h",
	  .help = "A daemon that is not ready within this time has failed, "
		  "and so has this command." },
	{ .key = "daemon-dir",
	  .type = OPTION_STRING,
	  .offset = offsetof(struct env_run_config, daemons.dir),
	  .arg = "DIR",
	  .help = "Folder of the daemons' logs, NAME.log, and locks; else "
		  "/run/bootseer-daemons, of users other than root "
		  "$XDG_RUNTIME_DIR/bootseer-daemons or one in /tmp." },
	{ .key = "daemon-snapshot",
	  .type = OPTION_LIST,
	  .offset = offsetof(struct env_run_config, daemons.dumped),
	  .arg = "NAME",
	  .help = "Dump the daemon of this name by criu(8) once it is ready, "
		  "and restore it on other nodes instead of starting it. The "
		  "store then has what is in its memory." },
	{ .key = "daemon-snapshot-timeout",
	  .type = OPTION_DURATION,
	  .offset = offsetof(struct env_run_config, daemons.dump_timeout),
	  .def = "30s",
	  .min = "1s",
	  .max = "1h",
	  .help = "A dump or a restore that takes longer, or after which the "
		  "daemon is not ready for so long, has failed: the daemon "
		  "is started the ordinary way." },
	{ .key = "quiet",
	  .letter = 'q',
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct env_run_config, quiet),
	  .help = "Say nothing when all goes well." },
	ENV_SERVICE_OPTIONS(struct env_run_config),
	ENV_ACCESS_OPTIONS(struct env_run_config),
	{ .key = NULL },
};

/* ---------------------------------------------------------------------------- ends --- */

static void print_message(const char *line)
{
	fprintf(stderr, "bootseer env run: %s\n", line);
}

/* End with the command's status.  If it succeeded, start its daemons first. */
static void exit_with_command_status(struct env_run *r, int status)
{
	const struct env_daemons_at at = { r->store.at.catalog, r->now };
	struct env_daemons daemons = r->cfg->daemons;
	struct error err = ERROR_INIT;
	int rc = 0;

	env_guess_drop(&r->guess);
	if (r->key.lock >= 0)
		(void)close(steal_fd(&r->key.lock));
	daemons.quiet = r->cfg->quiet;
	if (status == 0 && daemons.commands) {
		env_run_say_stage("env.daemons", STAGE_BEGIN, STAGE_NONE);
		rc = env_daemons_start(&daemons, &at, &err);
		env_run_say_stage("env.daemons", STAGE_END, rc < 0);
	}
	if (rc == 0)
		env_end_as(status);
	print_message(err.msg);
	exit(EXIT_FAILURE);
}

/* Run the command without BootSeer, and mark its changes so that no capture includes them. */
static void run_without_snapshot(struct env_run *r, const char *why)
{
	struct error err = ERROR_INIT;
	char hex[ENV_KEY_HEX];
	int status;

	env_guess_drop(&r->guess);
	env_key_hex(&r->key.key.digest, hex);
	fprintf(stderr, "bootseer env run: %s%s%s%s: the command is run\n", why,
		r->is_bad_for_all ? " (so it is for all until it is removed: "
				    "bootseer env rm STORE "
				  : "",
		r->is_bad_for_all ? hex : "", r->is_bad_for_all ? ")" : "");
	if ((r->cfg->daemons.commands || r->key.lock >= 0) &&
	    env_child_run(r->key.work.command, r->key.lock, NULL, &status, NULL,
			  &err) == 0)
		exit_with_command_status(r, status);
	status = env_become(r->key.work.command, &err);
	print_message(err.msg);
	exit(status);
}

/* ------------------------------------------------------------------------ look up --- */

/* Warn about dependencies of the command that cannot be determined, and so are not in the key. */
static void warn_of_unknown_inputs(const struct env_inputs *in)
{
	AUTO_BUF text = BUF_INIT;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < in->n_unknown && i < UNKNOWN_SHOWN;
	     i++)
		rc = buf_printf(&text, "%s%s", i ? "; " : "", in->unknown[i]);
	if (rc == 0 && in->n_unknown > UNKNOWN_SHOWN)
		rc = buf_printf(&text, "; and %zu more ('env key --explain')",
				in->n_unknown - UNKNOWN_SHOWN);
	if (rc < 0)
		return;
	text_make_printable(text.data);
	fprintf(stderr,
		"bootseer env run: not in the key: %s: with --key, --key-file "
		"or --ttl a change is seen\n",
		text.data);
}

/* Report that another node is waited for.  `holder` is a text from that node, so it may be
 * anything. */
static void report_wait_for_node(void *arg, const char *holder)
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

/* Look the key up. 1: there is a snapshot; 0: this process has the turn to make it. */
static int find_snapshot_or_turn(struct env_run *r, struct env_turn **ret_turn,
				 struct env_snapshot *ret, struct error *err)
{
	const struct digest *key = &r->key.key.digest;
	const struct env_turn_options opts = {
		.ttl_ms = (uint32_t)(r->cfg->lease / NS_PER_MS),
		.deadline_ns = r->key.deadline_ns,
		.waits = report_wait_for_node,
		.arg = &r->key,
	};
	int rc;

	if (r->store.away.code) {
		*err = r->store.away;
		return -r->store.away.code;
	}
	if (!r->cfg->quiet && r->key.work.inputs.n_unknown)
		warn_of_unknown_inputs(&r->key.work.inputs);
	rc = env_catalog_get_fresh(r->store.at.catalog, key, r->store.ttl, ret,
				   err);
	if (rc)
		return rc;
	env_guess_drop(&r->guess);
	return env_run_take_turn(&r->store, key, &opts, ret_turn, ret, err);
}

/* --------------------------------------------------------------- run, and capture --- */

/* How the command ended. */
struct ran {
	int status;           /* as wait(2) has it */
	int told;             /* signal that told the command to end; 0: none */
	struct env_left left; /* processes that the command left running */
};

static int run_command(const struct env_run_key *k, struct ran *ret,
		       struct error *err)
{
	int rc;

	env_run_say_stage("env.install", STAGE_BEGIN, STAGE_NONE);
	env_left_adopt(true);
	rc = env_child_run(k->work.command, k->lock, NULL, &ret->status,
			   &ret->told, err);
	env_left_adopt(false);
	env_left_list(&ret->left);
	env_run_say_stage("env.install", STAGE_END,
			  rc < 0 ? 1
			  : WIFSIGNALED(ret->status)
				  ? 128 + WTERMSIG(ret->status)
				  : WEXITSTATUS(ret->status));
	return rc;
}

/* Warn about processes that the command left running: nodes that restore do not get them. */
static void warn_of_left_processes(const struct env_left *left)
{
	char what[ENV_LEFT_ROOM];
	size_t n = env_left_describe(left, what);

	if (n)
		fprintf(stderr,
			"bootseer env run: the command left %s, which %s not "
			"there where it is restored: start %s by --daemon\n",
			what, n > 1 ? "are" : "is", n > 1 ? "them" : "it");
}

/* The store to take notes of self-made files from.  NULL with a service: it has no such notes, and
 * a store beside it is not trusted. */
static struct object_store *store_for_notes(const struct env_run_store *s)
{
	return s->at.client ? NULL : s->at.store;
}

static int check_command_ran(const struct env_run *r, int told,
			     struct error *err)
{
	const struct env_run_config *c = r->cfg;
	int rc = 0;

	if (told)
		return error_set(err, EINTR,
				 "the command was told to end by signal %d",
				 told);
	if (c->verify)
		rc = env_smoke_run(c->verify,
				   clock_now_ns() + c->verify_timeout, err);
	return rc < 0 ? rc
		      : env_work_note_made(&r->key.work, &r->key.key,
					   store_for_notes(&r->store), err);
}

/* Capture the changes. 1: *ret is the snapshot; 0: another process published one first. */
static int capture_changes(const struct env_run *r, struct env_snapshot *ret,
			   struct error *err)
{
	const struct env_run_key *k = &r->key;
	const struct env_capture_options opts = {
		.program = k->work.command[0],
		.may_be_empty = r->cfg->daemons.commands != NULL,
	};
	int64_t begun_ns = clock_now_ns();
	int rc = env_capture(r->store.at.catalog, &k->key, &k->work.targets,
			     k->work.scan, &opts, ret, err);

	if (rc < 0)
		return rc == -EEXIST ? 0 : rc;
	if (k->work.targets.is_usual)
		env_near_put(r->store.at.store, &k->near, &k->key.digest);
	if (!k->quiet)
		env_run_say_done("captured", ret, begun_ns);
	return 1;
}

/* Run the command, capture its changes for other nodes, and end the turn. 1: *ret is the
 * snapshot. */
static int run_and_capture(struct env_run *r, struct env_turn *turn,
			   int *ret_status, struct env_snapshot *ret,
			   struct error *err)
{
	struct error why = ERROR_INIT;
	struct ran ran = { .status = 0 };
	int kept = -ECANCELED;
	int rc = env_work_look_again(&r->key.work, &r->key.key, err);

	if (rc == 0)
		rc = run_command(&r->key, &ran, err);
	if (rc == 0 && ran.status == 0) {
		kept = check_command_ran(r, ran.told, &why);
		if (kept == 0)
			kept = capture_changes(r, ret, &why);
		if (kept >= 0)
			warn_of_left_processes(&ran.left);
		else
			fprintf(stderr, "bootseer env run: not captured: %s\n",
				why.msg);
	}
	/* After a failure the turn is not passed on: the nodes that wait would fail one after the
	 * other. */
	env_turn_end(turn, kept < 0);
	*ret_status = ran.status;
	return rc < 0 ? rc : kept > 0;
}

/* ---------------------------------------------------------------------------- all --- */

/* Open the store with all signals blocked, so that its threads get none: signals are for the
 * command. */
static int open_store(const struct env_run_config *c, struct env_opened *ret,
		      struct error *err)
{
	sigset_t all, old;
	int rc;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = env_open(&c->access, &c->service, c->store, "bootseer env run",
		      c->ttl / NS_PER_MS, ret, err);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

/* Find the key, then restore or run. 1: the snapshot *ret is in the targets. */
static int restore_or_run(struct env_run *r, int *ret_status,
			  struct env_snapshot *ret, struct error *err)
{
	struct env_turn *turn = NULL;
	int found, rc;

	env_run_say_stage("env.key", STAGE_BEGIN, STAGE_NONE);
	rc = env_run_find_key(&r->key, &r->store, &r->guess, err);
	env_run_say_stage("env.key", STAGE_END, rc < 0);
	if (rc < 0)
		return rc;
	found = env_run_take_targets(&r->key, &r->store, &r->guess, ret, err);
	rc = found ? found : find_snapshot_or_turn(r, &turn, ret, err);
	if (rc > 0)
		return env_run_restore(&r->restore, &r->guess, ret, found > 0,
				       &r->is_bad_for_all, err);
	return rc < 0 ? rc : run_and_capture(r, turn, ret_status, ret, err);
}

static int run_env_run(const void *config, char **args, struct error *err)
{
	const struct env_run_config *c = config;
	struct env_run r = {
		.cfg = c,
		.key = { .work = { .parts = &c->parts, .command = args },
			 .quiet = c->quiet,
			 .lock = -1 },
		.store.ttl = c->ttl,
		.guess.near = &r.key.near,
		.restore = { .job = { .socket = c->socket,
				      .store = c->store,
				      .targets = &r.key.work.targets },
			     .at = &r.store.at,
			     .verify = { .base.is_good = env_smoke_is_good,
					 .command = c->verify,
					 .timeout_ns = c->verify_timeout },
			     .may_mount = !c->unpack && !c->parts.merge,
			     .quiet = c->quiet },
	};
	struct env_snapshot snap;
	int status = EXIT_SUCCESS, rc;

	env_signals_take();
	/* A malformed URL is a mistake of the user, so it ends the run; a store that does not
	 * answer does not. */
	if (open_store(c, &r.store.at, &r.store.away) == -EINVAL) {
		print_message(r.store.away.msg);
		exit(EXIT_USAGE);
	}
	r.guess.catalog = r.store.at.catalog;
	r.key.deadline_ns = clock_now_ns() + c->wait;
	r.restore.job.others_ns = r.key.deadline_ns;
	r.guess.job = r.restore.job;
	rc = c->parts.merge ? env_run_merge(&r, &status, err)
			    : restore_or_run(&r, &status, &snap, err);
	if (rc < 0)
		run_without_snapshot(&r, err->msg);
	if (rc > 0) {
		r.now = &snap;
		env_run_note_name(&r);
	}
	exit_with_command_status(&r, status);
	return 0;
}

static int check_env_run(const void *config, char **args, struct error *err)
{
	const struct env_run_config *c = config;
	int rc = env_check_store(c->store, err);

	(void)args;
	if (rc == 0)
		rc = env_check_service(&c->service, err);
	if (rc == 0)
		rc = env_check_parts(&c->parts, err);
	if (rc == 0 && c->parts.merge &&
	    (c->service.service || c->verify || c->ttl || c->daemons.commands))
		return error_set(err, EINVAL,
				 "--merge is without --service, --verify, "
				 "--ttl and --daemon");
	return rc < 0 ? rc : env_daemons_check(&c->daemons, err);
}

const struct command env_run_command = {
	.brief = "Run a set-up command, or restore what it did before",
	.program = {
		.name = "bootseer env run",
		.usage = "--store URL [OPTIONS] -- COMMAND "
			 "[ARGUMENTS]",
		.summary = "Put what the command changed where programs are "
			   "installed when it was run before into place, instead of "
			   "running it again. The first time, one node runs "
			   "it and keeps what it changed, while the others "
			   "wait. Whatever fails, the command is run as if "
			   "this were not there.",
		.options = options,
		.see_also = "bootseer(1)",
		.min_args = 1,
		.max_args = -1,
	},
	.config_size = sizeof(struct env_run_config),
	.check = check_env_run,
	.run = run_env_run,
};
