// SPDX-License-Identifier: Apache-2.0
/*
 * Drives the data paths without a registry or cache: serves images whose
 * device is a file on disk, and reads them as hard as it can.
 *
 *	datapath-test make DIR META DATA
 *	datapath-test serve KIND RUN STATE DELAY_US IMAGE...
 *	datapath-test hold KIND RUN STATE DELAY_US IMAGE...
 *	datapath-test complete RUN IMAGE...
 *	datapath-test probe KIND RUN STATE
 *	datapath-test read SEED FILE REFERENCE
 *
 * KIND is a name, or @LINK whose target is the name.  IMAGE is
 * INDEX:META:DATA:MOUNTPOINT.  "serve" says "ready PID" when all are mounted,
 * and unmounts on SIGTERM; "hold" does the same under a holder.  Each read
 * takes DELAY_US longer, on another thread.  "read" compares random ranges, by
 * read(2) and mmap, until SIGTERM; it says "reading" when the first was right.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/log.h"
#include "datapath-image.h"
#include "fuse/fuse.h"
#include "snapshotter/datapath.h"

#define N_DEVICE_THREADS 8
#define N_IMAGES_MAX 64

/* ---------------------------------------------------------------- device --- */

/* A `struct device` of our own: the data path knows no more of it. */
struct device {
	int fd;
	unsigned int delay_us;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct device_read *first;
	pthread_t threads[N_DEVICE_THREADS];
	bool ending;
};

static void answer(struct device *d, struct device_read *r)
{
	int rc = fs_pread_full(d->fd, r->buf, r->len, r->off);
	struct error err = ERROR_INIT;

	if (rc < 0)
		(void)error_set(&err, -rc, "read the data file: %s",
				strerror(-rc));
	r->done(r, rc, rc < 0 ? &err : NULL);
}

static void *device_thread(void *arg)
{
	struct device *d = arg;
	const struct timespec delay = { .tv_sec = d->delay_us / 1000000,
					.tv_nsec =
						d->delay_us % 1000000 * 1000L };

	pthread_mutex_lock(&d->lock);
	for (;;) {
		struct device_read *r = d->first;

		if (!r && d->ending)
			break;
		if (!r) {
			pthread_cond_wait(&d->more, &d->lock);
			continue;
		}
		d->first = r->next;
		pthread_mutex_unlock(&d->lock);
		(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &delay, NULL);
		answer(d, r);
		pthread_mutex_lock(&d->lock);
	}
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

void device_submit(struct device *d, struct device_read *r)
{
	if (d->delay_us == 0) {
		answer(d, r);
		return;
	}
	pthread_mutex_lock(&d->lock);
	r->next = d->first;
	d->first = r;
	pthread_cond_signal(&d->more);
	pthread_mutex_unlock(&d->lock);
}

bool device_has_bytes(struct device *d, uint64_t off, size_t len)
{
	return d->delay_us == 0;
}

static struct device *device_open(const char *path, unsigned int delay_us)
{
	struct device *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->fd = open(path, O_RDONLY | O_CLOEXEC);
	d->delay_us = delay_us;
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->more, NULL);
	for (int i = 0; i < N_DEVICE_THREADS; i++)
		if (pthread_create(&d->threads[i], NULL, device_thread, d))
			abort();
	return d->fd < 0 ? NULL : d;
}

void device_free(struct device *d)
{
	pthread_mutex_lock(&d->lock);
	d->ending = true;
	pthread_cond_broadcast(&d->more);
	pthread_mutex_unlock(&d->lock);
	for (int i = 0; i < N_DEVICE_THREADS; i++)
		(void)pthread_join(d->threads[i], NULL);
	(void)close(d->fd);
	free(d);
}

/* ---------------------------------------------------------------- images --- */

struct image {
	struct datapath_image img;
	char *data;
	const char *files[1];
};

static int parse_image(char *text, struct image *ret)
{
	char *save = NULL;
	const char *index = strtok_r(text, ":", &save);
	struct stat st;

	if (!index)
		return -1;
	*ret = (struct image){ .img.index = strtoull(index, NULL, 10) };
	ret->img.meta_path = strtok_r(NULL, ":", &save);
	ret->data = strtok_r(NULL, ":", &save);
	ret->img.mountpoint = strtok_r(NULL, ":", &save);
	ret->img.name = ret->img.meta_path;
	if (!ret->img.mountpoint || stat(ret->data, &st) < 0)
		return -1;
	ret->img.device_size = ((uint64_t)st.st_size + 4095) & ~UINT64_C(4095);
	return 0;
}

static int fail(const struct error *err)
{
	(void)fprintf(stderr, "datapath-test: %s\n", err->msg);
	return 1;
}

/* ----------------------------------------------------------------- serve --- */

struct served {
	struct fd_keeper *keeper;
	struct datapath *d;
	struct image images[N_IMAGES_MAX];
	int n;
};

static const struct datapath_ops *kind_of(const char *text)
{
	char name[64] = "";

	if (text[0] != '@')
		return datapath_kind(text);
	return readlink(text + 1, name, sizeof(name) - 1) < 0
		       ? NULL
		       : datapath_kind(name);
}

static int begin(struct served *s, char **argv, int argc, struct error *err)
{
	const struct datapath_ops *ops = kind_of(argv[0]);
	struct datapath_config cfg = { .run_dir = argv[1],
				       .state_dir = argv[2],
				       .threads = 4 };
	unsigned int delay_us = (unsigned int)atoi(argv[3]);
	int rc = fd_keeper_open(&s->keeper, err);

	if (!ops)
		return error_set(err, EINVAL, "no such kind '%s'", argv[0]);
	cfg.keeper = s->keeper;
	if (rc == 0)
		rc = ops->start(&cfg, &s->d, err);
	for (int i = 4; rc == 0 && i < argc; i++) {
		struct image *im = &s->images[s->n];

		if (s->n == N_IMAGES_MAX || parse_image(argv[i], im) < 0)
			return error_set(err, EINVAL, "image '%s'", argv[i]);
		im->img.device = device_open(im->data, delay_us);
		if (!im->img.device)
			return error_set(err, errno, "device '%s'", im->data);
		rc = ops->mount(s->d, &im->img, err);
		if (rc == 0)
			s->n++;
	}
	return rc == 0 ? ops->resume(s->d, err) : rc;
}

static int end(struct served *s, bool keep, struct error *err)
{
	int rc = 0;

	for (int i = 0; rc == 0 && i < s->n && !keep; i++)
		rc = s->d->ops->umount(s->d, &s->images[i].img, err);
	s->d->ops->stop(s->d, keep);
	for (int i = 0; i < s->n; i++)
		device_free(s->images[i].img.device);
	fd_keeper_close(s->keeper);
	return rc;
}

static int serve(char **argv, int argc)
{
	struct served s = { .n = 0 };
	struct error err = ERROR_INIT;
	sigset_t set;
	int sig;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (begin(&s, argv, argc, &err) < 0)
		return fail(&err);
	(void)printf("ready %d\n", (int)getpid());
	(void)fflush(stdout);
	if (sigwait(&set, &sig) != 0)
		return 1;
	if (end(&s, sig == SIGHUP, &err) < 0)
		return fail(&err);
	/* Not a clean end: our successor takes over. */
	return sig == SIGHUP ? 7 : 0;
}

static int hold(char **argv)
{
	struct error err = ERROR_INIT;
	char name[] = "serve";
	char *save = argv[1];
	int rc;

	argv[1] = name;
	rc = hold_run(argv, &err);
	argv[1] = save;
	return rc < 0 ? fail(&err) : rc;
}

static int complete(char **argv, int argc)
{
	struct error err = ERROR_INIT;

	for (int i = 1; i < argc; i++) {
		struct image im;

		if (parse_image(argv[i], &im) < 0)
			return 2;
		im.files[0] = im.data;
		im.img.files = im.files;
		im.img.n_files = 1;
		if (datapath_mount_complete(argv[0], &im.img, &err) < 0)
			return fail(&err);
	}
	return 0;
}

static int make(char **argv)
{
	struct error err = ERROR_INIT;

	return datapath_image_make(argv[0], argv[1], argv[2], &err) < 0
		       ? fail(&err)
		       : 0;
}

static int probe(char **argv)
{
	const struct datapath_ops *ops = datapath_kind(argv[0]);
	struct datapath_config cfg = { .run_dir = argv[1],
				       .state_dir = argv[2],
				       .threads = 1 };
	struct error err = ERROR_INIT;

	if (!ops)
		return 2;
	return ops->probe(&cfg, &err) < 0 ? fail(&err) : 0;
}

/* ------------------------------------------------------------------ read --- */

#define RANGE_MAX (256u << 10)

static volatile sig_atomic_t told_to_end;

static void on_term(int sig)
{
	told_to_end = 1;
}

/* 0 when the bytes are those of the reference. */
static int compare(int fd, const char *want, uint64_t off, size_t len,
		   bool mapped)
{
	static char buf[RANGE_MAX];
	const char *got = buf;
	void *map = NULL;
	size_t skip = off & 4095;
	int rc;

	/* From the daemon, not from the page cache. */
	(void)posix_fadvise(fd, (off_t)off, (off_t)len, POSIX_FADV_DONTNEED);
	if (mapped) {
		map = mmap(NULL, skip + len, PROT_READ, MAP_SHARED, fd,
			   (off_t)(off - skip));
		if (map == MAP_FAILED)
			return -errno;
		got = (const char *)map + skip;
	} else {
		rc = fs_pread_full(fd, buf, len, off);
		if (rc < 0)
			return rc;
	}
	rc = memcmp(got, want + off, len) ? -EBADMSG : 0;
	if (map)
		(void)munmap(map, skip + len);
	return rc;
}

static int read_loop(char **argv)
{
	unsigned int seed = (unsigned int)atoi(argv[0]);
	AUTO_CLOSE int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	AUTO_CLOSE int ref = open(argv[2], O_RDONLY | O_CLOEXEC);
	unsigned long long n = 0;
	struct stat st;
	char *want;

	if (fd < 0 || ref < 0 || fstat(ref, &st) < 0) {
		perror(argv[1]);
		return 2;
	}
	want = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, ref, 0);
	if (want == MAP_FAILED)
		return 2;
	(void)signal(SIGTERM, on_term);
	for (; !told_to_end; n++) {
		uint64_t off =
			(uint64_t)rand_r(&seed) * 4099 % (uint64_t)st.st_size;
		size_t len = 1 + (size_t)rand_r(&seed) % (RANGE_MAX - 1);
		int rc;

		if (len > (uint64_t)st.st_size - off)
			len = (size_t)((uint64_t)st.st_size - off);
		rc = compare(fd, want, off, len, n % 2);
		if (rc < 0) {
			(void)printf("failed at %llu+%zu mmap=%d: %s\n",
				     (unsigned long long)off, len, (int)(n % 2),
				     strerror(-rc));
			return 1;
		}
		if (n == 0) {
			(void)printf("reading\n");
			(void)fflush(stdout);
		}
	}
	(void)printf("read %llu ranges\n", n);
	(void)munmap(want, (size_t)st.st_size);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "make") == 0 && argc == 5)
		return make(argv + 2);
	if (strcmp(what, "serve") == 0 && argc >= 6)
		return serve(argv + 2, argc - 2);
	if (strcmp(what, "hold") == 0 && argc >= 6)
		return hold(argv);
	if (strcmp(what, "complete") == 0 && argc >= 4)
		return complete(argv + 2, argc - 2);
	if (strcmp(what, "probe") == 0 && argc == 5)
		return probe(argv + 2);
	if (strcmp(what, "read") == 0 && argc == 5)
		return read_loop(argv + 2);
	(void)fprintf(stderr, "usage: see the top of datapath-test.c\n");
	return 2;
}
