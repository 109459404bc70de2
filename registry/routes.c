// SPDX-License-Identifier: Apache-2.0
/* The table of what the service answers. */
#include "p2p/tracker/tracker_json.h"
#include "registry/service.h"

#define JSON "application/json"
#define TRACE "application/vnd.bootseer.trace.v1"

#define STAGE_BODY_MAX (1u << 20)
#define PREHEAT_BODY_MAX (512u << 10)
#define PREHEAT_REPORT_MAX 8192u

#define P_DIGEST \
	{ \
		"digest", PARAM_PATH, &param_digest, true, \
			"Manifest of the ordinary image." \
	}
#define P_WORKLOAD(must, text) \
	{ \
		"workload", PARAM_QUERY, &param_workload, must, text \
	}
#define P_REPO(must, text) \
	{ \
		"repo", PARAM_QUERY, &param_repo, must, text \
	}
#define P_MANIFEST \
	{ \
		"digest", PARAM_PATH, &param_digest, true, \
			"Name of the swarm." \
	}
#define P_IMAGE \
	{ \
		"image", PARAM_QUERY, &param_digest, false, \
			"Manifest of an image's artifact." \
	}
#define P_NODE \
	{ \
		"node", PARAM_QUERY, &param_node, false, "Name of a node." \
	}
#define P_LIMIT \
	{ \
		"limit", PARAM_QUERY, &param_limit, false, \
			"Lines at most; 100." \
	}

#define P_KEY \
	{ \
		"key", PARAM_PATH, &param_key, true, \
			"Id of a key that signs images." \
	}

#define P_ORDER \
	{ \
		"id", PARAM_PATH, &param_id, true, "Number of the order." \
	}

#define P_START \
	{ \
		"id", PARAM_PATH, &param_id, true, "Number of the start." \
	}
#define P_JOB_IMAGE \
	{ \
		"image", PARAM_QUERY, &param_image, false, \
			"Only of jobs that run this image." \
	}
#define P_LABEL \
	{ \
		"label", PARAM_QUERY, &param_label, false, \
			"Only of jobs with this label." \
	}
#define P_DAYS \
	{ \
		"days", PARAM_QUERY, &param_days, false, "How far back; 30." \
	}

const struct route routes[] = {
	{ .method = HTTPD_GET,
	  .path = "/v1/traces/{digest}",
	  .id = "getTrace",
	  .summary =
		  "The hot list of a start, or without a workload what there "
		  "is of the image.",
	  .role = ROLE_READ,
	  .run = traces_get,
	  .params = { P_DIGEST,
		      P_WORKLOAD(false, "Key of the start."),
		      P_REPO(false, "HOST/REPOSITORY, for relatives."),
		      { "exact", PARAM_QUERY, &param_flag, false,
			"1: no relative." },
		      P_LIMIT },
	  .answers = { { HTTPD_OK, TRACE, "The list, or JSON." },
		       { HTTPD_NOT_MODIFIED, NULL, "It is that of the ETag." },
		       { HTTPD_NOT_FOUND, JSON, "There is none." } } },
	{ .method = HTTPD_POST,
	  .path = "/v1/traces/{digest}",
	  .id = "addRecording",
	  .summary = "Add a recording of one run.",
	  .role = ROLE_WRITE,
	  .body = TRACE,
	  .run = traces_post,
	  .params = { P_DIGEST,
		      P_WORKLOAD(true, "Key of the start."),
		      P_REPO(false, "HOST/REPOSITORY that it came from."),
		      { "Bootseer-Node", PARAM_HEADER, &param_node, true,
			"Who recorded it." } },
	  .answers = { { HTTPD_ACCEPTED, JSON, "What became of it." },
		       { HTTPD_LENGTH_REQUIRED, JSON, "No Content-Length." },
		       { HTTPD_TOO_LARGE, JSON, "It is too large." },
		       { HTTPD_TOO_MANY, JSON, "The node sends too much." } } },
	{ .method = HTTPD_DELETE,
	  .path = "/v1/traces/{digest}",
	  .id = "forgetTraces",
	  .summary = "Forget recordings and lists of an image.",
	  .role = ROLE_ADMIN,
	  .run = traces_delete,
	  .params = { P_DIGEST, P_WORKLOAD(false, "Only of this start."),
		      P_REPO(false, "Only of this repository.") },
	  .answers = { { HTTPD_OK, JSON, "How many." } } },
	{ .method = HTTPD_GET,
	  .path = "/v1/traces",
	  .id = "listRepository",
	  .summary = "What there is of a repository, newest first.",
	  .role = ROLE_READ,
	  .run = traces_list_repo,
	  .params = { P_REPO(true, "HOST/REPOSITORY."), P_LIMIT },
	  .answers = { { HTTPD_OK, JSON, "A list." } } },
	{ .method = HTTPD_POST,
	  .path = "/v1/swarms/{digest}",
	  .id = "announce",
	  .summary = "What a node has and wants of an image; others, and "
		     "what it may read from the origin.",
	  .role = ROLE_WRITE,
	  .body = JSON,
	  .body_max = TRACKER_CALL_JSON_MAX,
	  .on_loop = true,
	  .run = swarms_post,
	  .params = { P_MANIFEST },
	  .answers = { { HTTPD_OK, JSON, "The tracker's answer." },
		       { HTTPD_LENGTH_REQUIRED, JSON, "No Content-Length." },
		       { HTTPD_TOO_LARGE, JSON, "It is too large." },
		       { HTTPD_TOO_MANY, JSON,
			 "The tracker has no room for this image." },
		       { HTTPD_UNAVAILABLE, JSON, "No memory is left." } } },
	{ .method = HTTPD_GET,
	  .path = "/v1/swarms",
	  .id = "listSwarms",
	  .summary = "Images that nodes take part in, last heard of first.",
	  .role = ROLE_READ,
	  .on_loop = true,
	  .run = swarms_list,
	  .params = { P_LIMIT },
	  .answers = { { HTTPD_OK, JSON, "A list." } } },
	{ .method = HTTPD_GET,
	  .path = "/v1/swarms/{digest}",
	  .id = "getSwarm",
	  .summary = "Who takes part in an image.",
	  .role = ROLE_READ,
	  .on_loop = true,
	  .run = swarms_get,
	  .params = { P_MANIFEST, P_LIMIT },
	  .answers = { { HTTPD_OK, JSON, "Its members." },
		       { HTTPD_NOT_FOUND, JSON, "Nobody does." } } },
	{ .method = HTTPD_POST,
	  .path = "/v1/capabilities",
	  .id = "getCapability",
	  .summary = "The right of a node to have an image from its peers, "
		     "after the image's registry was asked.",
	  .role = ROLE_WRITE,
	  .body = JSON,
	  .body_max = CAPABILITY_REQUEST_MAX,
	  .is_asking = true,
	  .run = capabilities_post,
	  .answers = { { HTTPD_OK, JSON, "The signed text, in base 64." },
		       { HTTPD_FORBIDDEN, JSON,
			 "The registry says no, it was revoked, or this "
			 "service does not ask that registry." },
		       { HTTPD_LENGTH_REQUIRED, JSON, "No Content-Length." },
		       { HTTPD_TOO_LARGE, JSON, "It is too large." },
		       { HTTPD_NOT_IMPLEMENTED, JSON,
			 "The service has no key to sign with." } } },
	{ .method = HTTPD_DELETE,
	  .path = "/v1/capabilities",
	  .id = "revokeCapabilities",
	  .summary = "Give none any more for an image, a node, or a node's "
		     "of an image.",
	  .role = ROLE_ADMIN,
	  .run = capabilities_revoke,
	  .params = { P_IMAGE, P_NODE },
	  .answers = { { HTTPD_OK, JSON, "How many are new: 0 or 1." },
		       { HTTPD_TOO_MANY, JSON, "Too many are revoked." } } },
	{ .method = HTTPD_DELETE,
	  .path = "/v1/revocations",
	  .id = "restoreCapabilities",
	  .summary = "Take such a revocation back.",
	  .role = ROLE_ADMIN,
	  .run = capabilities_restore,
	  .params = { P_IMAGE, P_NODE },
	  .answers = { { HTTPD_OK, JSON, "How many there were: 0 or 1." } } },
	{ .method = HTTPD_GET,
	  .path = "/v1/capability-keys",
	  .id = "getCapabilityKeys",
	  .summary = "Public keys that capabilities are checked with, and "
		     "what was revoked.",
	  .role = ROLE_READ,
	  .run = capabilities_keys,
	  .answers = { { HTTPD_OK, JSON, "PEM, and a list." },
		       { HTTPD_NOT_MODIFIED, NULL, "It is that of the ETag." },
		       { HTTPD_NOT_IMPLEMENTED, JSON,
			 "The service has no key to sign with." } } },
	{ .method = HTTPD_POST,
	  .path = "/v1/preheats",
	  .id = "orderPreheat",
	  .summary = "Have nodes fetch an image before it starts there.",
	  .role = ROLE_ADMIN,
	  .body = JSON,
	  .body_max = PREHEAT_BODY_MAX,
	  .run = preheats_post,
	  .answers = { { HTTPD_ACCEPTED, JSON, "The order's number." },
		       { HTTPD_LENGTH_REQUIRED, JSON, "No Content-Length." },
		       { HTTPD_TOO_LARGE, JSON, "It is too large." },
		       { HTTPD_TOO_MANY, JSON,
			 "Too many orders are kept." } } },
	{ .method = HTTPD_GET,
	  .path = "/v1/preheats",
	  .id = "listPreheats",
	  .summary = "Orders that are not over for a node, oldest first.",
	  .role = ROLE_READ,
	  .run = preheats_list,
	  .params = { { "node", PARAM_QUERY, &param_node, true,
			"Whose orders." } },
	  .answers = { { HTTPD_OK, JSON, "A list." } } },
	{ .method = HTTPD_GET,
	  .path = "/v1/preheats/{id}",
	  .id = "getPreheat",
	  .summary = "How far an order is; for an admin, node by node.",
	  .role = ROLE_READ,
	  .run = preheats_get,
	  .params = { P_ORDER },
	  .answers = { { HTTPD_OK, JSON,
			 "The order, and how many nodes are how far." },
		       { HTTPD_NOT_FOUND, JSON, "There is none." } } },
	{ .method = HTTPD_POST,
	  .path = "/v1/preheats/{id}",
	  .id = "reportPreheat",
	  .summary = "What a node says about an order to it.",
	  .role = ROLE_WRITE,
	  .body = JSON,
	  .body_max = PREHEAT_REPORT_MAX,
	  .run = preheats_report,
	  .params = { P_ORDER },
	  .answers = { { HTTPD_OK, JSON, "It is noted." },
		       { HTTPD_LENGTH_REQUIRED, JSON, "No Content-Length." },
		       { HTTPD_TOO_LARGE, JSON, "It is too large." },
		       { HTTPD_NOT_FOUND, JSON,
			 "There is no such order to that node." } } },
	{ .method = HTTPD_POST,
	  .path = "/v1/events",
	  .id = "addStageEvents",
	  .summary = "Add stage events of a node; without a body, ask for "
		     "the service's time.",
	  .role = ROLE_WRITE,
	  .body = "text/plain",
	  .body_max = STAGE_BODY_MAX,
	  .run = stages_post,
	  .params = { { "clock", PARAM_QUERY, &param_clock, false,
			"What to add to the node's clocks to have this "
			"service's." },
		      { "Bootseer-Node", PARAM_HEADER, &param_node, true,
			"Whose events they are." } },
	  .answers = { { HTTPD_OK, JSON, "How many are new; the time." },
		       { HTTPD_LENGTH_REQUIRED, JSON, "No Content-Length." },
		       { HTTPD_TOO_LARGE, JSON,
			 "It is too large, or the start has too many events." },
		       { HTTPD_TOO_MANY, JSON,
			 "The node has sent too many within the hour." } } },
	{ .method = HTTPD_GET,
	  .path = "/v1/starts",
	  .id = "listStarts",
	  .summary = "Starts of jobs, newest first.",
	  .role = ROLE_READ,
	  .run = starts_list,
	  .params = { { "job", PARAM_QUERY, &param_job, false,
			"Only of this job." },
		      P_JOB_IMAGE,
		      P_LABEL,
		      P_LIMIT },
	  .answers = { { HTTPD_OK, JSON, "A list." } } },
	{ .method = HTTPD_GET,
	  .path = "/v1/starts/{id}",
	  .id = "getStart",
	  .summary = "Where the time of a start went: stages, stragglers, "
		     "the critical path, the slowest nodes.",
	  .role = ROLE_READ,
	  .run = starts_get,
	  .params = { { "id", PARAM_PATH, &param_id, true,
			"Number of the start." },
		      P_LIMIT },
	  .answers = { { HTTPD_OK, JSON, "The analysis." },
		       { HTTPD_NOT_FOUND, JSON, "There is none." } } },
	{ .method = HTTPD_GET,
	  .path = "/v1/starts/{id}/bars",
	  .id = "getStartBars",
	  .summary =
		  "What each node of a start did when, the slowest first, in "
		  "few bytes.",
	  .role = ROLE_READ,
	  .run = starts_bars,
	  .params = { P_START },
	  .answers = { { HTTPD_OK, JSON, "Nodes, each with its runs." },
		       { HTTPD_NOT_FOUND, JSON, "There is none." } } },
	{ .method = HTTPD_GET,
	  .path = "/v1/starts/{id}/export",
	  .id = "exportStart",
	  .summary = "A start for other programs: Chrome's trace events, an "
		     "OTLP request, or CSV.",
	  .role = ROLE_READ,
	  .run = starts_export,
	  .params = { P_START,
		      { "format", PARAM_QUERY, &param_format, true,
			"Which form." } },
	  .answers = { { HTTPD_OK, JSON, "In that form; CSV is text/csv." },
		       { HTTPD_NOT_FOUND, JSON, "There is none." } } },
	{ .method = HTTPD_GET,
	  .path = "/v1/starts/{id}/compare",
	  .id = "compareStarts",
	  .summary = "A start beside another, stage by stage.",
	  .role = ROLE_READ,
	  .run = starts_compare,
	  .params = { P_START,
		      { "with", PARAM_QUERY, &param_id, true,
			"Number of the other start." } },
	  .answers = { { HTTPD_OK, JSON, "Both, and what changed." },
		       { HTTPD_NOT_FOUND, JSON, "There is none." } } },
	{ .method = HTTPD_GET,
	  .path = "/v1/starts/{id}/checkpoints",
	  .id = "getStartCheckpoints",
	  .summary = "What the nodes of a start loaded from checkpoints and "
		     "saved to them, also after training began.",
	  .role = ROLE_READ,
	  .run = checkpoints_get,
	  .params = { P_START, P_LIMIT },
	  .answers = { { HTTPD_OK, JSON,
			 "Loads and saves: sums, the slowest nodes, rounds." },
		       { HTTPD_NOT_FOUND, JSON, "There is none." } } },
	{ .method = HTTPD_GET,
	  .path = "/v1/checkpoints",
	  .id = "listCheckpoints",
	  .summary = "Loads and saves of starts, the latest first.",
	  .role = ROLE_READ,
	  .run = checkpoints_list,
	  .params = { { "job", PARAM_QUERY, &param_job, false,
			"Only of this job." },
		      P_DAYS,
		      P_JOB_IMAGE,
		      P_LABEL,
		      P_LIMIT },
	  .answers = { { HTTPD_OK, JSON, "A list." } } },
	{ .method = HTTPD_GET,
	  .path = "/v1/trends",
	  .id = "getTrends",
	  .summary = "Stages of all starts that are over, by day, image or "
		     "label.",
	  .role = ROLE_READ,
	  .run = trends_get,
	  .params = { { "by", PARAM_QUERY, &param_by, false,
			"What a row is of; day." },
		      P_DAYS,
		      P_JOB_IMAGE,
		      P_LABEL },
	  .answers = { { HTTPD_OK, JSON, "A list." } } },
	{ .method = HTTPD_GET,
	  .path = "/v1/nodes",
	  .id = "listSlowNodes",
	  .summary = "Nodes that were slow, the most often first.",
	  .role = ROLE_READ,
	  .run = nodes_list,
	  .params = { P_DAYS, P_LIMIT },
	  .answers = { { HTTPD_OK, JSON, "A list." } } },
	{ .method = HTTPD_GET,
	  .path = "/v1/nodes/{node}",
	  .id = "getNodeHistory",
	  .summary = "A node in its starts, newest first.",
	  .role = ROLE_READ,
	  .run = nodes_get,
	  .params = { { "node", PARAM_PATH, &param_node, true,
			"Name of the node." },
		      P_LIMIT },
	  .answers = { { HTTPD_OK, JSON, "A list." } } },
	{ .method = HTTPD_GET,
	  .path = "/v1/trust/revoked",
	  .id = "listRevokedKeys",
	  .summary = "Keys that sign images and that no node is to believe "
		     "any more.",
	  .role = ROLE_READ,
	  .run = trust_revoked,
	  .answers = { { HTTPD_OK, JSON, "A list." },
		       { HTTPD_NOT_MODIFIED, NULL,
			 "It is that of the ETag." } } },
	{ .method = HTTPD_PUT,
	  .path = "/v1/trust/revoked/{key}",
	  .id = "revokeKey",
	  .summary = "Believe nothing any more that this key signed.",
	  .role = ROLE_ADMIN,
	  .run = trust_revoke,
	  .params = { P_KEY },
	  .answers = { { HTTPD_OK, JSON, "How many are new: 0 or 1." },
		       { HTTPD_TOO_MANY, JSON, "Too many are revoked." } } },
	{ .method = HTTPD_DELETE,
	  .path = "/v1/trust/revoked/{key}",
	  .id = "restoreKey",
	  .summary = "Take that back.",
	  .role = ROLE_ADMIN,
	  .run = trust_restore,
	  .params = { P_KEY },
	  .answers = { { HTTPD_OK, JSON, "How many there were: 0 or 1." } } },
	{ .method = HTTPD_GET,
	  .path = "/",
	  .id = "page",
	  .summary = "The page that shows starts.",
	  .on_loop = true,
	  .run = page_index,
	  .answers = { { HTTPD_OK, "text/html", "It holds no data." },
		       { HTTPD_NOT_MODIFIED, NULL,
			 "It is that of the ETag." } } },
	{ .method = HTTPD_GET,
	  .path = "/page/app.js",
	  .id = "pageScript",
	  .summary = "Its script.",
	  .on_loop = true,
	  .run = page_script,
	  .answers = { { HTTPD_OK, "text/javascript", "The script." },
		       { HTTPD_NOT_MODIFIED, NULL,
			 "It is that of the ETag." } } },
	{ .method = HTTPD_GET,
	  .path = "/page/style.css",
	  .id = "pageStyle",
	  .summary = "How it looks.",
	  .on_loop = true,
	  .run = page_style,
	  .answers = { { HTTPD_OK, "text/css", "The style sheet." },
		       { HTTPD_NOT_MODIFIED, NULL,
			 "It is that of the ETag." } } },
	{ .method = HTTPD_GET,
	  .path = "/healthz",
	  .id = "health",
	  .summary = "Does the process answer?",
	  .on_loop = true,
	  .run = system_health,
	  .answers = { { HTTPD_OK, JSON, "It does." } } },
	{ .method = HTTPD_GET,
	  .path = "/readyz",
	  .id = "ready",
	  .summary = "Does the database answer?",
	  .run = system_ready,
	  .answers = { { HTTPD_OK, JSON, "It does." } } },
	{ .method = HTTPD_GET,
	  .path = "/metrics",
	  .id = "metrics",
	  .summary = "Figures for Prometheus.",
	  .role = ROLE_READ,
	  .on_loop = true,
	  .run = system_metrics,
	  .answers = { { HTTPD_OK, "text/plain", "Text format 0.0.4." } } },
	{ .method = HTTPD_GET,
	  .path = "/v1/openapi.json",
	  .id = "openapi",
	  .summary = "This description.",
	  .on_loop = true,
	  .run = system_openapi,
	  .answers = { { HTTPD_OK, JSON, "OpenAPI 3.0." } } },
};

const size_t n_routes = ARRAY_SIZE(routes);
