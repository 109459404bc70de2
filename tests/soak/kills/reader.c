// SPDX-License-Identifier: Apache-2.0
/*
 * A reader of the soak: reads random ranges of the files of a mount, by read(2)
 * and by mmap(2), through files it has just opened and files that it keeps open,
 * and compares every byte with the folder that the image was made from.
 *
 *   kills-reader --truth DIR --view DIR --stats FILE [--seed N] [--private DIR]
 *
 * It reads until SIGTERM.  What is not right is a line on stdout:
 *
 *   KIND BEGIN END ERRNO OFFSET PATH
 *
 * with KIND wrong, zeros, short or error and times of CLOCK_MONOTONIC in ns.
 * FILE has the figures while it runs: struct stats, native integers.
 *
 * Pages leave the page cache by posix_fadvise(), file by file, so nobody else on
 * the machine is disturbed.  With --private it has a mount namespace of its own,
 * in which the mounts below DIR stay when they are unmounted elsewhere.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "tests/soak/kills/reader.h"

#define N_KEPT 6
#define RANGE_MAX (256 << 10)
/* So that ten readers leave the daemons a part of two cores. */
#define PAUSE_NS 1500000

struct stats {
	uint64_t reads, bytes, mapped, wrong, zeros, errors;
	uint64_t since_ns; /* when the read under way began; 0: none is */
	uint64_t rounds;   /* of the loop, also those that read nothing */
};

struct kept_file {
	int fd; /* -1: none */
	const struct truth_file *file;
};

struct reader {
	struct truth truth;
	struct stats *stats;
	int view; /* folder; -1: to be opened */
	const char *view_path;
	uint64_t random;
	struct kept_file kept[N_KEPT];
	uint8_t *buf;
};

static volatile sig_atomic_t is_over;
static sigjmp_buf on_sigbus;

static void handle_term(int sig)
{
	(void)sig;
	is_over = 1;
}

static void handle_bus(int sig)
{
	(void)sig;
	siglongjmp(on_sigbus, 1);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) +
	       (uint64_t)ts.tv_nsec;
}

/* xorshift64*: a number below `n`. */
static size_t pick(struct reader *r, size_t n)
{
	r->random ^= r->random >> 12;
	r->random ^= r->random << 25;
	r->random ^= r->random >> 27;
	return (size_t)((r->random * UINT64_C(2685821657736338717)) >> 33) % n;
}

static void report(struct reader *r, const char *kind, int code, size_t off,
		   const struct truth_file *f)
{
	printf("%s %" PRIu64 " %" PRIu64 " %d %zu %s\n", kind,
	       r->stats->since_ns, now_ns(), code, off, f->path);
	(void)fflush(stdout);
}

static void report_error(struct reader *r, int code, size_t off,
			 const struct truth_file *f)
{
	r->stats->errors++;
	report(r, "error", code, off, f);
}

static void judge(struct reader *r, const struct truth_file *f, size_t off,
		  size_t len)
{
	size_t bad = off;

	r->stats->reads++;
	r->stats->bytes += len;
	switch (truth_check(f, off, r->buf, len, &bad)) {
	case VERDICT_RIGHT:
		break;
	case VERDICT_WRONG:
		r->stats->wrong++;
		report(r, "wrong", 0, bad, f);
		break;
	case VERDICT_ZEROS:
		r->stats->zeros++;
		report(r, "zeros", 0, bad, f);
		break;
	}
}

static void read_range(struct reader *r, int fd, const struct truth_file *f,
		       size_t off, size_t len)
{
	ssize_t n;

	for (size_t done = 0; done < len; done += (size_t)n) {
		n = pread(fd, r->buf + done, len - done, (off_t)(off + done));
		if (n < 0 && errno == EINTR) {
			n = 0;
			continue;
		}
		if (n < 0) {
			report_error(r, errno, off + done, f);
			return;
		}
		if (n == 0) { /* shorter than it is */
			r->stats->wrong++;
			report(r, "short", 0, off + done, f);
			return;
		}
	}
	judge(r, f, off, len);
}

/* Through the page cache alone: an error is a SIGBUS. */
static void map_range(struct reader *r, int fd, const struct truth_file *f,
		      size_t off, size_t len)
{
	uint8_t *volatile map =
		mmap(NULL, f->size, PROT_READ, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED) {
		report_error(r, errno, off, f);
		return;
	}
	if (sigsetjmp(on_sigbus, 1) == 0) {
		memcpy(r->buf, map + off, len);
		r->stats->mapped++;
		judge(r, f, off, len);
	} else {
		report_error(r, EIO, off, f);
	}
	(void)munmap(map, f->size);
}

static void read_some(struct reader *r, int fd, const struct truth_file *f)
{
	size_t off, len;

	if (f->size == 0)
		return;
	off = pick(r, f->size);
	if (pick(r, 3) == 0)
		off = 0;
	len = 1 + pick(r, pick(r, 4) ? 16 << 10 : RANGE_MAX);
	if (len > f->size - off)
		len = f->size - off;
	if (pick(r, 2) == 0)
		(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (pick(r, 3) == 0)
		map_range(r, fd, f, off, len);
	else
		read_range(r, fd, f, off, len);
}

static int open_file(struct reader *r, const struct truth_file *f)
{
	int fd;

	if (r->view < 0)
		r->view =
			open(r->view_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fd = r->view < 0 ? -1 : openat(r->view, f->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		report_error(r, errno, 0, f);
	return fd;
}

static void one_round(struct reader *r)
{
	struct kept_file *k = &r->kept[pick(r, N_KEPT)];

	r->stats->since_ns = now_ns();
	if (k->fd < 0 || pick(r, 8) == 0) {
		if (k->fd >= 0)
			(void)close(k->fd);
		k->file = &r->truth.files[pick(r, r->truth.n)];
		k->fd = open_file(r, k->file);
	}
	if (k->fd >= 0)
		read_some(r, k->fd, k->file);
	r->stats->since_ns = 0;
	r->stats->rounds++;
}

static void be_private(const char *dir)
{
	if (unshare(CLONE_NEWNS) < 0)
		err(2, "unshare");
	if (mount(NULL, dir, NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		err(2, "mount --make-rprivate %s", dir);
}

static struct stats *map_stats(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *p;

	if (fd < 0 || ftruncate(fd, sizeof(struct stats)) < 0)
		err(2, "%s", path);
	p = mmap(NULL, sizeof(struct stats), PROT_READ | PROT_WRITE, MAP_SHARED,
		 fd, 0);
	if (p == MAP_FAILED)
		err(2, "map %s", path);
	(void)close(fd);
	return p;
}

static void handle(int sig, void (*handler)(int))
{
	/* No SA_RESTART: a read that waits ends with the program. */
	struct sigaction sa = { .sa_handler = handler };

	if (sigaction(sig, &sa, NULL) < 0)
		err(2, "sigaction");
}

static const struct option long_options[] = {
	{ "truth", required_argument, NULL, 't' },
	{ "view", required_argument, NULL, 'v' },
	{ "stats", required_argument, NULL, 's' },
	{ "seed", required_argument, NULL, 'n' },
	{ "private", required_argument, NULL, 'p' },
	{ NULL, 0, NULL, 0 },
};

int main(int argc, char **argv)
{
	static const struct timespec pause_time = { .tv_nsec = PAUSE_NS };
	const char *truth = NULL, *stats = NULL;
	struct reader r = { .view = -1, .random = 1 };
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) >= 0) {
		switch (c) {
		case 't':
			truth = optarg;
			break;
		case 'v':
			r.view_path = optarg;
			break;
		case 's':
			stats = optarg;
			break;
		case 'n':
			r.random = strtoull(optarg, NULL, 10) * 2 + 1;
			break;
		case 'p':
			be_private(optarg);
			break;
		default:
			return 2;
		}
	}
	if (!truth || !r.view_path || !stats)
		errx(2, "--truth, --view and --stats are needed");
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	r.buf = malloc(RANGE_MAX);
	if (!r.buf)
		err(2, "malloc");
	truth_load(truth, &r.truth);
	r.stats = map_stats(stats);
	for (size_t i = 0; i < N_KEPT; i++)
		r.kept[i].fd = -1;
	handle(SIGTERM, handle_term);
	handle(SIGBUS, handle_bus);
	while (!is_over) {
		one_round(&r);
		(void)nanosleep(&pause_time, NULL);
	}
	return 0;
}
