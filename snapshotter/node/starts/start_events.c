// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/starts/start_events.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/log.h"
#include "profiler/emit/emit.h"

#define EMITTER_NAME "bootseerd"
#define HOUR_NS (3600 * NS_PER_S)

/* How many events of a namespace of pods were written in this hour. */
struct events_share {
	UT_hash_handle hh;
	unsigned int events;
	char name[];
};

struct start_events {
	char *dir;
	pthread_mutex_t lock; /* protects the rest */
	struct stage_emitter *to;
	bool is_told; /* it was logged why events cannot be written */
	int64_t hour_ns;
	unsigned int hour_events;
	struct events_share *shares; /* of this hour only, so there are few */
};

int start_events_new(const char *dir, struct start_events **ret,
		     struct error *err)
{
	struct start_events *e;

	*ret = NULL;
	e = calloc(1, sizeof(*e));
	if (!e)
		return error_nomem(err);
	e->dir = strdup(dir);
	if (!e->dir) {
		free(e);
		return error_nomem(err);
	}
	(void)pthread_mutex_init(&e->lock, NULL);
	*ret = e;
	return 0;
}

static void forget_shares(struct start_events *e)
{
	struct events_share *s, *next;

	HASH_ITER(hh, e->shares, s, next)
	{
		HASH_DEL(e->shares, s);
		free(s);
	}
}

void start_events_free(struct start_events *e)
{
	if (!e)
		return;
	forget_shares(e);
	stage_emitter_free(e->to);
	(void)pthread_mutex_destroy(&e->lock);
	free(e->dir);
	free(e);
}

/* Log why an event was not written, once until it works again.  Lock held. */
static void log_event_failure(struct start_events *e, const char *why)
{
	if (!e->is_told)
		log_warning("starts",
			    "stages not said dir=\"%s\" reason=\"%s\"", e->dir,
			    why);
	e->is_told = true;
}

/* The count of the job's namespace (the part before '/'); jobs without a '/' share one.  NULL:
 * no memory.  Lock held. */
static struct events_share *get_namespace_share(struct start_events *e,
						const char *job)
{
	const char *slash = strchr(job, '/');
	size_t len = slash ? (size_t)(slash - job) : 0;
	struct events_share *s;

	HASH_FIND(hh, e->shares, job, len, s);
	if (s)
		return s;
	s = calloc(1, sizeof(*s) + len + 1);
	if (!s)
		return NULL;
	memcpy(s->name, job, len);
	HASH_ADD_KEYPTR(hh, e->shares, s->name, len, s);
	if (hash_has_added(s))
		return s;
	free(s);
	return NULL;
}

/* May the namespace write another event?  It may have half of what the others have left in this
 * hour, so that the last one gets something too, however many the first write.  Lock held. */
static bool has_room(struct start_events *e, const char *job)
{
	int64_t now = clock_now_ns();
	struct events_share *s;

	if (!e->hour_ns || now - e->hour_ns >= HOUR_NS) {
		e->hour_ns = now;
		e->hour_events = 0;
		forget_shares(e);
	}
	s = get_namespace_share(e, job);
	if (!s || s->events >= START_EVENTS_HOUR_MAX - e->hour_events) {
		log_event_failure(e, "too many within the hour");
		return false;
	}
	s->events++;
	e->hour_events++;
	return true;
}

/* Check that the folder is root's.  Its name follows from --run, so in a parent folder that is
 * open to everybody another user may have made it: -EPERM. */
static int check_folder(const char *dir, struct error *err)
{
	struct stat st;

	if (lstat(dir, &st) < 0)
		return error_errno(err, errno, "'%s'", dir);
	if (!S_ISDIR(st.st_mode) ||
	    (st.st_uid != 0 && st.st_uid != geteuid()) ||
	    st.st_mode & (S_IWGRP | S_IWOTH))
		return error_set(err, EPERM,
				 "'%s' is no folder that root alone may change",
				 dir);
	return 0;
}

/* Open the file of events.  If the folder is missing, no program reads events here, which is no
 * error.  Lock held. */
static bool open_emitter(struct start_events *e)
{
	struct error why = ERROR_INIT;
	int rc = e->to ? 0 : check_folder(e->dir, &why);

	if (rc == 0 && !e->to)
		rc = stage_emitter_new(e->dir, EMITTER_NAME, &e->to, &why);

	if (rc < 0 && rc != -ENOENT)
		log_event_failure(e, why.msg);
	return rc == 0;
}

/* Write one event.  Lock held. */
static bool write_stage_event(struct start_events *e,
			      const struct start_stages *s, const char *stage,
			      enum stage_ev ev, int64_t at_ns,
			      const uint64_t *facts)
{
	struct stage_text image = stage_text(s->image);
	struct stage_event event;

	stage_make(stage, ev, at_ns, &event);
	event.job = stage_text(s->owner->job);
	event.attempt = s->owner->attempt;
	event.rank = s->owner->rank;
	if (stage_is_image(image))
		event.image = image;
	for (size_t k = 0; facts && k < STAGE_FACTS; k++)
		event.facts[k] = facts[k] < (uint64_t)STAGE_FACT_MAX
					 ? facts[k]
					 : (uint64_t)STAGE_FACT_MAX;
	return stage_emit(e->to, &event);
}

/* Write a stage's begin or end; `facts` belong to the end.  Lock held. */
static void write_span_event(struct start_events *e,
			     const struct start_stages *s, const char *stage,
			     enum stage_ev ev, const struct stage_span *span)
{
	int64_t at = ev == STAGE_BEGIN ? span->begin_ns : span->end_ns;

	if (!at || !has_room(e, s->owner->job))
		return;
	if (write_stage_event(e, s, stage, ev, at,
			      ev == STAGE_END ? span->facts : NULL))
		e->is_told = false;
	else
		log_event_failure(e, "the file cannot be written");
}

/* Write both events of a stage.  Lock held. */
static void write_stage_span(struct start_events *e,
			     const struct start_stages *s, const char *stage,
			     const struct stage_span *span)
{
	write_span_event(e, s, stage, STAGE_BEGIN, span);
	if (span->begin_ns)
		write_span_event(e, s, stage, STAGE_END, span);
}

void start_events_begin(struct start_events *e, const struct start_stages *s)
{
	if (!e || !s->owner->job[0])
		return;
	(void)pthread_mutex_lock(&e->lock);
	if (open_emitter(e)) {
		write_stage_span(e, s, "image.prepare", &s->prepare);
		write_stage_span(e, s, "image.resolve", &s->resolve);
		write_span_event(e, s, "image.start", STAGE_BEGIN, &s->start);
	}
	(void)pthread_mutex_unlock(&e->lock);
}

void start_events_end(struct start_events *e, const struct start_stages *s)
{
	if (!e || !s->owner->job[0])
		return;
	(void)pthread_mutex_lock(&e->lock);
	if (open_emitter(e)) {
		write_stage_span(e, s, "image.hot", &s->hot);
		write_span_event(e, s, "image.start", STAGE_END, &s->start);
	}
	(void)pthread_mutex_unlock(&e->lock);
}
