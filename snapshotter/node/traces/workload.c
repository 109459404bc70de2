// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/traces/workload.h"

#include <stdlib.h>
#include <string.h>

static void workload_free(struct workload_entry *e)
{
	free(e->key);
	free(e);
}

void image_workloads_free(struct image_workloads *w)
{
	struct workload_entry *e;

	if (!w)
		return;
	while ((e = w->first)) {
		w->first = e->next;
		workload_free(e);
	}
	free(w);
}

struct workload_entry *workload_find(const struct image_workloads *w,
				     const char *key)
{
	struct workload_entry *e;

	for (e = w->first; e; e = e->next) {
		if (key ? e->key && strcmp(e->key, key) == 0
			: e->kind == WORKLOAD_OF_CONFIG)
			return e;
	}
	return NULL;
}

static bool make_room(struct image_workloads *w)
{
	struct workload_entry **at, **last = NULL;
	struct workload_entry *dead;
	size_t n = 0;

	for (at = &w->first; *at; at = &(*at)->next) {
		n++;
		if (!workload_is_searched(*at) && (*at)->waiters == 0)
			last = at;
	}
	if (n < WORKLOADS_MAX)
		return true;
	if (!last)
		return false;
	dead = *last;
	*last = dead->next;
	if (w->hot == dead)
		w->hot = NULL;
	workload_free(dead);
	return true;
}

struct workload_entry *workload_add(struct image_workloads *w, const char *key)
{
	struct workload_entry *e = make_room(w) ? calloc(1, sizeof(*e)) : NULL;

	if (!e)
		return NULL;
	e->kind = key ? WORKLOAD_NAMED : WORKLOAD_OF_CONFIG;
	e->key = key ? strdup(key) : NULL;
	if (key && !e->key) {
		free(e);
		return NULL;
	}
	e->next = w->first;
	w->first = e;
	return e;
}

bool workload_is_hot(const struct image_workloads *w,
		     const struct workload_entry *e)
{
	return !e->found || w->hot == e;
}

bool workload_is_due(const struct image_workloads *w,
		     const struct workload_entry *e,
		     enum workload_purpose purpose, int64_t now_ns)
{
	if (workload_is_searched(e))
		return false;
	if (e->phase == WORKLOAD_UNKNOWN || now_ns >= e->expires_ns)
		return true;
	return purpose != WORKLOAD_TO_LOOK && !workload_is_hot(w, e);
}

void workload_begin(struct workload_entry *e, enum workload_purpose purpose)
{
	e->phase = WORKLOAD_SEARCHED;
	e->purpose = purpose;
	e->expires_ns = INT64_MAX;
}

void workload_answer(struct workload_entry *e, const struct trace_found *best)
{
	const struct trace *t = best->trace;

	e->found = t != NULL;
	e->match = best->match;
	e->wanted = !t || best->wanted;
	e->length_ms = 0;
	if (t && !t->readers)
		e->length_ms =
			t->info.ready_ms ? t->info.ready_ms : t->info.window_ms;
	e->phase = WORKLOAD_ANSWERED;
}

void workload_end(struct image_workloads *w, struct workload_entry *e,
		  char *key, int64_t now_ns)
{
	if (e->key)
		free(key);
	else
		e->key = key;
	e->phase = WORKLOAD_KNOWN;
	/* 0: workload_forget() was called during the search, so the answer is out of date. */
	if (e->expires_ns != 0)
		e->expires_ns =
			now_ns + (e->found && e->match != TRACE_MATCH_PREDICTED
					  ? WORKLOAD_FOUND_NS
					  : WORKLOAD_NONE_NS);
	if (e->found && e->purpose != WORKLOAD_TO_LOOK)
		w->hot = e;
}

void workload_forget(struct image_workloads *w)
{
	struct workload_entry *e;

	for (e = w->first; e; e = e->next)
		e->expires_ns = 0;
}
