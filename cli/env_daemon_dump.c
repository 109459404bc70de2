// SPDX-License-Identifier: Apache-2.0
/*
 * A dump is a folder that criu writes.  It is captured and restored like an environment, under a
 * key of its own: the daemon, its environment, and the kind of node.  As it holds the memory of a
 * process, the folder exists only while it is written or read, and only root may enter it.
 */
#include "cli/env_daemon_dump.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/env.h"
#include "cli/env_criu.h"
#include "cli/env_smoke.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/progress.h"

/* how long to wait for another process that restores there */
#define OTHERS_NS (120 * NS_PER_S)

#define LEASE_MS 15000
#define PROBE_MS 30000 /* timeout of `criu check` */
/* file in the folder with criu_job.output */
#define OUTPUT_FILE "bootseer-output"

struct daemon_dump {
	struct daemon_start *s;
	const struct env_daemons *d;
	const struct env_daemons_at *at;
	struct env_targets target; /* the dump's folder */
	struct env_key key;
	struct criu_job job; /* borrows from the members below */
	char *log, *pidfile, *output_path;
	char output[CRIU_FILE_MAX];
	int64_t begun_ns;
};

static void dump_fini(struct daemon_dump *u)
{
	int rc = u->target.n ? fs_remove_tree(u->target.paths[0], NULL) : 0;

	if (rc < 0 && rc != -ENOENT)
		fprintf(stderr,
			"bootseer env run: '%s' cannot be removed: it has "
			"the memory of daemon '%s'\n",
			u->target.paths[0], u->s->name);
	env_targets_fini(&u->target);
	env_key_fini(&u->key);
	free(u->log);
	free(u->pidfile);
	free(u->output_path);
}

static void report_daemon(const struct daemon_dump *u, const char *what,
			  const char *why)
{
	fprintf(stderr, "bootseer env run: daemon '%s' %s: %s\n", u->s->name,
		what, why);
}

static void report_dump_done(const struct daemon_dump *u, const char *what,
			     const struct env_snapshot *snap)
{
	char bytes[PROGRESS_BYTES_MAX];

	progress_format_bytes(snap->bytes, bytes);
	if (!u->d->quiet)
		fprintf(stderr,
			"bootseer env run: daemon '%s' %s: %s, in %.1f s\n",
			u->s->name, what, bytes,
			(double)(clock_now_ns() - u->begun_ns) / NS_PER_S);
}

/* ------------------------------------------------------------------------- prepare --- */

static char *dump_path_of(const struct daemon_dump *u, const char *dir,
			  const char *end)
{
	char *path;

	return asprintf(&path, "%s/%s%s", dir, u->s->name, end) < 0 ? NULL
								    : path;
}

/* Make the paths, and remove files that a killed run left there. */
static int make_paths(struct daemon_dump *u, struct error *err)
{
	AUTO_FREE char *folder = dump_path_of(u, u->s->dir, ".dump");
	char *given[] = { folder, NULL };
	int rc = folder ? env_targets_make(given, &u->target, err)
			: error_nomem(err);

	if (rc < 0)
		return rc;
	u->log = dump_path_of(u, u->s->dir, ".criu.log");
	u->pidfile = dump_path_of(u, u->s->dir, ".criu.pid");
	u->output_path = fs_join(u->target.paths[0], OUTPUT_FILE);
	if (!u->log || !u->pidfile || !u->output_path)
		return error_nomem(err);
	u->job = (struct criu_job){ .images = u->target.paths[0],
				    .log = u->log,
				    .output = u->output,
				    .timeout_ms =
					    u->d->dump_timeout / NS_PER_MS };
	rc = fs_remove_tree(u->target.paths[0], err);
	return rc == -ENOENT ? 0 : rc;
}

static int prepare_dump(struct daemon_dump *u, struct error *err)
{
	char version[CRIU_VERSION_MAX];
	struct env_daemon_spec spec = { .name = u->s->name,
					.command = u->s->command,
					.criu = version };
	int rc;

	if (!u->at->snap)
		return error_set(err, ENOENT,
				 "the environment here is no snapshot's");
	if (geteuid() != 0)
		return error_set(err, EPERM,
				 "only root can dump and restore processes");
	rc = criu_version(PROBE_MS, version, err);
	if (rc == 0)
		rc = make_paths(u, err);
	spec.environment = &u->at->snap->key.digest;
	spec.snapshot = &u->at->snap->manifest;
	return rc < 0 ? rc
		      : env_daemon_key_make(&spec, &u->target, &u->key, err);
}

/* ------------------------------------------------------------------------- restore --- */

/* Read the name that the log had in the dumped process. */
static int read_output(struct daemon_dump *u, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	int rc = fs_read_file(u->output_path, CRIU_FILE_MAX - 1, &text, err);

	if (rc < 0)
		return rc;
	(void)snprintf(u->output, sizeof(u->output), "%s",
		       text.len ? text.data : "");
	return criu_check_file(u->output, err);
}

static int restore_process(struct daemon_dump *u, struct error *err)
{
	pid_t pid = -1;
	int rc = read_output(u, err);

	if (rc == 0)
		rc = criu_restore(&u->job, u->pidfile, u->s->log_fd, &pid, err);
	(void)unlink(u->pidfile);
	return rc < 0 ? rc : daemon_adopt(u->s, pid, err);
}

/* Check that the restored daemon is ready.  It was ready when dumped; if it is not now, the dump
 * is bad on any node, and the snapshot is marked bad. */
static int check_restored(struct daemon_dump *u,
			  const struct env_snapshot *snap, struct error *err)
{
	char host[128] = "";
	int rc;

	u->s->deadline_ns = clock_now_ns() + u->d->dump_timeout;
	u->s->limit = "--daemon-snapshot-timeout";
	rc = daemon_wait_ready(u->s, err);
	/* A first process that ended well left a background process, which cannot be found here. */
	if (rc == 0 && u->s->pidfd < 0)
		rc = error_set(err, ECHILD, "it has ended");
	if (rc == 0)
		return 0;
	/* A node without the resources to run the check proves nothing about the dump. */
	if (rc != -ECHILD && rc != -ETIMEDOUT)
		return error_wrap(err, rc, "restored");
	(void)gethostname(host, sizeof(host) - 1);
	(void)!env_catalog_mark_bad(u->at->catalog, snap, host, err->msg, NULL);
	return error_wrap(err, rc, "restored");
}

static int restore_dump(struct daemon_dump *u, const struct env_snapshot *snap,
			struct error *err)
{
	const struct env_restore_request q = {
		.store = env_catalog_store(u->at->catalog),
		.snap = snap,
		.targets = &u->target,
		.others_ns = clock_now_ns() + OTHERS_NS,
	};
	int rc = env_catalog_check_bad(u->at->catalog, snap, err);

	if (rc == 0)
		rc = env_restore(&q, NULL, err);
	if (rc == 0)
		rc = restore_process(u, err);
	if (rc == 0)
		rc = check_restored(u, snap, err);
	if (rc < 0)
		return rc;
	env_catalog_touch(u->at->catalog, snap, clock_wall_ms());
	report_dump_done(u, "restored", snap);
	return 0;
}

/* ---------------------------------------------------------------------------- dump --- */

static int dump_process(struct daemon_dump *u, struct error *err)
{
	int rc = criu_name_file(u->s->log_fd, u->output, err);

	if (rc < 0)
		return rc;
	if (mkdir(u->target.paths[0], 0700) < 0)
		return error_set(err, errno, "make '%.200s': %s",
				 u->target.paths[0], strerror(errno));
	rc = fs_replace_file(u->output_path, u->output, strlen(u->output), 0600,
			     err);
	return rc < 0 ? rc : criu_dump(&u->job, u->s->pid, err);
}

/* Store the dump such that other users cannot read its files in the store. */
static int store_dump(struct daemon_dump *u, const struct env_scan *before,
		      struct env_snapshot *ret, struct error *err)
{
	char what[DAEMON_NAME_MAX + 16];
	const struct env_capture_options opts = { .program = what,
						  .is_alone = true };
	mode_t mask = umask(077);
	int rc;

	object_store_keep_private(env_catalog_store(u->at->catalog));
	(void)snprintf(what, sizeof(what), "daemon %s", u->s->name);
	rc = env_capture(u->at->catalog, &u->key, &u->target, before, &opts,
			 ret, err);
	(void)umask(mask);
	return rc;
}

/* Check that the daemon still works after the dump: criu stopped it and ran code inside it. */
static int check_dumped(struct daemon_dump *u, struct error *err)
{
	int rc;

	u->s->deadline_ns = clock_now_ns() + u->d->dump_timeout;
	u->s->limit = "--daemon-snapshot-timeout";
	rc = daemon_wait_ready(u->s, err);
	if (rc == 0 && u->s->pidfd < 0)
		rc = error_set(err, ECHILD, "it has ended");
	return rc < 0 ? error_wrap(err, rc, "after the dump") : 0;
}

/* Dump the daemon; fails only when that broke the daemon. */
static int dump_daemon(struct daemon_dump *u, struct error *err)
{
	AUTO(env_scan) before = NULL;
	struct env_snapshot snap;
	struct error why = ERROR_INIT;
	int rc = env_scan_new(&u->target, &before, &why), now;

	u->begun_ns = clock_now_ns();
	if (rc == 0)
		rc = dump_process(u, &why);
	if (rc == -ETIMEDOUT) {
		*err = why;
		return rc;
	}
	now = check_dumped(u, err);
	if (now < 0)
		return now;
	if (rc == 0)
		rc = store_dump(u, before, &snap, &why);
	if (rc == 0) {
		report_dump_done(u, "dumped", &snap);
		env_snapshot_fini(&snap);
	} else if (rc != -EEXIST) {
		report_daemon(u, "is not dumped", why.msg);
	}
	return 0;
}

/* Dump only if this node gets the turn; other nodes' daemons just go on. */
static int dump_if_turn_is_ours(struct daemon_dump *u, struct error *err)
{
	const struct env_turn_options opts = { .ttl_ms = LEASE_MS,
					       .deadline_ns = clock_now_ns() };
	enum env_turn_kind kind = ENV_TURN_MINE;
	struct env_turn *turn = NULL;
	struct env_snapshot snap;
	struct error why = ERROR_INIT;
	int rc = env_turn_take(u->at->catalog, &u->key.digest, &opts, &kind,
			       &turn, &why);

	if (rc < 0)
		report_daemon(u, "is not dumped", why.msg);
	if (rc < 0 || kind != ENV_TURN_MINE)
		return 0;
	/* Another node may have stored the dump just before this one got the turn. */
	rc = env_catalog_get(u->at->catalog, &u->key.digest, &snap, &why);
	if (rc == 0)
		env_snapshot_fini(&snap);
	else
		rc = dump_daemon(u, err);
	env_turn_end(turn, false);
	return rc;
}

int daemon_start_dumped(struct daemon_start *s, const struct env_daemons *d,
			const struct env_daemons_at *at, struct error *err)
{
	struct daemon_dump u = { .s = s, .d = d, .at = at };
	struct env_snapshot snap;
	int rc = prepare_dump(&u, err);

	u.begun_ns = clock_now_ns();
	if (rc < 0)
		goto out;
	rc = env_catalog_get(at->catalog, &u.key.digest, &snap, err);
	if (rc == 0) {
		rc = restore_dump(&u, &snap, err);
		env_snapshot_fini(&snap);
	} else if (rc == -ENOENT) {
		/* Only checked before a dump: it takes longer than a restore, and a dump made by
		 * this kernel and criu is proof enough. */
		rc = criu_check(PROBE_MS, err);
		if (rc == 0)
			rc = daemon_spawn_alone(s, err);
		if (rc == 0)
			rc = daemon_wait_ready(s, err);
		if (rc == 0 && s->pidfd >= 0)
			rc = dump_if_turn_is_ours(&u, err);
	}
out:
	dump_fini(&u);
	return rc;
}
