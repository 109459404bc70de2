// SPDX-License-Identifier: Apache-2.0
/* The threads of a session pass the kernel's requests to the handler. */
#include <errno.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/log.h"
#include "fuse/init_priv.h"
#include "fuse/parking_priv.h"
#include "fuse/session_priv.h"

/* Flag in the number of a resent request. */
#define UNIQUE_RESEND (UINT64_C(1) << 63)

/* Threads that must be free to serve requests while all others wait. */
#define SERVING_MIN 4u

/* Per thread, since libfuse does not pass the number to operations. */
static _Thread_local uint64_t request_id;
/* session of the thread; NULL on other threads */
static _Thread_local struct session *served;

uint64_t session_request_id(void)
{
	return request_id;
}

void requests_process(void *session, void *data, size_t len)
{
	struct session *s = session;
	struct fuse_buf buf = { .size = len, .mem = data };
	struct fuse_in_header in = { .unique = 0 };

	if (len >= sizeof(in))
		memcpy(&in, data, sizeof(in));
	request_id = in.unique & ~UNIQUE_RESEND;
	fuse_session_process_buf(s->se, &buf);
	request_id = 0;
}

static void requests_dispatch(struct session *s, char *data, size_t len)
{
	const struct fuse_in_header *in = (const void *)data;
	struct error err = ERROR_INIT;

	if (len < sizeof(*in))
		return;
	if (in->opcode == FUSE_INTERRUPT) {
		/* Running requests are never interrupted; libfuse would search for requests
		 * that it does not know yet, or any more. */
		(void)!init_refuse(s->fd, in->unique, NULL);
		return;
	}
	data[len] = '\0'; /* names end here whatever the kernel sent */
	if (in->opcode == FUSE_INIT) {
		/* The predecessor died after it kept its descriptors and before it answered
		 * INIT; libfuse's own answer was dropped. */
		if (init_answer_again(s->fd, in->unique, &s->init_reply, &err) <
		    0)
			log_warning(s->cfg.log, "%s", err.msg);
		return;
	}
	if (parking_take(s->parking, data, len))
		return;
	requests_process(s, data, len);
}

/*
 * Read a request. Threads are stopped by cancellation, which only acts in read(). A request lost
 * at that moment is resent to the successor; without one the mount ends anyway.
 */
static ssize_t read_request(struct session *s, char *data)
{
	ssize_t n;
	int old;

	(void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
	n = read(s->fd, data, REQUEST_MAX);
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	return n;
}

static char *map_request(size_t resident)
{
	char *data = mmap(NULL, REQUEST_MAX + 4096, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (data == MAP_FAILED)
		return NULL;
	/*
	 * The kernel fails a request with EIO when it cannot write it here, and it cannot fault
	 * a page in for a process that was just killed. So the page is locked, and not shared
	 * with forked children, which would make it read-only.
	 */
	(void)madvise(data, REQUEST_MAX + 4096, MADV_DONTFORK);
	(void)mlock(data, resident);
	memset(data, 0, resident);
	return data;
}

static void *requests_main(void *arg)
{
	struct request_thread *t = arg;
	struct session *s = t->session;
	char *data = t->data;
	int old;

	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	served = s;
	for (;;) {
		ssize_t n = read_request(s, data);

		if (n > 0)
			requests_dispatch(s, data, (size_t)n);
		/* ENOENT: the kernel withdrew the request before it was read. */
		else if (n == 0 ||
			 (errno != EINTR && errno != EAGAIN && errno != ENOENT))
			break;
	}
	if (errno != ENODEV)
		log_error(s->cfg.log, "reading /dev/fuse: %s", strerror(errno));
	return NULL;
}

/* Start a thread; its memory is allocated before: a thread that failed to get memory would
 * go unnoticed, and a mount without threads makes its users wait for ever. */
static int start_request_thread(struct session *s, struct request_thread *t,
				struct error *err)
{
	int rc;

	t->session = s;
	t->data = map_request(s->cfg.handler->request_max);
	if (!t->data)
		return error_errno(err, errno,
				   "memory for requests, %u KiB for each of %u "
				   "threads",
				   (REQUEST_MAX + 4096) / 1024, s->cfg.threads);
	rc = thread_start(&t->thread, requests_main, t, err);
	if (rc == 0)
		return 0;
	(void)munmap(t->data, REQUEST_MAX + 4096);
	return error_wrap(err, rc, "thread %u of %u", s->n_threads + 1,
			  s->cfg.threads);
}

/* Start another thread. With the lock. */
static int start_next_request_thread(struct session *s, struct error *err)
{
	int rc = start_request_thread(s, &s->threads[s->n_threads], err);

	s->n_threads += rc == 0;
	return rc;
}

int requests_start(struct session *s, struct error *err)
{
	int rc = 0;

	(void)pthread_mutex_lock(&s->serving);
	while (rc == 0 && s->n_threads < s->cfg.threads)
		rc = start_next_request_thread(s, err);
	(void)pthread_mutex_unlock(&s->serving);
	return rc;
}

/* If no thread can be started, the waits still end by their deadlines. */
void session_begin_wait(void)
{
	struct error ignored = ERROR_INIT;
	struct session *s = served;

	if (!s)
		return;
	(void)pthread_mutex_lock(&s->serving);
	s->n_waiting++;
	while (s->n_threads - s->n_waiting < SERVING_MIN &&
	       s->n_threads < SESSION_THREADS_MAX && !s->is_stopping)
		if (start_next_request_thread(s, &ignored) < 0)
			break;
	(void)pthread_mutex_unlock(&s->serving);
}

void session_end_wait(void)
{
	struct session *s = served;

	if (!s)
		return;
	(void)pthread_mutex_lock(&s->serving);
	s->n_waiting--;
	(void)pthread_mutex_unlock(&s->serving);
}

/* With the lock taken, no more threads are started. */
void requests_stop(struct session *s)
{
	(void)pthread_mutex_lock(&s->serving);
	s->is_stopping = true;
	(void)pthread_mutex_unlock(&s->serving);
	for (unsigned int i = 0; i < s->n_threads; i++)
		(void)pthread_cancel(s->threads[i].thread.id);
	for (unsigned int i = 0; i < s->n_threads; i++) {
		thread_join(&s->threads[i].thread);
		(void)munmap(s->threads[i].data, REQUEST_MAX + 4096);
	}
	s->n_threads = 0;
}
