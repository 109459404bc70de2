// SPDX-License-Identifier: Apache-2.0
/* The methods about starts and recordings (docs/formats/control.md). */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "net/control_server.h"
#include "snapshotter/node/control/control.h"
#include "snapshotter/node/control/methods.h"
#include "snapshotter/node/images/image_index.h"
#include "snapshotter/node/starts/record.h"
#include "snapshotter/node/starts/starts.h"
#include "snapshotter/node/trust/admission.h"

#define WINDOW_MS_MAX (24 * 3600 * 1000)

static int check_workload(const char *key, struct error *err)
{
	const char *p;

	if (!key)
		return 0;
	for (p = key; *p > ' ' && *p <= '~'; p++)
		;
	if (*p || p == key || p - key > (ptrdiff_t)TRACE_WORKLOAD_MAX)
		return error_set(err, EINVAL,
				 "parameters: workload: 1 to %u printable "
				 "characters without spaces wanted",
				 TRACE_WORKLOAD_MAX);
	return 0;
}

static int check_path(const char *name, const char *path, struct error *err)
{
	if (path && path[0] != '/')
		return error_set(err, EINVAL,
				 "parameters: %s is no absolute path", name);
	return 0;
}

static int check_begin(const struct start_request *r, int config_key,
		       const char *wait, struct wait_policy *policy,
		       struct error *err)
{
	int rc = params_user(r->user, err);

	if (rc == 0)
		rc = check_workload(r->workload, err);
	if (rc == 0 && r->workload && config_key)
		rc = error_set(err, EINVAL,
			       "parameters: workload or config_key, not both");
	if (rc == 0)
		rc = check_path("ready_file", r->ready_file, err);
	if (rc == 0)
		rc = check_path("ready_root", r->ready_root, err);
	if (rc == 0)
		rc = check_path("bundle", r->bundle, err);
	if (rc == 0 && wait)
		rc = wait_policy_parse(wait, policy, err);
	return rc;
}

static json_t *begin_json(const struct start_reply *r)
{
	static const char *const matches[] = {
		[TRACE_MATCH_OWN] = "own",
		[TRACE_MATCH_RELATIVE] = "relative",
		[TRACE_MATCH_WORKLOAD] = "workload",
		[TRACE_MATCH_FAR] = "far",
		[TRACE_MATCH_PREDICTED] = "predicted",
	};

	return json_pack("{s:I, s:s, s:I, s:I, s:I, s:I, s:b}", "start",
			 (json_int_t)r->number, "trace",
			 r->found ? matches[r->match] : "none", "waited_ms",
			 (json_int_t)(r->waited_ns / NS_PER_MS), "hot_blocks",
			 (json_int_t)r->hot_blocks, "hot_bytes",
			 (json_int_t)r->hot_bytes, "have_bytes",
			 (json_int_t)r->have_bytes, "recording",
			 (int)r->recording);
}

json_t *method_begin(struct node *n, json_t *params, struct remote_call *call,
		     struct error *err)
{
	struct start_request r = { .user = NULL };
	const char *id, *wait = NULL;
	struct wait_policy policy;
	struct start_reply reply;
	json_t *result = NULL;
	struct image *i;
	int config_key = 0;

	if (method_waits(call, err) < 0)
		return NULL;
	r.call = call;
	if (params_unpack(params, err,
			  "{s:s, s:s, s?s, s?b, s?s, s?s, s?s, s?s}", "id", &id,
			  "user", &r.user, "workload", &r.workload,
			  "config_key", &config_key, "wait", &wait,
			  "ready_file", &r.ready_file, "ready_root",
			  &r.ready_root, "bundle", &r.bundle) < 0 ||
	    check_begin(&r, config_key, wait, &policy, err) < 0)
		return NULL;
	i = params_image(n, id, err);
	if (!i)
		return NULL;
	r.wait = wait ? &policy : NULL;
	if (starts_begin(n->starts, i, &r, &reply, err) == 0) {
		result = begin_json(&reply);
		if (!result)
			error_nomem(err);
	}
	images_put(i);
	return result;
}

json_t *method_ready(struct node *n, json_t *params, struct error *err)
{
	struct start_name which = { .number = 0 };
	AUTO_BUF cgroups = BUF_INIT;
	json_int_t number = 0;
	json_t *result;
	int pid = 0;
	int64_t ns;

	if (params_unpack(params, err, "{s?I, s?s, s?i}", "start", &number,
			  "user", &which.user, "pid", &pid) < 0)
		return NULL;
	if (number < 0 || pid < 0 ||
	    (number > 0) + (which.user != NULL) + (pid > 0) != 1) {
		error_set(err, EINVAL,
			  "parameters: one of start, user, pid wanted");
		return NULL;
	}
	which.number = (uint64_t)number;
	if (pid > 0 && process_cgroups(pid, -1, &cgroups, err) < 0)
		return NULL;
	which.cgroups = cgroups.data;
	if (starts_ready(n->starts, &which, &ns, err) < 0)
		return NULL;
	result = json_pack("{s:I}", "ready_ms", (json_int_t)(ns / NS_PER_MS));
	if (!result)
		error_nomem(err);
	return result;
}

int node_ready(struct node *n, const struct control_call *call,
	       struct buf *reply)
{
	struct start_name which = { .number = 0 };
	AUTO_BUF cgroups = BUF_INIT;
	int64_t ns;

	if (strcmp(call->path, "/v1/ready") != 0)
		return buf_puts(reply, "error: only POST /v1/ready\n") < 0
			       ? -ENOMEM
			       : HTTPD_NOT_FOUND;
	/* Do not tell the caller why: any process may ask here. */
	if (process_cgroups(call->peer->pid, call->peer->pidfd, &cgroups,
			    NULL) == 0)
		which.cgroups = cgroups.data;
	if (!which.cgroups || starts_ready(n->starts, &which, &ns, NULL) < 0)
		return buf_puts(reply, "error: no start of this container is "
				       "under way\n") < 0
			       ? -ENOMEM
			       : HTTPD_NOT_FOUND;
	return buf_printf(reply, "ok %lld\n", (long long)(ns / NS_PER_MS)) < 0
		       ? -ENOMEM
		       : HTTPD_OK;
}

json_t *method_end(struct node *n, json_t *params, struct error *err)
{
	const char *user;
	json_t *result;

	if (params_unpack(params, err, "{s:s}", "user", &user) < 0 ||
	    params_user(user, err) < 0)
		return NULL;
	starts_end(n->starts, user);
	result = json_object();
	if (!result)
		error_nomem(err);
	return result;
}

static json_t *record_image(struct node *n, struct image *i, const char *user,
			    const char *workload, int64_t window_ns,
			    struct remote_call *call, struct error *err)
{
	const struct record_request q = { .image = i,
					  .user = user,
					  .workload = workload,
					  .window_ns = window_ns,
					  .call = call };
	struct record_reply r = { .path = NULL };
	const char *scope;
	AUTO_BUF config = BUF_INIT;
	json_t *result;
	bool was;

	if (image_config(n->origins, i, &config, err) < 0 ||
	    admission_recheck(n->admission, i, NULL, &scope, err) < 0 ||
	    recordings_begin(n->recordings, &q, &r, err) < 0)
		return NULL;
	result = json_pack("{s:s, s:I, s:s}", "path", r.path, "start",
			   (json_int_t)r.start, "config", config.data);
	free(r.path);
	if (!result) {
		error_set(err, EINVAL, "the image's config is no UTF-8");
		(void)!recordings_end(n->recordings, user, &was, NULL);
	}
	return result;
}

json_t *method_record(struct node *n, json_t *params, struct remote_call *call,
		      struct error *err)
{
	const char *id, *user, *workload = NULL;
	json_int_t window_ms = 0;
	struct image *i;
	json_t *result;

	if (method_waits(call, err) < 0)
		return NULL;
	if (params_unpack(params, err, "{s:s, s:s, s?s, s?I}", "id", &id,
			  "user", &user, "workload", &workload, "window_ms",
			  &window_ms) < 0 ||
	    params_user(user, err) < 0 || check_workload(workload, err) < 0)
		return NULL;
	if (window_ms < 0 || window_ms > WINDOW_MS_MAX) {
		error_set(err, EINVAL,
			  "parameters: window_ms of 1 to %d wanted",
			  WINDOW_MS_MAX);
		return NULL;
	}
	i = params_image(n, id, err);
	if (!i)
		return NULL;
	result = record_image(n, i, user, workload, window_ms * NS_PER_MS, call,
			      err);
	images_put(i);
	return result;
}

json_t *method_explain(struct node *n, json_t *params, struct error *err)
{
	json_t *result = NULL;
	struct image *i;
	const char *id;

	if (params_unpack(params, err, "{s:s}", "id", &id) < 0)
		return NULL;
	i = params_image(n, id, err);
	if (!i)
		return NULL;
	result = json_pack("{s:o}", "starts", starts_explain(i));
	images_put(i);
	if (!result)
		error_nomem(err);
	return result;
}
