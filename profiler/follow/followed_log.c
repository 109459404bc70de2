// SPDX-License-Identifier: Apache-2.0
/*
 * Files of a log, one after another: those that were rotated, the oldest first, then
 * the one that is written to.  A file is known again by its inode and its first bytes;
 * a packed one by these alone.
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
#define CHECK_NS (NS_PER_S / 2) /* between looks whether it was renamed */
/* A log whose lines take long to look through gives way to others after this. */
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

/* -1 with errno.  Names below a root were made by others: no link, no other file
 * system, and no pipe that one waits for. */
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

/* Does the file begin as the one that the place is of?  Inodes are given again, so that
 * one alone says nothing. */
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

static bool is_at(const struct log_place *p, const struct stat *st)
{
	return p->ino && p->ino == (uint64_t)st->st_ino &&
	       p->dev == (uint64_t)st->st_dev;
}

/* Is it the file that the place is of, which was not cut since? */
static bool is_ours(const struct log_place *p, const struct stat *st, int fd)
{
	return is_at(p, st) && (uint64_t)st->st_size >= p->offset &&
	       has_head(p, fd);
}

static bool is_ours_named(const struct followed_log *l, const struct stat *st,
			  int dir, const char *name)
{
	AUTO_CLOSE int fd = -1;

	if (!is_at(&l->at, st))
		return false;
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return fd >= 0 && is_ours(&l->at, st, fd);
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

static bool is_better(const struct log_choice *c, const struct pod_log_name *p)
{
	int order = strcmp(p->rotated, c->parsed.rotated);

	return !c->is_found || order < 0 || (order == 0 && !p->is_gz);
}

/* The file that the place is of, or the oldest behind it that was rotated. */
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
		ours = l->fd >= 0 ? is_at(&l->at, &st)
				  : is_ours_named(l, &st, dirfd(d), e->d_name);
		/* Without times in the names, only the inode tells. */
		if (!ours &&
		    (!*p.rotated || strcmp(p.rotated, l->at.rotated) <= 0 ||
		     !is_better(ret, &p)))
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
	/* Ids are made of it, so it is on disk before the first of them is. */
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

/* Where an open file is gone on with: its place, or its beginning. */
static int find_offset(struct event_follower *f, struct followed_log *l,
		       const struct stat *st, bool ours, struct error *err)
{
	/* A packed file has another inode than what was packed. */
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

/* -ENOENT: there is no file of the log. */
static int open_next(struct event_follower *f, struct followed_log *l,
		     struct error *err)
{
	struct log_choice c = { .is_found = false };
	struct stat st;
	bool ours;
	int fd = open_name(l, l->base, O_RDONLY);
	int why = fd < 0 ? errno : 0;

	ours = fd >= 0 && fstat(fd, &st) == 0 && is_ours(&l->at, &st, fd);
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

/* The next file is begun; a line in pieces may go on there. */
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

static int one_line(struct event_follower *f, struct followed_log *l,
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

/* All whole lines of the chunk, or those that there is time for; what is left is read
 * again with its rest.  `is_all`: there will be no rest. */
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

		/* A line as long as the chunk is looked through in parts. */
		if (!nl && !is_all && n != READ_CHUNK)
			break;
		rc = one_line(f, l, data + pos, n, l->at.offset + pos);
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

		/* A NUL within a line ends what gzgets() tells of it. */
		if (now >= 0 && (uint64_t)now > l->at.offset &&
		    (uint64_t)now - l->at.offset < READ_CHUNK)
			n = (size_t)((uint64_t)now - l->at.offset);
		rc = cut_lines(f, l, f->chunk, n, true);
		sum += n;
	}
	return rc < 0 ? error_errno(err, -rc, "'%s'", l->key) : (ssize_t)sum;
}

/* Was it renamed or removed, so that another file is written to now? */
static bool is_left(struct followed_log *l)
{
	int fd = open_name(l, l->base, O_PATH | O_NOFOLLOW);
	struct stat st;
	bool is_other;

	if (l->root_fd == AT_FDCWD && fd >= 0) {
		close(fd);
		fd = open_name(l, l->base, O_PATH);
	}
	is_other = fd < 0 ? errno == ENOENT
			  : fstat(fd, &st) == 0 && !is_at(&l->at, &st);
	if (fd >= 0)
		close(fd);
	return is_other;
}

/* At its end: is it over, or may more come? */
static int at_end(struct event_follower *f, struct followed_log *l)
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
		l->is_rotated = is_left(l);
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

/* Copied and cut: it may be as long again as it was, so its beginning counts, too. */
static bool is_cut(const struct followed_log *l, struct stat *st)
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

	if (is_cut(l, &st)) {
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
		rc = at_end(f, l);
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
		rc = open_next(f, l, err);
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
		n = at_end(f, l);
	return n;
}
