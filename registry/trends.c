// SPDX-License-Identifier: Apache-2.0
/* /v1/trends and /v1/nodes: statistics of many starts (docs/formats/registry-api.md). */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "registry/call.h"
#include "registry/history_db.h"
#include "registry/routes.h"
#include "registry/scale_sums.h"

#define DAYS_DEFAULT 30
#define NODES_DEFAULT 100
#define ROWS_MAX 20000 /* rows of a trend */
#define DAY_S 86400

static double mean_s(int64_t sum_ms, int64_t n)
{
	return n > 0 ? (double)sum_ms / 1e3 / (double)n : 0;
}

struct trend_rows {
	enum trend_by by;
	json_t *rows;
};

static int get_start_class_param(struct call *c)
{
	const char *name = call_param(c, "class");

	if (!name[0])
		return TREND_CLASS_ANY;
	return strcmp(name, start_class_name(START_FULL)) == 0
		       ? START_FULL
		       : START_HOT_UPDATE;
}

static int add_trend(void *arg, const struct trend_row *t)
{
	const struct trend_rows *to = arg;
	const char *key =
		to->by == TREND_BY_CLASS
			? start_class_name((enum start_class)atoi(t->key))
			: t->key;
	json_t *o = json_pack("{s:s,s:s,s:I,s:I,s:I,s:f,s:f,s:f,s:I,s:f,s:f}",
			      "key", key, "stage", t->stage, "starts",
			      (json_int_t)t->starts, "top", (json_int_t)t->tops,
			      "nodes", (json_int_t)t->nodes, "median_s",
			      mean_s(t->median_ms, t->starts), "job_s",
			      mean_s(t->job_ms, t->starts), "worst_s",
			      mean_s(t->worst_ms, 1), "stragglers",
			      (json_int_t)t->slow, "node_hours",
			      (double)t->node_ms / 3.6e6, "wait_hours",
			      (double)t->wait_ms / 3.6e6);

	return json_array_append_new(to->rows, o) < 0 ? -ENOMEM : 0;
}

int trends_get(struct call *c, struct error *err)
{
	const char *by = call_param(c, "by");
	struct trend_query q = {
		.by = strcmp(by, "image") == 0   ? TREND_BY_IMAGE
		      : strcmp(by, "label") == 0 ? TREND_BY_LABEL
		      : strcmp(by, "class") == 0 ? TREND_BY_CLASS
						 : TREND_BY_DAY,
		.since_day = time(NULL) / DAY_S -
			     call_number(c, "days", DAYS_DEFAULT),
		.image = call_param(c, "image"),
		.label = call_param(c, "label"),
		.class = get_start_class_param(c),
		.limit = ROWS_MAX,
	};
	struct trend_rows to = { .by = q.by, .rows = json_array() };
	int rc = call_check_repo(c, "", err);

	if (rc == 0)
		rc = history_db_trend(c->service->db, &q, add_trend, &to, err);
	if (rc < 0) {
		json_decref(to.rows);
		return rc;
	}
	return call_send_json(c, json_pack("{s:o}", "rows", to.rows), err);
}

static int add_scale_row_to_sums(void *arg, const struct scale_row *r)
{
	return scale_sums_add(arg, r);
}

int scales_get(struct call *c, struct error *err)
{
	const struct trend_query q = {
		.since_day = time(NULL) / DAY_S -
			     call_number(c, "days", DAYS_DEFAULT),
		.image = call_param(c, "image"),
		.label = call_param(c, "label"),
		.class = get_start_class_param(c),
		.limit = SCALE_ROWS_MAX,
	};
	AUTO(scale_sums) sums = NULL;
	int rc = call_check_repo(c, "", err);

	if (rc == 0)
		rc = scale_sums_new(&sums, err);
	if (rc == 0)
		rc = history_db_scales(c->service->db, &q,
				       add_scale_row_to_sums, sums, err);
	return rc < 0 ? rc : call_send_json(c, scale_sums_json(sums), err);
}

static int add_node(void *arg, const struct slow_node *s)
{
	json_t *o =
		json_pack("{s:s,s:I,s:I,s:f,s:I}", "node", s->node, "slow",
			  (json_int_t)s->slow, "starts", (json_int_t)s->starts,
			  "excess_s", mean_s(s->excess_ms, 1), "last",
			  (json_int_t)s->last);

	return json_array_append_new(arg, o) < 0 ? -ENOMEM : 0;
}

int nodes_list(struct call *c, struct error *err)
{
	int64_t since = time(NULL) -
			INT64_C(86400) * call_number(c, "days", DAYS_DEFAULT);
	json_t *nodes = json_array();
	int rc = call_check_repo(c, "", err);

	if (rc == 0)
		rc = history_db_nodes(c->service->db, since,
				      call_number(c, "limit", NODES_DEFAULT),
				      add_node, nodes, err);
	if (rc < 0) {
		json_decref(nodes);
		return rc;
	}
	return call_send_json(c, json_pack("{s:o}", "nodes", nodes), err);
}

static int add_node_start(void *arg, const struct history_start *s)
{
	json_t *o =
		json_pack("{s:I,s:s,s:I,s:f,s:f,s:b,s:s,s:s}", "id",
			  (json_int_t)s->start, "job", s->job, "at",
			  (json_int_t)s->at, "busy_s", mean_s(s->busy_ms, 1),
			  "median_s", mean_s(s->median_ms, 1), "slow",
			  s->is_slow, "stage", s->stage, "cause", s->cause);

	return json_array_append_new(arg, o) < 0 ? -ENOMEM : 0;
}

int nodes_get(struct call *c, struct error *err)
{
	const char *node = call_param(c, "node");
	json_t *starts = json_array();
	int rc = call_check_repo(c, "", err);

	if (rc == 0)
		rc = history_db_node(c->service->db, node,
				     call_number(c, "limit", NODES_DEFAULT),
				     add_node_start, starts, err);
	if (rc < 0) {
		json_decref(starts);
		return rc;
	}
	return call_send_json(c,
			      json_pack("{s:s,s:o}", "node", node, "starts",
					starts),
			      err);
}
