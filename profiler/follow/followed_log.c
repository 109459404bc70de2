// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the files of a log in order: rotated files, the oldest first, then the current one. A file
 * is recognised by its inode and first bytes, a compressed one by its first bytes alone.
 */
#include "profiler/follow/followed_log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/crc32c.h"
#include "common/fs.h"
#include "common/log.h"
#include "profiler/follow/follower.h"

/* The runtime may write to a file for a moment after it was renamed. */
#define GRACE_NS (2 * NS_PER_S)
/* between checks whether the current file was renamed */
#define CHECK_NS (NS_PER_S / 2)
/* After this time, reading a log stops, so that other logs get their turn. */
#define SLICE_NS (5 * NS_PER_MS)
#define UNPACKED_MAX (UINT64_C(1) << 30)

void followed_log_free(struct followed_log *l)
{
	if (!l)
		return;
	if (l->gz)
		(void)gzclose_r(l->gz);
	else if (l->fd >= 0)
		close(l->fd);
	cri_lines_fini(&l->lines);
	free(l->folder);
	free(l->base);
	free(l);
}

struct log_place followed_log_place(const struct followed_log *l)
{
	struct log_place p = l->has_held ? l->held : l->at;

	if (!l->has_held)
		p.offset = cri_lines_begin(&l->lines, p.offset);
	return p;
}

/* ---------------------------------------------------------------------- opening --- */

/* Open a file of the log; -1 with errno. Below a root, containers choose the names: refuse links,
 * other file systems, and anything but a regular file (opening a pipe could block). */
static int open_name(const struct followed_log *l, const char *name, int flags)
{
	AUTO_FREE char *path = fs_join(l->folder, name);
	struct stat st;
	int fd;

	if (!path) {
		errno = ENOMEM;
		return -1;
	}
	flags |= O_NONBLOCK | O_CLOEXEC;
	fd = l->root_fd == AT_FDCWD
		     ? open(path, flags)
		     : fs_openat2(l->root_fd, path, (uint64_t)flags,
				  RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
					  RESOLVE_NO_MAGICLINKS |
					  RESOLVE_NO_XDEV);
	if (fd < 0 || (flags & O_DIRECTORY))
		return fd;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	errno = ELOOP;
	return -1;
}

/* Does the file begin with the bytes that the place was saved with? The inode is not enough, since
 * inodes are reused. */
static bool has_head(const struct log_place *p, int fd)
{
	char head[LOG_HEAD_MAX];
	ssize_t n = pread(fd, head, p->head_n, 0);

	return p->head_n && n == (ssize_t)p->head_n &&
	       crc32c(0, head, (size_t)n) == p->head_crc;
}

static bool has_gz_head(const struct log_place *p, gzFile gz)
{
	char head[LOG_HEAD_MAX];
	int n = gzread(gz, head, p->head_n);

	return p->head_n && gzrewind(gz) == 0 && n == (int)p->head_n &&
	       crc32c(0, head, (size_t)n) == p->head_crc;
}

uint32_t log_head(int fd, uint32_t *ret_crc)
{
	char head[LOG_HEAD_MAX];
	ssize_t n = pread(fd, head, sizeof(head), 0);

	if (n <= 0)
		return 0;
	*ret_crc = crc32c(0, head, (size_t)n);
	return (uint32_t)n;
}

struct log_choice {
	char name[NAME_MAX + 1];
	struct pod_log_name parsed;
	struct stat st;
	bool is_found, is_ours;
};

static bool is_inode_of_place(const struct log_place *p, const struct stat *st)
{
	return p->ino && p->ino == (uint64_t)st->st_ino &&
	       p->dev == (uint64_t)st->st_dev;
}

/* Is it the file that the place points into, and was it not truncated since? */
static bool is_file_of_place(const struct log_place *p, const struct stat *st,
			     int fd)
{
	return is_inode_of_place(p, st) && (uint64_t)st->st_size >= p->offset &&
	       has_head(p, fd);
}

static bool is_named_file_of_place(const struct followed_log *l,
				   const struct stat *st, int dir,
				   const char *name)
{
	AUTO_CLOSE int fd = -1;

	if (!is_inode_of_place(&l->at, st))
		return false;
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return fd >= 0 && is_file_of_place(&l->at, st, fd);
}

/* Is it a file of this log that was rotated? */
static bool is_rotated_name(const struct followed_log *l, const char *name,
			    struct pod_log_name *ret)
{
	size_t n = strlen(l->base);

	if (l->kind->has_rotated_times)
		return pod_log_name_parse(name, ret) && *ret->rotated &&
		       ret->restart == l->restart;
	*ret = (struct pod_log_name){ .restart = 0 };
	return strncmp(name, l->base, n) == 0 && name[n] == '.';
}

static bool is_older_rotation(const struct log_choice *c,
			      const struct pod_log_name *p)
{
	int order = strcmp(p->rotated, c->parsed.rotated);

	return !c->is_found || order < 0 || (order == 0 && !p->is_gz);
}

/* Choose the rotated file that the place points into, or else the oldest one after it. */
static void choose_rotated(const struct followed_log *l, struct log_choice *ret)
{
	int fd = open_name(l, "", O_RDONLY | O_DIRECTORY);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct pod_log_name p;
	const struct dirent *e;
	struct stat st;

	*ret = (struct log_choice){ .is_found = false };
	while (d && !ret->is_ours && (e = readdir(d))) {
		bool ours;

		if (!is_rotated_name(l, e->d_name, &p) ||
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) <
			    0 ||
		    !S_ISREG(st.st_mode))
			continue;
		ours = l->fd >= 0 ? is_inode_of_place(&l->at, &st)
				  : is_named_file_of_place(l, &st, dirfd(d),
							   e->d_name);
		/* Skip other files: names without times do not show their order, so only the
		 * place's file is usable. */
		if (!ours &&
		    (!*p.rotated || strcmp(p.rotated, l->at.rotated) <= 0 ||
		     !is_older_rotation(ret, &p)))
			continue;
		*ret = (struct log_choice){
			.parsed = p, .st = st, .is_found = true, .is_ours = ours
		};
		memcpy(ret->name, e->d_name, strlen(e->d_name) + 1);
	}
	if (d)
		(void)closedir(d);
	else if (fd >= 0)
		close(fd);
}

static void begin_file(struct event_follower *f, struct followed_log *l,
		       const struct stat *st)
{
	char rotated[POD_ROTATED_LEN + 1];

	memcpy(rotated, l->at.rotated, sizeof(rotated));
	l->at = (struct log_place){ .dev = (uint64_t)st->st_dev,
				    .ino = (uint64_t)st->st_ino };
	memcpy(l->at.rotated, rotated, sizeof(rotated));
	f->is_dirty = true;
	if (l->kind->is_cri)
		return;
	/* Event ids are derived from the salt, so it must be saved before the first of them is
	 * sent. */
	if (getrandom(&l->at.salt, sizeof(l->at.salt), 0) < 0)
		l->at.salt = (uint64_t)clock_now_ns();
	f->wants_commit = true;
}

static void note_head(struct event_follower *f, struct followed_log *l)
{
	if (l->at.head_n == LOG_HEAD_MAX || l->gz)
		return;
	l->at.head_n = log_head(l->fd, &l->at.head_crc);
	f->is_dirty = true;
}

static int open_gz(struct followed_log *l, int fd, struct error *err)
{
	l->gz = gzdopen(fd, "rb");
	if (!l->gz) {
		close(fd);
		l->fd = -1;
		return error_nomem(err);
	}
	l->fd = fd;
	return 0;
}

/* Find where to continue in an open file: at its place, or at its beginning. */
static int find_offset(struct event_follower *f, struct followed_log *l,
		       const struct stat *st, bool ours, struct error *err)
{
	/* A compressed file has another inode than the original, so compare the first bytes. */
	if (ours || (l->gz && l->at.ino && has_gz_head(&l->at, l->gz))) {
		l->at.dev = (uint64_t)st->st_dev;
		l->at.ino = (uint64_t)st->st_ino;
		if (l->gz && gzseek(l->gz, (z_off_t)l->at.offset, SEEK_SET) < 0)
			return error_set(err, EIO, "'%s': cannot be unpacked",
					 l->key);
		return 0;
	}
	if (l->at.ino && l->at.offset && l->at.head_n) {
		f->stats.lost_files++;
		log_warning("events",
			    "a file was removed or cut, perhaps before its "
			    "end log=\"%s\"",
			    l->key);
	}
	begin_file(f, l, st);
	return 0;
}

/* Open the file to read next. -ENOENT: the log has no file. */
static int open_next_file(struct event_follower *f, struct followed_log *l,
			  struct error *err)
{
	struct log_choice c = { .is_found = false };
	struct stat st;
	bool ours;
	int fd = open_name(l, l->base, O_RDONLY);
	int why = fd < 0 ? errno : 0;

	ours = fd >= 0 && fstat(fd, &st) == 0 &&
	       is_file_of_place(&l->at, &st, fd);
	if (!ours) {
		choose_rotated(l, &c);
		if (c.is_found) {
			if (fd >= 0)
				close(fd);
			fd = open_name(l, c.name, O_RDONLY);
			if (fd < 0 || fstat(fd, &st) < 0)
				return error_set(err, EAGAIN, "'%s': %s",
						 c.name, strerror(errno));
			ours = c.is_ours;
			l->is_rotated = true;
			memcpy(l->reading, c.parsed.rotated,
			       sizeof(l->reading));
		}
	}
	if (fd < 0)
		return error_errno(err, why, "'%s'", l->key);
	if (l->is_rotated && c.parsed.is_gz) {
		int rc = open_gz(l, fd, err);

		if (rc < 0)
			return rc;
	}
	l->fd = fd;
	return find_offset(f, l, &st, ours, err);
}

static void close_file(struct followed_log *l)
{
	if (l->gz)
		(void)gzclose_r(l->gz);
	else if (l->fd >= 0)
		close(l->fd);
	l->gz = NULL;
	l->fd = -1;
	l->is_rotated = false;
	l->quiet_ns = 0;
	l->reading[0] = '\0';
}

/* Go on to the next file. A line in pieces may continue there, so keep the place where it began. */
static void finish_file(struct event_follower *f, struct followed_log *l)
{
	struct log_choice c;

	if (!*l->reading && l->kind->has_rotated_times) {
		choose_rotated(l, &c);
		if (c.is_ours)
			memcpy(l->reading, c.parsed.rotated,
			       sizeof(l->reading));
	}
	if (!l->has_held &&
	    cri_lines_begin(&l->lines, UINT64_MAX) != UINT64_MAX) {
		l->held = followed_log_place(l);
		l->has_held = true;
		for (size_t i = 0; i < ARRAY_SIZE(l->lines.pieces); i++)
			l->lines.pieces[i].offset = 0;
	}
	if (*l->reading)
		memcpy(l->at.rotated, l->reading, sizeof(l->at.rotated));
	l->at.ino = l->at.dev = l->at.offset = 0;
	l->at.head_n = l->at.head_crc = 0;
	f->is_dirty = f->has_moved = true;
	close_file(l);
}

/* ---------------------------------------------------------------------- reading --- */

struct line_call {
	struct event_follower *f;
	struct followed_log *l;
};

static int on_cri_line(void *arg, const char *line, size_t len, uint64_t offset)
{
	const struct line_call *c = arg;

	return follow_line(c->f, c->l, line, len, offset);
}

static int pass_line(struct event_follower *f, struct followed_log *l,
		     const char *line, size_t len, uint64_t offset)
{
	struct line_call c = { f, l };
	int rc;

	if (len && line[len - 1] == '\n')
		len--;
	if (!l->kind->is_cri)
		return follow_line(f, l, line, len, offset);
	rc = cri_lines_feed(&l->lines, line, len, offset, on_cri_line, &c);
	if (l->has_held && cri_lines_begin(&l->lines, UINT64_MAX) == UINT64_MAX)
		l->has_held = false;
	return rc;
}

/* Pass on the whole lines of the chunk, until the time slice ends. The incomplete rest is read
 * again later. `is_all`: nothing follows, so pass on the rest too. */
static int cut_lines(struct event_follower *f, struct followed_log *l,
		     const char *data, size_t len, bool is_all)
{
	int64_t until = clock_now_ns() + SLICE_NS;
	size_t pos = 0;
	int rc = 0;

	while (rc == 0 && pos < len &&
	       (is_all || pos == 0 || clock_now_ns() < until)) {
		const char *nl = memchr(data + pos, '\n', len - pos);
		size_t n = nl ? (size_t)(nl - data) + 1 - pos : len - pos;

		/* A line as long as the chunk is passed on in parts. */
		if (!nl && !is_all && n != READ_CHUNK)
			break;
		rc = pass_line(f, l, data + pos, n, l->at.offset + pos);
		pos += n;
	}
	l->at.offset += pos;
	f->stats.bytes += pos;
	f->is_dirty |= pos > 0;
	return rc;
}

static ssize_t read_gz(struct event_follower *f, struct followed_log *l,
		       struct error *err)
{
	int64_t until = clock_now_ns() + SLICE_NS;
	size_t sum = 0;
	int rc = 0;

	while (rc == 0 && sum < READ_CHUNK &&
	       (sum == 0 || clock_now_ns() < until) &&
	       l->at.offset < UNPACKED_MAX &&
	       gzgets(l->gz, f->chunk, READ_CHUNK)) {
		size_t n = strlen(f->chunk);
		z_off_t now = gztell(l->gz);

		/* gzgets() reports no length, and a line may contain a NUL: compute the length from
		 * the position. */
		if (now >= 0 && (uint64_t)now > l->at.offset &&
		    (uint64_t)now - l->at.offset < READ_CHUNK)
			n = (size_t)((uint64_t)now - l->at.offset);
		rc = cut_lines(f, l, f->chunk, n, true);
		sum += n;
	}
	return rc < 0 ? error_errno(err, -rc, "'%s'", l->key) : (ssize_t)sum;
}

/* Was the open file renamed or removed, so that lines go to another file now? */
static bool was_file_renamed(struct followed_log *l)
{
	int fd = open_name(l, l->base, O_PATH | O_NOFOLLOW);
	struct stat st;
	bool is_other;

	if (l->root_fd == AT_FDCWD && fd >= 0) {
		close(fd);
		fd = open_name(l, l->base, O_PATH);
	}
	is_other =
		fd < 0 ? errno == ENOENT
		       : fstat(fd, &st) == 0 && !is_inode_of_place(&l->at, &st);
	if (fd >= 0)
		close(fd);
	return is_other;
}

/* The end of the file is reached: go on to the next file, or wait for more lines. */
static int handle_end_of_file(struct event_follower *f, struct followed_log *l)
{
	int64_t now = clock_now_ns();
	int rc = 0;

	if (l->gz) {
		finish_file(f, l);
		return 0;
	}
	if (!l->quiet_ns || now - l->quiet_ns < CHECK_NS) {
		l->quiet_ns = l->quiet_ns ? l->quiet_ns : now;
		return 0;
	}
	if (!l->is_rotated) {
		l->is_rotated = was_file_renamed(l);
		l->quiet_ns = now;
	} else if (now - l->quiet_ns >= GRACE_NS) {
		ssize_t n =
			pread(l->fd, f->chunk, READ_CHUNK, (off_t)l->at.offset);

		if (n > 0)
			rc = cut_lines(f, l, f->chunk, (size_t)n, true);
		finish_file(f, l);
	}
	return rc;
}

/* Was the file copied and truncated? It may have grown to its old length again, so compare its
 * first bytes too. */
static bool was_file_truncated(const struct followed_log *l, struct stat *st)
{
	return fstat(l->fd, st) == 0 &&
	       ((uint64_t)st->st_size < l->at.offset ||
		(l->at.head_n && !has_head(&l->at, l->fd)));
}

static ssize_t read_plain(struct event_follower *f, struct followed_log *l,
			  struct error *err)
{
	uint64_t before = l->at.offset;
	struct stat st;
	ssize_t n;
	int rc = 0;

	if (was_file_truncated(l, &st)) {
		begin_file(f, l, &st);
		return 0;
	}
	n = pread(l->fd, f->chunk, READ_CHUNK, (off_t)before);
	if (n < 0)
		return error_errno(err, errno, "'%s'", l->key);
	if (n > 0) {
		note_head(f, l);
		rc = cut_lines(f, l, f->chunk, (size_t)n, false);
	}
	if (rc == 0 && l->at.offset == before)
		rc = handle_end_of_file(f, l);
	else
		l->quiet_ns = 0;
	if (rc < 0)
		return error_errno(err, -rc, "'%s'", l->key);
	return l->at.offset > before ? (ssize_t)(l->at.offset - before) : 0;
}

ssize_t followed_log_read(struct event_follower *f, struct followed_log *l,
			  struct error *err)
{
	ssize_t n;
	int rc;

	if (l->fd < 0) {
		rc = open_next_file(f, l, err);
		if (rc < 0) {
			close_file(l);
			return rc == -ENOENT || rc == -EAGAIN ? 0 : rc;
		}
	}
	if (f->wants_commit)
		return 0;
	if (!l->gz)
		return read_plain(f, l, err);
	n = read_gz(f, l, err);
	if (n == 0)
		n = handle_end_of_file(f, l);
	return n;
}
