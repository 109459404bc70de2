// SPDX-License-Identifier: Apache-2.0
/* How a start shows that it is ready, and which container a process belongs to. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/fs.h"
#include "snapshotter/node/starts/starts_priv.h"

#define CGROUPS_MAX 65536u

/* Open a path in a container's root; symlinks of the container must not lead out of it. */
static int open_beneath(int root, const char *path)
{
	path += strspn(path, "/");
	return fs_openat2(root, path, O_PATH | O_NOFOLLOW,
			  RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS |
				  RESOLVE_NO_XDEV);
}

bool container_start_has_ready_file(const struct container_start *s)
{
	AUTO_CLOSE int fd =
		s->ready_root >= 0
			? open_beneath(s->ready_root, s->ready_file)
			: open(s->ready_file, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	/* A symlink is not the ready file; and in an overlay's folder a device 0/0 is a
	 * whiteout, that is a removed file. */
	return !S_ISLNK(st.st_mode) &&
	       !(S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0));
}

bool container_start_has_ended(const struct container_start *s)
{
	return s->read_bundle && access(s->read_bundle, F_OK) < 0 &&
	       errno == ENOENT;
}

int process_cgroups(int pid, int pidfd, struct buf *ret, struct error *err)
{
	char path[32];
	int rc;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	rc = fs_read_file(path, CGROUPS_MAX, ret, err);
	if (rc < 0)
		return rc;
	/* The process still exists after the reading, so the PID was not reused. */
	if (pidfd >= 0 && syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) < 0)
		return error_errno(err, errno, "process %d", pid);
	return ret->len ? 0 : error_set(err, ENOENT, "no groups");
}

/* Does a cgroup's name stand for the container: "ID" or "something-ID.scope", as runc and
 * systemd name it? */
static bool names_container(const char *part, size_t len, const char *id)
{
	static const char scope[] = ".scope";
	size_t n = strlen(id);

	if (len > sizeof(scope) - 1 && memcmp(part + len - (sizeof(scope) - 1),
					      scope, sizeof(scope) - 1) == 0) {
		len -= sizeof(scope) - 1;
		if (len > n && part[len - n - 1] == '-') {
			part += len - n;
			len = n;
		}
	}
	return len == n && memcmp(part, id, n) == 0;
}

/* Is it a user's cgroup ("user@1000.service")?  Below it systemd lets that user choose names,
 * so they prove nothing. */
static bool is_given_away(const char *part, size_t len)
{
	static const char start[] = "user@";

	return len >= sizeof(start) - 1 &&
	       memcmp(part, start, sizeof(start) - 1) == 0;
}

bool container_start_has_process(const struct container_start *s,
				 const char *cgroups)
{
	const char *p = cgroups;
	bool is_users = false;
	size_t len;

	if (!s->container || !*s->container)
		return false;
	for (; *p; p += len) {
		/* Each line of /proc/PID/cgroup begins another hierarchy. */
		if (*p == '\n')
			is_users = false;
		p += strspn(p, "/\n");
		len = strcspn(p, "/\n");
		if (is_given_away(p, len))
			is_users = true;
		if (len && !is_users && names_container(p, len, s->container))
			return true;
	}
	return false;
}
