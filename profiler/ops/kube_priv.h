// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_PROFILER_OPS_KUBE_PRIV_H
#define BOOTSEER_PROFILER_OPS_KUBE_PRIV_H

#include "common/hash.h"
#include "common/json.h"
#include "profiler/ops/kube_jobs.h"
#include "profiler/ops/ops_priv.h"

#define OPS_KUBE_NAME_MAX 254u /* bytes of an object's name, NUL included */

/* A run: a container of a pod from its start to its end. */
struct ops_kube_run {
	/* by_place: by replica, used within one try */
	UT_hash_handle hh, by_place;
	char *owner; /* "NAMESPACE/NAME" */
	char *uid;   /* uid of the owner */
	/* place of the pod among its owner's pods */
	char *replica;
	char *node;
	char *state;            /* Slurm's word for how the run ended */
	int64_t begin_s, end_s; /* end_s 0: still running */
	int exit_code;
	uint32_t gpus;
	char key[]; /* "POD-UID/RESTART" */
};

/* A point in time at which a node went out, or came back. */
struct ops_kube_mark {
	char *node, *why;
	enum ops_outage_kind kind;
	bool is_out;
	int64_t at_s;
};

struct ops_kube {
	struct ops_kube_run *runs; /* hash table by `key` */
	size_t n_runs;
	struct ops_kube_mark *marks;
	size_t n_marks, cap_marks;
};

/* kube_text.c */
/* Is it a valid object name? Names are written into lists and paths unquoted. */
bool ops_kube_is_name(const char *s);
/* Read a time such as "2025-10-01T12:00:00Z", ignoring what follows the seconds; 0: invalid. */
int64_t ops_kube_time(const char *text);

/* kube_jobs.c: store the runs of a pod. */
int ops_kube_add_pod(struct ops_kube *k, const json_t *object,
		     struct error *err) MUST_CHECK;
void ops_kube_run_free(struct ops_kube_run *r); /* NULL is allowed */

/* kube_marks.c: store the marks of a node, and of an event about a node. */
int ops_kube_add_node(struct ops_kube *k, const json_t *node,
		      struct error *err) MUST_CHECK;
int ops_kube_add_event(struct ops_kube *k, const json_t *event,
		       struct error *err) MUST_CHECK;

#endif
