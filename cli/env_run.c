// SPDX-License-Identifier: Apache-2.0
/*
 * `bootseer env run`: a set-up command, or the snapshot of what it would do.  Whatever
 * fails on the way to the snapshot is said in one line, and the command is run.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/env_child.h"
#include "cli/env_run.h"
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

static void say_line(const char *line)
{
	fprintf(stderr, "bootseer env run: %s\n", line);
}

/* With its daemons, where it is good. */
static void end_command(struct env_run *r, int status)
{
	const struct env_daemons_at at = { r->at.catalog, r->now };
	struct env_daemons daemons = r->cfg->daemons;
	struct error err = ERROR_INIT;
	int rc = 0;

	env_guess_drop(&r->guess);
	if (r->system >= 0)
		(void)close(steal_fd(&r->system));
	daemons.quiet = r->cfg->quiet;
	if (status == 0 && daemons.commands) {
		env_run_say_stage("env.daemons", STAGE_BEGIN, STAGE_NONE);
		rc = env_daemons_start(&daemons, &at, &err);
		env_run_say_stage("env.daemons", STAGE_END, rc < 0);
	}
	if (rc == 0)
		env_end_as(status);
	say_line(err.msg);
	exit(EXIT_FAILURE);
}

/* As if BootSeer were not there; but nothing of it is to be in what others capture. */
static void run_plain(struct env_run *r, const char *why)
{
	struct error err = ERROR_INIT;
	char hex[ENV_KEY_HEX];
	int status;

	env_guess_drop(&r->guess);
	env_key_hex(&r->key.digest, hex);
	fprintf(stderr, "bootseer env run: %s%s%s%s: the command is run\n", why,
		r->is_bad_for_all ? " (so it is for all until it is removed: "
				    "bootseer env rm STORE "
				  : "",
		r->is_bad_for_all ? hex : "", r->is_bad_for_all ? ")" : "");
	if ((r->cfg->daemons.commands || r->system >= 0) &&
	    env_child_run(r->command, r->system, NULL, &status, NULL, &err) ==
		    0)
		end_command(r, status);
	status = env_become(r->command, &err);
	say_line(err.msg);
	exit(status);
}

/* Say what the command depends on and nobody can tell: it is not in the key. */
static void say_unknown(const struct env_run *r)
{
	const struct env_inputs *in = &r->inputs;
	AUTO_BUF text = BUF_INIT;
	int rc = 0;

	if (r->cfg->quiet || !in->n_unknown)
		return;
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

/* ---------------------------------------------------------------------------- run --- */

/* Its threads take no signals: the command is to have them. */
static int open_store(struct env_run *r, struct error *err)
{
	sigset_t all, old;
	int rc;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = env_open(&r->cfg->access, &r->cfg->service, r->cfg->store,
		      "bootseer env run", r->cfg->ttl / NS_PER_MS, &r->at, err);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

/* 1: there is a snapshot; 0: this process has the turn to make it. */
static int look_up(struct env_run *r, struct env_turn **ret_turn,
		   struct env_snapshot *ret, struct error *err)
{
	int rc;

	if (r->no_store.code) {
		*err = r->no_store;
		return -r->no_store.code;
	}
	say_unknown(r);
	rc = env_run_look_up(r, ret, err);
	if (rc)
		return rc;
	env_guess_drop(&r->guess);
	return env_run_take_turn(r, ret_turn, ret, err);
}

static int run_env_run(const void *config, char **args, struct error *err)
{
	const struct env_run_config *c = config;
	struct env_run r = { .cfg = c, .command = args, .system = -1 };
	struct env_snapshot snap;
	struct env_turn *turn = NULL;
	int status = EXIT_SUCCESS, rc;
	bool is_there;

	env_signals_take();
	/* A URL that is wrong is wrong however often it is tried: that is told, and a
	 * store that is down is not. */
	if (open_store(&r, &r.no_store) == -EINVAL) {
		say_line(r.no_store.msg);
		exit(EXIT_USAGE);
	}
	r.deadline_ns = clock_now_ns() + c->wait;
	if (c->parts.merge) {
		if (env_run_merge(&r, &status, err) < 0)
			run_plain(&r, err->msg);
		end_command(&r, status);
	}
	env_run_say_stage("env.key", STAGE_BEGIN, STAGE_NONE);
	rc = env_run_find_key(&r, err);
	env_run_say_stage("env.key", STAGE_END, rc < 0);
	if (rc == 0)
		rc = env_run_take_targets(&r, &snap, err);
	is_there = rc > 0;
	if (rc == 0)
		rc = look_up(&r, &turn, &snap, err);
	if (rc > 0)
		rc = env_run_restore(&r, &snap, is_there, err);
	else if (rc == 0)
		rc = env_run_capture(&r, turn, &status, &snap, err);
	if (rc < 0)
		run_plain(&r, err->msg);
	end_command(&r, status);
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
