// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/fault_source.h"

#include <errno.h>
#include <string.h>
#include <time.h>

struct memory_source {
	struct source base;
	const uint8_t *data;
	size_t piece;
};

static int memory_read(struct source *s, const struct source_req *req,
		       struct source_sink *sink, struct error *err)
{
	struct memory_source *m = container_of(s, struct memory_source, base);

	for (uint64_t done = 0; done < req->len;) {
		size_t n =
			req->len - done < m->piece ? req->len - done : m->piece;
		int rc = sink->put(sink, req->off + done,
				   m->data + req->off + done, n, err);

		if (rc < 0)
			return rc;
		done += n;
	}
	return 0;
}

static void memory_free(struct source *s)
{
	free(container_of(s, struct memory_source, base));
}

static const struct source_ops memory_ops = {
	.name = "memory",
	.read = memory_read,
	.free = memory_free,
};

struct source *memory_source_new(const void *data, size_t len, size_t piece)
{
	struct memory_source *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->base.ops = &memory_ops;
	m->base.size = len;
	m->data = data;
	m->piece = piece;
	return &m->base;
}

struct fault_sink {
	struct source_sink base;
	struct source_sink *next;
	struct fault_source *f;
	struct pace *pace;
	uint64_t left; /* bytes until this read fails */
	int rc;        /* 0: it does not */
};

/* With the lock: until it changes, or 10 ms. */
static void wait_changed(struct fault_source *f)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_nsec += 10000000;
	ts.tv_sec += ts.tv_nsec / 1000000000;
	ts.tv_nsec %= 1000000000;
	(void)pthread_cond_timedwait(&f->changed, &f->lock, &ts);
}

/* Damage of the plan that concerns these bytes.  False: not wanted any more. */
static bool spoil(struct fault_source *f, struct pace *pace, uint64_t pos,
		  uint8_t *p, size_t len)
{
	bool is_stopped = false;

	(void)pthread_mutex_lock(&f->lock);
	f->n_waiting++;
	(void)pthread_cond_broadcast(&f->changed);
	while (f->plan.held && pos + len > f->plan.hold_at && !is_stopped) {
		wait_changed(f);
		is_stopped =
			f->plan.heeds_pace && pace_level(pace) == PACE_STOP;
	}
	f->n_waiting--;
	if (f->plan.n_wrong && f->plan.wrong_at >= pos &&
	    f->plan.wrong_at < pos + len) {
		f->plan.n_wrong--;
		p[f->plan.wrong_at - pos] ^= 0x40;
	}
	f->n_bytes += len;
	(void)pthread_mutex_unlock(&f->lock);
	return !is_stopped;
}

static int fault_put(struct source_sink *sink, uint64_t pos, const void *data,
		     size_t len, struct error *err)
{
	struct fault_sink *s = container_of(sink, struct fault_sink, base);
	bool fails = s->rc && s->left < len;
	size_t n = fails ? s->left : len;
	AUTO_FREE uint8_t *copy = malloc(n ? n : 1);
	int rc = 0;

	if (!copy)
		return error_nomem(err);
	memcpy(copy, data, n);
	if (n) {
		if (!spoil(s->f, s->pace, pos, copy, n))
			return error_set(err, ECANCELED, "stopped");
		rc = s->next->put(s->next, pos, copy, n, err);
	}
	s->left -= n;
	if (rc == 0 && fails)
		rc = error_set(err, -s->rc, "fault on purpose");
	return rc;
}

static int fault_read(struct source *base, const struct source_req *req,
		      struct source_sink *sink, struct error *err)
{
	struct fault_source *f = container_of(base, struct fault_source, base);
	struct fault_sink s = {
		.base.put = fault_put, .next = sink, .pace = req->pace, .f = f
	};

	(void)pthread_mutex_lock(&f->lock);
	if (f->n_reads < FAULT_LOG_MAX) {
		f->log[f->n_reads].off = req->off;
		f->log[f->n_reads].len = req->len;
		f->log[f->n_reads].priority = req->priority;
	}
	f->n_reads++;
	if (f->plan.n_fail) {
		f->plan.n_fail--;
		s.rc = f->plan.fail_rc;
		s.left = f->plan.fail_after;
	}
	(void)pthread_cond_broadcast(&f->changed);
	(void)pthread_mutex_unlock(&f->lock);
	return source_read(base->next, req, &s.base, err);
}

static void fault_free(struct source *base)
{
	struct fault_source *f = container_of(base, struct fault_source, base);

	source_free(base->next);
	(void)pthread_cond_destroy(&f->changed);
	(void)pthread_mutex_destroy(&f->lock);
	free(f);
}

static const struct source_ops fault_ops = {
	.name = "fault",
	.read = fault_read,
	.free = fault_free,
};

struct fault_source *fault_source_new(struct source *next)
{
	struct fault_source *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->base.ops = &fault_ops;
	f->base.next = next;
	f->base.size = next->size;
	(void)pthread_mutex_init(&f->lock, NULL);
	(void)pthread_cond_init(&f->changed, NULL);
	return f;
}

void fault_set(struct fault_source *f, const struct fault_plan *plan)
{
	(void)pthread_mutex_lock(&f->lock);
	f->plan = *plan;
	(void)pthread_cond_broadcast(&f->changed);
	(void)pthread_mutex_unlock(&f->lock);
}

void fault_wait_held(struct fault_source *f, unsigned int n)
{
	(void)pthread_mutex_lock(&f->lock);
	while (f->n_waiting < n)
		(void)pthread_cond_wait(&f->changed, &f->lock);
	(void)pthread_mutex_unlock(&f->lock);
}

void fault_wait_reads(struct fault_source *f, size_t n)
{
	(void)pthread_mutex_lock(&f->lock);
	while (f->n_reads < n)
		(void)pthread_cond_wait(&f->changed, &f->lock);
	(void)pthread_mutex_unlock(&f->lock);
}

void fault_release(struct fault_source *f)
{
	(void)pthread_mutex_lock(&f->lock);
	f->plan.held = false;
	(void)pthread_cond_broadcast(&f->changed);
	(void)pthread_mutex_unlock(&f->lock);
}

size_t fault_reads(struct fault_source *f)
{
	size_t n;

	(void)pthread_mutex_lock(&f->lock);
	n = f->n_reads;
	(void)pthread_mutex_unlock(&f->lock);
	return n;
}
