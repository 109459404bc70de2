// SPDX-License-Identifier: Apache-2.0
/*
 * Locks that belong to a process (fcntl), not to a descriptor: processes that the command leaves
 * behind do not hold them, and the kernel can name the holder.
 */
#include "envcache/lock.h"

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

#include "common/array.h"
#include "common/buf.h"
#include "common/bytes.h"
#include "common/clock.h"
#include "common/fs.h"

#define LOOK_NS (50 * NS_PER_MS)
#define STAT_MAX 4096
#define ANCESTORS_MAX 1000

/* The path of the lock file: in a folder that other users cannot enter; else in /tmp, where
 * another user could prevent us from locking. */
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

/* The parent of a process; 0: unknown. */
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
	/* Skip the process's name, which may contain any character. */
	end = strrchr(text.data, ')');
	return end && sscanf(end, ") %*c %d", &parent) == 1 ? parent : 0;
}

/* Is `pid` an ancestor of this process? */
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

/* Format lock and holder for the environment variable; false: not possible. */
static bool format_holder(int fd, pid_t holder, char ret[80])
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return false;
	(void)snprintf(ret, 80, "%ju:%ju:%d", (uintmax_t)st.st_dev,
		       (uintmax_t)st.st_ino, (int)holder);
	return true;
}

void env_lock_pass(int lock, pid_t holder)
{
	char text[80];

	if (lock >= 0 && format_holder(lock, holder, text))
		(void)setenv(ENV_LOCK_VARIABLE, text, 1);
}

/* Was our environment set by `holder`?  Then we run for it, even if another process, such as a
 * service manager, started us. */
static bool is_environment_from(int fd, pid_t holder)
{
	const char *passed = getenv(ENV_LOCK_VARIABLE);
	char text[80];

	return passed && format_holder(fd, holder, text) &&
	       strcmp(passed, text) == 0;
}

/* ------------------------------------------------------------------------- locks --- */

/* Locks of folders: for each a byte of the file is locked. */
struct lock_list {
	struct flock *locks;
	size_t n, cap;
};

/* Find the mount that contains `path` (which may not exist): its root is the first *ret_len
 * bytes. */
static int find_mount(const char *path, size_t *ret_len, struct statx *ret)
{
	AUTO_FREE char *at = strdup(path);
	size_t len = strlen(path);

	if (!at)
		return -ENOMEM;
	for (;;) {
		at[len] = '\0';
		if (statx(AT_FDCWD, len ? at : "/",
			  AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_INO,
			  ret) == 0 &&
		    (len == 0 || ret->stx_attributes & STATX_ATTR_MOUNT_ROOT))
			break;
		if (len == 0)
			return -errno;
		while (len && at[len - 1] != '/')
			len--;
		len -= len > 0;
	}
	*ret_len = len;
	return 0;
}

/* Add a lock, identified by the mount and the path inside it: a folder that does not exist yet has
 * no better identity, and the same path may mean another folder in another mount namespace. */
static int add_lock(struct lock_list *l, const struct statx *mount,
		    const char *below, size_t len, short type)
{
	AUTO_BUF name = BUF_INIT;
	struct digest d;
	uint64_t at;

	if (buf_printf(&name, "%u:%u:%ju:%.*s", mount->stx_dev_major,
		       mount->stx_dev_minor, (uintmax_t)mount->stx_ino,
		       (int)len, below) < 0 ||
	    digest_of(name.data, name.len, &d) < 0 ||
	    array_grow(&l->locks, l->n, &l->cap, 64) < 0)
		return -ENOMEM;
	at = get_le64(d.b) >> 2; /* must fit into an off_t */
	l->locks[l->n++] = (struct flock){ .l_type = type,
					   .l_whence = SEEK_SET,
					   .l_start = (off_t)at,
					   .l_len = 1 };
	return 0;
}

/* List the locks: exclusive for each target, shared for the folders above. */
static int list_target_locks(const struct env_targets *t, struct lock_list *ret)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < t->n; i++) {
		const char *path = t->paths[i], *below;
		struct statx mount;
		size_t len = 0;

		rc = find_mount(path, &len, &mount);
		if (rc < 0)
			break;
		below = path + len;
		for (size_t k = 0; rc == 0 && below[k]; k++)
			if (below[k] == '/')
				rc = add_lock(ret, &mount, below, k, F_RDLCK);
		if (rc == 0)
			rc = add_lock(ret, &mount, below, strlen(below),
				      F_WRLCK);
	}
	return rc;
}

static void unlock_all(int fd)
{
	struct flock all = { .l_type = F_UNLCK, .l_whence = SEEK_SET };

	(void)fcntl(fd, F_SETLK, &all);
}

/* Take all locks or none. 1: another process has the one at `*ret_other`; -errno. */
static int lock_all(int fd, const struct lock_list *l, size_t *ret_other)
{
	for (size_t i = 0; i < l->n; i++) {
		int code;

		if (fcntl(fd, F_SETLK, &l->locks[i]) == 0)
			continue;
		code = errno;
		unlock_all(fd);
		*ret_other = i;
		return code == EAGAIN || code == EACCES ? 1 : -code;
	}
	return 0;
}

static bool is_ours_to_wait_for(int fd, const struct flock *lock)
{
	struct flock l = *lock;

	if (fcntl(fd, F_GETLK, &l) < 0)
		return false;
	if (l.l_type == F_UNLCK)
		return true;
	/* 0: the holder is in another PID namespace, possibly one that contains ours. */
	return l.l_pid > 0 && !is_environment_from(fd, l.l_pid) &&
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

bool env_lock_try(const struct env_targets *t, int *ret)
{
	AUTO_CLOSE int fd = open_lock();
	struct lock_list l = { .n = 0 };
	size_t other;
	int rc = fd < 0 ? -ENOENT : list_target_locks(t, &l);

	*ret = -1;
	if (rc == 0)
		rc = lock_all(fd, &l, &other);
	free(l.locks);
	if (rc == 0)
		*ret = steal_fd(&fd);
	return rc <= 0;
}

/* 0: all are locked; 1: some are not, and waiting is pointless; -EBUSY. */
static int wait_for_locks(int fd, const struct lock_list *l,
			  int64_t deadline_ns, void (*waits)(void *arg),
			  void *arg, bool *ret_waited)
{
	size_t other;
	int rc;

	while ((rc = lock_all(fd, l, &other)) > 0) {
		if (!is_ours_to_wait_for(fd, &l->locks[other]))
			return 1;
		if (!*ret_waited)
			waits(arg);
		*ret_waited = true;
		if (!wait_a_little(deadline_ns))
			return -EBUSY;
	}
	return rc < 0;
}

int env_lock_take(const struct env_targets *t, int64_t deadline_ns,
		  void (*waits)(void *arg), void *arg, int *ret,
		  struct error *err)
{
	AUTO_CLOSE int fd = open_lock();
	struct lock_list l = { .n = 0 };
	bool has_waited = false;
	int rc = fd < 0 || list_target_locks(t, &l) < 0
			 ? 1
			 : wait_for_locks(fd, &l, deadline_ns, waits, arg,
					  &has_waited);

	free(l.locks);
	*ret = -1;
	if (rc == -EBUSY)
		return error_set(err, EBUSY,
				 "another 'env run' works on these targets for "
				 "longer than --wait");
	if (rc > 0)
		return 0;
	*ret = steal_fd(&fd);
	return has_waited;
}
