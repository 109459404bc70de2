// SPDX-License-Identifier: Apache-2.0
/* Changes to a cluster by its API server, each with an audit line. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "cli/ops_recover.h"
#include "common/buf.h"
#include "common/json.h"
#include "common/text.h"
#include "profiler/ops/ops.h"

#define PAGE_NODES 100
#define PATCH_TRIES 4
#define MERGE_PATCH "application/merge-patch+json"
#define JOB_RETRY "bootseer.io/retry-after"
#define FIELD_MANAGER "fieldManager=bootseer-recover"
#define DRY_RUN "&dryRun=All"
#define EVENT_NAME "bootseer-recover."

/* ----------------------------------------------------------------------- run --- */

static int make_random(char out[17], struct error *err)
{
	uint64_t v;

	if (getrandom(&v, sizeof(v), 0) != (ssize_t)sizeof(v))
		return error_errno(err, errno, "getrandom");
	(void)snprintf(out, 17, "%016" PRIx64, v);
	return 0;
}

/* Ask the API server for our user name; servers before 1.28 cannot tell. */
static int ask_user(struct recover_run *r, struct error *err)
{
	AUTO_JSON *body =
		json_pack("{s:s,s:s}", "apiVersion", "authentication.k8s.io/v1",
			  "kind", "SelfSubjectReview");
	AUTO_JSON *answer = NULL;
	const struct kube_call c = {
		.method = "POST",
		.path = "/apis/authentication.k8s.io/v1/selfsubjectreviews",
		.type = "application/json",
		.body = body
	};
	int rc = kube_do(r->kube, &c, &answer, err);

	if (rc < 0 && rc != -ENOENT)
		return rc;
	(void)snprintf(r->by, sizeof(r->by), "%s",
		       json_text_of(json_object_get(json_object_get(answer,
								    "status"),
						    "userInfo"),
				    "username"));
	if (!r->by[0])
		(void)snprintf(r->by, sizeof(r->by), "unknown user");
	text_end_whole(r->by);
	text_make_printable(r->by);
	return 0;
}

int recover_run_init(struct recover_run *r, struct error *err)
{
	char random[17];
	time_t now = time(NULL);
	struct tm tm;
	int rc = make_random(random, err);

	if (rc == 0 &&
	    (!gmtime_r(&now, &tm) ||
	     !strftime(r->at, sizeof(r->at), "%Y-%m-%dT%H:%M:%SZ", &tm)))
		rc = error_set(err, ERANGE, "the clock has no time");
	if (rc == 0)
		(void)snprintf(r->holder, sizeof(r->holder), "bootseer-%s",
			       random);
	return rc < 0 || !r->kube ? rc : ask_user(r, err);
}

/* Print a text in quotes, with quotes in it escaped, so that it cannot forge an audit line. */
static void print_quoted(const char *text)
{
	AUTO_JSON *v = json_bytes(text);
	AUTO_FREE char *s =
		v ? json_dumps(v, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;

	(void)fputs(s ? s : "\"?\"", stdout);
}

void recover_print_audit(const struct recover_run *r, const char *did,
			 const char *object, const char *why,
			 const struct error *failed)
{
	printf("%s recover %s object=", r->at, did);
	print_quoted(object);
	(void)fputs(" by=", stdout);
	print_quoted(r->by);
	if (why) {
		(void)fputs(" why=", stdout);
		print_quoted(why);
	}
	printf(" result=%s", failed       ? "failed"
			     : r->is_real ? "done"
					  : "dry-run");
	if (failed) {
		(void)fputs(" error=", stdout);
		print_quoted(failed->msg);
	}
	printf("\n");
	(void)fflush(stdout);
}

/* --------------------------------------------------------------------- nodes --- */

/* Drop a node's images and managedFields: they are most of its text and not needed here. */
static int keep_node(void *arg, json_t *node, struct error *err)
{
	json_t *all = arg;

	(void)json_object_del(json_object_get(node, "status"), "images");
	(void)json_object_del(json_object_get(node, "metadata"),
			      "managedFields");
	if (json_array_size(all) == OPS_NODES_MAX)
		return error_set(err, EFBIG,
				 "the cluster has more than %u nodes",
				 OPS_NODES_MAX);
	return json_array_append(all, node) < 0 ? error_nomem(err) : 0;
}

static int view_nodes(struct recover_cluster *c, struct error *err)
{
	c->n = json_array_size(c->objects);
	c->nodes = calloc(c->n + 1, sizeof(*c->nodes));
	c->view = calloc(c->n + 1, sizeof(*c->view));
	if (!c->nodes || !c->view)
		return error_nomem(err);
	for (size_t i = 0; i < c->n; i++) {
		struct kube_node *n = &c->nodes[i];
		int rc = kube_node_read(json_array_get(c->objects, i), n, err);

		if (rc < 0)
			return rc;
		c->view[i] = (struct recover_node){
			.name = n->name,
			.others = n->others,
			.is_held = kube_node_is_held(n),
			.is_out = kube_node_is_out(n),
			.is_control_plane = n->is_control_plane,
		};
	}
	return 0;
}

int recover_read_cluster(struct kube *k, struct recover_cluster *ret,
			 struct error *err)
{
	int rc;

	*ret = (struct recover_cluster){ .objects = json_array() };
	if (!ret->objects)
		return error_nomem(err);
	rc = kube_list(k, "/api/v1/nodes", PAGE_NODES, keep_node, ret->objects,
		       err);
	return rc < 0 ? rc : view_nodes(ret, err);
}

void recover_cluster_fini(struct recover_cluster *c)
{
	json_decref(c->objects);
	free(c->nodes);
	free(c->view);
}

/* -------------------------------------------------------------------- change --- */

static int send_event(const struct recover_run *r, const struct kube_node *n,
		      const char *did, const char *why, struct error *err)
{
	char random[17], name[64], text[1024];
	AUTO_JSON *event = NULL;
	int rc = make_random(random, err);

	if (rc < 0)
		return rc;
	(void)snprintf(name, sizeof(name), EVENT_NAME "%s", random);
	(void)snprintf(text, sizeof(text), "%s by %s%s%.*s", did, r->by,
		       why ? ": " : "", KUBE_WHY_MAX, why ? why : "");
	text_end_whole(text);
	text_make_printable(text);
	event = json_pack(
		"{s:s,s:s,s:{s:s,s:s},s:{s:s,s:s,s:s,s:s},s:s,s:o,s:s,s:{s:s},"
		"s:s,s:s,s:i}",
		"apiVersion", "v1", "kind", "Event", "metadata", "name", name,
		"namespace", "default", "involvedObject", "apiVersion", "v1",
		"kind", "Node", "name", n->name, "uid", n->uid, "reason",
		why ? "BootseerTakenOut" : "BootseerGivenBack", "message",
		json_bytes(text), "type", why ? "Warning" : "Normal", "source",
		"component", "bootseer", "firstTimestamp", r->at,
		"lastTimestamp", r->at, "count", 1);
	rc = event ? kube_do(r->kube,
			     &(struct kube_call){
				     .method = "POST",
				     .path = "/api/v1/namespaces/default/"
					     "events",
				     .type = "application/json",
				     .body = event },
			     NULL, err)
		   : error_nomem(err);
	/* -EEXIST: an earlier try created the event, but its reply was lost. */
	return rc == -EEXIST ? 0 : rc;
}

/* Read the node again after a conflict or a lost reply. 1: it is in the wanted state already.  If
 * `record` is NULL, `was` is the record to remove. */
static int read_again(const struct recover_run *r, const char *path,
		      const char *record, const char *was, json_t **node,
		      struct error *err)
{
	AUTO_JSON *now = NULL;
	struct kube_node n;
	int rc = kube_do(r->kube,
			 &(struct kube_call){ .method = "GET", .path = path },
			 &now, err);

	if (rc == 0)
		rc = kube_node_read(now, &n, err);
	if (rc < 0)
		return rc;
	if (record ? n.record && strcmp(n.record, record) == 0 : !n.record)
		return 1;
	if (record && kube_node_is_out(&n))
		return error_set(err, EEXIST,
				 "somebody else took it out meanwhile");
	if (!record && strcmp(n.record, was) != 0)
		return error_set(err, EEXIST,
				 "it was given back meanwhile, and taken out "
				 "anew: it stays out");
	json_decref(*node);
	*node = steal_ptr(&now);
	return 0;
}

/* Write the change.  `record` NULL: give the node back, from the record in `n`, the node's state
 * at the time of the decision. */
static int patch_node(const struct recover_run *r, json_t **node,
		      const struct kube_node *n, enum kube_act act,
		      const char *record, struct error *err)
{
	AUTO_BUF path = BUF_INIT, query = BUF_INIT;
	int rc = buf_printf(&path, "/api/v1/nodes/%s", n->name) < 0 ||
				 buf_printf(&query, "%s?" FIELD_MANAGER "%s",
					    path.data,
					    r->is_real ? "" : DRY_RUN) < 0
			 ? error_nomem(err)
			 : 0;

	for (int i = 0; rc == 0 && i < PATCH_TRIES; i++) {
		AUTO_JSON *patch = record ? kube_node_take(*node, act, record)
					  : kube_node_give_back(*node);

		rc = patch ? kube_do(r->kube,
				     &(struct kube_call){ .method = "PATCH",
							  .path = query.data,
							  .type = MERGE_PATCH,
							  .body = patch },
				     NULL, err)
			   : error_nomem(err);
		if (rc != -EEXIST)
			return rc;
		rc = read_again(r, path.data, record, n->record, node, err);
		if (rc == 1)
			return 0;
	}
	return rc < 0 ? rc
		      : error_set(err, EBUSY,
				  "it changes all the time: try "
				  "again");
}

int recover_change_node(const struct recover_run *r, json_t *object,
			enum kube_act act, const char *why, struct error *err)
{
	const char *did = !why ? "give-back" : kube_act_name(act);
	AUTO_JSON *node = json_incref(object);
	AUTO_FREE char *record =
		why ? kube_record_new(act, r->by, r->at, why) : NULL;
	struct error one = ERROR_INIT;
	struct kube_node n;
	int rc = kube_node_read(object, &n, err);

	if (rc == 0 && why && !record)
		rc = error_nomem(err);
	if (rc < 0)
		return rc;
	rc = patch_node(r, &node, &n, act, record, err);
	recover_print_audit(r, did, n.name, why, rc < 0 ? err : NULL);
	if (rc < 0 || !r->is_real)
		return rc < 0 ? error_wrap(err, rc, "node %s", n.name) : 0;
	/* Failing to write the event is no failure: the node is out, and its annotation has the
	 * reason. */
	if (send_event(r, &n, did, why, &one) < 0)
		(void)fprintf(stderr, "no event of node %s: %s\n", n.name,
			      one.msg);
	return 0;
}

/* ---------------------------------------------------------------------- jobs --- */

/* Is it a kind such as "jobs.v1.batch" or "pods.v1"? */
static bool is_kind(const char *kind)
{
	return kube_is_name(kind) && strchr(kind, '.');
}

int recover_check_job(const char *kind, const char *name, struct error *err)
{
	const char *slash = strchr(name, '/');
	AUTO_FREE char *space =
		slash ? strndup(name, (size_t)(slash - name)) : NULL;

	if (!is_kind(kind))
		return error_set(err, EINVAL,
				 "--kind '%s' is none: wanted is as "
				 "jobs.v1.batch",
				 kind);
	if (!space || !kube_is_name(space) || strchr(space, '.') ||
	    !kube_is_name(slash + 1))
		return error_set(err, EINVAL,
				 "'%s' is no job: wanted is NAMESPACE/NAME",
				 name);
	return 0;
}

static int job_path(const struct recover_run *r, const char *kind,
		    const char *name, struct buf *ret, struct error *err)
{
	const char *slash = strchr(name, '/');
	const char *version = strchr(kind, '.') + 1;
	const char *group = strchr(version, '.');
	int n_version =
		(int)(group ? (size_t)(group - version) : strlen(version));

	if (buf_printf(ret,
		       "%s%s/%.*s/namespaces/%.*s/%.*s/%s?" FIELD_MANAGER "%s",
		       group ? "/apis/" : "/api", group ? group + 1 : "",
		       n_version, version, (int)(slash - name), name,
		       (int)(version - 1 - kind), kind, slash + 1,
		       r->is_real ? "" : DRY_RUN) < 0)
		return error_nomem(err);
	return 0;
}

int recover_annotate_job(const struct recover_run *r, const char *kind,
			 const char *name, int64_t retry_after_s,
			 const char *why, struct error *err)
{
	const char *did = retry_after_s ? "back-off" : "no-back-off";
	AUTO_BUF path = BUF_INIT;
	AUTO_JSON *patch = NULL;
	char seconds[32], record[KUBE_WHY_MAX + RECOVER_BY_MAX + 64];
	int rc = job_path(r, kind, name, &path, err);

	(void)snprintf(seconds, sizeof(seconds), "%" PRId64 "s", retry_after_s);
	(void)snprintf(record, sizeof(record), "back-off by %s at %s: %.*s",
		       r->by, r->at, KUBE_WHY_MAX, why);
	text_end_whole(record);
	text_make_printable(record);
	patch = json_pack("{s:{s:{s:o,s:o}}}", "metadata", "annotations",
			  JOB_RETRY,
			  retry_after_s ? json_string(seconds) : json_null(),
			  KUBE_NODE_RECORD,
			  retry_after_s ? json_bytes(record) : json_null());
	if (rc == 0)
		rc = patch ? kube_do(r->kube,
				     &(struct kube_call){ .method = "PATCH",
							  .path = path.data,
							  .type = MERGE_PATCH,
							  .body = patch },
				     NULL, err)
			   : error_nomem(err);
	recover_print_audit(r, did, name, retry_after_s ? why : NULL,
			    rc < 0 ? err : NULL);
	return rc < 0 ? error_wrap(err, rc, "%s %s", kind, name) : 0;
}
