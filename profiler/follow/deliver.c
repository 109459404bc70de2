// SPDX-License-Identifier: Apache-2.0
/*
 * Delivers batches one after another, the oldest first; the later spool only when the first is
 * empty. While the service is away, full, or rejects the token, batches stay in the spool. A batch
 * that it refuses for good is sent again job by job, so that only the job at fault (one with too
 * many events, say) loses events.
 */
#include "profiler/follow/deliver.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/periodic.h"
#include "profiler/send/send.h"
#include "profiler/stage_event.h"

#define RETRY_MIN_NS (NS_PER_S / 2)
#define RETRY_MAX_NS (60 * NS_PER_S)
#define IDLE_NS (60 * NS_PER_S)
#define CLOCK_AGE_NS (600 * NS_PER_S)

struct deliverer {
	struct event_spool *spools[SPOOLS];
	struct service_client *client;
	const char *node;
	struct periodic *thread;
	/* Used by the thread only. */
	struct buf batch, clock;
	int64_t clock_ns, retry_ns, retry_at;
	pthread_mutex_t lock; /* protects `stats` */
	struct deliver_stats stats;
};

static void count_stats(struct deliverer *d, const struct deliver_stats *more)
{
	(void)pthread_mutex_lock(&d->lock);
	d->stats.stored += more->stored;
	d->stats.doubles += more->doubles;
	d->stats.refused += more->refused;
	d->stats.damaged += more->damaged;
	d->stats.failures += more->failures;
	(void)pthread_mutex_unlock(&d->lock);
}

/* Will a retry fail too? A refused token may be corrected while the daemon runs, so that is no
 * final error. */
static bool is_final(int rc)
{
	return rc == -EINVAL || rc == -EFBIG;
}

/* ------------------------------------------------------------------- batches --- */

/* Read the next line of `b`; false: it is no complete event. A batch may end within a line. */
static bool next_event(const struct buf *b, size_t *pos,
		       struct stage_text *ret_line, struct stage_event *ret)
{
	const char *line = b->data + *pos;
	const char *nl = memchr(line, '\n', b->len - *pos);
	struct stage_scan at = { .pos = 0 };

	*ret_line = (struct stage_text){ .s = line,
					 .n = nl ? (size_t)(nl - line)
						 : b->len - *pos };
	*pos += ret_line->n + (nl ? 1 : 0);
	return nl && ret_line->n > strlen(STAGE_MARKER) &&
	       memcmp(line, STAGE_MARKER, strlen(STAGE_MARKER)) == 0 &&
	       stage_line_next(line, ret_line->n, &at, ret) ==
		       STAGE_FOUND_EVENT &&
	       at.pos == ret_line->n;
}

/* Drop events that were damaged on disk. */
static int drop_damaged_events(struct deliverer *d, struct buf *ret)
{
	struct stage_text line;
	struct stage_event e;
	size_t pos = 0;
	int rc = 0;

	while (rc == 0 && pos < d->batch.len) {
		if (next_event(&d->batch, &pos, &line, &e))
			rc = buf_append(ret, line.s, line.n + 1);
		else
			count_stats(d, &(struct deliver_stats){ .damaged = 1 });
	}
	return rc;
}

/* Move the lines of the first event's job to `ret`, all others to `rest`. */
static int split_job(const struct buf *all, struct buf *ret, struct buf *rest,
		     uint64_t *ret_n)
{
	struct stage_text line, job = { .n = 0 };
	struct stage_event e;
	size_t pos = 0;
	int rc = 0;

	*ret_n = 0;
	while (rc == 0 && pos < all->len) {
		if (!next_event(all, &pos, &line, &e))
			continue;
		if (!job.n)
			job = e.job;
		if (job.n == e.job.n && memcmp(job.s, e.job.s, job.n) == 0) {
			rc = buf_append(ret, line.s, line.n + 1);
			++*ret_n;
		} else {
			rc = buf_append(rest, line.s, line.n + 1);
		}
	}
	return rc;
}

static int send_lines(struct deliverer *d, const struct buf *lines,
		      struct error *err)
{
	struct stage_sent sent = { .stored = 0 };
	int rc = stage_send(d->client, d->node, d->clock.data, lines, &sent,
			    err);

	if (rc == 0)
		count_stats(d,
			    &(struct deliver_stats){ .stored = sent.stored,
						     .doubles = sent.doubles });
	return rc;
}

static int send_by_job(struct deliverer *d, struct buf *all, struct error *err)
{
	int rc = 0;

	while (rc == 0 && all->len) {
		AUTO_BUF some = BUF_INIT;
		struct buf rest = BUF_INIT;
		uint64_t n;

		if (split_job(all, &some, &rest, &n) < 0) {
			buf_fini(&rest);
			return error_nomem(err);
		}
		rc = some.len ? send_lines(d, &some, err) : 0;
		if (is_final(rc)) {
			log_warning(
				"events",
				"the service does not take them events=%" PRIu64
				" reason=\"%s\"",
				n, err->msg);
			count_stats(d, &(struct deliver_stats){ .refused = n });
			rc = 0;
		}
		buf_fini(all);
		*all = rest;
	}
	return rc;
}

/* -------------------------------------------------------------------- thread --- */

static int send_batch(struct deliverer *d, struct error *err)
{
	int64_t now = clock_now_ns();
	AUTO_BUF whole = BUF_INIT;
	int rc = 0;

	if (!d->clock.len || now - d->clock_ns > CLOCK_AGE_NS) {
		rc = stage_clock_exchange(d->client, d->node, &d->clock, err);
		d->clock_ns = now;
	}
	if (rc == 0 && drop_damaged_events(d, &whole) < 0)
		rc = error_nomem(err);
	if (rc == 0 && whole.len)
		rc = send_lines(d, &whole, err);
	return is_final(rc) && whole.len ? send_by_job(d, &whole, err) : rc;
}

static int64_t set_retry_time(struct deliverer *d, const struct error *why)
{
	count_stats(d, &(struct deliver_stats){ .failures = 1 });
	if (!d->retry_ns)
		log_warning("events",
			    "kept reason=\"%s\" action=\"tried again\"",
			    why->msg);
	d->retry_ns = d->retry_ns ? d->retry_ns * 2 : RETRY_MIN_NS;
	if (d->retry_ns > RETRY_MAX_NS)
		d->retry_ns = RETRY_MAX_NS;
	d->retry_at = clock_now_ns() + d->retry_ns;
	return d->retry_at;
}

static int64_t deliver_next_batch(void *arg)
{
	struct deliverer *d = arg;
	struct error err = ERROR_INIT;
	struct event_spool *from = NULL;
	uint64_t batch;
	int rc = 0;

	/* Do not retry before the time set by the last failure, even if new batches come. */
	if (d->retry_ns && clock_now_ns() < d->retry_at)
		return d->retry_at;
	for (int i = 0; rc == 0 && i < SPOOLS; i++) {
		from = d->spools[i];
		rc = event_spool_first(from, &batch, &d->batch, &err);
	}
	if (rc == 0)
		return clock_now_ns() + IDLE_NS;
	if (rc > 0)
		rc = send_batch(d, &err);
	if (rc < 0)
		return set_retry_time(d, &err);
	if (d->retry_ns)
		log_info("events", "the service takes events again");
	d->retry_ns = 0;
	event_spool_drop(from, batch);
	return clock_now_ns();
}

int deliverer_start(struct event_spool *const spools[SPOOLS],
		    struct service_client *client, const char *node,
		    struct deliverer **ret, struct error *err)
{
	struct deliverer *d = calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return error_nomem(err);
	memcpy(d->spools, spools, sizeof(d->spools));
	d->client = client;
	d->node = node;
	(void)pthread_mutex_init(&d->lock, NULL);
	rc = periodic_start(deliver_next_batch, d, 0, &d->thread, err);
	if (rc < 0)
		deliverer_stop(d);
	else
		*ret = d;
	return rc;
}

void deliverer_stop(struct deliverer *d)
{
	if (!d)
		return;
	periodic_stop(d->thread);
	(void)pthread_mutex_destroy(&d->lock);
	buf_fini(&d->batch);
	buf_fini(&d->clock);
	free(d);
}

void deliverer_wake(struct deliverer *d)
{
	periodic_wake(d->thread);
}

void deliverer_get_stats(struct deliverer *d, struct deliver_stats *ret)
{
	(void)pthread_mutex_lock(&d->lock);
	*ret = d->stats;
	(void)pthread_mutex_unlock(&d->lock);
}
