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
	size_t logs;       /* that are followed, and point here */
	uint64_t events;   /* that were taken in this hour */
	uint64_t left_out; /* ... and that were not */
	bool is_told;      /* in this hour */
	char name[];
};

static struct allowance_share *share_of(struct allowance_share **table,
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

static void tell_count(const struct allowance_share *pod)
{
	if (pod->left_out)
		log_warning("events",
			    "left out within the hour pod=\"%s\" "
			    "events=%" PRIu64,
			    pod->name, pod->left_out);
}

/* Those that nothing points to any more are forgotten with their hour, not before: a
 * pod whose log is gone for a moment has said what it has said. */
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

static void tell_counts(const struct allowance *a)
{
	struct allowance_share *s, *next;

	HASH_ITER(hh, a->pods, s, next)
	tell_count(s);
}

static void look_at_clock(struct allowance *a)
{
	int64_t now = clock_now_ns();

	if (a->hour_ns && now - a->hour_ns < HOUR_NS)
		return;
	tell_counts(a);
	a->hour_ns = now;
	a->events = 0;
	begin_hour(&a->pods, false);
	begin_hour(&a->namespaces, false);
}

void allowance_fini(struct allowance *a)
{
	tell_counts(a);
	begin_hour(&a->pods, true);
	begin_hour(&a->namespaces, true);
}

static void tell_once(struct allowance *a, struct allowance_share *pod,
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

	look_at_clock(a);
	s = share_of(&a->pods, pod);
	if (s)
		tell_once(a, s, reason);
}

/* Half of what others leave: is `mine` less than what is left of `most`? */
static bool may_have_more(uint64_t mine, uint64_t all, uint64_t most)
{
	return all < most && mine < most - all;
}

bool allowance_add_log(struct allowance *a, const char *pod,
		       const char *namespace, struct allowance_of_log *ret)
{
	struct allowance_of_log l;

	look_at_clock(a);
	l.pod = share_of(&a->pods, pod);
	l.namespace = share_of(&a->namespaces, namespace);
	if (!l.pod || !l.namespace)
		return false;
	if (!may_have_more(l.namespace->logs, a->logs, a->cfg.logs_max)) {
		tell_once(
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

/* NULL: nothing is in the way. */
static const char *reason_not_to(const struct allowance *a,
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

	look_at_clock(a);
	reason = l->pod ? reason_not_to(a, l, has_later) : NULL;
	if (reason) {
		tell_once(a, l->pod, reason);
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
