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

#include "cli/env.h"
#include "cli/env_child.h"
#include "cli/env_daemon.h"
#include "cli/env_give.h"
#include "cli/env_guess.h"
#include "cli/env_left.h"
#include "cli/env_mount.h"
#include "cli/env_smoke.h"
#include "cli/env_system.h"
#include "common/clock.h"
#include "common/duration.h"
#include "common/progress.h"
#include "common/text.h"
#include "profiler/emit/emit.h"
#include "snapshotter/client.h"

#define EXIT_USAGE 2
#define UNKNOWN_SHOWN 4u

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
};

/* ---------------------------------------------------------------------------- ends --- */

static void say(const char *line)
{
	fprintf(stderr, "bootseer env run: %s\n", line);
}

/* For the log of a job that says its name; others have nobody who reads it. */
static void say_stage(const char *name, enum stage_ev ev, int64_t status)
{
	AUTO_BUF line = BUF_INIT;
	struct stage_event e;

	stage_make(name, ev, 0, &e);
	stage_own_by_env(&e);
	e.status = status;
	if (e.job.n && stage_event_format(&e, &line) == 0)
		(void)!write(STDERR_FILENO, line.data, line.len);
}

/* With its daemons, where it is good. */
static void end(struct env_run *r, int status)
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
		say_stage("env.daemons", STAGE_BEGIN, STAGE_NONE);
		rc = env_daemons_start(&daemons, &at, &err);
		say_stage("env.daemons", STAGE_END, rc < 0);
	}
	if (rc == 0)
		env_end_as(status);
	say(err.msg);
	exit(EXIT_FAILURE);
}

/* As if BootSeer were not there; but nothing of it is to be in what others capture. */
static void run_plain(struct env_run *r, const char *why)
{
	struct error err = ERROR_INIT;
	int status;

	env_guess_drop(&r->guess);
	fprintf(stderr, "bootseer env run: %s: the command is run\n", why);
	if ((r->cfg->daemons.commands || r->system >= 0) &&
	    env_child_run(r->command, r->system, NULL, &status, NULL, &err) ==
		    0)
		end(r, status);
	status = env_become(r->command, &err);
	say(err.msg);
	exit(status);
}

/* What the command depends on and nobody can tell is not in the key. */
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

static void say_done(const struct env_run *r, const char *what,
		     const struct env_snapshot *s)
{
	char bytes[PROGRESS_BYTES_MAX], names[PROGRESS_COUNT_MAX];
	char key[ENV_KEY_HEX];

	if (r->cfg->quiet)
		return;
	env_key_hex(&s->key.digest, key);
	progress_format_bytes(s->bytes, bytes);
	progress_format_count(s->n_changed, "name", names);
	fprintf(stderr,
		"bootseer env run: %s %.12s: %s, %s, %lld removed, in "
		"%.1f s\n",
		what, key, names, bytes, (long long)s->n_deleted,
		(double)(clock_now_ns() - r->begun_ns) / NS_PER_S);
}

static void note_name(const struct env_run *r)
{
	if (r->cfg->name)
		env_named_put(r->at.store, r->cfg->name, &r->key.digest);
}

/* ------------------------------------------------------------------------ snapshot --- */

static int run_smoke(const struct env_run *r, struct error *err)
{
	return env_smoke_run(r->cfg->verify,
			     clock_now_ns() + r->cfg->verify_timeout, err);
}

struct smoke_check {
	struct env_restore_check base;
	const struct env_run *run;
};

static int smoke_is_good(struct env_restore_check *c, struct error *err)
{
	int rc = run_smoke(container_of(c, struct smoke_check, base)->run, err);

	c->is_bad = rc == -ECANCELED;
	return rc;
}

/* Was it made so long ago that it is made anew? */
static bool is_over_age(const struct env_run *r,
			const struct env_snapshot *snap)
{
	struct env_marks m;

	return r->cfg->ttl &&
	       env_wall_ms() - snap->made_ms > r->cfg->ttl / NS_PER_MS &&
	       env_catalog_marks(r->at.catalog, snap, &m, NULL) == 0 &&
	       !m.is_pinned;
}

/* Others must not restore what was found bad here. */
static void mark_bad(const struct env_run *r, const struct env_snapshot *snap,
		     const char *why)
{
	char host[128] = "";

	(void)gethostname(host, sizeof(host) - 1);
	(void)!env_catalog_mark_bad(r->at.catalog, snap, host, why, NULL);
}

/* Of one that did not mount it: is it there, and has it the store? */
static bool may_give(int code)
{
	static const int no[] = { ENOENT,    ECONNREFUSED, ECONNRESET,
				  ETIMEDOUT, EACCES,       ENOSYS };

	for (size_t k = 0; k < ARRAY_SIZE(no); k++)
		if (code == no[k])
			return false;
	return true;
}

/* The system's folders get what is written to them, whoever writes it. */
static bool may_be_mounted(const struct env_run *r)
{
	return !r->cfg->unpack && !r->targets.is_usual;
}

/* By a mount where bootseerd makes one; where it should and does not, a line says why.
 * True: there is nothing to unpack, as it is mounted, or must not be (`rc`). */
static bool try_mount(const struct env_run *r, const struct env_snapshot *snap,
		      struct env_restore_check *check, int *ret_rc,
		      bool *ret_gives, struct error *err)
{
	struct env_mount_job job = { .socket = r->cfg->socket,
				     .store = r->cfg->store,
				     .snap = snap,
				     .targets = &r->targets,
				     .others_ns = r->deadline_ns,
				     .check = check };
	int rc;

	*ret_gives = true;
	if (!may_be_mounted(r))
		return false;
	rc = env_mount(&job, err);
	*ret_gives = job.is_answered || may_give(-rc);
	if (rc >= 0 || job.is_over || (check && check->is_bad)) {
		*ret_rc = rc;
		return true;
	}
	if (err->msg[0])
		fprintf(stderr,
			"bootseer env run: not mounted: %s: it is unpacked\n",
			err->msg);
	*err = (struct error)ERROR_INIT;
	return false;
}

/* One of before has no such blocks, and nobody expects any; and one that did not mount it has
 * said why. */
static void say_given(const struct env_run *r, const struct env_giver *g,
		      const struct error *why)
{
	if (g && g->failed.code)
		why = &g->failed;
	if (why->msg[0] && (g || (why->code != ENOSYS && !may_be_mounted(r))))
		fprintf(stderr,
			"bootseer env run: not of bootseerd: %s: the store is "
			"read\n",
			why->msg);
}

/* Of blocks that bootseerd brings, where there is one; the store has the rest. */
static int unpack(struct env_run *r, const struct env_snapshot *snap,
		  struct env_restore_check *check, bool gives,
		  struct error *err)
{
	const struct env_mount_job job = { .socket = r->cfg->socket,
					   .store = r->cfg->store,
					   .snap = snap };
	struct env_restoring *begun = env_guess_take(&r->guess, snap);
	struct env_giver *g = NULL;
	struct error why = ERROR_INIT;
	int rc;

	if (begun) {
		rc = env_restore_end(begun, check, err);
		say_given(r, r->guess.giver, &r->guess.why_not_given);
		return rc;
	}
	rc = env_guess_check_store(&r->guess, err);
	if (rc < 0)
		return rc;
	rc = gives ? env_give_open(&job, &g, &why) : 0;
	rc = env_restore(r->at.store, snap, &r->targets, 0, r->deadline_ns, g,
			 check, err);
	say_given(r, g, &why);
	env_give_close(g);
	return rc;
}

/* What nobody can restore is made anew only when it is gone. */
static void run_plain_until_removed(struct env_run *r, const char *why)
{
	char hex[ENV_KEY_HEX], text[ERROR_MSG_MAX + 160];

	env_key_hex(&r->key.digest, hex);
	(void)snprintf(text, sizeof(text),
		       "%s (so it is for all until it is removed: bootseer env "
		       "rm STORE %s)",
		       why, hex);
	run_plain(r, text);
}

/* `is_there`: by another process of this system. */
static void restore(struct env_run *r, const struct env_snapshot *snap,
		    bool is_there)
{
	struct smoke_check smoke = { .base.is_good = smoke_is_good, .run = r };
	struct env_restore_check *check = r->cfg->verify ? &smoke.base : NULL;
	struct error err = ERROR_INIT;
	bool is_mounted = false, gives = false;
	int rc;

	r->begun_ns = clock_now_ns();
	say_stage("env.restore", STAGE_BEGIN, STAGE_NONE);
	rc = env_catalog_check_bad(r->at.catalog, snap, &err);
	if (rc == 0 && is_there)
		rc = check ? check->is_good(check, &err) : 0;
	if (rc == 0 && !is_there)
		is_mounted = try_mount(r, snap, check, &rc, &gives, &err);
	if (rc == 0 && !is_mounted && !is_there)
		rc = unpack(r, snap, check, gives, &err);
	say_stage("env.restore", STAGE_END, rc < 0);
	if (smoke.base.is_bad)
		mark_bad(r, snap, err.msg);
	if (smoke.base.is_bad || rc == -EBADMSG)
		run_plain_until_removed(r, err.msg);
	if (rc < 0)
		run_plain(r, err.msg);
	env_catalog_touch(r->at.catalog, snap, env_wall_ms());
	say_done(r,
		 rc > 0 || is_there ? "found in place"
		 : is_mounted       ? "mounted"
				    : "restored",
		 snap);
	note_name(r);
	r->now = snap;
	end(r, EXIT_SUCCESS);
}

/* -ENOENT: there is none, any more; else the process ends here. */
static int try_restore(struct env_run *r)
{
	struct env_snapshot snap;
	struct error err = ERROR_INIT;
	int rc = env_catalog_get(r->at.catalog, &r->key.digest, &snap, &err);

	if (rc == -ENOENT)
		return rc;
	if (rc < 0)
		run_plain(r, err.msg);
	if (!is_over_age(r, &snap))
		restore(r, &snap, false);
	rc = env_catalog_pass_over(r->at.catalog, &snap, &err);
	env_snapshot_fini(&snap);
	if (rc < 0)
		run_plain(r, err.msg);
	return -ENOENT;
}

/* ------------------------------------------------------------------------- capture --- */

/* Beside its words, what the command depends on now. */
static int find_inputs(struct env_run *r, struct error *err)
{
	env_inputs_fini(&r->inputs);
	return env_parts_inputs(&r->cfg->parts, r->command, &r->targets,
				r->made, &r->inputs, err);
}

/* The service says nothing of them, and nobody else is believed beside it. */
static bool may_ask_made(const struct env_run *r)
{
	bool has_file = false;

	for (size_t i = 0; i < r->inputs.n; i++)
		has_file = has_file ||
			   strcmp(r->inputs.items[i].kind, "file") == 0;
	return has_file && !r->made && r->at.catalog && !r->no_store.code &&
	       !r->cfg->service.service;
}

/* Without the files that it makes itself. */
static int find_first_inputs(struct env_run *r, struct error *err)
{
	struct error why = ERROR_INIT;
	int rc = find_inputs(r, err);

	if (rc < 0 || !may_ask_made(r))
		return rc;
	/* A store that is away would be waited for again. */
	if (env_parts_made(&r->cfg->parts, r->command, &r->targets, r->at.store,
			   &r->made, &why) == -ETIMEDOUT)
		r->no_store = why;
	return r->made ? find_inputs(r, err) : 0;
}

/* What the command names and made is noted, for later runs on the same folder.  False: a file
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
		rc = find_inputs(r, err);
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

static bool capture(struct env_run *r, struct env_snapshot *ret)
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
		note_name(r);
		say_done(r, "captured", ret);
		r->now = ret;
	} else if (rc != -EEXIST) {
		fprintf(stderr, "bootseer env run: not captured: %s\n",
			err.msg);
	}
	return rc == 0 || rc == -EEXIST;
}

/* Of what was captured: others do not have what runs here. */
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

static void run_and_capture(struct env_run *r, struct env_turn *turn)
{
	struct env_left left = { .n = 0 };
	struct env_snapshot snap;
	struct error err = ERROR_INIT;
	bool is_good = false;
	int status = 0, told = 0;
	int rc = look_again(r, &err);

	if (rc == 0) {
		say_stage("env.install", STAGE_BEGIN, STAGE_NONE);
		env_left_adopt(true);
		rc = env_child_run(r->command, r->system, NULL, &status, &told,
				   &err);
		env_left_adopt(false);
		env_left_list(&left);
		say_stage("env.install", STAGE_END,
			  rc < 0                ? 1
			  : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
						: WEXITSTATUS(status));
	}
	if (rc < 0) {
		env_turn_end(turn, true);
		run_plain(r, err.msg);
	}
	if (status == 0 && told)
		fprintf(stderr,
			"bootseer env run: not captured: the command was told "
			"to end by signal %d\n",
			told);
	else if (status == 0 && r->cfg->verify && run_smoke(r, &err) < 0)
		fprintf(stderr, "bootseer env run: not captured: %s\n",
			err.msg);
	else if (status == 0 && note_made(r))
		is_good = capture(r, &snap);
	if (is_good)
		say_left(&left);
	/* Others that wait would fail one after the other. */
	env_turn_end(turn, !is_good);
	end(r, status);
}

/* ---------------------------------------------------------------------------- run --- */

/* A store that the guess has waited for in vain is waited for no more. */
static void note_store(struct env_run *r)
{
	struct error why = ERROR_INIT;

	if (env_guess_check_store(&r->guess, &why) < 0)
		r->no_store = why;
}

/* What this command had last is fetched beside the look at the names.  Its folders are made
 * in the system's, where another command's capture would see them. */
static int guess(struct env_run *r, struct error *err)
{
	int rc = env_parts_key(&r->cfg->parts, r->command, &r->targets,
			       &r->inputs, NULL, &r->near, err);

	if (rc < 0 || !r->at.catalog || r->no_store.code || r->system < 0)
		return rc;
	r->guess = (struct env_guess){ .catalog = r->at.catalog,
				       .targets = &r->targets,
				       .near = &r->near,
				       .store = r->cfg->store,
				       .socket = r->cfg->socket };
	env_guess_begin(&r->guess);
	return 0;
}

/* The key of how it is now. */
static int prepare(struct env_run *r, struct error *err)
{
	int rc = env_parts_targets(&r->cfg->parts, &r->targets, err);

	if (rc == 0)
		rc = env_join_recover(&r->targets, ENV_MOUNT_PREFIX,
				      r->deadline_ns, err);
	if (rc == 0 && r->system < 0 && !r->is_within)
		r->is_others = !env_system_try(&r->targets, &r->system);
	/* What is half there may be of the one that has them: we look anew after it. */
	if (rc == 0 && !r->is_others)
		rc = env_recover(&r->targets, r->deadline_ns, err);
	if (rc == 0)
		rc = find_first_inputs(r, err);
	if (rc == 0 && r->targets.is_usual)
		rc = guess(r, err);
	if (rc == 0)
		rc = env_scan_new(&r->targets, &r->before, err);
	if (rc == 0)
		rc = env_parts_key(&r->cfg->parts, r->command, &r->targets,
				   &r->inputs, r->before, &r->key, err);
	if (rc < 0)
		return rc;
	env_guess_settle(&r->guess, &r->key.digest);
	note_store(r);
	return 0;
}

/* With how long it may last, so that nobody takes it for a hang. */
static void say_wait(const struct env_run *r, const char *what)
{
	int64_t left = r->deadline_ns - clock_now_ns();
	char text[DURATION_TEXT_MAX];

	if (r->cfg->quiet)
		return;
	duration_format(left > 0 ? left : 0, text);
	fprintf(stderr,
		"bootseer env run: %s, for %s at most (--wait); then the command "
		"is run here, too\n",
		what, text);
}

/* Which may need what we have locked. */
static void say_works(void *arg)
{
	struct env_run *r = arg;

	env_guess_drop(&r->guess);
	note_store(r);
	say_wait(r, r->targets.is_usual
			    ? "another 'env run' works on this system: waiting "
			      "for its end"
			    : "another 'env run' works on these targets: "
			      "waiting for its end");
}

/* Who waited for one that did the same has it already. */
static int try_found(struct env_run *r, struct error *err)
{
	struct env_snapshot snap;
	bool is = false;
	int rc;

	env_scan_free(steal_ptr(&r->before));
	rc = env_scan_new(&r->targets, &r->before, err);
	if (rc < 0 || !r->at.catalog || r->no_store.code ||
	    env_catalog_get(r->at.catalog, &r->key.digest, &snap, NULL) < 0)
		return rc;
	rc = env_scan_is_after(r->before, &snap, &is, err);
	if (rc == 0 && is && !is_over_age(r, &snap))
		restore(r, &snap, true);
	env_snapshot_fini(&snap);
	return rc;
}

/* What another has done to the targets meanwhile is what the command finds. */
static int prepare_anew(struct env_run *r, struct error *err)
{
	int rc = try_found(r, err);

	env_scan_free(steal_ptr(&r->before));
	env_key_fini(&r->key);
	env_key_fini(&r->near);
	env_targets_fini(&r->targets);
	return rc < 0 ? rc : prepare(r, err);
}

/* Of two that worked on one target at once each would keep half of the other. */
static void take_system(struct env_run *r)
{
	struct error err = ERROR_INIT;
	int rc;

	/* Another descriptor of the lock, closed, would give it up. */
	if (r->system >= 0)
		return;
	rc = env_system_take(&r->targets, r->deadline_ns, say_works, r,
			     &r->system, &err);
	if (rc > 0 || (rc == 0 && r->is_others)) {
		r->is_others = false;
		r->is_within = r->system < 0;
		rc = prepare_anew(r, &err);
	}
	if (rc < 0)
		run_plain(r, err.msg);
}

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
		say_wait(arg, text.data);
}

/* With the turn; otherwise it does not return. */
static struct env_turn *take_turn(struct env_run *r)
{
	enum env_turn_kind kind = ENV_TURN_MINE;
	struct error err = ERROR_INIT;
	struct env_snapshot snap;
	struct env_turn *turn = NULL;
	const struct env_turn_options opts = {
		.ttl_ms = (uint32_t)(r->cfg->lease / NS_PER_MS),
		.deadline_ns = r->deadline_ns,
		.waits = say_waits,
		.arg = r,
	};
	int rc;

	say_stage("env.wait", STAGE_BEGIN, STAGE_NONE);
	rc = env_turn_take(r->at.catalog, &r->key.digest, &opts, &kind, &turn,
			   &err);
	say_stage("env.wait", STAGE_END, rc < 0);
	if (rc < 0)
		run_plain(r, err.msg);
	switch (kind) {
	case ENV_TURN_MINE:
		/* It may have been made just before the turn was ours. */
		if (env_catalog_get(r->at.catalog, &r->key.digest, &snap,
				    NULL) < 0)
			break;
		env_snapshot_fini(&snap);
		env_turn_end(turn, false);
		turn = NULL;
		(void)!try_restore(r);
		run_plain(r, "the snapshot was removed meanwhile");
		break;
	case ENV_TURN_MADE:
		if (try_restore(r) == -ENOENT)
			run_plain(r, "the snapshot was removed meanwhile");
		break;
	case ENV_TURN_FAILED:
		run_plain(r, "another node that ran it made no snapshot");
		break;
	case ENV_TURN_TIMEOUT:
		run_plain(r, "another node takes longer than --wait");
		break;
	}
	return turn;
}

static int run(const void *config, char **args, struct error *err)
{
	const struct env_run_config *c = config;
	struct env_run r = { .cfg = c, .command = args, .system = -1 };
	struct env_turn *turn;
	int rc;

	env_signals_take();
	/* A URL that is wrong is wrong however often it is tried: that is told, and a
	 * store that is down is not. */
	if (open_store(&r, &r.no_store) == -EINVAL) {
		say(r.no_store.msg);
		exit(EXIT_USAGE);
	}
	r.deadline_ns = clock_now_ns() + c->wait;
	say_stage("env.key", STAGE_BEGIN, STAGE_NONE);
	rc = prepare(&r, err);
	say_stage("env.key", STAGE_END, rc < 0);
	if (rc < 0)
		run_plain(&r, err->msg);
	take_system(&r);
	if (r.no_store.code)
		run_plain(&r, r.no_store.msg);
	say_unknown(&r);
	if (try_restore(&r) == -ENOENT) {
		env_guess_drop(&r.guess);
		turn = take_turn(&r);
		run_and_capture(&r, turn);
	}
	return 0;
}

static int check(const void *config, char **args, struct error *err)
{
	const struct env_run_config *c = config;
	int rc = env_check_store(c->store, err);

	(void)args;
	if (rc == 0)
		rc = env_check_service(&c->service, err);
	if (rc == 0)
		rc = env_check_parts(&c->parts, err);
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
	.check = check,
	.run = run,
};
