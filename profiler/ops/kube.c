// SPDX-License-Identifier: Apache-2.0
/* Passes Kubernetes objects on by kind: pods to kube_jobs.c, nodes and events to kube_marks.c. */
#include <stdlib.h>
#include <string.h>

#include "profiler/ops/kube_priv.h"

int ops_kube_new(struct ops_kube **ret, struct error *err)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : error_nomem(err);
}

void ops_kube_free(struct ops_kube *k)
{
	struct ops_kube_run *r, *tmp;

	if (!k)
		return;
	HASH_ITER(hh, k->runs, r, tmp)
	{
		HASH_DEL(k->runs, r);
		ops_kube_run_free(r);
	}
	for (size_t i = 0; i < k->n_marks; i++) {
		free(k->marks[i].node);
		free(k->marks[i].why);
	}
	free(k->marks);
	free(k);
}

static int add_object(struct ops_kube *k, const char *kind,
		      const json_t *object, struct error *err)
{
	if (strcmp(kind, "Pod") == 0)
		return ops_kube_add_pod(k, object, err);
	if (strcmp(kind, "Node") == 0)
		return ops_kube_add_node(k, object, err);
	if (strcmp(kind, "Event") == 0)
		return ops_kube_add_event(k, object, err);
	return 0;
}

int ops_kube_add(struct ops_kube *k, const char *kind, const json_t *object,
		 struct error *err)
{
	const char *own = json_text_of(object, "kind");
	const json_t *one, *items = json_object_get(object, "items");
	size_t i, n = strlen(own);
	char of[32] = "";

	if (!json_is_array(items))
		return add_object(k, *own ? own : kind, object, err);
	/* Items of a "PodList" have no kind: it is the list's without "List". Items of a plain
	 * "List" have one. */
	if (n > 4 && n < sizeof(of) && strcmp(own + n - 4, "List") == 0)
		memcpy(of, own, n - 4);
	json_array_foreach(items, i, one)
	{
		int rc;

		own = json_text_of(one, "kind");
		rc = add_object(k, *own ? own : of, one, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}
