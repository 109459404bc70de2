// SPDX-License-Identifier: Apache-2.0
#include "profiler/kube/kube_node.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/bounded_json.h"
#include "common/json.h"
#include "common/text.h"
#include "profiler/kube/kube.h"

static bool is_ready(const json_t *status)
{
	const json_t *c;
	size_t i;

	json_array_foreach(json_object_get(status, "conditions"), i,
			   c) if (strcmp(json_text_of(c, "type"), "Ready") ==
				  0) return strcmp(json_text_of(c, "status"),
						   "True") == 0;
	return false;
}

static bool has_taint(const json_t *spec)
{
	const json_t *t;
	size_t i;

	json_array_foreach(json_object_get(spec, "taints"), i,
			   t) if (strcmp(json_text_of(t, "key"),
					 KUBE_NODE_TAINT) == 0) return true;
	return false;
}

static void read_addresses(const json_t *status, struct kube_node *ret)
{
	const json_t *a;
	size_t i, n = 0;

	json_array_foreach(json_object_get(status, "addresses"), i, a)
	{
		const char *text = json_text_of(a, "address");

		if (*text && n < KUBE_NODE_OTHERS_MAX)
			ret->others[n++] = text;
	}
}

int kube_node_read(const json_t *node, struct kube_node *ret, struct error *err)
{
	const json_t *meta = json_object_get(node, "metadata");
	const json_t *spec = json_object_get(node, "spec");
	const json_t *status = json_object_get(node, "status");
	const json_t *labels = json_object_get(meta, "labels");

	*ret = (struct kube_node){
		.name = json_text_of(meta, "name"),
		.uid = json_text_of(meta, "uid"),
		.record = json_string_value(
			json_object_get(json_object_get(meta, "annotations"),
					KUBE_NODE_RECORD)),
		.is_cordoned =
			json_is_true(json_object_get(spec, "unschedulable")),
		.is_tainted = has_taint(spec),
		.is_ready = is_ready(status),
		.is_control_plane =
			json_object_get(
				labels,
				"node-role.kubernetes.io/control-plane") ||
			json_object_get(labels,
					"node-role.kubernetes.io/master"),
	};
	read_addresses(status, ret);
	if (!kube_is_name(ret->name) || !*json_text_of(meta, "resourceVersion"))
		return error_set(err, EBADMSG,
				 "the API server gave a node without name or "
				 "version");
	return 0;
}

static bool was_cordoned(const char *record)
{
	char did[16];

	kube_record_read(record, "did", did, sizeof(did));
	return strcmp(did, "cordon") == 0;
}

bool kube_node_is_held(const struct kube_node *n)
{
	return n->record &&
	       (was_cordoned(n->record) ? n->is_cordoned : n->is_tainted);
}

bool kube_node_is_out(const struct kube_node *n)
{
	return n->is_cordoned || n->is_tainted || !n->is_ready;
}

const char *kube_act_name(enum kube_act act)
{
	return act == KUBE_CORDON ? "cordon" : "taint";
}

/* -------------------------------------------------------------------- record --- */

char *kube_record_new(enum kube_act act, const char *by, const char *at,
		      const char *why)
{
	char reason[KUBE_WHY_MAX + 1];
	AUTO_JSON *record = NULL;

	(void)snprintf(reason, sizeof(reason), "%s", why);
	text_end_whole(reason);
	text_make_printable(reason);
	record = json_pack("{s:s,s:o,s:s,s:o}", "did", kube_act_name(act), "by",
			   json_bytes(by), "at", at, "why", json_bytes(reason));
	return record ? json_dumps(record, JSON_COMPACT) : NULL;
}

void kube_record_read(const char *record, const char *member, char *out,
		      size_t max)
{
	AUTO_JSON *v = NULL;

	out[0] = '\0';
	if (!record ||
	    bounded_json_load(record, strlen(record), "it", &v, NULL) < 0)
		return;
	(void)snprintf(out, max, "%s", json_text_of(v, member));
	text_end_whole(out);
	text_make_printable(out);
}

/* --------------------------------------------------------------------- patch --- */

/* Copy all taints except ours: a merge patch replaces the whole list. */
static json_t *copy_taints(const json_t *node)
{
	json_t *ret = json_array(), *t;
	size_t i;

	json_array_foreach(json_object_get(json_object_get(node, "spec"),
					   "taints"),
			   i, t)
	{
		if (strcmp(json_text_of(t, "key"), KUBE_NODE_TAINT) != 0)
			(void)json_array_append(ret, t);
	}
	return ret;
}

/* Make a patch; takes `record` and `spec`. A JSON null as record removes the annotation. */
static json_t *make_patch(const json_t *node, json_t *record, json_t *spec)
{
	const char *version = json_text_of(json_object_get(node, "metadata"),
					   "resourceVersion");

	return json_pack("{s:{s:s,s:{s:o}},s:o}", "metadata", "resourceVersion",
			 version, "annotations", KUBE_NODE_RECORD, record,
			 "spec", spec);
}

json_t *kube_node_take(const json_t *node, enum kube_act act,
		       const char *record)
{
	json_t *taints;

	if (act == KUBE_CORDON)
		return make_patch(node, json_string(record),
				  json_pack("{s:b}", "unschedulable", 1));
	taints = copy_taints(node);
	(void)json_array_append_new(taints, json_pack("{s:s,s:s}", "key",
						      KUBE_NODE_TAINT, "effect",
						      "NoSchedule"));
	return make_patch(node, json_string(record),
			  json_pack("{s:o}", "taints", taints));
}

json_t *kube_node_give_back(const json_t *node)
{
	struct kube_node n;
	json_t *spec = json_object();

	if (kube_node_read(node, &n, NULL) < 0) {
		json_decref(spec);
		return NULL;
	}
	/* Undo the cordon only if our record says that we made it: otherwise it is a decision of
	 * the operator. */
	if (n.record && was_cordoned(n.record))
		(void)json_object_set_new(spec, "unschedulable", json_null());
	if (n.is_tainted)
		(void)json_object_set_new(spec, "taints", copy_taints(node));
	return make_patch(node, json_null(), spec);
}
