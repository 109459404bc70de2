// SPDX-License-Identifier: Apache-2.0
/*
 * A daemon has a log and a lock in a folder that only its user may enter.  The daemon inherits the
 * lock, so the lock is released when the daemon and all its descendants have ended, whichever
 * process has adopted them.
 */
#include "cli/env_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/env_daemon_dump.h"
#include "cli/env_daemon_start.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/text.h"

/* ------------------------------------------------------------------------- options --- */

static size_t daemon_name_length(const char *text)
{
	return strspn(text,
		      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
		      "0123456789._-");
}

static const char *find_named(char *const *list, const char *name, size_t len)
{
	for (; list && *list; list++)
		if (strncmp(*list, name, len) == 0 && (*list)[len] == '=')
			return *list + len + 1;
	return NULL;
}

static int check_name_and_command(const char *text, const char *option,
				  struct error *err)
{
	size_t len = daemon_name_length(text);

	if (len > 0 && len <= DAEMON_NAME_MAX && *text != '.' &&
	    text[len] == '=' && text[len + 1])
		return 0;
	return error_set(err, EINVAL,
			 "--%s '%.80s': want NAME=COMMAND, the name of up to "
			 "%d letters, digits, '.', '_' and '-'",
			 option, text, DAEMON_NAME_MAX);
}

int env_daemons_check(const struct env_daemons *d, struct error *err)
{
	int rc = 0;

	for (char **c = d->commands; rc == 0 && c && *c; c++) {
		rc = check_name_and_command(*c, "daemon", err);
		if (rc == 0 && find_named(c + 1, *c, daemon_name_length(*c)))
			rc = error_set(
				err, EINVAL,
				"--daemon '%.80s': there are two of this "
				"name",
				*c);
	}
	for (char **r = d->ready; rc == 0 && r && *r; r++) {
		rc = check_name_and_command(*r, "daemon-ready", err);
		if (rc == 0 &&
		    !find_named(d->commands, *r, daemon_name_length(*r)))
			rc = error_set(
				err, EINVAL,
				"--daemon-ready '%.80s': no --daemon has "
				"this name",
				*r);
	}
	for (char **n = d->dumped; rc == 0 && n && *n; n++)
		if (!find_named(d->commands, *n, strlen(*n)) ||
		    !find_named(d->ready, *n, strlen(*n)))
			rc = error_set(
				err, EINVAL,
				"--daemon-snapshot '%.80s': it takes a "
				"--daemon and a --daemon-ready of this name",
				*n);
	return rc;
}

/* ------------------------------------------------------------------------- folder --- */

static char *default_daemon_dir(void)
{
	const char *run = getenv("XDG_RUNTIME_DIR");
	char *path;

	if (geteuid() == 0)
		return strdup("/run/bootseer-daemons");
	if (run && *run == '/')
		return fs_join(run, "bootseer-daemons");
	return asprintf(&path, "/tmp/bootseer-daemons-%u", geteuid()) < 0
		       ? NULL
		       : path;
}

/* Open the folder, created if missing; an existing one must be ours and not writable by others. */
static int open_dir(const char *path, int *ret, struct error *err)
{
	struct stat st;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return error_set(err, errno,
				 "make '%.200s': %s: name another folder with "
				 "--daemon-dir",
				 path, strerror(errno));
	*ret = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*ret < 0 || fstat(*ret, &st) < 0)
		return error_errno(err, errno, "open '%.200s'", path);
	if (st.st_uid != geteuid() || (st.st_mode & 022))
		return error_set(err, EPERM,
				 "'%.200s' is not a folder that only user %u "
				 "may write to: name another with --daemon-dir",
				 path, geteuid());
	return 0;
}

static int open_file(int dir, const char *name, const char *end, int flags)
{
	char file[DAEMON_NAME_MAX + 8];

	(void)snprintf(file, sizeof(file), "%s.%s", name, end);
	return openat(dir, file,
		      flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
		      0600);
}

static int open_files(struct daemon_start *s, const char *dir,
		      struct error *err)
{
	AUTO_CLOSE int at = -1;
	int rc = open_dir(dir, &at, err);

	s->dir = dir;
	if (rc < 0)
		return rc;
	if (asprintf(&s->log, "%s/%s.log", dir, s->name) < 0) {
		s->log = NULL;
		return error_nomem(err);
	}
	s->lock_fd = open_file(at, s->name, "lock", O_RDWR);
	s->log_fd = open_file(at, s->name, "log", O_WRONLY | O_APPEND);
	if (s->lock_fd < 0 || s->log_fd < 0)
		return error_errno(err, errno, "open '%.200s' and its lock",
				   s->log);
	return 0;
}

/* -------------------------------------------------------------------------- start --- */

static bool is_dumped(const struct env_daemons *d, const char *name)
{
	for (char **n = d->dumped; n && *n; n++)
		if (strcmp(*n, name) == 0)
			return true;
	return false;
}

/* Start the daemon without dump or restore. */
static int start_without_dump(struct daemon_start *s,
			      const struct env_daemons *d, struct error *err)
{
	int rc;

	s->in_namespace = false;
	s->deadline_ns = clock_now_ns() + d->timeout;
	s->limit = "--daemon-timeout";
	rc = daemon_spawn(s, err);
	return rc < 0 ? rc : daemon_wait_ready(s, err);
}

static int start_or_restore_daemon(struct daemon_start *s,
				   const struct env_daemons *d,
				   const struct env_daemons_at *at,
				   const char *dir, struct error *err)
{
	struct error why = ERROR_INIT;
	int rc = open_files(s, dir, err);

	if (rc < 0)
		return rc;
	if (flock(s->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return error_errno(err, errno, "lock it");
		s->pid = -1; /* another run started it, and it still runs */
		return daemon_wait_ready(s, err);
	}
	if (is_dumped(d, s->name)) {
		if (daemon_start_dumped(s, d, at, &why) == 0)
			return 0;
		daemon_kill(s);
		text_make_printable(why.msg);
		fprintf(stderr,
			"bootseer env run: daemon '%s': %s: it is started the "
			"ordinary way\n",
			s->name, why.msg);
	}
	return start_without_dump(s, d, err);
}

static void release_daemon_start(struct daemon_start *s, bool is_wanted)
{
	if (!is_wanted)
		daemon_kill(s);
	fd_close(s->pidfd);
	fd_close(s->lock_fd);
	fd_close(s->log_fd);
	free(s->log);
}

int env_daemons_start(const struct env_daemons *d,
		      const struct env_daemons_at *at, struct error *err)
{
	AUTO_FREE char *usual = d->dir ? NULL : default_daemon_dir();
	const char *dir = d->dir ? d->dir : usual;
	int rc = 0;

	if (!dir)
		return error_nomem(err);
	for (char **c = d->commands; rc == 0 && c && *c; c++) {
		size_t len = daemon_name_length(*c);
		struct daemon_start s = {
			.command = *c + len + 1,
			.ready = find_named(d->ready, *c, len),
			.log_fd = -1,
			.lock_fd = -1,
			.pidfd = -1,
			.deadline_ns = clock_now_ns() + d->timeout,
			.limit = "--daemon-timeout",
		};

		(void)snprintf(s.name, sizeof(s.name), "%.*s", (int)len, *c);
		rc = start_or_restore_daemon(&s, d, at, dir, err);
		if (rc < 0)
			rc = error_wrap(err, rc, "daemon '%s' (%s)", s.name,
					s.log ? s.log : dir);
		release_daemon_start(&s, rc == 0);
	}
	return rc;
}
