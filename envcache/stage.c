// SPDX-License-Identifier: Apache-2.0
/* The log of a restore: each step is logged before it is done, and can be undone by the log, by
 * this process or after it was killed. */
#include "envcache/stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/xattr.h>
#include <time.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/fs.h"
#include "envcache/xattrs.h"

#define OLD_NAME 16 /* bytes of a name in `old`, with NUL */
#define LOG_MAX (1u << 30)
#define DONE_MAX (1u << 20)

/* Identity of a file by its birth time, which no rename changes; inode numbers are reused, and
 * change on some overlays. */
struct stage_identity {
	int64_t sec; /* 0 and 0: the file system has no birth times */
	uint32_t nsec;
	uint64_t ino;
};

void stage_init(struct stage *s)
{
	*s = (struct stage){
		.root = -1, .dir = -1, .new_fd = -1, .old_fd = -1, .log_fd = -1
	};
}

static int open_folder(int in, const char *name)
{
	return openat(in, name,
		      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool wait_a_little(int64_t deadline_ns)
{
	struct timespec t = { .tv_nsec = STAGE_LOOK_NS };

	if (clock_now_ns() >= deadline_ns)
		return false;
	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	return true;
}

/* Lock the folder of a target: two undos in one folder would move each other's files away. */
int stage_lock(int fd, int64_t deadline_ns, struct error *err)
{
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return error_errno(err, errno, "lock it");
		if (!wait_a_little(deadline_ns))
			return error_set(err, EBUSY,
					 "another restore works on it");
	}
	return 0;
}

static int make_stage_folders(struct stage *s, struct error *err)
{
	if (mkdirat(s->root, s->name, 0700) < 0)
		return error_errno(err, errno, "make '%s' in the target",
				   s->name);
	s->dir = open_folder(s->root, s->name);
	if (s->dir < 0 || mkdirat(s->dir, "new", 0700) < 0 ||
	    mkdirat(s->dir, "old", 0700) < 0)
		return error_errno(err, errno, "prepare '%s' in the target",
				   s->name);
	s->new_fd = open_folder(s->dir, "new");
	s->old_fd = open_folder(s->dir, "old");
	/* Remove inherited ACLs, so that new files do not get the target's. */
	if (s->new_fd >= 0)
		(void)!fremovexattr(s->new_fd, "system.posix_acl_default");
	s->log_fd =
		openat(s->dir, "log",
		       O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
	if (s->new_fd < 0 || s->old_fd < 0 || s->log_fd < 0)
		return error_errno(err, errno, "prepare '%s' in the target",
				   s->name);
	return 0;
}

int stage_open(struct stage *s, const char *path, int64_t deadline_ns,
	       struct error *err)
{
	uint64_t id;
	int rc;

	s->root = fs_openat2(AT_FDCWD, path, O_RDONLY | O_DIRECTORY,
			     RESOLVE_NO_SYMLINKS);
	if (s->root < 0)
		return error_errno(err, errno, "open '%.160s'", path);
	if (getrandom(&id, sizeof(id), 0) != sizeof(id))
		return error_set(err, EIO, "no random bytes");
	(void)snprintf(s->name, sizeof(s->name), ENV_STAGING "%016" PRIx64, id);
	rc = stage_lock(s->root, deadline_ns, err);
	if (rc == 0)
		rc = make_stage_folders(s, err);
	return rc < 0 ? error_wrap(err, rc, "'%.200s'", path) : 0;
}

static void close_and_forget(int *fd)
{
	fd_close(*fd);
	*fd = -1;
}

void stage_close(struct stage *s)
{
	char path[64];

	if (s->dir >= 0) {
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s",
			       s->root, s->name);
		(void)!fs_remove_tree(path, NULL);
	}
	close_and_forget(&s->log_fd);
	close_and_forget(&s->old_fd);
	close_and_forget(&s->new_fd);
	close_and_forget(&s->dir);
	close_and_forget(&s->root);
}

/* ------------------------------------------------------------------------ the log --- */

static int put_record(struct stage *s, const struct buf *text,
		      struct error *err)
{
	int rc = fs_write_full(s->log_fd, text->data, text->len + 1);

	return rc < 0 ? fs_refuse_write(s->log_fd, rc, text->len, "", err) : 0;
}

static int identify_file(int dir, const char *name, struct stage_identity *ret)
{
	struct statx x;

	if (statx(dir, name, AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME, &x) <
	    0)
		return -errno;
	*ret = (struct stage_identity){ .ino = x.stx_ino };
	if (x.stx_mask & STATX_BTIME) {
		ret->sec = x.stx_btime.tv_sec;
		ret->nsec = x.stx_btime.tv_nsec;
	}
	return 0;
}

int stage_log_put(struct stage *s, int from, const char *name, const char *path,
		  struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	struct stage_identity i;
	int rc = identify_file(from, name, &i);

	if (rc < 0)
		return error_errno(err, -rc, "'%.160s' of the stage", path);
	return buf_printf(&text, "N %" PRId64 " %u %" PRIu64 " %s", i.sec,
			  i.nsec, i.ino, path) < 0
		       ? error_nomem(err)
		       : put_record(s, &text, err);
}

int stage_log_attributes(struct stage *s, int fd, const char *path,
			 struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_errno(err, errno, "'%.160s'", path);
	return buf_printf(&text, "A %o %u %u %jd %ld %s", st.st_mode & 07777,
			  st.st_uid, st.st_gid, (intmax_t)st.st_mtim.tv_sec,
			  st.st_mtim.tv_nsec, path) < 0
		       ? error_nomem(err)
		       : put_record(s, &text, err);
}

static int put_hex(struct buf *b, const void *data, size_t len)
{
	const unsigned char *p = data;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < len; i++)
		rc = buf_printf(b, "%02x", p[i]);
	return rc;
}

/* Log an extended attribute's old value; `len` < 0: it was not set. */
static int log_xattr(struct stage *s, const char *name, const void *value,
		     ssize_t len, const char *path, struct error *err)
{
	AUTO_BUF text = BUF_INIT;

	if (buf_puts(&text, "X ") < 0 ||
	    put_hex(&text, name, strlen(name)) < 0 ||
	    buf_puts(&text, len < 0 ? " -" : " ") < 0 ||
	    (len > 0 && put_hex(&text, value, (size_t)len) < 0) ||
	    buf_printf(&text, " %s", path) < 0)
		return error_nomem(err);
	return put_record(s, &text, err);
}

int stage_log_xattrs(struct stage *s, int fd, const struct inode *i,
		     const char *path, struct error *err)
{
	AUTO_FREE char *value =
		i->xattrs ? malloc(TREE_XATTR_VALUE_MAX + 1) : NULL;
	int rc = value || !i->xattrs ? 0 : error_nomem(err);

	for (const struct xattr *x = i->xattrs; rc == 0 && x; x = x->next) {
		ssize_t n =
			fgetxattr(fd, x->name, value, TREE_XATTR_VALUE_MAX + 1);

		if (n < 0 && errno != ENODATA)
			return error_errno(err, errno, "attribute %s", x->name);
		rc = log_xattr(s, x->name, value, n, path, err);
	}
	return rc;
}

/* Log all extended attributes of a folder that will be removed. */
static int log_own_xattrs(struct stage *s, int fd, const char *path,
			  struct error *err)
{
	AUTO(tree) t = tree_new();
	struct inode *i = t ? tree_root(t) : NULL;
	int rc = i ? xattrs_read(fd, t, i, err) : error_nomem(err);

	for (const struct xattr *x = i ? i->xattrs : NULL; rc == 0 && x;
	     x = x->next)
		rc = log_xattr(s, x->name, x->value, (ssize_t)x->size, path,
			       err);
	return rc;
}

int stage_commit(struct stage *s, struct error *err)
{
	return unlinkat(s->dir, "log", 0) == 0
		       ? 0
		       : error_errno(err, errno, "end the log");
}

int stage_follow(struct stage *s, const char *leader, struct error *err)
{
	AUTO_BUF text = BUF_INIT;

	return buf_printf(&text, "L %s", leader) < 0
		       ? error_nomem(err)
		       : put_record(s, &text, err);
}

int stage_commit_leader(struct stage *s, const struct buf *others,
			struct error *err)
{
	AUTO_CLOSE int fd =
		openat(s->dir, "done.new",
		       O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int rc = fd < 0 ? -errno : fs_write_full(fd, others->data, others->len);

	if (rc == 0 && renameat(s->dir, "done.new", s->dir, "done") < 0)
		rc = -errno;
	return rc < 0 ? error_errno(err, -rc, "end the log") : 0;
}

/* ---------------------------------------------------------------------- put aside --- */

/* Move an entry to `old`.  With `stays` it keeps its place, too (by a hard link), until it is
 * replaced. */
static int move_entry_aside(struct stage *s, int dir, const char *name,
			    const char *path, bool stays, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	char old[OLD_NAME];
	int rc;

	(void)snprintf(old, sizeof(old), "%u", s->n_old++);
	if (buf_printf(&text, "O %s %s", old, path) < 0)
		return error_nomem(err);
	rc = put_record(s, &text, err);
	/* The link fails for folders, and without some rights for files of other users; then it is
	 * moved. */
	if (rc < 0 || (stays && linkat(dir, name, s->old_fd, old, 0) == 0) ||
	    renameat(dir, name, s->old_fd, old) == 0 || errno == ENOENT)
		return rc;
	return error_errno(err, errno, "move '%.160s' away", path);
}

/* A folder in an overlay's lower layer cannot be moved, but its entries can. */
static int move_folder_aside(struct stage *s, int parent, const char *name,
			     const char *path, struct error *err)
{
	AUTO_CLOSE int fd = open_folder(parent, name);
	struct dirent **names = NULL;
	AUTO_BUF text = BUF_INIT;
	int rc, n;

	if (fd < 0)
		return error_errno(err, errno, "open '%.160s'", path);
	rc = stage_log_attributes(s, fd, path, err);
	if (rc == 0)
		rc = log_own_xattrs(s, fd, path, err);
	n = rc < 0 ? 0 : scandirat(fd, ".", &names, NULL, NULL);
	if (n < 0)
		rc = error_errno(err, errno, "list '%.160s'", path);
	for (int i = 0; i < n; i++) {
		const char *child = names[i]->d_name;
		AUTO_BUF below = BUF_INIT;

		if (rc == 0 && strcmp(child, ".") != 0 &&
		    strcmp(child, "..") != 0)
			rc = buf_printf(&below, "%s/%s", path, child) < 0
				     ? error_nomem(err)
				     : stage_put_aside(s, fd, child, below.data,
						       err);
		free(names[i]);
	}
	free((void *)names);
	if (rc == 0 && buf_printf(&text, "R %s", path) < 0)
		rc = error_nomem(err);
	if (rc == 0)
		rc = put_record(s, &text, err);
	if (rc == 0 && unlinkat(parent, name, AT_REMOVEDIR) < 0)
		rc = error_errno(err, errno, "remove '%.160s'", path);
	return rc;
}

/* Give the owner write permission on a folder, which cannot be moved without; the log restores the
 * old mode. */
static int allow_moving_folder(struct stage *s, int dir, const char *name,
			       const char *path, struct error *err)
{
	AUTO_CLOSE int fd = open_folder(dir, name);
	struct stat st;
	int rc;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, errno, "open '%.160s'", path);
	rc = stage_log_attributes(s, fd, path, err);
	if (rc == 0 && fchmod(fd, (st.st_mode & 07777) | 0700) < 0)
		rc = error_errno(err, errno, "chmod '%.160s'", path);
	return rc;
}

static int log_and_move_aside(struct stage *s, int dir, const char *name,
			      const char *path, bool stays, struct error *err)
{
	struct error why = ERROR_INIT;
	struct stat st;
	int rc;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT
			       ? 0
			       : error_errno(err, errno, "'%.160s'", path);
	if (S_ISDIR(st.st_mode) && !(st.st_mode & 0200) && geteuid() != 0)
		rc = allow_moving_folder(s, dir, name, path, &why);
	else
		rc = 0;
	if (rc == 0)
		rc = move_entry_aside(s, dir, name, path, stays, &why);
	if (rc == -EXDEV && S_ISDIR(st.st_mode))
		return move_folder_aside(s, dir, name, path, err);
	if (rc < 0 && err)
		*err = why;
	return rc;
}

int stage_put_aside(struct stage *s, int dir, const char *name,
		    const char *path, struct error *err)
{
	return log_and_move_aside(s, dir, name, path, false, err);
}

int stage_keep_aside(struct stage *s, int dir, const char *name,
		     const char *path, struct error *err)
{
	return log_and_move_aside(s, dir, name, path, true, err);
}

/* --------------------------------------------------------------------------- undo --- */

/* Open the folder that contains `path`; *ret_name is the last component.  -ENOENT. */
static int open_parent(const struct stage *s, const char *path, int *ret_fd,
		       const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	AUTO_FREE char *parent =
		slash ? strndup(path, (size_t)(slash - path)) : strdup(".");

	if (!parent)
		return -ENOMEM;
	*ret_fd = env_open_long(s->root, parent, O_RDONLY | O_DIRECTORY,
				RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	*ret_name = slash ? slash + 1 : path;
	return *ret_fd < 0 ? -errno : 0;
}

/* Give the owner write permission on a folder for now: without it, users other than root can
 * neither move entries in it nor move the folder itself. */
static void allow_writing(int dir, const char *name)
{
	AUTO_CLOSE int fd = open_folder(dir, name);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700)
		(void)!fchmod(fd, (st.st_mode & 07777) | 0700);
}

/* renameat(2), or -errno.  Permissions that it had to add are undone by a record in the log. */
static int move_name(int from, const char *name, int to, const char *as)
{
	if (renameat(from, name, to, as) == 0)
		return 0;
	if (errno != EACCES)
		return -errno;
	allow_writing(from, ".");
	allow_writing(to, ".");
	allow_writing(from, name);
	return renameat(from, name, to, as) < 0 ? -errno : 0;
}

static bool has_dir_entry(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_same_inode(int dir, const char *name, int as_dir, const char *as)
{
	struct stat a, b;

	return fstatat(dir, name, &a, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstatat(as_dir, as, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Move an entry out of the target, to an unused name in the stage. */
static int move_aside(struct stage *s, int dir, const char *name)
{
	char aside[OLD_NAME];
	int rc;

	do
		(void)snprintf(aside, sizeof(aside), "u%u", s->n_old++);
	while (has_dir_entry(s->new_fd, aside));
	rc = move_name(dir, name, s->new_fd, aside);
	return rc == -ENOENT ? 0 : rc;
}

static bool is_identical(const struct stage_identity *a,
			 const struct stage_identity *b)
{
	if (a->sec == 0 && a->nsec == 0)
		return a->ino == b->ino;
	return a->sec == b->sec && a->nsec == b->nsec;
}

static int undo_put(struct stage *s, const char *text, int dir,
		    const char *name, bool keeps_others)
{
	struct stage_identity was, is;

	if (text[0] == 'N' && sscanf(text, "N %" SCNd64 " %u %" SCNu64 " ",
				     &was.sec, &was.nsec, &was.ino) != 3)
		return -EBADMSG;
	if (text[0] == 'N' && keeps_others &&
	    (identify_file(dir, name, &is) < 0 || !is_identical(&was, &is)))
		return 0;
	return move_aside(s, dir, name);
}

static int undo_aside(struct stage *s, const char *text, int dir,
		      const char *name, bool keeps_others)
{
	char old[OLD_NAME];
	int rc;

	if (sscanf(text, "O %15s ", old) != 1)
		return -EBADMSG;
	/* The old file is in place: it was put back before, or never moved. */
	if (!has_dir_entry(s->old_fd, old))
		return 0;
	/* The old file is still in place, by a hard link. */
	if (is_same_inode(s->old_fd, old, dir, name))
		return unlinkat(s->old_fd, old, 0) < 0 ? -errno : 0;
	if (has_dir_entry(dir, name) && keeps_others) {
		s->has_kept = true;
		return 0;
	}
	if (has_dir_entry(dir, name) && (rc = move_aside(s, dir, name)) < 0)
		return rc;
	return move_name(s->old_fd, old, dir, name);
}

static int undo_remove(struct stage *s, int dir, const char *name,
		       bool keeps_others)
{
	int rc = keeps_others ? 0 : move_aside(s, dir, name);

	if (rc < 0)
		return rc;
	return mkdirat(dir, name, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

static int undo_attributes(const char *text, int dir, const char *name)
{
	AUTO_CLOSE int fd = open_folder(dir, name);
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT } };
	unsigned int mode, uid, gid;
	intmax_t sec;
	long nsec;

	if (sscanf(text, "A %o %u %u %jd %ld ", &mode, &uid, &gid, &sec,
		   &nsec) != 5)
		return -EBADMSG;
	times[1] = (struct timespec){ .tv_sec = sec, .tv_nsec = nsec };
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fchown(fd, uid, gid) < 0 || fchmod(fd, mode & 07777) < 0 ||
	    futimens(fd, times) < 0)
		return -errno;
	return 0;
}

static int get_hex(const char *text, size_t len, char *ret)
{
	for (size_t i = 0; i < len; i += 2) {
		char digits[3] = { text[i], i + 1 < len ? text[i + 1] : 'x' };
		char *end;

		ret[i / 2] = (char)strtoul(digits, &end, 16);
		if (*end)
			return -EBADMSG;
	}
	return 0;
}

static int undo_xattr(const char *text, int dir, const char *name)
{
	const char *key = text + 2, *value = strchr(key, ' ');
	size_t n_key = value ? (size_t)(value - key) : 0;
	size_t n_value = value ? strcspn(value + 1, " ") : 0;
	AUTO_FREE char *k = calloc(1, n_key / 2 + 2);
	AUTO_FREE char *v = calloc(1, n_value / 2 + 2);
	AUTO_CLOSE int fd = open_folder(dir, name);
	bool is_none = value && strncmp(value, " - ", 3) == 0;

	if (!k || !v)
		return -ENOMEM;
	if (n_key == 0 || get_hex(key, n_key, k) < 0 ||
	    (!is_none && get_hex(value + 1, n_value, v) < 0))
		return -EBADMSG;
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (is_none)
		return fremovexattr(fd, k) < 0 && errno != ENODATA ? -errno : 0;
	return fsetxattr(fd, k, v, n_value / 2, 0) < 0 ? -errno : 0;
}

/* The path in a record, which follows this many words. */
static const char *path_of(const char *text, unsigned int words)
{
	while (text && words--) {
		text = strchr(text, ' ');
		text = text ? text + 1 : NULL;
	}
	return text;
}

static unsigned int count_record_words(char kind)
{
	switch (kind) {
	case 'A':
		return 6;
	case 'N':
		return 4;
	case 'X':
		return 3;
	case 'O':
		return 2;
	default:
		return 1;
	}
}

static bool is_no_folder(int code)
{
	return code == -ENOENT || code == -ENOTDIR || code == -ELOOP;
}

static int undo_record(struct stage *s, const char *text, bool keeps_others)
{
	const char *path = path_of(text, count_record_words(text[0]));
	AUTO_CLOSE int dir = -1;
	const char *name;
	int rc;

	if (text[0] == 'L')
		return 0; /* was handled by is_done_by_leader() */
	rc = path ? open_parent(s, path, &dir, &name) : -EBADMSG;

	/* Another process removed or replaced the folder that contained the place. */
	if (is_no_folder(rc) &&
	    (keeps_others || text[0] == 'P' || text[0] == 'N')) {
		s->has_kept = s->has_kept || text[0] == 'O';
		return 0;
	}
	if (rc < 0)
		return rc;
	switch (text[0]) {
	case 'P':
	case 'N':
		return undo_put(s, text, dir, name, keeps_others);
	case 'O':
		return undo_aside(s, text, dir, name, keeps_others);
	case 'R':
		return undo_remove(s, dir, name, keeps_others);
	case 'A':
	case 'X':
		/* "." is the target itself; only its attributes are in the log. */
		rc = text[0] == 'A' ? undo_attributes(text, dir, name)
				    : undo_xattr(text, dir, name);
		return keeps_others && is_no_folder(rc) ? 0 : rc;
	default:
		return -EBADMSG;
	}
}

/* Undo from the last complete record to the first.  Each undone record is cut off the log, so that
 * it is not undone twice if this process is killed. */
static int undo_log(struct stage *s, bool keeps_others, struct error *err)
{
	AUTO_BUF log = { .limit = LOG_MAX };
	struct stat st;
	size_t end;

	if (fstat(s->log_fd, &st) < 0 ||
	    buf_reserve(&log, (size_t)st.st_size + 1) < 0 ||
	    fs_pread_full(s->log_fd, log.data, (size_t)st.st_size, 0) < 0)
		return error_set(err, EIO, "the log of '%s' cannot be read",
				 s->name);
	end = (size_t)st.st_size;
	while (end && log.data[end - 1])
		end--;
	while (end) {
		size_t at = end - 1;
		int rc;

		while (at && log.data[at - 1])
			at--;
		rc = undo_record(s, log.data + at, keeps_others);
		if (rc < 0)
			return error_errno(err, -rc, "take back '%.200s'",
					   log.data + at);
		if (ftruncate(s->log_fd, (off_t)at) < 0)
			return error_errno(err, errno, "cut the log of '%s'",
					   s->name);
		end = at;
	}
	return 0;
}

/* Undo, and keep a failed log from being applied later: the command will run now and change the
 * folders. */
int stage_undo(struct stage *s, bool keeps_others, struct error *err)
{
	int rc = undo_log(s, keeps_others, err);

	if (rc == 0 && !s->has_kept)
		return 0;
	if (renameat(s->dir, "log", s->dir, "failed") < 0) {
		AUTO_CLOSE int fd =
			openat(s->dir, "failed", O_WRONLY | O_CREAT | O_CLOEXEC,
			       0600);

		(void)fd;
	}
	close_and_forget(
		&s->dir); /* so stage_close() does not remove the folder */
	return rc < 0 ? error_wrap(err, rc,
				   "what was there before is in '%s/old'",
				   s->name)
		      : 0;
}

/* ------------------------------------------------------------------------ recover --- */

/* Only trust logs of this user: a stranger's log could make us give folders away. */
static bool is_own_log_folder(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
	       (st.st_mode & 077) == 0;
}

/* Open another target's staging folder. */
static int open_stage(const char *path)
{
	int fd = fs_openat2(AT_FDCWD, path, O_RDONLY | O_DIRECTORY,
			    RESOLVE_NO_SYMLINKS);

	if (fd >= 0 && !is_own_log_folder(fd))
		close_and_forget(&fd);
	return fd;
}

/* The restore was complete when its process was killed: remove the remaining logs. */
static void finish_leader(struct stage *s)
{
	AUTO_BUF others = BUF_INIT;

	(void)!fs_read_file_in(s->dir, "done", DONE_MAX, &others, NULL);
	for (const char *p = others.data; p && p < others.data + others.len;
	     p += strlen(p) + 1) {
		AUTO_CLOSE int fd = open_stage(p);

		if (fd >= 0)
			(void)unlinkat(fd, "log", 0);
	}
	(void)unlinkat(s->dir, "log", 0);
}

/* Does the first target's stage say that the restore was complete? */
static bool is_done_by_leader(const struct stage *s)
{
	char text[PATH_MAX + 2];
	AUTO_CLOSE int fd = -1;
	ssize_t n = pread(s->log_fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	if (strncmp(text, "L ", 2) == 0)
		fd = open_stage(text + 2);
	return fd >= 0 && has_dir_entry(fd, "done");
}

/* Recover a stage.  Without a log, the restore was complete or had not begun. */
static int recover_opened(struct stage *s, struct error *err)
{
	if (has_dir_entry(s->dir, "done")) {
		finish_leader(s);
		return 0;
	}
	s->log_fd = openat(s->dir, "log", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (s->log_fd < 0 && errno == ENOENT)
		return 0;
	if (s->log_fd >= 0 && is_done_by_leader(s)) {
		(void)unlinkat(s->dir, "log", 0);
		return 0;
	}
	s->new_fd = open_folder(s->dir, "new");
	s->old_fd = open_folder(s->dir, "old");
	if (s->log_fd < 0 || s->new_fd < 0 || s->old_fd < 0) {
		int code = errno;

		close_and_forget(
			&s->dir); /* stage_close() then keeps the folder */
		return error_errno(err, code, "open '%s'", s->name);
	}
	return stage_undo(s, true, err);
}

static int recover_stage(int root, const char *name, struct error *err)
{
	struct stage s;
	int rc = 0;

	stage_init(&s);
	s.root = fcntl(root, F_DUPFD_CLOEXEC, 0);
	s.dir = open_folder(root, name);
	(void)snprintf(s.name, sizeof(s.name), "%.39s", name);
	if (s.root < 0 || s.dir < 0 || !is_own_log_folder(s.dir) ||
	    has_dir_entry(s.dir, "failed"))
		close_and_forget(
			&s.dir); /* stage_close() then keeps the folder */
	else
		rc = recover_opened(&s, err);
	stage_close(&s);
	return rc;
}

static int is_staging(const struct dirent *d)
{
	return strncmp(d->d_name, ENV_STAGING, strlen(ENV_STAGING)) == 0;
}

int env_recover(const struct env_targets *t, int64_t deadline_ns,
		struct error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < t->n; i++) {
		AUTO_CLOSE int root =
			fs_openat2(AT_FDCWD, t->paths[i],
				   O_RDONLY | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
		struct dirent **names = NULL;
		int n = root < 0 ? 0
				 : scandirat(root, ".", &names, is_staging,
					     alphasort);

		if (n > 0)
			rc = stage_lock(root, deadline_ns, err);
		for (int k = 0; k < n; k++) {
			if (rc == 0)
				rc = recover_stage(root, names[k]->d_name, err);
			free(names[k]);
		}
		free((void *)names);
		if (rc < 0)
			rc = error_wrap(err, rc, "target '%.200s'",
					t->paths[i]);
	}
	return rc;
}
