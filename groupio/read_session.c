// SPDX-License-Identifier: Apache-2.0
/* The connection of a rank that reads a file on a node without a mount point, after its
 * first request: docs/formats/group-save.md. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/side_by_side.h"
#include "groupio/grouped_file.h"
#include "groupio/rank_socket.h"
#include "groupio/read_session.h"
#include "groupio/save_priv.h"

#define REQUEST_SIZE 16u
#define READ_THREADS 8u
#define READERS_MAX 32u /* a rank has a file open for as long as it likes */
#define FAILED_EVERY_NS (60 * NS_PER_S)

/* A read of a rank: bytes of a file that are copied unit by unit to the rank's memory. */
struct rank_read {
	struct saves *all;
	struct grouped_file *file;
	uint64_t off, len, unit;
	char *to;
	atomic_uint_fast64_t next; /* next unit that no thread has taken */
};

static int read_units(void *arg, unsigned int index, struct error *err)
{
	struct rank_read *r = arg;
	const uint64_t end = r->off + r->len;
	int rc = 0;

	(void)index;
	while (rc == 0) {
		const uint64_t u = atomic_fetch_add(&r->next, 1);
		const uint64_t begin =
			u * r->unit > r->off ? u * r->unit : r->off;
		uint64_t until = (u + 1) * r->unit;

		if (begin >= end)
			break;
		if (atomic_load(&r->all->is_ending))
			return error_set(err, ECANCELED, "the process ends");
		until = until < end ? until : end;
		rc = grouped_file_read(r->file, begin, r->to + (begin - r->off),
				       (size_t)(until - begin), err);
	}
	return rc;
}

/* Read into the rank's memory `fd`. Its seals must forbid shrinking: else a write to it
 * could crash this process. */
static int read_to_memory(struct rank_read *r, int fd, struct error *err)
{
	const int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
	const uint64_t units =
		(r->off + r->len - 1) / r->unit - r->off / r->unit + 1;
	struct stat st;
	void *map;
	int rc;

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) < 0 ||
	    (uint64_t)st.st_size < r->len)
		return -EINVAL;
	/* Allocate the pages now: if memory is short, this fails with an error, while a
	 * later write would raise a signal. */
	if (fallocate(fd, 0, 0, (off_t)r->len) < 0)
		return -errno;
	map = mmap(NULL, r->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	r->to = map;
	atomic_init(&r->next, r->off / r->unit);
	rc = side_by_side(units < READ_THREADS ? (unsigned int)units
					       : READ_THREADS,
			  read_units, r, err);
	(void)munmap(map, r->len);
	return rc;
}

/* Count a failed read and log it now and then: a rank may request missing bytes as often as
 * it likes. */
static void note_failed_read(struct saves *s, const char *why)
{
	const int64_t now_ns = clock_now_ns();
	uint64_t n = 0;

	(void)pthread_mutex_lock(&s->lock);
	s->readers.n_failed++;
	if (!s->readers.told_ns ||
	    now_ns - s->readers.told_ns >= FAILED_EVERY_NS) {
		n = s->readers.n_failed;
		s->readers.n_failed = 0;
		s->readers.told_ns = now_ns;
	}
	(void)pthread_mutex_unlock(&s->lock);
	if (n)
		log_warning("save",
			    "a rank's read failed times=%" PRIu64
			    " reason=\"%s\"",
			    n, why);
}

/* Serve one read; false: it was the last one. */
static bool serve_read(struct rank_read *r, int sock, uint64_t size)
{
	struct error err = ERROR_INIT;
	uint8_t head[REQUEST_SIZE], answer[8];
	AUTO_CLOSE int fd = -1;
	int rc = -ERANGE;

	if (rank_receive(sock, head, sizeof(head), &fd, NULL) < 0)
		return false;
	r->off = get_le64(head);
	r->len = get_le64(head + 8);
	if (r->len && r->off <= size && r->len <= size - r->off)
		rc = read_to_memory(r, fd, &err);
	if (rc < 0)
		note_failed_read(r->all, *err.msg ? err.msg : strerror(-rc));
	put_le64(answer, (uint64_t)(int64_t)rc);
	return send(sock, answer, sizeof(answer), MSG_NOSIGNAL) ==
	       (ssize_t)sizeof(answer);
}

/* As in POSIX, exactly one class of mode bits decides: owner, else group, else others; so
 * mode 0604 denies the group. */
static bool may_read(const struct ckpt_attr *a, const struct ucred *who)
{
	const unsigned int shift = who->uid == a->uid   ? 6
				   : who->gid == a->gid ? 3
							: 0;

	return who->uid == 0 || (a->mode >> shift & 4);
}

static void read_released(void *arg, const struct ckpt_file *f)
{
	(void)arg;
	(void)f;
}

/* Count one reader more (`n` 1) or less (-1); false: there are too many. */
static bool count_readers(struct saves *s, int n)
{
	bool ok;

	(void)pthread_mutex_lock(&s->lock);
	ok = n < 0 || s->readers.n < READERS_MAX;
	s->readers.n += ok ? (unsigned int)n : 0;
	(void)pthread_mutex_unlock(&s->lock);
	return ok;
}

static int serve_file(struct saves *s, int sock, const char *path,
		      const struct ucred *who, struct error *err)
{
	/* No timeout between two reads, as a rank makes memory between them, at seconds for
	 * each 10 GB. Only a rank whose file was opened gets this: others would occupy
	 * connections without reading. */
	const struct timeval ever = { .tv_sec = 0 };
	struct rank_read r = { .all = s };
	struct ckpt_file *f = NULL;
	uint64_t size = 0;
	char line[48];
	int rc = ckpt_open(s->cfg.store, path, &f, err);

	if (rc == 0 && !may_read(&ckpt_file_stat(f)->attr, who)) {
		ckpt_close(f);
		return error_set(err, EACCES, "'%.100s' is another user's",
				 path);
	}
	if (rc == 0) {
		size = ckpt_file_stat(f)->size;
		r.unit = ckpt_file_unit(f);
		rc = grouped_file_new(s->cfg.group, NULL, f, read_released,
				      NULL, &r.file, err);
	}
	if (rc < 0)
		return rc;
	(void)setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &ever, sizeof(ever));
	(void)snprintf(line, sizeof(line), "{\"size\":%" PRIu64 "}\n", size);
	if (send(sock, line, strlen(line), MSG_NOSIGNAL) > 0)
		while (!atomic_load(&s->is_ending) &&
		       serve_read(&r, sock, size))
			;
	grouped_file_free(r.file);
	return 0;
}

int reads_serve(struct saves *s, int sock, const char *path,
		const struct ucred *who, struct error *err)
{
	int rc;

	if (!count_readers(s, 1))
		return error_set(err, EBUSY, "%u files are read already",
				 READERS_MAX);
	rc = serve_file(s, sock, path, who, err);
	(void)count_readers(s, -1);
	return rc;
}
