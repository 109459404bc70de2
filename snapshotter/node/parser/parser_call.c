// SPDX-License-Identifier: Apache-2.0
/*
 * bootseerd's side of one job of the parser.  A job may be in the hands of whoever
 * wrote its bytes, so what it says is not that it is over: its file counts once the
 * process is gone, and a process that does not go is killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "snapshotter/node/parser/parser_priv.h"

#define KILL_MS 10000 /* until a killed job is gone */

/* ------------------------------------------------------------------ waiting --- */

/* Processor time that a job which works gets in each millisecond, at least, whatever
 * the load of the machine: a thousandth.  Less is the housekeeping of a sanitizer, or
 * a job that wakes up only to look busy. */
#define WORK_NS_PER_MS 1000

/* Processor time that it used; 0 when it is gone.  It may not have much
 * (confine_job()). */
static int64_t used_ns(const struct artifact_job *job)
{
	struct timespec t = { .tv_sec = 0 };
	clockid_t clock;

	if (clock_getcpuclockid(job->pid, &clock) != 0 ||
	    clock_gettime(clock, &t) < 0)
		return 0;
	return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* What to wait for beside the end of the process. */
struct job_wait {
	int fd; /* -1: nothing */
	short events;
	int64_t end_ns; /* 0: as long as it works */
};

static int wait_ms(const struct parser *p, const struct job_wait *w)
{
	int64_t left;

	if (!w->end_ns)
		return p->bounds.stall;
	left = (w->end_ns - clock_now_ns()) / 1000000 + 1;
	return left < 0                 ? 0
	       : left < p->bounds.stall ? (int)left
					: p->bounds.stall;
}

/* 0: `fd` is ready, or the process is gone, which *ret_gone says. */
static int wait_job(const struct parser *p, const struct artifact_job *job,
		    const struct job_wait *w, bool *ret_gone, struct error *err)
{
	struct pollfd v[] = { { .fd = job->pidfd, .events = POLLIN },
			      { .fd = w->fd, .events = w->events } };
	int64_t used = used_ns(job), now_used;
	int n;

	for (;;) {
		n = poll(v, ARRAY_SIZE(v), wait_ms(p, w));
		*ret_gone = n > 0 && v[0].revents;
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return error_set(err, errno, "poll: %s",
					 strerror(errno));
		if (n < 0)
			continue;
		if (w->end_ns && clock_now_ns() >= w->end_ns)
			return error_set(err, ETIMEDOUT,
					 "the process that parses it did not "
					 "end within %d s, and was killed",
					 p->bounds.whole / 1000);
		now_used = used_ns(job);
		if (now_used - used < p->bounds.stall * WORK_NS_PER_MS)
			return error_set(err, ETIMEDOUT,
					 "the process that parses it did "
					 "nothing for %d s, and was killed",
					 p->bounds.stall / 1000);
		used = now_used;
	}
}

/* ------------------------------------------------------------------- the end --- */

/* A reply, and one byte that is none. */
struct heard {
	char bytes[sizeof(struct parser_reply) + 1];
	size_t len;
	bool is_all; /* nobody can say any more */
};

static void hear(struct heard *h, int fd)
{
	ssize_t n = 1;

	while (n > 0 && h->len < sizeof(h->bytes)) {
		n = read(fd, h->bytes + h->len, sizeof(h->bytes) - h->len);
		h->len += n > 0 ? (size_t)n : 0;
	}
	h->is_all = n == 0;
}

static bool says_too_much(const struct heard *h)
{
	return h->len > sizeof(struct parser_reply);
}

/* Until the process is gone.  A negative result is of one that has to be killed. */
static int hear_out(const struct parser *p, const struct artifact_job *job,
		    struct heard *h, struct error *err)
{
	struct job_wait w = { .fd = job->reply,
			      .events = POLLIN,
			      .end_ns = clock_now_ns() +
					p->bounds.whole * INT64_C(1000000) };
	bool gone = false;
	int rc = 0;

	while (rc == 0 && !gone && !says_too_much(h)) {
		rc = wait_job(p, job, &w, &gone, err);
		/* Also what it said just before it went. */
		if (rc == 0 && !h->is_all)
			hear(h, job->reply);
		if (h->is_all)
			w.fd = -1;
	}
	if (rc == 0 && says_too_much(h))
		rc = error_set(err, EBADMSG,
			       "the process that parses it said more than its "
			       "answer, and was killed");
	return rc;
}

/* `rc` and `err` say why; they stay when it goes. */
static int kill_job(const struct artifact_job *job, int rc, struct error *err)
{
	struct pollfd gone = { .fd = job->pidfd, .events = POLLIN };
	int n;

	(void)pidfd_send_signal(job->pidfd, SIGKILL, NULL, 0);
	do
		n = poll(&gone, 1, KILL_MS);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		return rc;
	return error_set(err, EIO,
			 "process %d that parses it cannot be killed: it hangs "
			 "in the kernel, look at the disk",
			 job->pid);
}

static int judge(const struct heard *h, struct error *err)
{
	struct parser_reply r = { .err = ERROR_INIT };

	if (h->len < sizeof(r))
		return error_set(err, EBADMSG,
				 "the process that parses it died: it needed "
				 "more memory or time than an image may, or "
				 "crashed");
	memcpy(&r, h->bytes, sizeof(r));
	if (r.rc == 0)
		return 0;
	/* It may say anything. */
	r.err.msg[sizeof(r.err.msg) - 1] = '\0';
	for (char *c = r.err.msg; *c; c++)
		if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
			*c = '?';
	return error_set(err, r.rc < 0 && r.rc > -4096 ? -r.rc : EBADMSG, "%s",
			 r.err.msg);
}

static int end_job(struct artifact_parser *a, struct artifact_job *job,
		   struct error *err)
{
	const struct parser *p = container_of(a, struct parser, of_artifacts);
	struct heard h = { .len = 0 };
	int rc;

	if (job->in >= 0)
		(void)close(job->in);
	if (job->is_stuck)
		rc = error_set(err, ETIMEDOUT,
			       "the process that parses it took nothing for "
			       "%d s, and was killed",
			       p->bounds.stall / 1000);
	else
		rc = hear_out(p, job, &h, err);
	rc = rc < 0 ? kill_job(job, rc, err) : judge(&h, err);
	(void)close(job->reply);
	(void)close(job->pidfd);
	return rc;
}

/* -------------------------------------------------------------------- begins --- */

static int begin_unpack(struct artifact_parser *a, int fd, uint64_t size,
			struct artifact_job *ret, struct error *err)
{
	struct parser *p = container_of(a, struct parser, of_artifacts);
	const struct parser_job job = { .kind = PARSER_UNPACK, .size = size };
	AUTO_CLOSE int from = -1;
	AUTO_CLOSE int to = -1;
	int in[2], rc;

	if (pipe2(in, O_CLOEXEC) < 0)
		return error_set(err, errno, "pipe: %s", strerror(errno));
	from = in[0];
	to = in[1];
	/* Only this end: the other one is the job's to read and wait. */
	if (fcntl(to, F_SETFL, O_NONBLOCK) < 0)
		return error_set(err, errno, "pipe: %s", strerror(errno));
	rc = parser_ask(p, &job, fd, from, ret, err);
	if (rc == 0)
		ret->in = steal_fd(&to);
	return rc;
}

static int put_packed(struct artifact_parser *a, struct artifact_job *job,
		      const void *data, size_t len, struct error *err)
{
	const struct parser *p = container_of(a, struct parser, of_artifacts);
	const struct job_wait w = { .fd = job->in, .events = POLLOUT };
	const char *at = data;
	bool gone = false;
	int rc = 0;

	while (rc == 0 && len) {
		ssize_t n = write(job->in, at, len);

		if (n > 0) {
			at += n;
			len -= (size_t)n;
		} else if (errno == EAGAIN && !gone) {
			rc = wait_job(p, job, &w, &gone, err);
			job->is_stuck = rc < 0;
		} else if (errno != EINTR) {
			/* The job has ended: its reply says why. */
			rc = error_set(err, EBADMSG, "unpack: %s",
				       strerror(errno));
		}
	}
	return rc;
}

static int begin_check(struct artifact_parser *a, enum artifact_file file,
		       int fd, uint64_t size, struct artifact_job *ret,
		       struct error *err)
{
	struct parser *p = container_of(a, struct parser, of_artifacts);
	const struct parser_job job = {
		.kind = file == ARTIFACT_MAP ? PARSER_CHECK_MAP
					     : PARSER_CHECK_META,
		.size = size,
	};

	return parser_ask(p, &job, fd, fd, ret, err);
}

void parser_init_jobs(struct parser *p)
{
	p->of_artifacts = (struct artifact_parser){
		.unpack = begin_unpack,
		.put = put_packed,
		.check = begin_check,
		.end = end_job,
	};
}

static int check_path(struct parser *p, enum artifact_file file,
		      const char *path, struct error *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct artifact_job job = { .in = -1 };
	struct stat st;
	int rc;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, errno, "open '%s': %s", path,
				 strerror(errno));
	rc = begin_check(&p->of_artifacts, file, fd, (uint64_t)st.st_size, &job,
			 err);
	return rc < 0 ? rc : end_job(&p->of_artifacts, &job, err);
}

int parser_check(struct parser *p, const char *meta_path, const char *map_path,
		 struct error *err)
{
	int rc = check_path(p, ARTIFACT_META, meta_path, err);

	if (rc < 0)
		return error_wrap(err, rc, "metadata image");
	rc = check_path(p, ARTIFACT_MAP, map_path, err);
	return rc < 0 ? error_wrap(err, rc, "block map") : 0;
}
