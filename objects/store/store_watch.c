// SPDX-License-Identifier: Apache-2.0
/* A thread that checks now and then whether the store is silent. For the watched calls this
 * costs one atomic store each. */
#include "objects/store/store_watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/periodic.h"
#include "objects/store_patience.h"

#define AFTER_MAX_NS (5 * NS_PER_S)
#define TIMEOUT_MIN_NS NS_PER_S /* shorter waits are not reported */
#define LINE_MAX_BYTES 512
/* Silence that object_store_is_away() reports. */
#define AWAY_NS (3 * NS_PER_S)

struct store_watch {
	struct object_store *store;
	object_store_say_fn *say;
	void *arg;
	int64_t after_ns;
	struct periodic *thread;
};

/* ----------------------------------------------------------------- silence --- */

int64_t store_call_begin(struct object_store *s)
{
	int64_t now = clock_now_ns();

	/* The first of the running calls: count the silence from here. */
	if (atomic_fetch_add(&s->silence.n_calls, 1) == 0)
		atomic_store(&s->silence.heard_ns, now);
	return now;
}

/* Does this result mean that the store answered? */
static bool is_answer(int rc)
{
	return rc != -ETIMEDOUT && rc != -ECONNREFUSED && rc != -EIO &&
	       rc != -EBUSY;
}

void store_call_end(struct object_store *s, int rc)
{
	if (is_answer(rc))
		store_note_answer(s);
	atomic_fetch_sub(&s->silence.n_calls, 1);
}

void store_note_answer(struct object_store *s)
{
	atomic_store(&s->silence.heard_ns, clock_now_ns());
}

void store_note_failure(struct object_store *s, const struct error *why)
{
	(void)pthread_mutex_lock(&s->silence.lock);
	s->silence.failed_ns = clock_now_ns();
	s->silence.why = *why;
	(void)pthread_mutex_unlock(&s->silence.lock);
}

bool object_store_is_away(struct object_store *s, int64_t *ret_ns,
			  struct error *ret_why)
{
	struct store_silence *q = &s->silence;
	int64_t heard = atomic_load(&q->heard_ns);
	int64_t silent = clock_now_ns() - heard;

	if (!s->ops->is_remote || !atomic_load(&q->n_calls) || silent < AWAY_NS)
		return false;
	*ret_ns = silent;
	(void)pthread_mutex_lock(&q->lock);
	if (q->failed_ns >= heard)
		*ret_why = q->why;
	else
		(void)error_set(ret_why, ETIMEDOUT,
				"it has taken a request and does not answer");
	(void)pthread_mutex_unlock(&q->lock);
	return true;
}

int64_t store_silence_after(int64_t timeout_ns)
{
	if (timeout_ns < TIMEOUT_MIN_NS)
		return 0;
	return timeout_ns / 2 < AFTER_MAX_NS ? timeout_ns / 2 : AFTER_MAX_NS;
}

bool store_silence_look(struct store_silence *s, int64_t now_ns,
			int64_t after_ns, int64_t *ret_next_ns)
{
	int64_t heard = atomic_load(&s->heard_ns);

	/* Check again when a call that begins now would be late. */
	*ret_next_ns = now_ns + after_ns;
	if (!atomic_load(&s->n_calls) || heard == atomic_load(&s->told_ns))
		return false;
	if (now_ns - heard < after_ns) {
		*ret_next_ns = heard + after_ns;
		return false;
	}
	atomic_store(&s->told_ns, heard);
	return true;
}

/* ------------------------------------------------------------------- watch --- */

static void log_wait(const struct store_watch *w)
{
	const struct object_store *s = w->store;
	char line[LINE_MAX_BYTES];

	(void)snprintf(line, sizeof(line),
		       "%.300s has not answered for %.1f s: it is given up "
		       "after %.1f s without progress (--store-timeout)",
		       s->url, (double)w->after_ns / NS_PER_S,
		       (double)s->cfg.retry_ms / 1000);
	w->say(w->arg, line);
}

static int64_t store_watch_look(void *arg)
{
	struct store_watch *w = arg;
	int64_t next;

	if (store_silence_look(&w->store->silence, clock_now_ns(), w->after_ns,
			       &next))
		log_wait(w);
	return next;
}

int object_store_watch(struct object_store *s, object_store_say_fn *say,
		       void *arg, struct error *err)
{
	int64_t after = store_silence_after(s->cfg.retry_ms * NS_PER_MS);
	struct store_watch *w;
	int rc;

	if (!s->ops->is_remote || !after)
		return 0;
	w = calloc(1, sizeof(*w));
	if (!w)
		return error_nomem(err);
	*w = (struct store_watch){
		.store = s, .say = say, .arg = arg, .after_ns = after
	};
	rc = periodic_start(store_watch_look, w, 0, &w->thread, err);
	if (rc < 0)
		free(w);
	else
		s->watch = w;
	return rc;
}

void store_watch_stop(struct store_watch *w)
{
	if (!w)
		return;
	periodic_stop(w->thread);
	free(w);
}

void object_store_set_timeout(struct object_store_config *cfg,
			      int64_t timeout_ns)
{
	cfg->retry_ms = (uint32_t)(timeout_ns / NS_PER_MS);
	if (cfg->connect_timeout_ms > cfg->retry_ms)
		cfg->connect_timeout_ms = cfg->retry_ms;
	/* Otherwise a hanging attempt would take all of the time. */
	if (cfg->stall_timeout_ms > cfg->retry_ms)
		cfg->stall_timeout_ms = cfg->retry_ms;
}
