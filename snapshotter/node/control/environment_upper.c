// SPDX-License-Identifier: Apache-2.0
/*
 * File systems for what is written into mounted environments.  A project quota would not do: an
 * overlay writes with the rights of the process that mounted it, and ext4 ignores quotas for a
 * process with CAP_SYS_RESOURCE.  tmpfs would not do either: it takes memory.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/loops.h"
#include "common/mount.h"
#include "common/process.h"
#include "snapshotter/node/control/disk.h"
#include "snapshotter/node/control/environment_priv.h"

#define MKFS "mkfs.ext4"
#define MKFS_TIMEOUT_MS 60000
#define PROBE_BYTES (16 * MIB)

bool environment_is_name(const char *s)
{
	return strlen(s) == NAME_HEX &&
	       strspn(s, "0123456789abcdef") == NAME_HEX;
}

char *environment_work(const struct environments *envs, const char *name)
{
	char *path;

	return asprintf(&path, "%s/environments%s%s", envs->cfg->root,
			*name ? "/" : "", name) < 0
		       ? NULL
		       : path;
}

char *environment_upper_path(const struct environments *envs, const char *name)
{
	char *path;

	return asprintf(&path, "%s/environments%s%s", envs->cfg->run,
			*name ? "/" : "", name) < 0
		       ? NULL
		       : path;
}

int environment_uppers_open(const struct environments *envs, struct error *err)
{
	AUTO_FREE char *all = environment_upper_path(envs, "");

	return all ? fs_mkdir_private(all, NULL, err) : error_nomem(err);
}

/* Make a file whose space is allocated, so that other writers cannot take what this environment
 * was promised. */
static int allocate_file(const char *path, uint64_t bytes, struct error *err)
{
	AUTO_CLOSE int fd =
		open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		     0600);
	int rc;

	if (fd < 0)
		return error_errno(err, errno, "create '%s'", path);
	do
		rc = fallocate(fd, 0, 0, (off_t)bytes);
	while (rc < 0 && errno == EINTR);
	return rc == 0 ? 0
		       : error_errno(err, errno,
				     "allocate %" PRIu64 " bytes of '%s'",
				     bytes, path);
}

/* Make an ext4 file system.  It is removed with the environment, so it has no journal.  Only
 * features are set that every kernel has which can mount our images, whatever mke2fs.conf says. */
static int make_ext4(const char *path, struct error *err)
{
	const char *const argv[] = {
		MKFS,
		"-q",
		"-F",
		"-b",
		"4096",
		"-I",
		"256",
		"-m",
		"0",
		"-O",
		"none,extent,ext_attr,dir_index,filetype,sparse_super,"
		"large_file,huge_file,uninit_bg,dir_nlink,extra_isize",
		"-E",
		"nodiscard,lazy_itable_init=1",
		path,
		NULL
	};
	char *const env[] = { (char *)(uintptr_t) "LC_ALL=C", NULL };
	int status = 0;
	pid_t pid;
	int rc = posix_spawnp(&pid, MKFS, NULL, NULL,
			      (char *const *)(uintptr_t)argv, env);

	if (rc)
		return error_set(err, rc, "start " MKFS ": %s%s", strerror(rc),
				 rc == ENOENT ? " (it is of e2fsprogs)" : "");
	rc = process_reap(pid, MKFS_TIMEOUT_MS, 0, &status, err);
	if (rc < 0)
		return error_wrap(err, rc, MKFS);
	return status == 0 ? 0
			   : error_set(err, EIO,
				       MKFS " of '%s' failed: the log has what "
					    "it said",
				       path);
}

static int mount_ext4(const char *file, const char *path, struct error *err)
{
	char device[LOOP_PATH_MAX];
	AUTO_CLOSE int fd = -1;
	int rc;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return error_errno(err, errno, "make '%s'", path);
	rc = loop_open_writable(file, device, &fd, err);
	if (rc < 0)
		return rc;
	if (mount(device, path, "ext4", MS_NOSUID | MS_NODEV | MS_NOATIME,
		  "nodiscard,noinit_itable") < 0)
		return error_errno(err, errno, "mount '%s' at '%s'", file,
				   path);
	return 0;
}

/* Is a file system mounted at `path`? */
static bool is_mounted(const char *path)
{
	struct mount_line line;

	if (mount_find(path, &line, NULL) <= 0)
		return false;
	mount_line_fini(&line);
	return true;
}

static int make_upper(const struct environments *envs, const char *file,
		      const char *path, struct error *err)
{
	int rc = allocate_file(file, envs->cfg->env_write_max, err);

	/* -EEXIST: another call for the same name made the file; leave it alone. */
	if (rc == -EEXIST)
		return rc;
	if (rc == 0)
		rc = make_ext4(file, err);
	if (rc == 0)
		rc = mount_ext4(file, path, err);
	if (rc < 0) {
		(void)unlink(file);
		(void)rmdir(path);
	}
	return rc;
}

int environment_upper_make(const struct environments *envs, const char *name,
			   struct error *err)
{
	AUTO_FREE char *work = environment_work(envs, name);
	AUTO_FREE char *file = work ? fs_join(work, "upper.ext4") : NULL;
	AUTO_FREE char *path = environment_upper_path(envs, name);
	uint64_t bytes = envs->cfg->env_write_max;
	int rc;

	if (!file || !path)
		return error_nomem(err);
	if (is_mounted(path))
		return 0;
	rc = disk_reserve_environment(envs->disk, bytes, err);
	if (rc < 0)
		return error_wrap(err, rc, "environment");
	rc = make_upper(envs, file, path, err);
	disk_settle_environment(envs->disk, bytes);
	return error_wrap(err, rc, "environment");
}

void environment_upper_end(const struct environments *envs, const char *name)
{
	AUTO_FREE char *path = environment_upper_path(envs, name);

	if (!path)
		return;
	if (umount2(path, UMOUNT_NOFOLLOW | MNT_DETACH) < 0 &&
	    errno != EINVAL && errno != ENOENT)
		log_warning("environment",
			    "not unmounted path=\"%s\" "
			    "reason=\"%s\"",
			    path, strerror(errno));
	(void)rmdir(path);
}

/* ------------------------------------------------------------------ --- figures --- */

int environments_probe(const struct environments *envs, struct error *err)
{
	AUTO_FREE char *all = environment_work(envs, "");
	AUTO_FREE char *file = all ? fs_join(all, "probe") : NULL;
	char device[LOOP_PATH_MAX];
	AUTO_CLOSE int fd = -1;
	int rc;

	if (!file)
		return error_nomem(err);
	if (envs->cfg->env_write_max > envs->cfg->cache_quota / 2)
		return error_set(err, EDQUOT,
				 "--env-write-max is more than half of "
				 "--cache-quota, which all of them have");
	(void)unlink(file);
	rc = allocate_file(file, PROBE_BYTES, err);
	if (rc == 0)
		rc = make_ext4(file, err);
	if (rc == 0)
		rc = loop_open_writable(file, device, &fd, err);
	(void)unlink(file);
	return rc;
}

static void report_upper_room(const struct environments *envs, const char *name,
			      environment_room_fn *fn, void *arg)
{
	AUTO_FREE char *path = environment_upper_path(envs, name);
	struct environment_room r = { .name = name };
	struct statvfs fs;

	/* statvfs() does not wait for a server: the file system is local. */
	if (!path || !is_mounted(path) || statvfs(path, &fs) < 0)
		return;
	r.all = (uint64_t)fs.f_blocks * fs.f_frsize;
	r.left = (uint64_t)fs.f_bavail * fs.f_frsize;
	fn(arg, &r);
}

void environments_each_room(const struct environments *envs,
			    environment_room_fn *fn, void *arg)
{
	AUTO_FREE char *all = environment_upper_path(envs, "");
	DIR *dir = all ? opendir(all) : NULL;
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (environment_is_name(e->d_name))
			report_upper_room(envs, e->d_name, fn, arg);
	if (dir)
		closedir(dir);
}
