// SPDX-License-Identifier: Apache-2.0
/* Derives outages of nodes from Node objects and events. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"
#include "profiler/ops/kube_priv.h"

#define WHY_MAX 200 /* bytes of a reason that are kept */

static int add_mark(struct ops_kube *k, const char *node,
		    enum ops_outage_kind kind, bool is_out, int64_t at_s,
		    const char *why, struct error *err)
{
	struct ops_kube_mark *m;

	if (!at_s || !ops_kube_is_name(node))
		return 0;
	if (k->n_marks == OPS_KUBE_MARKS_MAX)
		return error_set(err, EFBIG, "more than %u events of nodes",
				 OPS_KUBE_MARKS_MAX);
	if (array_grow(&k->marks, k->n_marks, &k->cap_marks, 64) < 0)
		return error_nomem(err);
	m = &k->marks[k->n_marks++];
	*m = (struct ops_kube_mark){ .node = strdup(node),
				     .why = strndup(why, WHY_MAX),
				     .kind = kind,
				     .is_out = is_out,
				     .at_s = at_s };
	if (!m->node || !m->why)
		return error_nomem(err);
	text_end_whole(m->why);
	text_make_printable(m->why);
	return 0;
}

/* Add a mark for a node's cordon, at the time of its taint. A node without one was uncordoned at
 * the latest at `seen_s`, its last heartbeat. */
static int add_cordon(struct ops_kube *k, const json_t *node, const char *name,
		      int64_t seen_s, struct error *err)
{
	const json_t *spec = json_object_get(node, "spec");
	const json_t *taints = json_object_get(spec, "taints");
	const json_t *t;
	size_t i;

	if (!json_is_true(json_object_get(spec, "unschedulable")))
		return add_mark(k, name, OPS_CORDONED, false, seen_s, "", err);
	json_array_foreach(taints, i, t)
	{
		const char *key = json_text_of(t, "key");
		int rc = 0;

		if (strcmp(key, "node.kubernetes.io/unschedulable") == 0)
			rc = add_mark(k, name, OPS_CORDONED, true,
				      ops_kube_time(
					      json_text_of(t, "timeAdded")),
				      "", err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int ops_kube_add_node(struct ops_kube *k, const json_t *node, struct error *err)
{
	const char *name =
		json_text_of(json_object_get(node, "metadata"), "name");
	const json_t *conditions =
		json_object_get(json_object_get(node, "status"), "conditions");
	int64_t seen_s = 0;
	const json_t *c;
	size_t i;

	json_array_foreach(conditions, i, c)
	{
		bool is_ready = strcmp(json_text_of(c, "status"), "True") == 0;
		int rc;

		if (strcmp(json_text_of(c, "type"), "Ready") != 0)
			continue;
		seen_s = ops_kube_time(json_text_of(c, "lastHeartbeatTime"));
		rc = add_mark(k, name, OPS_AWAY, !is_ready,
			      ops_kube_time(
				      json_text_of(c, "lastTransitionTime")),
			      is_ready ? "" : json_text_of(c, "message"), err);
		if (rc < 0)
			return rc;
	}
	return add_cordon(k, node, name, seen_s, err);
}

/* Event reasons of the kubelet, the node controller and `bootseer ops recover`. */
static const struct {
	const char *reason;
	enum ops_outage_kind kind;
	bool is_out;
} reasons[] = {
	{ "NodeNotSchedulable", OPS_CORDONED, true },
	{ "NodeSchedulable", OPS_CORDONED, false },
	{ "BootseerTakenOut", OPS_CORDONED, true },
	{ "BootseerGivenBack", OPS_CORDONED, false },
	{ "NodeNotReady", OPS_AWAY, true },
	{ "NodeReady", OPS_AWAY, false },
};

int ops_kube_add_event(struct ops_kube *k, const json_t *event,
		       struct error *err)
{
	static const char *const times[] = { "lastTimestamp", "eventTime",
					     "firstTimestamp" };
	const json_t *object = json_object_get(event, "involvedObject");
	const char *reason = json_text_of(event, "reason");
	int64_t at_s = 0;

	if (strcmp(json_text_of(object, "kind"), "Node") != 0)
		return 0;
	for (size_t i = 0; !at_s && i < ARRAY_SIZE(times); i++)
		at_s = ops_kube_time(json_text_of(event, times[i]));
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (strcmp(reason, reasons[i].reason) == 0)
			return add_mark(k, json_text_of(object, "name"),
					reasons[i].kind, reasons[i].is_out,
					at_s, json_text_of(event, "message"),
					err);
	return 0;
}

static int compare_marks_by_node(const void *x, const void *y)
{
	const struct ops_kube_mark *a = x, *b = y;
	int rc = strcmp(a->node, b->node);

	if (rc == 0)
		rc = (int)a->kind - (int)b->kind;
	return rc ? rc : (a->at_s > b->at_s) - (a->at_s < b->at_s);
}

/* Add the outage from mark `out` to mark `back`; `back` NULL: it goes on until `now_s`. */
static int end_outage(struct ops_set *s, const struct ops_kube_mark *out,
		      const char *why, const struct ops_kube_mark *back,
		      int64_t now_s, struct error *err)
{
	const struct ops_outage o = { .node = out->node,
				      .kind = out->kind,
				      .from_s = out->at_s,
				      .to_s = back ? back->at_s : now_s,
				      .lasts = !back,
				      .why = why };

	return o.to_s > o.from_s ? ops_set_add_outage(s, &o, err) : 0;
}

static bool are_of_one_outage(const struct ops_kube_mark *a,
			      const struct ops_kube_mark *b)
{
	return a && b && a->kind == b->kind && strcmp(a->node, b->node) == 0;
}

int ops_kube_add_outages(struct ops_kube *k, int64_t now_s, struct ops_set *s,
			 struct error *err)
{
	const struct ops_kube_mark *out = NULL;
	const char *why = "";
	int rc = 0;

	if (k->n_marks)
		qsort(k->marks, k->n_marks, sizeof(*k->marks),
		      compare_marks_by_node);
	for (size_t i = 0; rc == 0 && i <= k->n_marks; i++) {
		const struct ops_kube_mark *m =
			i < k->n_marks ? &k->marks[i] : NULL;

		if (out && (!are_of_one_outage(out, m) || !m->is_out)) {
			rc = end_outage(s, out, why,
					are_of_one_outage(out, m) ? m : NULL,
					now_s, err);
			out = NULL;
		}
		/* The first of several marks that the node is out has the begin. */
		if (m && m->is_out && !out) {
			out = m;
			why = "";
		}
		if (out && !*why)
			why = m->why;
	}
	return rc;
}
