// SPDX-License-Identifier: Apache-2.0
/*
 * A lock of a process, and not of a descriptor: what the command leaves behind does not have
 * it, and the kernel says which process does.
 */
#include "cli/env_system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/fs.h"

#define LOOK_NS (50 * NS_PER_MS)
#define STAT_MAX 4096
#define ANCESTORS_MAX 1000

/* Where no other user can have it, but in /tmp, where one can keep us from having any. */
static char *lock_path(void)
{
	const char *run = getenv("XDG_RUNTIME_DIR");
	char *path;

	if (geteuid() == 0)
		return strdup("/run/bootseer-env.lock");
	if (run && *run == '/')
		return fs_join(run, "bootseer-env.lock");
	return asprintf(&path, "/tmp/bootseer-env-%u.lock", geteuid()) < 0
		       ? NULL
		       : path;
}

static int open_lock(void)
{
	AUTO_FREE char *path = lock_path();
	AUTO_CLOSE int fd = path ? open(path,
					O_RDWR | O_CREAT | O_NOFOLLOW |
						O_NONBLOCK | O_CLOEXEC,
					0600)
				 : -1;
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
			       st.st_uid == geteuid()
		       ? steal_fd(&fd)
		       : -1;
}

/* 0: nobody knows. */
static pid_t parent_of(pid_t pid)
{
	AUTO_BUF text = BUF_INIT;
	const char *end;
	char path[64];
	int parent;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (fs_read_file(path, STAT_MAX, &text, NULL) < 0 ||
	    buf_append(&text, "", 1) < 0)
		return 0;
	/* Its name may hold anything. */
	end = strrchr(text.data, ')');
	return end && sscanf(end, ") %*c %d", &parent) == 1 ? parent : 0;
}

/* Are we part of what `pid` runs? */
static bool is_ancestor(pid_t pid)
{
	pid_t at = getppid();

	for (int i = 0; pid > 0 && at > 0 && i < ANCESTORS_MAX; i++) {
		if (at == pid)
			return true;
		at = parent_of(at);
	}
	return false;
}

/* The lock and who has it, as the environment says it; false: it cannot be said. */
static bool format_holder(int fd, pid_t holder, char ret[80])
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return false;
	(void)snprintf(ret, 80, "%ju:%ju:%d", (uintmax_t)st.st_dev,
		       (uintmax_t)st.st_ino, (int)holder);
	return true;
}

void env_system_pass(int system, pid_t holder)
{
	char text[80];

	if (system >= 0 && format_holder(system, holder, text))
		(void)setenv(ENV_SYSTEM_VARIABLE, text, 1);
}

/* Does our environment come from `holder`?  So it may be where another one started us for
 * what that runs, such as a service manager. */
static bool is_passed_by(int fd, pid_t holder)
{
	const char *passed = getenv(ENV_SYSTEM_VARIABLE);
	char text[80];

	return passed && format_holder(fd, holder, text) &&
	       strcmp(passed, text) == 0;
}

static struct flock whole(void)
{
	return (struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_SET };
}

static bool is_ours_to_wait_for(int fd)
{
	struct flock l = whole();

	if (fcntl(fd, F_GETLK, &l) < 0)
		return false;
	if (l.l_type == F_UNLCK)
		return true;
	/* 0: of another pid namespace, which may be one that ours is in. */
	return l.l_pid > 0 && !is_passed_by(fd, l.l_pid) &&
	       !is_ancestor(l.l_pid);
}

static bool wait_a_little(int64_t deadline_ns)
{
	const struct timespec t = { .tv_nsec = LOOK_NS };

	if (clock_now_ns() >= deadline_ns)
		return false;
	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	return true;
}

bool env_system_try(int *ret)
{
	AUTO_CLOSE int fd = open_lock();
	struct flock l = whole();

	*ret = -1;
	if (fd >= 0 && fcntl(fd, F_SETLK, &l) < 0)
		return errno != EAGAIN && errno != EACCES;
	*ret = steal_fd(&fd);
	return true;
}

int env_system_take(int64_t deadline_ns, void (*waits)(void *arg), void *arg,
		    int *ret, struct error *err)
{
	AUTO_CLOSE int fd = open_lock();
	bool has_waited = false;
	struct flock l = whole();

	*ret = -1;
	while (fd >= 0 && fcntl(fd, F_SETLK, &l) < 0) {
		if ((errno != EAGAIN && errno != EACCES) ||
		    !is_ours_to_wait_for(fd))
			return 0;
		if (!has_waited)
			waits(arg);
		has_waited = true;
		if (!wait_a_little(deadline_ns))
			return error_set(err, EBUSY,
					 "another 'env run' without --target "
					 "works on this system for longer than "
					 "--wait");
	}
	*ret = steal_fd(&fd);
	return has_waited;
}
