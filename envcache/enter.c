// SPDX-License-Identifier: Apache-2.0
/*
 * Mount overlays in the mount namespace of a process that asked for them over a socket (the
 * asker).  The overlay is created in our own namespace, from descriptors.  The asker's namespace
 * is only entered to clone the target's mount and to attach the overlay; the only paths looked up
 * there are the targets, with the asker's own rights.
 */
#include "envcache/enter.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/fs.h"
#include "envcache/join.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define MOUNTS_MAX 64
#define GROUPS_MAX 65536

#define CAP_BIT(c) (1ull << (c))
/* Capabilities that bypass file permissions. */
#define CAPS_PAST \
	(CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_DAC_READ_SEARCH) | \
	 CAP_BIT(CAP_FOWNER))
/* Capabilities that the overlay needs: it works with the rights of the process that mounts it. */
#define CAPS_KEPT \
	(CAPS_PAST | CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_FSETID) | \
	 CAP_BIT(CAP_MKNOD) | CAP_BIT(CAP_SETFCAP) | CAP_BIT(CAP_SETGID) | \
	 CAP_BIT(CAP_SETUID) | CAP_BIT(CAP_SYS_ADMIN) | \
	 CAP_BIT(CAP_SYS_CHROOT) | CAP_BIT(CAP_SYS_PTRACE) | \
	 CAP_BIT(CAP_SYS_RESOURCE))

struct env_asker {
	int pidfd, proc, root;
	int theirs; /* the asker's mount namespace; stays valid after the
	             * asker's death */
	int ours;   /* our mount namespace */
	struct ucred cred;
	gid_t *groups;
	size_t n_groups;
	int mounts[MOUNTS_MAX]; /* overlays that were attached to targets */
	size_t n_mounts;
};

/* ------------------------------------------------------------------------- rights --- */

static int limit_effective_caps(uint64_t permitted, uint64_t effective)
{
	struct __user_cap_header_struct h = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct d[2];

	if (syscall(SYS_capget, &h, d) < 0)
		return -errno;
	for (size_t i = 0; i < 2; i++) {
		d[i].permitted &= (uint32_t)(permitted >> (32 * i));
		d[i].effective =
			d[i].permitted & (uint32_t)(effective >> (32 * i));
		d[i].inheritable = 0;
	}
	return syscall(SYS_capset, &h, d) < 0 ? -errno : 0;
}

/* Take the asker's user and groups and drop root's rights, for looking up paths. */
static int become_asker(const struct env_asker *a)
{
	if (setgroups(a->n_groups, a->groups) < 0)
		return -errno;
	(void)setfsgid(a->cred.gid);
	(void)setfsuid(a->cred.uid);
	if ((uid_t)setfsuid((uid_t)-1) != a->cred.uid ||
	    (gid_t)setfsgid((gid_t)-1) != a->cred.gid)
		return -EPERM;
	return limit_effective_caps(~0ull, ~CAPS_PAST);
}

static int become_root_again(void)
{
	(void)setfsuid(0);
	(void)setfsgid(0);
	if (setfsuid((uid_t)-1) != 0 || setgroups(0, NULL) < 0)
		return -EPERM;
	return limit_effective_caps(~0ull, ~0ull);
}

/* -------------------------------------------------------------------------- asker --- */

static bool is_alive(const struct env_asker *a)
{
	return syscall(SYS_pidfd_send_signal, a->pidfd, 0, NULL, 0) == 0;
}

static int read_peer(int socket, struct env_asker *a, struct error *err)
{
	socklen_t len = sizeof(a->pidfd);
	int rc;

	if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &a->pidfd, &len) < 0) {
		a->pidfd = -1;
		return error_set(err, ENOTSUP,
				 "the kernel does not tell who asks (Linux 6.5 "
				 "does): %s",
				 strerror(errno));
	}
	len = sizeof(a->cred);
	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &a->cred, &len) < 0)
		return error_errno(err, errno, "who asks");
	len = 0;
	rc = getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, NULL, &len);
	if (rc < 0 && errno != ERANGE)
		return error_errno(err, errno, "groups of who asks");
	if (len > GROUPS_MAX * sizeof(gid_t))
		return error_set(err, E2BIG, "groups of who asks: too many");
	a->groups = calloc(len / sizeof(gid_t) + 1, sizeof(gid_t));
	if (!a->groups)
		return error_nomem(err);
	if (len > 0 &&
	    getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, a->groups, &len) < 0)
		return error_errno(err, errno, "groups of who asks");
	a->n_groups = len / sizeof(gid_t);
	return 0;
}

static int is_same_ns(const struct env_asker *a, const char *name, bool *ret)
{
	AUTO_FREE char *ours = fs_join("/proc/self", name);
	struct stat st, own;

	if (!ours)
		return -ENOMEM;
	if (fstatat(a->proc, name, &st, 0) < 0 || stat(ours, &own) < 0)
		return -errno;
	*ret = st.st_ino == own.st_ino && st.st_dev == own.st_dev;
	return 0;
}

static int check_namespaces(const struct env_asker *a, struct error *err)
{
	bool is_user = false, is_mount = true;
	int rc = is_same_ns(a, "ns/user", &is_user);

	if (rc == 0)
		rc = is_same_ns(a, "ns/mnt", &is_mount);
	if (rc < 0)
		return error_errno(err, -rc, "namespaces of who asks");
	if (!is_user)
		return error_set(err, ENOTSUP,
				 "nothing is mounted for another user "
				 "namespace");
	if (is_mount)
		return error_set(err, EPERM,
				 "this socket is for containers, and who asks "
				 "is in none: ask bootseerd (--socket)");
	return 0;
}

/* Open the asker's /proc folder by its process number, and check at the end that it still lives:
 * then the number was its own. */
static int open_process(struct env_asker *a, struct error *err)
{
	char path[64];
	int rc;

	(void)snprintf(path, sizeof(path), "/proc/%d", a->cred.pid);
	a->proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (a->proc >= 0)
		a->root = openat(a->proc, "root",
				 O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (a->root >= 0)
		a->theirs = openat(a->proc, "ns/mnt", O_RDONLY | O_CLOEXEC);
	a->ours = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (a->root < 0 || a->theirs < 0 || a->ours < 0)
		return error_errno(err, errno, "process %d that asks",
				   a->cred.pid);
	rc = check_namespaces(a, err);
	if (rc == 0 && !is_alive(a))
		rc = error_set(err, ESRCH, "who asked is gone");
	return rc;
}

int env_asker_open(int socket, struct env_asker **ret, struct error *err)
{
	struct env_asker *a = calloc(1, sizeof(*a));
	int rc;

	if (!a)
		return error_nomem(err);
	a->pidfd = a->proc = a->root = a->theirs = a->ours = -1;
	rc = read_peer(socket, a, err);
	if (rc == 0)
		rc = open_process(a, err);
	if (rc < 0)
		env_asker_free(a);
	else
		*ret = a;
	return rc;
}

int env_asker_isolate(struct env_asker *a, struct error *err)
{
	int rc;

	if (unshare(CLONE_NEWNS) < 0 ||
	    mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return error_errno(err, errno, "a mount namespace");
	(void)close(a->ours);
	a->ours = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	rc = a->ours < 0 ? -errno : limit_effective_caps(CAPS_KEPT, CAPS_KEPT);
	return rc < 0 ? error_errno(err, -rc, "fewer rights") : 0;
}

void env_asker_free(struct env_asker *a)
{
	if (!a)
		return;
	while (a->n_mounts > 0)
		(void)close(a->mounts[--a->n_mounts]);
	fd_close(a->root);
	fd_close(a->proc);
	fd_close(a->theirs);
	fd_close(a->ours);
	fd_close(a->pidfd);
	free(a->groups);
	free(a);
}

/* ------------------------------------------------------------------------- target --- */

int asker_mounts(const struct env_asker *a, FILE **ret, struct error *err)
{
	AUTO_CLOSE int fd = openat(a->proc, "mountinfo", O_RDONLY | O_CLOEXEC);

	*ret = fd < 0 ? NULL : fdopen(fd, "r");
	if (!*ret)
		return error_errno(err, errno, "mounts of who asks");
	(void)steal_fd(&fd);
	return 0;
}

/* The mount id of a descriptor's mount; -1: unknown. */
static int mount_id(int fd)
{
	AUTO_BUF text = BUF_INIT;
	const char *at;
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	if (fs_read_file(path, 4096, &text, NULL) < 0 || !text.data)
		return -1;
	at = strstr(text.data, "mnt_id:");
	return at ? atoi(at + strlen("mnt_id:")) : -1;
}

/* Refuse a shared mount, as mounts on it appear in other namespaces, too. */
static int check_not_shared(const struct env_asker *a, int target,
			    const char *path, struct error *err)
{
	int id = mount_id(target);
	bool is_found = false, is_shared = false;
	AUTO_FREE char *line = NULL;
	size_t room = 0;
	FILE *f;
	int rc = asker_mounts(a, &f, err);

	if (rc < 0)
		return rc;
	while (!is_found && getline(&line, &room, f) > 0) {
		char *end = strstr(line, " - ");

		if (!end || atoi(line) != id)
			continue;
		*end = '\0';
		is_found = true;
		is_shared = strstr(line, " shared:") != NULL;
	}
	(void)fclose(f);
	if (is_found && !is_shared)
		return 0;
	return error_set(err, ENOTSUP,
			 "'%.200s' is on a mount that other namespaces share",
			 path);
}

/* Refuse file systems whose files the kernel or container runtimes trust. */
static int check_kind(int target, const char *path, struct error *err)
{
	struct statfs fs;

	if (fstatfs(target, &fs) < 0)
		return error_errno(err, errno, "'%.200s'", path);
	switch ((unsigned long)fs.f_type) {
	case PROC_SUPER_MAGIC:
	case SYSFS_MAGIC:
	case CGROUP_SUPER_MAGIC:
	case CGROUP2_SUPER_MAGIC:
	case DEBUGFS_MAGIC:
	case TRACEFS_MAGIC:
	case SECURITYFS_MAGIC:
	case BPF_FS_MAGIC:
	case DEVPTS_SUPER_MAGIC:
		return error_set(err, EACCES,
				 "'%.200s' is the kernel's own: nothing is "
				 "mounted there",
				 path);
	default:
		return 0;
	}
}

/* In a sticky folder such as /tmp, a user must not hide other users' files. */
static int check_sticky(const struct env_asker *a, int folder)
{
	struct stat st;

	if (fstat(folder, &st) < 0)
		return -errno;
	return (st.st_mode & S_ISVTX) && st.st_uid != a->cred.uid ? -EACCES : 0;
}

static int open_with_rights(const struct env_asker *a, const char *path,
			    int *ret)
{
	int fd = fs_openat2(a->root, path, O_PATH | O_DIRECTORY,
			    RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS |
				    RESOLVE_NO_MAGICLINKS);
	int rc;

	if (fd < 0)
		return -errno;
	if (syscall(SYS_faccessat2, fd, "", W_OK | X_OK,
		    AT_EACCESS | AT_EMPTY_PATH) < 0)
		rc = -errno;
	else
		rc = check_sticky(a, fd);
	if (rc < 0)
		(void)close(fd);
	else
		*ret = fd;
	return rc;
}

int asker_open_target(const struct env_asker *a, const char *path, int *ret,
		      struct error *err)
{
	AUTO_CLOSE int fd = -1;
	int rc = become_asker(a);

	if (rc == 0)
		rc = open_with_rights(a, path, &fd);
	/* Never go on with another user's rights. */
	if (become_root_again() < 0)
		abort();
	if (rc == -ENOENT)
		return error_set(err, ENOTSUP,
				 "'%.200s' is not there: make it before", path);
	if (rc < 0)
		return error_errno(
			err, -rc,
			"'%.200s' is no folder that user %u may write "
			"to",
			path, a->cred.uid);
	rc = check_kind(fd, path, err);
	if (rc == 0)
		rc = check_not_shared(a, fd, path, err);
	if (rc == 0)
		*ret = steal_fd(&fd);
	return rc;
}

/* ------------------------------------------------------------------------ overlay --- */

static int enter_namespace(const struct env_asker *a, struct error *err)
{
	/* Not by the pidfd: that would fail after the asker's death, and overlays must still be
	 * undone. */
	if (setns(a->theirs, CLONE_NEWNS) < 0)
		return error_errno(err, errno,
				   "enter the mount namespace of who asks");
	return 0;
}

static void leave_namespace(const struct env_asker *a)
{
	/* Never go on in another namespace, where paths mean other files. */
	if (setns(a->ours, CLONE_NEWNS) < 0)
		abort();
}

/* Attach a clone of the target's mount to a folder of ours: overlayfs wants all lower layers in
 * one namespace. */
static int attach_base(const struct env_asker *a, const struct asker_overlay *o,
		       int *ret, struct error *err)
{
	AUTO_CLOSE int clone = -1;
	int rc = enter_namespace(a, err);

	if (rc < 0)
		return rc;
	clone = open_tree(o->target, "",
			  OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	rc = clone < 0 ? -errno : 0;
	leave_namespace(a);
	if (rc == 0 && move_mount(clone, "", AT_FDCWD, o->base,
				  MOVE_MOUNT_F_EMPTY_PATH) < 0)
		rc = -errno;
	if (rc == 0) {
		*ret = open(o->base, O_PATH | O_DIRECTORY | O_CLOEXEC);
		rc = *ret < 0 ? -errno : 0;
	}
	return rc < 0 ? error_errno(err, -rc, "the target's mount") : 0;
}

static int make_overlay(const struct asker_overlay *o, int base, int *ret)
{
	unsigned int attr = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
			    (o->is_noexec ? MOUNT_ATTR_NOEXEC : 0);
	AUTO_CLOSE int fs = fsopen("overlay", FSOPEN_CLOEXEC);
	char lower[64];
	const struct {
		const char *key, *value;
	} options[] = {
		{ "source", o->source }, { "index", "off" },
		{ "metacopy", "off" },   { "redirect_dir", "nofollow" },
		{ "lowerdir", lower },   { "upperdir", o->upper },
		{ "workdir", o->work },
	};

	if (fs < 0)
		return -errno;
	(void)snprintf(lower, sizeof(lower),
		       "/proc/self/fd/%d:/proc/self/fd/%d", o->snapshot, base);
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
		if (fsconfig(fs, FSCONFIG_SET_STRING, options[i].key,
			     options[i].value, 0) < 0)
			return -errno;
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	*ret = fsmount(fs, FSMOUNT_CLOEXEC, attr);
	return *ret < 0 ? -errno : 0;
}

int asker_mount(struct env_asker *a, const struct asker_overlay *o,
		struct error *err)
{
	AUTO_CLOSE int base = -1;
	AUTO_CLOSE int overlay = -1;
	int rc;

	if (a->n_mounts == MOUNTS_MAX)
		return error_set(err, E2BIG, "more than %d targets",
				 MOUNTS_MAX);
	rc = attach_base(a, o, &base, err);
	if (rc < 0)
		return rc;
	rc = make_overlay(o, base, &overlay);
	if (rc < 0)
		return error_set(err, -rc, "an overlay: %s%s", strerror(-rc),
				 rc == -EINVAL ? ": too many file systems are "
						 "stacked there"
					       : "");
	rc = enter_namespace(a, err);
	if (rc < 0)
		return rc;
	rc = move_mount(overlay, "", o->target, "",
			MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0
		     ? -errno
		     : 0;
	leave_namespace(a);
	if (rc < 0)
		return error_errno(err, -rc, "mount the overlay there");
	a->mounts[a->n_mounts++] = steal_fd(&overlay);
	return 0;
}

/* Unmount by descriptor: the path may have another process's mount by now. */
void env_asker_undo(struct env_asker *a)
{
	if (a->n_mounts == 0 || enter_namespace(a, NULL) < 0)
		return;
	while (a->n_mounts > 0) {
		int fd = a->mounts[--a->n_mounts];

		if (fchdir(fd) == 0)
			(void)umount2(".", MNT_DETACH | UMOUNT_NOFOLLOW);
		(void)close(fd);
	}
	leave_namespace(a);
}
