// SPDX-License-Identifier: Apache-2.0
#include "profiler/follow/pod_stages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/bounded_json.h"
#include "common/crc32c.h"
#include "common/json.h"

/* Values that all events of a pod have in common. */
struct pod_facts {
	const json_t *meta, *status;
	char job[STAGE_JOB_MAX + 1];
	int64_t attempt, rank;
	uint64_t place; /* number that its event ids are derived from */
};

/* Read a time such as "2026-11-23T10:00:00Z"; STAGE_NONE: there is none. */
static int64_t time_of(const json_t *o, const char *key)
{
	const char *s = json_text_of(o, key);

	return stage_logged_at(s, strlen(s));
}

/* When a condition became true. */
static int64_t condition_at(const json_t *status, const char *type)
{
	const json_t *list = json_object_get(status, "conditions"), *c;
	size_t i;

	json_array_foreach(list, i, c) if (
		strcmp(json_text_of(c, "type"), type) == 0 &&
		strcmp(json_text_of(c, "status"), "True") ==
			0) return time_of(c, "lastTransitionTime");
	return STAGE_NONE;
}

/* The plain value of a variable in the environment of any container; "" if none. */
static const char *variable_of(const json_t *spec, const char *name)
{
	const json_t *list = json_object_get(spec, "containers"), *c, *v;
	size_t i, k;

	json_array_foreach(list, i, c)
		json_array_foreach(json_object_get(c, "env"), k,
				   v) if (strcmp(json_text_of(v, "name"),
						 name) ==
					  0) return json_text_of(v, "value");
	return "";
}

static int64_t count_of(const json_t *spec, const char *name)
{
	const char *s = variable_of(spec, name);
	size_t n = strlen(s);

	return n && n <= 9 && strspn(s, "0123456789") == n ? atoi(s)
							   : STAGE_NONE;
}

/* Read a pod. False: it names no job, or is on another node. */
static bool read_pod(const json_t *pod, const char *node, struct pod_facts *ret)
{
	const json_t *spec = json_object_get(pod, "spec");
	const char *job = variable_of(spec, "BOOTSEER_JOB"), *ns, *uid;

	ret->meta = json_object_get(pod, "metadata");
	ret->status = json_object_get(pod, "status");
	ns = json_text_of(ret->meta, "namespace");
	uid = json_text_of(ret->meta, "uid");
	if (!*job || !*ns || !*uid ||
	    strcmp(json_text_of(spec, "nodeName"), node) != 0)
		return false;
	if (snprintf(ret->job, sizeof(ret->job), "%s/%s", ns, job) >=
	    (int)sizeof(ret->job))
		return false;
	ret->attempt = count_of(spec, "BOOTSEER_ATTEMPT");
	ret->rank = count_of(spec, "BOOTSEER_RANK");
	if (ret->rank == STAGE_NONE)
		ret->rank = count_of(spec, "RANK");
	ret->place = crc32c(0, uid, strlen(uid));
	return stage_is_job(stage_text(ret->job));
}

/* Pass an event of the pod to `each`, if its time is known. */
static int say_event(const struct pod_facts *p, const char *stage,
		     enum stage_ev ev, int64_t ts_ns,
		     int (*each)(void *arg, const struct stage_event *e),
		     void *arg)
{
	struct stage_event e = STAGE_EVENT_INIT;

	if (ts_ns == STAGE_NONE)
		return 0;
	e.stage = stage_text(stage);
	e.ev = ev;
	e.job = stage_text(p->job);
	e.attempt = p->attempt;
	e.rank = p->rank;
	/* The id does not depend on the time. A sandbox that is made again changes the condition's
	 * time; the event with the first time is kept. */
	e.ts_ns = 0;
	e.id = stage_event_make_id(&e, p->place);
	e.ts_ns = ts_ns;
	return e.id == STAGE_NONE ? -ENOMEM : each(arg, &e);
}

static int say_stage(const struct pod_facts *p, const char *stage,
		     int64_t begin, int64_t end,
		     int (*each)(void *arg, const struct stage_event *e),
		     void *arg)
{
	int rc = say_event(p, stage, STAGE_BEGIN, begin, each, arg);

	/* Times come from several machines and are in whole seconds, so the end may seem to be
	 * before the begin. */
	if (end != STAGE_NONE && end < begin)
		end = begin;
	return rc == 0 && begin != STAGE_NONE
		       ? say_event(p, stage, STAGE_END, end, each, arg)
		       : rc;
}

static int emit_stages_of_pod(const struct pod_facts *p,
			      int (*each)(void *arg,
					  const struct stage_event *e),
			      void *arg)
{
	int64_t created = time_of(p->meta, "creationTimestamp");
	int64_t placed = condition_at(p->status, "PodScheduled");
	int64_t stands = condition_at(p->status, "PodReadyToStartContainers");
	const json_t *list = json_object_get(p->status, "conditions"), *c;
	bool has_sandboxes = false;
	size_t i;
	int rc;

	json_array_foreach(list, i, c) has_sandboxes |=
		strcmp(json_text_of(c, "type"), "PodReadyToStartContainers") ==
		0;
	if (!has_sandboxes)
		stands = time_of(p->status, "startTime");
	rc = say_stage(p, POD_STAGE_QUEUE, created, placed, each, arg);
	return rc == 0 ? say_stage(p, POD_STAGE_SCHEDULE, placed, stands, each,
				   arg)
		       : rc;
}

int pod_stages_read(const void *json, size_t len, const char *node,
		    int (*each)(void *arg, const struct stage_event *e),
		    void *arg, struct error *err)
{
	const json_t *items, *pod;
	AUTO_JSON *root = NULL;
	size_t i;
	int rc = bounded_json_load(json, len, "list of pods", &root, err);

	if (rc < 0)
		return rc;
	items = json_object_get(root, "items");
	/* A kubelet without pods returns null. */
	if (!json_is_array(items) && !json_is_null(items))
		rc = error_set(err, EINVAL,
			       "list of pods: it has no 'items'; the kubelet's "
			       "/pods is wanted, or 'kubectl get pods -A -o "
			       "json'");
	json_array_foreach(items, i, pod)
	{
		struct pod_facts p;

		if (rc == 0 && read_pod(pod, node, &p))
			rc = emit_stages_of_pod(&p, each, arg);
	}
	return rc;
}
