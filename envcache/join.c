// SPDX-License-Identifier: Apache-2.0
/*
 * Join a mounted snapshot to the targets: mount at each target an overlay of its present content,
 * the snapshot's folder, and an empty upper folder.  The kernel interprets the snapshot's
 * whiteouts and opaque folders.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/mount.h"
#include "envcache/enter.h"
#include "envcache/join.h"
#include "envcache/make_target.h"
#include "envcache/mount_table.h"
#include "envcache/place.h"
#include "envcache/stage.h"
#include "envcache/xattrs.h"

#define MADE_MAX (1u << 20) /* bytes of the list of made folders */

/* State of a target during the join. */
struct join_target {
	const char *path;
	char *work;   /* folder for its overlay's upper and work folders */
	int snapshot; /* its folder in the snapshot, O_PATH; -1: the
	               * snapshot does not change it */
	bool is_mounted;
	struct buf made; /* folders created for it, each with its NUL */
};

struct joining {
	const struct env_join *j;
	int tree;
	struct join_target *targets;
};

/* --------------------------------------------------------------------- the snapshot --- */

/* Open the snapshot's tree.  It must be a mount point: an unmounted empty folder would look like a
 * snapshot without changes. */
static int open_tree_root(struct joining *a, struct error *err)
{
	struct mount_line line;
	int rc = mount_find(a->j->tree, &line, err);

	if (rc == 0)
		return error_set(err, ENOENT,
				 "bootseerd's mounts are not seen from this "
				 "mount namespace");
	if (rc < 0)
		return rc;
	mount_line_fini(&line);
	a->tree = open(a->j->tree, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return a->tree < 0
		       ? error_errno(err, errno, "open '%.200s'", a->j->tree)
		       : 0;
}

static int open_in_tree(const struct joining *a, const char *path)
{
	return fs_openat2(a->tree, path + 1, O_PATH | O_NOFOLLOW,
			  RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
				  RESOLVE_NO_XDEV);
}

/* Needs the target no overlay?  A target that was empty before and after is in the snapshot only
 * so that it gets created. */
static bool needs_no_overlay(const struct joining *a,
			     const struct join_target *t, const struct stat *st)
{
	struct stat is;

	return fs_is_empty(t->snapshot) && !a->j->asker &&
	       lstat(t->path, &is) == 0 && is.st_mode == st->st_mode &&
	       is.st_uid == st->st_uid && is.st_gid == st->st_gid;
}

static int find_in_snapshot(const struct joining *a, struct join_target *t,
			    struct error *err)
{
	struct stat st;

	t->snapshot = open_in_tree(a, t->path);
	if (t->snapshot < 0)
		return errno == ENOENT ? 0
				       : error_errno(err, errno,
						     "'%.200s' of the snapshot",
						     t->path);
	if (fstat(t->snapshot, &st) < 0 || !S_ISDIR(st.st_mode))
		return error_set(err, ENOTSUP,
				 "the command removed or replaced '%.200s' "
				 "itself",
				 t->path);
	if (needs_no_overlay(a, t, &st))
		(void)close(steal_fd(&t->snapshot));
	return 0;
}

/* ------------------------------------------------------------------------ the place --- */

/* Copy owner, permissions, attributes and times from one folder to another. */
static int copy_attributes(int from, int to, struct error *err)
{
	AUTO(tree) t = tree_new();
	struct inode *i = t ? tree_root(t) : NULL;
	struct stat st;
	int rc;

	if (!i)
		return error_nomem(err);
	if (fstat(from, &st) < 0)
		return error_errno(err, errno, "stat");
	i->mode = (uint16_t)st.st_mode;
	i->uid = st.st_uid;
	i->gid = st.st_gid;
	i->mtime = st.st_mtim.tv_sec;
	i->mtime_nsec = (uint32_t)st.st_mtim.tv_nsec;
	rc = xattrs_read(from, t, i, err);
	return rc < 0 ? rc : place_attributes(to, i, err);
}

struct join_making {
	const struct joining *a;
	struct join_target *t;
};

static int note_made_folder(void *arg, int fd, const char *path,
			    struct error *err)
{
	const struct join_making *m = arg;
	AUTO_CLOSE int from = -1;

	if (buf_append(&m->t->made, path, strlen(path) + 1) < 0) {
		(void)rmdir(path);
		return error_nomem(err);
	}
	from = open_in_tree(m->a, path);
	if (from < 0)
		return error_errno(err, errno, "open '%.160s'", path);
	return copy_attributes(from, fd, err);
}

/* Remove the created folders, innermost first; those that are not empty stay. */
static void remove_made(const struct buf *made)
{
	size_t end = made->len;

	while (end > 0) {
		size_t begin = end - 1;

		while (begin > 0 && made->data[begin - 1])
			begin--;
		(void)rmdir(made->data + begin);
		end = begin;
	}
}

/* Make the target's upper and work folders; `ret` is the opened upper folder. */
static int make_overlay_folders(const struct join_target *t, int *ret,
				struct error *err)
{
	AUTO_FREE char *upper = fs_join(t->work, "upper");
	AUTO_FREE char *work = fs_join(t->work, "work");
	AUTO_FREE char *made = fs_join(t->work, "made");

	if (!upper || !work || !made)
		return error_nomem(err);
	if (mkdir(t->work, 0700) < 0 || mkdir(upper, 0700) < 0 ||
	    mkdir(work, 0700) < 0)
		return error_errno(err, errno, "make '%.160s'", t->work);
	*ret = open(upper, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*ret < 0)
		return error_errno(err, errno, "open '%.160s'", upper);
	return fs_replace_file(made, t->made.data ? t->made.data : "",
			       t->made.len, 0600, err);
}

/* ---------------------------------------------------------------------- the overlay --- */

/* Mount flags of the target's file system, as the overlay must not allow more than it. */
static int get_mount_flags(int target, const char *path, unsigned long *ret,
			   struct error *err)
{
	struct statvfs fs;

	if (fstatvfs(target, &fs) < 0)
		return error_errno(err, errno, "'%.160s'", path);
	if (fs.f_flag & ST_RDONLY)
		return error_set(err, EROFS, "'%.160s' is read only", path);
	*ret = (fs.f_flag & ST_NOSUID ? MS_NOSUID : 0) |
	       (fs.f_flag & ST_NODEV ? MS_NODEV : 0) |
	       (fs.f_flag & ST_NOEXEC ? MS_NOEXEC : 0);
	return 0;
}

/* Append a path to mount options, with commas and backslashes escaped. */
static int put_option(struct buf *b, const char *key, const char *path)
{
	int rc = buf_printf(b, ",%s=", key);

	for (; rc == 0 && *path; path++) {
		if (*path == ',' || *path == '\\')
			rc = buf_puts(b, "\\");
		if (rc == 0)
			rc = buf_append(b, path, 1);
	}
	return rc;
}

/* Mount by descriptors, so that renames of folders meanwhile have no effect. */
static int mount_overlay(const struct joining *a, struct join_target *t,
			 int target, unsigned long flags, struct error *err)
{
	AUTO_BUF options = BUF_INIT;
	AUTO_BUF upper = BUF_INIT;
	AUTO_BUF work = BUF_INIT;
	char at[64];

	/* Options by which no attribute of the snapshot can refer to another file of a layer. */
	if (buf_printf(&options,
		       "index=off,metacopy=off,redirect_dir=nofollow,"
		       "lowerdir=/proc/self/fd/%d:/proc/self/fd/%d",
		       t->snapshot, target) < 0 ||
	    buf_printf(&upper, "%s/upper", t->work) < 0 ||
	    buf_printf(&work, "%s/work", t->work) < 0 ||
	    put_option(&options, "upperdir", upper.data) < 0 ||
	    put_option(&options, "workdir", work.data) < 0)
		return error_nomem(err);
	(void)snprintf(at, sizeof(at), "/proc/self/fd/%d", target);
	if (mount(a->j->source, at, "overlay", flags, options.data) < 0)
		return error_set(err, errno,
				 "mount an overlay at '%.200s': %s%s", t->path,
				 strerror(errno),
				 errno == EINVAL
					 ? ": too many file systems are "
					   "stacked there"
					 : error_root_hint(errno));
	t->is_mounted = true;
	return 0;
}

/* Mount in the asker's namespace; env_asker_undo() unmounts that. */
static int mount_for_asker(const struct joining *a, const struct join_target *t,
			   int target, unsigned long flags, struct error *err)
{
	AUTO_FREE char *base = fs_join(t->work, "base");
	AUTO_FREE char *upper = fs_join(t->work, "upper");
	AUTO_FREE char *work = fs_join(t->work, "work");
	const struct asker_overlay o = {
		.source = a->j->source,
		.base = base,
		.upper = upper,
		.work = work,
		.snapshot = t->snapshot,
		.target = target,
		.is_noexec = flags & MS_NOEXEC,
	};

	if (!base || !upper || !work)
		return error_nomem(err);
	if (mkdir(base, 0700) < 0)
		return error_errno(err, errno, "make '%.160s'", base);
	return error_wrap(err, asker_mount(a->j->asker, &o, err), "'%.200s'",
			  t->path);
}

static int open_target(const struct joining *a, struct join_target *t, int *ret,
		       struct error *err)
{
	struct join_making making = { a, t };
	int rc;

	if (a->j->asker)
		return asker_open_target(a->j->asker, t->path, ret, err);
	rc = make_target(t->path, note_made_folder, &making, err);
	if (rc < 0)
		return rc;
	*ret = fs_openat2(AT_FDCWD, t->path, O_PATH | O_DIRECTORY,
			  RESOLVE_NO_SYMLINKS);
	return *ret < 0 ? error_errno(err, errno, "open '%.160s'", t->path) : 0;
}

static int mount_at_target(const struct joining *a, struct join_target *t,
			   struct error *err)
{
	AUTO_CLOSE int target = -1;
	AUTO_CLOSE int upper = -1;
	unsigned long flags = 0;
	int rc = open_target(a, t, &target, err);

	if (rc < 0)
		return rc;
	rc = get_mount_flags(target, t->path, &flags, err);
	if (rc == 0)
		rc = make_overlay_folders(t, &upper, err);
	if (rc == 0)
		rc = copy_attributes(t->snapshot, upper, err);
	if (rc < 0)
		return rc;
	return a->j->asker ? mount_for_asker(a, t, target, flags, err)
			   : mount_overlay(a, t, target, flags, err);
}

/* ---------------------------------------------------------------------------- all --- */

struct below_search {
	const struct env_targets *targets;
	struct error *err;
};

/* Refuse mounts below a target: an overlay does not include them, and would hide them. */
static int refuse_mount_below(void *arg, const struct mount_row *row)
{
	const struct below_search *s = arg;

	for (size_t i = 0; i < s->targets->n; i++) {
		const char *path = s->targets->paths[i];
		size_t len = strlen(path);

		if (strncmp(row->path, path, len) == 0 && row->path[len] == '/')
			return error_set(s->err, ENOTSUP,
					 "'%.200s' is mounted in a target",
					 row->path);
	}
	return 0;
}

static int check_no_mounts_below(const struct joining *a, struct error *err)
{
	struct below_search s = { .targets = a->j->targets, .err = err };
	FILE *f;
	int rc;

	if (!a->j->asker)
		return mount_table_each(refuse_mount_below, &s, err);
	rc = asker_mounts(a->j->asker, &f, err);
	if (rc < 0)
		return rc;
	rc = mount_table_read(f, refuse_mount_below, &s);
	(void)fclose(f);
	return rc;
}

static int join_all(struct joining *a, struct error *err)
{
	int rc = open_tree_root(a, err);

	if (rc == 0)
		rc = check_no_mounts_below(a, err);
	/* All targets are checked before the first is mounted. */
	for (size_t i = 0; rc == 0 && i < a->j->targets->n; i++) {
		a->targets[i].path = a->j->targets->paths[i];
		if (asprintf(&a->targets[i].work, "%s/%zu", a->j->work, i) < 0)
			a->targets[i].work = NULL;
		rc = a->targets[i].work
			     ? find_in_snapshot(a, &a->targets[i], err)
			     : error_nomem(err);
	}
	for (size_t i = 0; rc == 0 && i < a->j->targets->n; i++)
		if (a->targets[i].snapshot >= 0)
			rc = mount_at_target(a, &a->targets[i], err);
	return rc;
}

static void undo_target_join(struct join_target *t)
{
	if (t->is_mounted)
		(void)umount2(t->path, UMOUNT_NOFOLLOW | MNT_DETACH);
	remove_made(&t->made);
}

int env_join(const struct env_join *j, struct error *err)
{
	struct joining a = { .j = j, .tree = -1 };
	int rc;

	a.targets = calloc(j->targets->n, sizeof(*a.targets));
	if (!a.targets)
		return error_nomem(err);
	for (size_t i = 0; i < j->targets->n; i++)
		a.targets[i].snapshot = -1;
	rc = join_all(&a, err);
	if (rc < 0 && j->asker)
		env_asker_undo(j->asker);
	for (size_t i = j->targets->n; i-- > 0;) {
		struct join_target *t = &a.targets[i];

		if (rc < 0 && t->path)
			undo_target_join(t);
		fd_close(t->snapshot);
		buf_fini(&t->made);
		free(t->work);
	}
	fd_close(a.tree);
	free(a.targets);
	return rc;
}

/* --------------------------------------------------------------------------- part --- */

struct part_search {
	const char *prefix;
	const char *path;
	struct buf source, upper; /* texts of the topmost mount, ending with
	                           * NUL */
	struct buf paths, uppers; /* texts of all mounts with this source */
};

static int find_overlay_source(void *arg, const struct mount_row *row)
{
	struct part_search *s = arg;

	if (strcmp(row->path, s->path) != 0)
		return 0;
	buf_reset(&s->source);
	buf_reset(&s->upper);
	if (strcmp(row->fstype, "overlay") != 0 ||
	    strncmp(row->source, s->prefix, strlen(s->prefix)) != 0)
		return 0;
	if (row->upper &&
	    buf_append(&s->upper, row->upper, strlen(row->upper) + 1) < 0)
		return -ENOMEM;
	return buf_append(&s->source, row->source, strlen(row->source) + 1);
}

static int note_mount(void *arg, const struct mount_row *row)
{
	struct part_search *s = arg;
	const char *upper = row->upper ? row->upper : "";
	int rc = 0;

	if (strcmp(row->source, s->source.data) != 0)
		return 0;
	rc = buf_append(&s->paths, row->path, strlen(row->path) + 1);
	return rc < 0 ? rc : buf_append(&s->uppers, upper, strlen(upper) + 1);
}

/* Remove the created folders listed in the file beside the upper folder. */
static void remove_made_of(const char *upper)
{
	AUTO_BUF path = BUF_INIT;
	AUTO_BUF made = BUF_INIT;
	const char *slash = strrchr(upper, '/');

	if (slash &&
	    buf_printf(&path, "%.*s/made", (int)(slash - upper), upper) == 0 &&
	    fs_read_file(path.data, MADE_MAX, &made, NULL) == 0 && made.len &&
	    !made.data[made.len - 1])
		remove_made(&made);
}

static int unmount_overlay(const char *path, int flags, struct error *err)
{
	if (umount2(path, UMOUNT_NOFOLLOW | flags) == 0)
		return 0;
	return error_set(err, errno, "unmount '%.200s': %s%s", path,
			 strerror(errno),
			 errno == EBUSY ? ": a process works in it"
					: error_root_hint(errno));
}

/* Unmount each overlay.  With MNT_DETACH go on after failures; otherwise stop at the first that is
 * in use. */
static int unmount_each_overlay(const struct part_search *s, int flags,
				struct error *err)
{
	const char *upper = s->uppers.data;
	int rc = 0;

	for (const char *p = s->paths.data; p < s->paths.data + s->paths.len;
	     p += strlen(p) + 1, upper += strlen(upper) + 1) {
		int one = unmount_overlay(p, flags, rc < 0 ? NULL : err);

		if (one == 0)
			remove_made_of(upper);
		else if (!(flags & MNT_DETACH))
			return one;
		rc = rc < 0 ? rc : one;
	}
	return rc;
}

static void part_fini(struct part_search *s)
{
	buf_fini(&s->source);
	buf_fini(&s->upper);
	buf_fini(&s->paths);
	buf_fini(&s->uppers);
}

int env_part_all(const char *source, struct error *err)
{
	struct part_search s = { .path = NULL };
	int rc = buf_append(&s.source, source, strlen(source) + 1) < 0
			 ? error_nomem(err)
			 : mount_table_each(note_mount, &s, err);

	if (rc == 0)
		rc = unmount_each_overlay(&s, MNT_DETACH, err);
	part_fini(&s);
	return rc;
}

/* ------------------------------------------------------------------------ recover --- */

/* Open WORK/unconfirmed for the upper folder WORK/N/upper. < 0: the file does not exist, or
 * belongs to another user or another mount namespace, which must handle it. */
static int open_unconfirmed(const char *upper)
{
	AUTO_BUF path = BUF_INIT;
	const char *end = upper + strlen(upper);
	struct stat st;
	int fd;

	for (int k = 0; k < 2; k++)
		while (end > upper && *--end != '/')
			;
	if (buf_printf(&path, "%.*s/" ENV_UNCONFIRMED, (int)(end - upper),
		       upper) < 0)
		return -1;
	fd = open(path.data, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || (fstat(fd, &st) == 0 && st.st_uid == geteuid()))
		return fd;
	(void)close(fd);
	return -1;
}

/* Unmount an unconfirmed mount at the target.  1: there was one, and it is unmounted. */
static int unmount_unconfirmed(const char *target, const char *prefix,
			       int64_t deadline_ns, struct error *err)
{
	struct part_search s = { .prefix = prefix, .path = target };
	AUTO_CLOSE int fd = -1;
	struct stat st;
	int rc = mount_table_each(find_overlay_source, &s, err);

	if (rc == 0 && s.source.len && s.upper.len)
		fd = open_unconfirmed(s.upper.data);
	if (rc == 0 && fd >= 0)
		rc = stage_lock(fd, deadline_ns, err);
	/* While we waited, the mount may have been confirmed, which removes the file. */
	if (rc == 0 && fd >= 0 && fstat(fd, &st) == 0 && st.st_nlink > 0) {
		rc = env_part_all(s.source.data, err);
		rc = rc < 0 ? rc : 1;
	}
	part_fini(&s);
	return error_wrap(err, rc, "target '%.200s'", target);
}

int env_join_recover(const struct env_targets *t, const char *prefix,
		     int64_t deadline_ns, struct error *err)
{
	for (size_t i = 0; i < t->n; i++) {
		int rc;

		do
			rc = unmount_unconfirmed(t->paths[i], prefix,
						 deadline_ns, err);
		while (rc > 0);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int env_part(const char *target, const char *prefix, char **ret_source,
	     struct error *err)
{
	AUTO_FREE char *path = realpath(target, NULL);
	struct part_search s = { .prefix = prefix, .path = path };
	int rc;

	if (!path)
		return error_errno(err, errno, "'%.200s'", target);
	rc = mount_table_each(find_overlay_source, &s, err);
	if (rc == 0 && !s.source.len)
		rc = error_set(err, EINVAL,
			       "no environment is mounted at '%.200s': "
			       "'findmnt' lists what is",
			       path);
	if (rc == 0)
		rc = mount_table_each(note_mount, &s, err);
	if (rc == 0)
		rc = unmount_each_overlay(&s, 0, err);
	if (rc == 0) {
		*ret_source = strdup(s.source.data);
		rc = *ret_source ? 0 : error_nomem(err);
	}
	part_fini(&s);
	return rc;
}
