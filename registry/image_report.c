// SPDX-License-Identifier: Apache-2.0
#include "registry/image_report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/compare.h"
#include "common/hash.h"
#include "registry/peer_sums.h"

#define NUMBER_MAX (INT64_C(1) << 50)
#define PATH_BYTES_MAX 4095u
#define STARTS_MAX 1024u /* starts whose times a median is computed from */

/* ----------------------------------------------------------------- members --- */

/* Names of the numbers of a start and of the objects within it. Counts are summed up over starts,
 * times are not. */
static const char *const times[] = { "started_at", "ready_ms", "waited_ms",
				     "watched_ms" };
static const char *const counts[] = { "reads", "read_bytes", "read_blocks",
				      "missed_blocks", "missed_bytes" };
static const char *const fetched[] = { "demand", "hot", "cold", "cache" };
static const char *const hot[] = {
	"blocks",      "bytes",      "fetched_blocks", "fetched_bytes",
	"used_blocks", "used_bytes", "unused_blocks",  "unused_bytes",
};
static const char *const ends[] = { "ready", "window", "gone" };
static const char *const traces[] = { "own", "relative",  "workload",
				      "far", "predicted", "none" };

static int read_number(const json_t *o, const char *name, int64_t *ret,
		       struct error *err)
{
	const json_t *v = json_object_get(o, name);
	json_int_t n = json_integer_value(v);

	if (v && (!json_is_integer(v) || n < 0 || n > NUMBER_MAX))
		return error_set(err, EINVAL, "%s is no number up to 2^50",
				 name);
	*ret = n;
	return 0;
}

/* Read a number of stored bytes that the node received. */
static int read_bytes(const json_t *o, const char *name, int64_t *ret,
		      struct error *err)
{
	int rc = read_number(o, name, ret, err);

	if (rc == 0 && *ret > IMAGE_REPORT_BYTES_MAX)
		return error_set(err, EINVAL, "%s is no number up to 2^43",
				 name);
	return rc;
}

static int copy_numbers(const json_t *from, const char *const *names, size_t n,
			json_t *to, struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		int64_t v;
		int rc = read_number(from, names[i], &v, err);

		if (rc < 0)
			return rc;
		if (json_object_set_new(to, names[i], json_integer(v)) < 0)
			return error_nomem(err);
	}
	return 0;
}

static int copy_part(const json_t *from, const char *name,
		     const char *const *names, size_t n, json_t *to,
		     struct error *err)
{
	const json_t *part = json_object_get(from, name);
	json_t *o = json_object();

	if (!o || json_object_set_new(to, name, o) < 0)
		return error_nomem(err);
	if (part && !json_is_object(part))
		return error_set(err, EINVAL, "start.%s is no object", name);
	return copy_numbers(part, names, n, o, err);
}

static int copy_word(const json_t *from, const char *name,
		     const char *const *words, size_t n, json_t *to,
		     struct error *err)
{
	const char *v = json_string_value(json_object_get(from, name));

	for (size_t i = 0; v && i < n; i++)
		if (strcmp(v, words[i]) == 0)
			return json_object_set_new(to, name, json_string(v)) < 0
				       ? error_nomem(err)
				       : 0;
	return error_set(err, EINVAL, "start.%s is none that is known", name);
}

static int copy_flag(const json_t *from, const char *name, json_t *to,
		     struct error *err)
{
	bool v = json_is_true(json_object_get(from, name));

	return json_object_set_new(to, name, json_boolean(v)) < 0
		       ? error_nomem(err)
		       : 0;
}

static int copy_files(const json_t *from, json_t *to, struct error *err)
{
	const json_t *list = json_object_get(from, "missed_files");
	json_t *files = json_array();
	size_t i, n = json_array_size(list);

	if (!files || json_object_set_new(to, "missed_files", files) < 0)
		return error_nomem(err);
	if ((list && !json_is_array(list)) || n > IMAGE_REPORT_FILES_MAX)
		return error_set(err, EINVAL,
				 "start.missed_files is no list of %u at most",
				 IMAGE_REPORT_FILES_MAX);
	for (i = 0; i < n; i++) {
		const json_t *f = json_array_get(list, i);
		const char *path =
			json_string_value(json_object_get(f, "path"));
		int64_t bytes;
		int rc = read_number(f, "bytes", &bytes, err);

		if (rc < 0)
			return rc;
		if (!path || path[0] != '/' || strlen(path) > PATH_BYTES_MAX)
			return error_set(err, EINVAL,
					 "start.missed_files[%zu].path is none",
					 i);
		if (json_array_append_new(files, json_pack("{s:s,s:I}", "path",
							   path, "bytes",
							   (json_int_t)bytes)) <
		    0)
			return error_nomem(err);
	}
	return 0;
}

static int read_start(const json_t *from, struct image_report *r,
		      struct error *err)
{
	json_t *to = r->start = json_object();
	int rc;

	if (!to)
		return error_nomem(err);
	if (!json_is_object(from))
		return error_set(err, EINVAL, "start is no object");
	rc = copy_numbers(from, times, ARRAY_SIZE(times), to, err);
	if (rc == 0)
		rc = copy_numbers(from, counts, ARRAY_SIZE(counts), to, err);
	if (rc == 0)
		rc = copy_word(from, "end", ends, ARRAY_SIZE(ends), to, err);
	if (rc == 0)
		rc = copy_word(from, "trace", traces, ARRAY_SIZE(traces), to,
			       err);
	if (rc == 0)
		rc = copy_flag(from, "watched", to, err);
	if (rc == 0)
		rc = copy_flag(from, "recorded", to, err);
	if (rc == 0)
		rc = copy_part(from, "fetched", fetched, ARRAY_SIZE(fetched),
			       to, err);
	if (rc == 0)
		rc = copy_part(from, "hot", hot, ARRAY_SIZE(hot), to, err);
	return rc == 0 ? copy_files(from, to, err) : rc;
}

static int read_peers(const json_t *list, struct image_report *r,
		      struct error *err)
{
	size_t n = json_array_size(list);
	int64_t left = r->peer_bytes;

	if ((list && !json_is_array(list)) || n > IMAGE_REPORT_PEERS_MAX)
		return error_set(err, EINVAL, "peers is no list of %u at most",
				 IMAGE_REPORT_PEERS_MAX);
	for (size_t i = 0; i < n; i++) {
		const json_t *p = json_array_get(list, i);
		const char *node = json_string_value(json_array_get(p, 0));
		const json_t *bytes = json_array_get(p, 1);
		json_int_t gave = json_integer_value(bytes);

		if (!stage_is_node(stage_text(node)) ||
		    !json_is_integer(bytes) || gave < 0 || gave > NUMBER_MAX)
			return error_set(err, EINVAL,
					 "peers[%zu] is no [NODE, BYTES]", i);
		/* Peers may sum up to more than the total, because blocks arrive while the node
		 * counts: cut the last. */
		if (gave > left)
			gave = left;
		left -= gave;
		if (gave && peer_line_format(node, gave, &r->peers) < 0)
			return error_nomem(err);
	}
	return 0;
}

static int read_text(const json_t *o, const char *name,
		     bool (*ok)(struct stage_text t), char *ret,
		     struct error *err)
{
	const json_t *v = json_object_get(o, name);
	const char *text = json_string_value(v);

	if (!v || (text && !*text))
		return 0;
	if (!ok(stage_text(text)))
		return error_set(err, EINVAL, "%s is none", name);
	memcpy(ret, text, strlen(text) + 1);
	return 0;
}

static int read_report(const json_t *o, struct image_report *r,
		       struct error *err)
{
	int rc = json_is_object(o) ? 0
				   : error_set(err, EINVAL, "it is no object");

	if (rc == 0)
		rc = read_text(o, "name", stage_is_image, r->name, err);
	if (rc == 0)
		rc = read_text(o, "job", stage_is_job, r->job, err);
	if (rc == 0)
		rc = read_number(o, "attempt", &r->attempt, err);
	if (rc == 0)
		rc = read_bytes(o, "peer_bytes", &r->peer_bytes, err);
	if (rc == 0)
		rc = read_bytes(o, "origin_bytes", &r->origin_bytes, err);
	if (rc == 0)
		rc = read_peers(json_object_get(o, "peers"), r, err);
	return rc == 0 ? read_start(json_object_get(o, "start"), r, err) : rc;
}

int image_report_parse(const char *text, size_t len, struct image_report *ret,
		       struct error *err)
{
	json_error_t why;
	json_t *o;
	int rc;

	*ret = (struct image_report)IMAGE_REPORT_INIT;
	if (len > IMAGE_REPORT_MAX)
		return error_set(err, EINVAL, "it has more than %u bytes",
				 IMAGE_REPORT_MAX);
	o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
	if (!o)
		return error_set(err, EINVAL, "JSON, line %d: %s", why.line,
				 why.text);
	rc = read_report(o, ret, err);
	json_decref(o);
	return rc;
}

void image_report_fini(struct image_report *r)
{
	json_decref(r->start);
	r->start = NULL;
	buf_fini(&r->peers);
}

/* -------------------------------------------------------------------- sums --- */

struct missed_path {
	char *path;
	int64_t bytes, starts;
	UT_hash_handle hh;
};

struct image_sums {
	int64_t starts, ready, watched;
	int64_t counts[ARRAY_SIZE(counts)], fetched[ARRAY_SIZE(fetched)],
		hot[ARRAY_SIZE(hot)];
	int64_t by_trace[ARRAY_SIZE(traces)];
	int64_t ready_ms[STARTS_MAX], waited_ms[STARTS_MAX];
	size_t n_ready, n_waited;
	struct missed_path *files;
};

int image_sums_new(struct image_sums **ret, struct error *err)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : error_nomem(err);
}

void image_sums_free(struct image_sums *s)
{
	struct missed_path *f, *next;

	if (!s)
		return;
	HASH_ITER(hh, s->files, f, next)
	{
		HASH_DEL(s->files, f);
		free(f->path);
		free(f);
	}
	free(s);
}

static int64_t number_of(const json_t *o, const char *name)
{
	return json_integer_value(json_object_get(o, name));
}

static void add_numbers(int64_t *sums, const json_t *o,
			const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sums[i] += number_of(o, names[i]);
}

static int add_file(struct image_sums *s, const json_t *file)
{
	const char *path = json_string_value(json_object_get(file, "path"));
	struct missed_path *f;

	if (!path)
		return 0;
	HASH_FIND_STR(s->files, path, f);
	if (!f) {
		f = calloc(1, sizeof(*f));
		if (!f)
			return -ENOMEM;
		f->path = strdup(path);
		if (f->path)
			HASH_ADD_KEYPTR(hh, s->files, f->path, strlen(path), f);
		if (!f->path || !hash_has_added(f)) {
			free(f->path);
			free(f);
			return -ENOMEM;
		}
	}
	f->bytes += number_of(file, "bytes");
	f->starts++;
	return 0;
}

int image_sums_add(struct image_sums *s, const json_t *start)
{
	const char *end = json_string_value(json_object_get(start, "end"));
	const char *trace = json_string_value(json_object_get(start, "trace"));
	const json_t *files = json_object_get(start, "missed_files");
	int64_t ready_ms = number_of(start, "ready_ms");
	bool is_ready = end && strcmp(end, "ready") == 0;
	int rc = 0;

	s->starts++;
	s->ready += is_ready;
	s->watched += json_is_true(json_object_get(start, "watched"));
	add_numbers(s->counts, start, counts, ARRAY_SIZE(counts));
	add_numbers(s->fetched, json_object_get(start, "fetched"), fetched,
		    ARRAY_SIZE(fetched));
	add_numbers(s->hot, json_object_get(start, "hot"), hot,
		    ARRAY_SIZE(hot));
	for (size_t i = 0; trace && i < ARRAY_SIZE(traces); i++)
		s->by_trace[i] += strcmp(trace, traces[i]) == 0;
	if (is_ready && ready_ms && s->n_ready < STARTS_MAX)
		s->ready_ms[s->n_ready++] = ready_ms;
	if (s->n_waited < STARTS_MAX)
		s->waited_ms[s->n_waited++] = number_of(start, "waited_ms");
	for (size_t i = 0; rc == 0 && i < json_array_size(files); i++)
		rc = add_file(s, json_array_get(files, i));
	return rc;
}

static int64_t median_of(const int64_t *v, size_t n)
{
	int64_t sorted[STARTS_MAX];

	if (!n)
		return 0;
	memcpy(sorted, v, n * sizeof(*v));
	qsort(sorted, n, sizeof(*sorted), compare_i64);
	return sorted[n / 2];
}

static json_t *sums_part(const int64_t *sums, const char *const *names,
			 size_t n)
{
	json_t *o = json_object();

	for (size_t i = 0; o && i < n; i++)
		if (json_object_set_new(o, names[i], json_integer(sums[i])) <
		    0) {
			json_decref(o);
			o = NULL;
		}
	return o;
}

json_t *image_sums_json(const struct image_sums *s)
{
	json_t *o = sums_part(s->counts, counts, ARRAY_SIZE(counts));
	json_t *more =
		json_pack("{s:I,s:I,s:I,s:I,s:I,s:o,s:o,s:o}", "starts",
			  (json_int_t)s->starts, "ready", (json_int_t)s->ready,
			  "watched", (json_int_t)s->watched, "ready_median_ms",
			  (json_int_t)median_of(s->ready_ms, s->n_ready),
			  "waited_median_ms",
			  (json_int_t)median_of(s->waited_ms, s->n_waited),
			  "traces",
			  sums_part(s->by_trace, traces, ARRAY_SIZE(traces)),
			  "fetched",
			  sums_part(s->fetched, fetched, ARRAY_SIZE(fetched)),
			  "hot", sums_part(s->hot, hot, ARRAY_SIZE(hot)));

	if (json_object_update_new(o, more) == 0)
		return o;
	json_decref(o);
	return NULL;
}

static int compare_paths_by_bytes(struct missed_path *a, struct missed_path *b)
{
	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return strcmp(a->path, b->path);
}

json_t *image_sums_files(struct image_sums *s, size_t files)
{
	json_t *list = json_array();
	struct missed_path *f;

	HASH_SORT(s->files, compare_paths_by_bytes);
	for (f = s->files; list && f && files; f = f->hh.next, files--)
		if (json_array_append_new(list,
					  json_pack("{s:s,s:I,s:I}", "path",
						    f->path, "bytes",
						    (json_int_t)f->bytes,
						    "starts",
						    (json_int_t)f->starts)) <
		    0) {
			json_decref(list);
			list = NULL;
		}
	return list;
}
