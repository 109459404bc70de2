// SPDX-License-Identifier: Apache-2.0
/* /v1/images: what starts of an image read, missed and prefetched
 * (docs/formats/registry-api.md). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/json.h"
#include "registry/call.h"
#include "registry/hot_files.h"
#include "registry/image_db.h"
#include "registry/routes.h"

#define SUMMED_MAX 256 /* starts of an image that are summed up */

int image_figures_post(struct call *c, struct error *err)
{
	const struct image_start_name name = {
		.image = call_param(c, "digest"),
		.repo = call_param(c, "repo"),
		.workload = call_param(c, "workload"),
		.node = call_param(c, "Bootseer-Node"),
	};
	struct image_report r = IMAGE_REPORT_INIT;
	int rc = call_check_trace_repo(c, name.repo, err);

	if (rc == 0)
		rc = image_report_parse(c->req->body ? c->req->body : "",
					c->req->head.content_length, &r, err);
	if (rc == 0)
		rc = image_db_put(c->service->db, &name, time(NULL), &r, err);
	image_report_fini(&r);
	return rc < 0 ? rc
		      : call_send_json(c,
				       json_pack("{s:s}", "status", "stored"),
				       err);
}

/* -------------------------------------------------------------------- list --- */

static int add_image(void *arg, const struct image_line *l)
{
	json_t *o =
		json_pack("{s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:I}", "image",
			  l->image, "repo", l->repo, "workload", l->workload,
			  "name", l->name, "starts", (json_int_t)l->starts,
			  "nodes", (json_int_t)l->nodes, "received_at",
			  (json_int_t)l->received, "peer_bytes",
			  (json_int_t)l->peer_bytes, "origin_bytes",
			  (json_int_t)l->origin_bytes);

	return json_array_append_new(arg, o) < 0 ? -ENOMEM : 0;
}

int image_figures_list(struct call *c, struct error *err)
{
	const char *repo = call_param(c, "repo");
	json_t *images = json_array();
	int rc = repo[0] ? call_check_trace_repo(c, repo, err) : 0;

	if (rc == 0)
		rc = image_db_list(c->service->db, call_prefix(c), repo,
				   call_number(c, "limit", LIMIT_DEFAULT),
				   add_image, images, err);
	if (rc < 0) {
		json_decref(images);
		return rc;
	}
	return call_send_json(c, json_pack("{s:o}", "images", images), err);
}

/* ----------------------------------------------------------------- hot set --- */

static json_t *file_json(const struct hot_file *f)
{
	AUTO_BUF path = BUF_INIT;

	if (trace_path_text(f->path, &path) < 0)
		return NULL;
	return json_pack("{s:s,s:I,s:I,s:I,s:I,s:I}", "path", path.data,
			 "bytes", (json_int_t)f->bytes, "stored",
			 (json_int_t)f->stored, "blocks", (json_int_t)f->blocks,
			 "first_ms", (json_int_t)f->first_ms, "confidence",
			 (json_int_t)f->confidence);
}

static json_t *hot_json(const struct trace *t, const struct hot_summary *s,
			size_t limit)
{
	json_t *files = json_array(), *times = json_array();

	for (size_t i = 0; i < s->n_files && i < limit; i++)
		(void)json_array_append_new(files, file_json(&s->files[i]));
	for (size_t i = 0; i < HOT_STEPS; i++)
		(void)json_array_append_new(times,
					    json_integer(
						    (json_int_t)s->by_time[i]));
	return json_pack(
		"{s:I,s:I,s:I,s:b,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:o,s:o}", "runs",
		(json_int_t)t->info.runs, "created_at",
		(json_int_t)t->info.created_at, "ready_ms",
		(json_int_t)t->info.ready_ms, "truncated", t->info.truncated,
		"bytes", (json_int_t)s->bytes, "stored", (json_int_t)s->stored,
		"blocks", (json_int_t)s->blocks, "files_all",
		(json_int_t)s->n_files, "rare_blocks",
		(json_int_t)s->rare_blocks, "rare_stored",
		(json_int_t)s->rare_stored, "last_ms", (json_int_t)s->last_ms,
		"stored_by_time", times, "files", files);
}

static int read_hot(struct hot_list_text *list, size_t limit, json_t **ret,
		    struct error *err)
{
	AUTO_FINI(hot_summary) s = { .n_files = 0 };
	AUTO(trace) t = NULL;
	int rc = trace_decode(list->trace.data, list->trace.len, &t, err);

	if (rc == 0)
		rc = hot_summary_make(t, &s, err);
	if (rc == 0) {
		*ret = hot_json(t, &s, limit);
		rc = *ret ? 0 : error_nomem(err);
	}
	return rc;
}

/* Describe the hot list; `*ret` is the JSON value null if there is no list. */
static int find_hot(struct call *c, const struct image_start_name *n,
		    json_t **ret, struct error *err)
{
	const struct start_query q = { .image = n->image,
				       .workload = n->workload,
				       .repo = n->repo,
				       .prefix = call_trace_prefix(c, n->repo),
				       .exact = true };
	struct hot_list_text *list = NULL;
	struct start s;
	int rc = trace_db_find(c->service->db, &q, time(NULL), &s, err);

	if (rc == 0)
		rc = hot_get(c->service->hot, &s, &list, err);
	if (rc == 0) {
		rc = read_hot(list,
			      (size_t)call_number(c, "limit", LIMIT_DEFAULT),
			      ret, err);
		hot_put(c->service->hot, list);
	} else if (rc == -ENOENT) {
		*ret = json_null();
		rc = 0;
	}
	return rc;
}

/* ------------------------------------------------------------------ starts --- */

struct image_starts {
	struct image_sums *sums;
	json_t *rows; /* rows of the newest `max` starts */
	size_t max;
	char *name; /* image name in the newest start that has a name */
};

static json_t *start_json(const struct image_start_row *r, json_t *start)
{
	json_t *o = json_pack("{s:s,s:s,s:I,s:I,s:I,s:I}", "node", r->node,
			      "job", r->job, "attempt", (json_int_t)r->attempt,
			      "received_at", (json_int_t)r->received,
			      "peer_bytes", (json_int_t)r->peer_bytes,
			      "origin_bytes", (json_int_t)r->origin_bytes);

	/* Drop each start's missed files: the answer has one list for all starts. */
	(void)json_object_del(start, "missed_files");
	if (json_object_update(o, start) == 0)
		return o;
	json_decref(o);
	return NULL;
}

static int add_start(void *arg, const struct image_start_row *r)
{
	struct image_starts *s = arg;
	AUTO_JSON *start = json_loads(r->figures, 0, NULL);

	if (!start || image_sums_add(s->sums, start) < 0)
		return -ENOMEM;
	if (!s->name && r->name[0]) {
		s->name = strdup(r->name);
		if (!s->name)
			return -ENOMEM;
	}
	if (json_array_size(s->rows) < s->max &&
	    json_array_append_new(s->rows, start_json(r, start)) < 0)
		return -ENOMEM;
	return 0;
}

static int find_starts(struct call *c, const struct image_start_name *n,
		       struct image_starts *s, struct error *err)
{
	int rc = image_sums_new(&s->sums, err);

	s->max = (size_t)call_number(c, "limit", LIMIT_DEFAULT);
	s->rows = json_array();
	if (rc == 0 && !s->rows)
		rc = error_nomem(err);
	return rc < 0 ? rc
		      : image_db_starts(c->service->db, n, SUMMED_MAX,
					add_start, s, err);
}

static void starts_fini(struct image_starts *s)
{
	image_sums_free(s->sums);
	json_decref(s->rows);
	free(s->name);
}

int image_figures_get(struct call *c, struct error *err)
{
	const struct image_start_name n = {
		.image = call_param(c, "digest"),
		.repo = call_param(c, "repo"),
		.workload = call_param(c, "workload"),
	};
	struct image_starts s = { .name = NULL };
	json_t *hot = NULL;
	int rc = call_check_trace_repo(c, n.repo, err);

	if (rc == 0)
		rc = find_starts(c, &n, &s, err);
	if (rc == 0)
		rc = find_hot(c, &n, &hot, err);
	if (rc == 0 && json_is_null(hot) && !json_array_size(s.rows))
		rc = error_set(err, ENOENT,
			       "nothing is known of this image and workload");
	if (rc == 0)
		rc = call_send_json(
			c,
			json_pack("{s:s,s:s,s:s,s:s,s:O,s:o,s:o,s:O}", "image",
				  n.image, "repo", n.repo, "workload",
				  n.workload, "name", s.name ? s.name : "",
				  "hot", hot, "sum", image_sums_json(s.sums),
				  "missed_files",
				  image_sums_files(s.sums, s.max), "starts",
				  s.rows),
			err);
	json_decref(hot);
	starts_fini(&s);
	return rc;
}
