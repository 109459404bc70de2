// SPDX-License-Identifier: Apache-2.0
/* /v1/peers and /v1/starts/ID/peers: how many bytes each node gave to each other node
 * (docs/formats/registry-api.md). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/json.h"
#include "registry/call.h"
#include "registry/image_db.h"
#include "registry/peer_sums.h"
#include "registry/routes.h"
#include "registry/stage_db.h"
#include "registry/starts_json.h"

#define DAYS_DEFAULT 7
#define DAY_S INT64_C(86400)

struct peer_reading {
	struct peer_sums *sums;
	int64_t reports;
	/* each image once, by digest, repository and workload */
	json_t *images;
};

/* Note the image and workload that the nodes started. */
static int note_image(json_t *images, const struct image_start_name *n)
{
	AUTO_FREE char *key = NULL;
	json_t *o;

	if (asprintf(&key, "%s %s %s", n->image, n->repo, n->workload) < 0) {
		key = NULL;
		return -ENOMEM;
	}
	if (json_object_size(images) >= LIMIT_DEFAULT ||
	    json_object_get(images, key))
		return 0;
	o = json_pack("{s:s,s:s,s:s}", "image", n->image, "repo", n->repo,
		      "workload", n->workload);
	return json_object_set_new(images, key, o) < 0 ? -ENOMEM : 0;
}

static int add_report(void *arg, const struct image_peers_row *r)
{
	struct peer_reading *p = arg;
	const char *lines = r->peers;
	char giver[STAGE_NODE_MAX + 1];
	int64_t bytes;
	int rc = peer_sums_add(p->sums, r->of.node, (uint64_t)r->peer_bytes,
			       (uint64_t)r->origin_bytes);

	p->reports++;
	if (rc == 0 && p->images)
		rc = note_image(p->images, &r->of);
	while (rc == 0 && peer_line_parse(&lines, giver, &bytes))
		/* Ignore a line that names the node itself as giver. */
		if (strcmp(giver, r->of.node) != 0)
			rc = peer_sums_add_pair(p->sums, giver, r->of.node,
						(uint64_t)bytes);
	return rc;
}

/* An array [name, got, origin, gave, givers, takers] for each node, the one that gave most
 * first. */
static json_t *nodes_json(const struct peer_sums_result *s)
{
	json_t *a = json_array();

	for (size_t i = 0; i < s->n_nodes; i++) {
		const struct peer_node *n = &s->nodes[s->order[i]];

		(void)json_array_append_new(a,
					    json_pack("[s,I,I,I,I,I]", n->name,
						      (json_int_t)n->got,
						      (json_int_t)n->origin,
						      (json_int_t)n->gave,
						      (json_int_t)n->givers,
						      (json_int_t)n->takers));
	}
	return a;
}

/* An array [giver, taker, bytes] for each pair, the largest first; `node` not "": only pairs of
 * that node. */
static json_t *pairs_json(const struct peer_sums_result *s, const char *node,
			  size_t limit)
{
	AUTO_FREE bool *shown = calloc(s->n_pairs + 1, sizeof(*shown));
	json_t *a;

	if (!shown || peer_sums_choose(s, node, limit, shown) < 0)
		return NULL;
	a = json_array();
	for (size_t i = 0; i < s->n_pairs; i++) {
		const struct peer_pair *p = &s->pairs[i];

		if (shown[i])
			(void)json_array_append_new(a,
						    json_pack("[s,s,I]",
							      s->nodes[p->giver]
								      .name,
							      s->nodes[p->taker]
								      .name,
							      (json_int_t)p
								      ->bytes));
	}
	return a;
}

static json_t *sums_json(const struct call *c, const struct peer_reading *p)
{
	struct peer_sums_result s;

	if (peer_sums_end(p->sums, &s) < 0)
		return NULL;
	return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:o,s:o}", "reports",
			 (json_int_t)p->reports, "peer_bytes",
			 (json_int_t)s.got, "origin_bytes",
			 (json_int_t)s.origin, "left_out",
			 (json_int_t)s.left_out, "nodes_all",
			 (json_int_t)s.n_nodes, "pairs_all",
			 (json_int_t)s.n_pairs, "nodes", nodes_json(&s),
			 "pairs",
			 pairs_json(&s, call_param(c, "node"),
				    (size_t)call_number(c, "limit",
							LIMIT_DEFAULT)));
}

int peers_list(struct call *c, struct error *err)
{
	const struct image_peers_query q = {
		.since = time(NULL) -
			 DAY_S * call_number(c, "days", DAYS_DEFAULT),
		.image = call_param(c, "image"),
	};
	AUTO(peer_sums) sums = NULL;
	struct peer_reading p = { .reports = 0 };
	int rc = call_check_repo(c, "", err);

	if (rc == 0)
		rc = peer_sums_new(&sums, err);
	p.sums = sums;
	if (rc == 0)
		rc = image_db_peers(c->service->db, &q, add_report, &p, err);
	return rc < 0 ? rc : call_send_json(c, sums_json(c, &p), err);
}

/* Copy the head of the start. Returns 0: do not read its events. */
static int keep_start(void *arg, const struct job_start *s)
{
	json_t **ret = arg;

	json_decref(*ret);
	*ret = starts_job_json(s, clock_wall_ns());
	return *ret ? 0 : -ENOMEM;
}

static int find_start(struct call *c, json_t **ret, struct error *err)
{
	const struct stage_base nothing = { .set = NULL };
	struct start_set *none = NULL;
	int64_t left_out;

	return stage_db_get(c->service->db,
			    strtoll(call_param(c, "id"), NULL, 10), keep_start,
			    ret, &nothing, &none, &left_out, err);
}

static json_t *values_json(const json_t *object)
{
	json_t *a = json_array(), *v;
	const char *key;

	json_object_foreach((json_t *)(uintptr_t)object, key, v)(void)
		json_array_append(a, v);
	return a;
}

int peers_of_start(struct call *c, struct error *err)
{
	AUTO_JSON *start = NULL;
	AUTO_JSON *images = json_object();
	AUTO_JSON *more = NULL;
	AUTO(peer_sums) sums = NULL;
	struct peer_reading p = { .images = images };
	struct image_peers_query q = { .image = "" };
	int rc = call_check_repo(c, "", err);

	if (rc == 0)
		rc = find_start(c, &start, err);
	if (rc == 0)
		rc = images ? peer_sums_new(&sums, err) : error_nomem(err);
	if (rc < 0)
		return rc;
	p.sums = sums;
	q.job = json_string_value(json_object_get(start, "job"));
	q.attempt = json_integer_value(json_object_get(start, "attempt"));
	rc = image_db_peers(c->service->db, &q, add_report, &p, err);
	if (rc < 0)
		return rc;
	more = sums_json(c, &p);
	if (!more || json_object_update(start, more) < 0 ||
	    json_object_set_new(start, "images", values_json(images)) < 0)
		return error_nomem(err);
	return call_send_json(c, json_incref(start), err);
}
