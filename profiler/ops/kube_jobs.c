// SPDX-License-Identifier: Apache-2.0
/* Derives tries of jobs from Kubernetes pods. */
#include "profiler/ops/kube_jobs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/ops/kube_priv.h"

#define GPUS_OF_A_POD_MAX 1024

/* ----------------------------------------------------------------------- pod --- */

/* The values needed of a pod; texts are borrowed from the JSON object. */
struct pod {
	const char *space, *name, *uid, *node;
	const char *owner, *owner_uid, *replica;
	const json_t *status;
	const char *container; /* the container whose runs count as the pod's */
	uint32_t gpus;
};

/* Is it a kind of owner whose pods run permanently, so that they are no jobs? */
static bool is_service(const char *kind)
{
	static const char *const kinds[] = { "DaemonSet", "ReplicaSet",
					     "StatefulSet", "Node",
					     "ReplicationController" };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strcmp(kind, kinds[i]) == 0)
			return true;
	return false;
}

/* Count the GPUs of any vendor in a container's limits, such as "nvidia.com/gpu": "8". */
static uint32_t count_gpus(const json_t *container)
{
	const json_t *limits =
		json_object_get(json_object_get(container, "resources"),
				"limits");
	const char *key;
	const json_t *v;
	unsigned long n = 0;

	json_object_foreach((json_t *)(uintptr_t)limits, key, v)
	{
		const char *slash = strrchr(key, '/');

		if (slash && strcmp(slash, "/gpu") == 0 && json_is_string(v))
			n += strtoul(json_string_value(v), NULL, 10);
	}
	return n <= GPUS_OF_A_POD_MAX ? (uint32_t)n : 0;
}

/* Choose the container whose runs count as the pod's: the first one with GPUs, else the first. */
static void choose_container(const json_t *spec, struct pod *p)
{
	const json_t *c;
	size_t i;

	json_array_foreach(json_object_get(spec, "containers"), i, c)
	{
		uint32_t gpus = count_gpus(c);

		if (i == 0 || (gpus && !p->gpus))
			p->container = json_text_of(c, "name");
		p->gpus += gpus;
	}
}

/* The pod's place among its owner's pods. A second pod in the same place is a new try. */
static const char *replica_of(const json_t *labels, const char *name)
{
	const char *v =
		json_text_of(labels,
			     "batch.kubernetes.io/job-completion-index");

	return ops_kube_is_name(v) ? v : name;
}

/* Read a pod. False: it belongs to no job, or is not assigned to a node yet. */
static bool read_pod(const json_t *object, struct pod *p)
{
	const json_t *meta = json_object_get(object, "metadata");
	const json_t *spec = json_object_get(object, "spec");
	const json_t *labels = json_object_get(meta, "labels");
	const json_t *owner =
		json_array_get(json_object_get(meta, "ownerReferences"), 0);
	const char *set =
		json_text_of(labels, "jobset.sigs.k8s.io/jobset-name");

	*p = (struct pod){ .space = json_text_of(meta, "namespace"),
			   .name = json_text_of(meta, "name"),
			   .uid = json_text_of(meta, "uid"),
			   .node = json_text_of(spec, "nodeName"),
			   .status = json_object_get(object, "status") };
	p->owner = owner ? json_text_of(owner, "name") : p->name;
	p->owner_uid = owner ? json_text_of(owner, "uid") : p->uid;
	p->replica = replica_of(labels, p->name);
	/* The jobs of a job set are parts of the same try, so the set is the owner. */
	if (ops_kube_is_name(set)) {
		p->owner = p->owner_uid = set;
		p->replica = p->name;
	}
	choose_container(spec, p);
	return ops_kube_is_name(p->space) && ops_kube_is_name(p->name) &&
	       ops_kube_is_name(p->node) && ops_kube_is_name(p->owner) &&
	       ops_kube_is_name(p->uid) && ops_kube_is_name(p->owner_uid) &&
	       !is_service(json_text_of(owner, "kind"));
}

/* Slurm's word for the end of the whole pod; NULL: the state of its container decides. */
static const char *state_of_pod(const json_t *object, const json_t *status)
{
	static const struct {
		const char *reason, *state;
	} states[] = {
		{ "DeadlineExceeded", "TIMEOUT" },
		{ "Evicted", "NODE_FAIL" },
		{ "NodeLost", "NODE_FAIL" },
		{ "NodeShutdown", "NODE_FAIL" },
		{ "Terminated", "NODE_FAIL" },
		{ "Preempting", "PREEMPTED" },
		{ "PreemptionByScheduler", "PREEMPTED" },
		{ "DeletionByTaintManager", "NODE_FAIL" },
		{ "TerminationByKubelet", "NODE_FAIL" },
		{ "EvictionByEvictionAPI", "CANCELLED" },
	};
	const char *reason = json_text_of(status, "reason");
	const json_t *c;
	size_t i;

	json_array_foreach(json_object_get(status, "conditions"), i, c)
	{
		if (strcmp(json_text_of(c, "type"), "DisruptionTarget") == 0 &&
		    strcmp(json_text_of(c, "status"), "True") == 0)
			reason = json_text_of(c, "reason");
	}
	for (i = 0; i < ARRAY_SIZE(states); i++)
		if (strcmp(reason, states[i].reason) == 0)
			return states[i].state;
	return *json_text_of(json_object_get(object, "metadata"),
			     "deletionTimestamp")
		       ? "CANCELLED"
		       : NULL;
}

/* ---------------------------------------------------------------------- runs --- */

void ops_kube_run_free(struct ops_kube_run *r)
{
	if (!r)
		return;
	free(r->owner);
	free(r->uid);
	free(r->replica);
	free(r->node);
	free(r->state);
	free(r);
}

static struct ops_kube_run *make_run(const struct pod *p, const char *key)
{
	struct ops_kube_run *r = calloc(1, sizeof(*r) + strlen(key) + 1);

	if (!r)
		return NULL;
	memcpy(r->key, key, strlen(key));
	if (asprintf(&r->owner, "%s/%s", p->space, p->owner) < 0)
		r->owner = NULL;
	r->uid = strdup(p->owner_uid);
	r->replica = strdup(p->replica);
	r->node = strdup(p->node);
	r->gpus = p->gpus;
	if (r->owner && r->uid && r->replica && r->node)
		return r;
	ops_kube_run_free(r);
	return NULL;
}

static int find_run(struct ops_kube *k, const struct pod *p, int64_t restart,
		    struct ops_kube_run **ret, struct error *err)
{
	char key[OPS_KUBE_NAME_MAX + 32];
	struct ops_kube_run *r;

	(void)snprintf(key, sizeof(key), "%s/%lld", p->uid, (long long)restart);
	HASH_FIND_STR(k->runs, key, r);
	if (!r) {
		if (k->n_runs == OPS_KUBE_RUNS_MAX)
			return error_set(err, EFBIG,
					 "more than %u runs of pods",
					 OPS_KUBE_RUNS_MAX);
		r = make_run(p, key);
		if (!r)
			return error_nomem(err);
		HASH_ADD_KEYPTR(hh, k->runs, r->key, strlen(r->key), r);
		if (!hash_has_added(r)) {
			ops_kube_run_free(r);
			return error_nomem(err);
		}
		k->n_runs++;
	}
	*ret = r;
	return 0;
}

static const char *state_of_exit(const json_t *ended, int code)
{
	if (strcmp(json_text_of(ended, "reason"), "OOMKilled") == 0)
		return "OUT_OF_MEMORY";
	return code ? "FAILED" : "COMPLETED";
}

/* Add a run from a container's state: {"running": {..}} or {"terminated": {..}}. */
static int add_run(struct ops_kube *k, const struct pod *p, int64_t restart,
		   const json_t *state, const char *why, struct error *err)
{
	const json_t *runs = json_object_get(state, "running");
	const json_t *ended = json_object_get(state, "terminated");
	int64_t begin_s =
		ops_kube_time(json_text_of(runs ? runs : ended, "startedAt"));
	int64_t end_s = ops_kube_time(json_text_of(ended, "finishedAt"));
	struct ops_kube_run *r;
	int rc;

	/* Skip a container that was never started: its time is 1970 or missing. */
	if (!begin_s || (ended && end_s < begin_s))
		return 0;
	rc = find_run(k, p, restart, &r, err);
	if (rc < 0)
		return rc;
	r->begin_s = begin_s;
	if (!ended)
		return 0;
	r->end_s = end_s;
	r->exit_code =
		(int)json_integer_value(json_object_get(ended, "exitCode"));
	free(r->state);
	r->state = strdup(
		why && r->exit_code ? why : state_of_exit(ended, r->exit_code));
	return r->state ? 0 : error_nomem(err);
}

int ops_kube_add_pod(struct ops_kube *k, const json_t *object,
		     struct error *err)
{
	const json_t *c;
	struct pod p;
	size_t i;

	if (!read_pod(object, &p))
		return 0;
	json_array_foreach(json_object_get(p.status, "containerStatuses"), i, c)
	{
		int64_t n =
			json_integer_value(json_object_get(c, "restartCount"));
		int rc;

		/* restartCount begins at 0, and run 0 has no run before it. */
		if (n < 0 || !p.container ||
		    strcmp(json_text_of(c, "name"), p.container) != 0)
			continue;
		rc = add_run(k, &p, n - 1, json_object_get(c, "lastState"),
			     NULL, err);
		return rc < 0 ? rc
			      : add_run(k, &p, n, json_object_get(c, "state"),
					state_of_pod(object, p.status), err);
	}
	return 0;
}

/* ---------------------------------------------------------------------- tries --- */

static int compare_runs_by_owner(const void *x, const void *y)
{
	const struct ops_kube_run *a = *(struct ops_kube_run *const *)x,
				  *b = *(struct ops_kube_run *const *)y;
	int rc = strcmp(a->owner, b->owner);

	if (rc == 0)
		rc = strcmp(a->uid, b->uid);
	if (rc == 0)
		rc = (a->begin_s > b->begin_s) - (a->begin_s < b->begin_s);
	return rc ? rc : strcmp(a->key, b->key);
}

static bool is_same_owner(const struct ops_kube_run *a,
			  const struct ops_kube_run *b)
{
	return strcmp(a->owner, b->owner) == 0 && strcmp(a->uid, b->uid) == 0;
}

/* Count the runs of the first try in `v`. The try ends before a second run in the same place, and
 * before a run that began after all others had ended. -ENOMEM. */
static int find_end_of_try(struct ops_kube_run *const *v, size_t n, size_t *ret)
{
	struct ops_kube_run *places = NULL, *same;
	int64_t end_s = 0;
	size_t i;
	int rc = 0;

	for (i = 0; i < n && is_same_owner(v[0], v[i]); i++) {
		size_t len = strlen(v[i]->replica);

		HASH_FIND(by_place, places, v[i]->replica, len, same);
		if (same || (i && v[i]->begin_s > end_s))
			break;
		HASH_ADD_KEYPTR(by_place, places, v[i]->replica, len, v[i]);
		if (!v[i]->by_place.tbl) {
			rc = -ENOMEM;
			break;
		}
		if (!v[i]->end_s)
			end_s = INT64_MAX;
		else if (v[i]->end_s > end_s)
			end_s = v[i]->end_s;
	}
	HASH_CLEAR(by_place, places);
	*ret = i;
	return rc;
}

/* The run that decides how a try ended: the first that did not end well, else the last. */
static const struct ops_kube_run *decisive_run(struct ops_kube_run *const *v,
					       size_t n)
{
	const struct ops_kube_run *bad = NULL, *last = v[0];

	for (size_t i = 0; i < n; i++) {
		const struct ops_kube_run *r = v[i];

		if (!r->end_s || (last->end_s && r->end_s > last->end_s))
			last = r;
		if (r->end_s && strcmp(r->state, "COMPLETED") != 0 &&
		    (!bad || r->end_s < bad->end_s))
			bad = r;
	}
	return bad ? bad : last;
}

/* Write a try as a row. `next_s`: when the owner's next try began, 0: there is none. A run whose
 * end was not seen is taken to have ended then. */
static int write_try(struct ops_kube_run *const *v, size_t n, size_t number,
		     int64_t next_s, struct buf *ret)
{
	const struct ops_kube_run *why = decisive_run(v, n);
	const char *slash = strchr(v[0]->owner, '/');
	int64_t end_s = 0;
	uint32_t gpus = 0;
	int rc;

	for (size_t i = 0; i < n; i++) {
		int64_t end = v[i]->end_s ? v[i]->end_s : next_s;

		end_s = end && end_s != INT64_MAX ? (end > end_s ? end : end_s)
						  : INT64_MAX;
		gpus += v[i]->gpus;
	}
	rc = buf_printf(ret, "%zu|%.*s|%s|%d:0|%lld|", number,
			(int)(slash - v[0]->owner), v[0]->owner,
			end_s == INT64_MAX ? "RUNNING"
			: why->state       ? why->state
					   : "FAILED",
			why->exit_code, (long long)v[0]->begin_s);
	if (rc == 0)
		rc = end_s == INT64_MAX
			     ? buf_puts(ret, "Unknown|")
			     : buf_printf(ret, "%lld|", (long long)end_s);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = buf_printf(ret, "%s%s", i ? "," : "", v[i]->node);
	return rc < 0 ? rc
		      : buf_printf(ret, "|gres/gpu=%u|%s\n", gpus, slash + 1);
}

int ops_kube_write_jobs(struct ops_kube *k, struct buf *ret, struct error *err)
{
	AUTO_FREE struct ops_kube_run **v =
		calloc(k->n_runs + 1, sizeof(struct ops_kube_run *));
	size_t n = 0, number = 0;
	struct ops_kube_run *r, *tmp;

	if (!v || buf_puts(ret, "JobID|User|State|ExitCode|Start|End|NodeList|"
				"AllocTRES|JobName\n") < 0)
		return error_nomem(err);
	HASH_ITER(hh, k->runs, r, tmp) v[n++] = r;
	if (n)
		qsort(v, n, sizeof(struct ops_kube_run *),
		      compare_runs_by_owner);
	for (size_t i = 0, same; i < n; i += same) {
		bool is_first = i == 0 || !is_same_owner(v[i - 1], v[i]);
		int64_t next_s;
		int rc;

		if (find_end_of_try(v + i, n - i, &same) < 0)
			return error_nomem(err);
		next_s = i + same < n && is_same_owner(v[i], v[i + same])
				 ? v[i + same]->begin_s
				 : 0;
		/* All tries of an owner have the same job number, like requeued jobs of Slurm. */
		number += is_first;
		rc = write_try(v + i, same, number, next_s, ret);
		if (rc < 0)
			return rc == -EFBIG
				       ? error_set(err, EFBIG, "too many jobs")
				       : error_nomem(err);
	}
	return 0;
}
