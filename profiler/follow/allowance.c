// SPDX-License-Identifier: Apache-2.0
#include "profiler/follow/allowance.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/log.h"

#define HOUR_NS (3600 * NS_PER_S)

struct allowance_share {
	UT_hash_handle hh;
	size_t logs;       /* followed logs that use this share */
	uint64_t events;   /* events accepted in this hour */
	uint64_t left_out; /* events left out in this hour */
	/* the first event left out in this hour was logged */
	bool is_told;
	char name[];
};

static struct allowance_share *find_or_add_share(struct allowance_share **table,
						 const char *name)
{
	size_t len = strlen(name);
	struct allowance_share *s;

	HASH_FIND(hh, *table, name, len, s);
	if (s)
		return s;
	s = calloc(1, sizeof(*s) + len + 1);
	if (!s)
		return NULL;
	memcpy(s->name, name, len + 1);
	HASH_ADD_KEYPTR(hh, *table, s->name, len, s);
	if (hash_has_added(s))
		return s;
	free(s);
	return NULL;
}

static void log_left_out(const struct allowance_share *pod)
{
	if (pod->left_out)
		log_warning("events",
			    "left out within the hour pod=\"%s\" "
			    "events=%" PRIu64,
			    pod->name, pod->left_out);
}

/* Begin a new hour. Shares without logs are removed now, not when their last log goes: a pod whose
 * log is missing for a moment must not get a new allowance. */
static void begin_hour(struct allowance_share **table, bool all)
{
	struct allowance_share *s, *next;

	HASH_ITER(hh, *table, s, next)
	{
		if (s->logs == 0 || all) {
			HASH_DEL(*table, s);
			free(s);
			continue;
		}
		s->events = s->left_out = 0;
		s->is_told = false;
	}
}

static void log_all_left_out(const struct allowance *a)
{
	struct allowance_share *s, *next;

	HASH_ITER(hh, a->pods, s, next)
	log_left_out(s);
}

static void begin_hour_if_due(struct allowance *a)
{
	int64_t now = clock_now_ns();

	if (a->hour_ns && now - a->hour_ns < HOUR_NS)
		return;
	log_all_left_out(a);
	a->hour_ns = now;
	a->events = 0;
	begin_hour(&a->pods, false);
	begin_hour(&a->namespaces, false);
}

void allowance_fini(struct allowance *a)
{
	log_all_left_out(a);
	begin_hour(&a->pods, true);
	begin_hour(&a->namespaces, true);
}

static void log_once_an_hour(struct allowance *a, struct allowance_share *pod,
			     const char *reason)
{
	if (pod->is_told)
		return;
	log_warning("events", "left out pod=\"%s\" reason=\"%s\"", pod->name,
		    reason);
	pod->is_told = true;
	a->told++;
}

void allowance_tell(struct allowance *a, const char *pod, const char *reason)
{
	struct allowance_share *s;

	begin_hour_if_due(a);
	s = find_or_add_share(&a->pods, pod);
	if (s)
		log_once_an_hour(a, s, reason);
}

/* A namespace may use half of what the others leave: is `mine` less than the rest of `most`? */
static bool may_have_more(uint64_t mine, uint64_t all, uint64_t most)
{
	return all < most && mine < most - all;
}

bool allowance_add_log(struct allowance *a, const char *pod,
		       const char *namespace, struct allowance_of_log *ret)
{
	struct allowance_of_log l;

	begin_hour_if_due(a);
	l.pod = find_or_add_share(&a->pods, pod);
	l.namespace = find_or_add_share(&a->namespaces, namespace);
	if (!l.pod || !l.namespace)
		return false;
	if (!may_have_more(l.namespace->logs, a->logs, a->cfg.logs_max)) {
		log_once_an_hour(
			a, l.pod,
			"its namespace has more logs than half of what others "
			"leave");
		return false;
	}
	l.pod->logs++;
	l.namespace->logs++;
	a->logs++;
	*ret = l;
	return true;
}

void allowance_drop_log(struct allowance *a, struct allowance_of_log *l)
{
	if (!l->pod)
		return;
	l->pod->logs--;
	l->namespace->logs--;
	a->logs--;
	*l = (struct allowance_of_log){ .pod = NULL };
}

/* Why the event is left out; NULL: it is accepted. */
static const char *refusal_reason(const struct allowance *a,
				  const struct allowance_of_log *l,
				  bool has_later)
{
	if (l->pod->events >= a->cfg.pod_events)
		return "more than --pod-events within the hour";
	if (!may_have_more(l->namespace->events, a->events, a->cfg.node_events))
		return "its namespace said more within the hour than half of "
		       "what others leave of --node-events";
	if (l->namespace->events >= ALLOWANCE_FIRST_EVENTS && !has_later)
		return "its namespace said much within the hour, and the "
		       "spool is half full of such";
	return NULL;
}

enum allowance_answer allowance_take(struct allowance *a,
				     const struct allowance_of_log *l,
				     bool has_later)
{
	const char *reason;

	begin_hour_if_due(a);
	reason = l->pod ? refusal_reason(a, l, has_later) : NULL;
	if (reason) {
		log_once_an_hour(a, l->pod, reason);
		l->pod->left_out++;
		return ALLOWANCE_NONE;
	}
	a->events++;
	if (!l->pod)
		return ALLOWANCE_FIRST;
	l->pod->events++;
	return l->namespace->events++ < ALLOWANCE_FIRST_EVENTS
		       ? ALLOWANCE_FIRST
		       : ALLOWANCE_LATER;
}
