// SPDX-License-Identifier: Apache-2.0
/*
 * Results of a start that ended: its trace, for the stores, and its figures,
 * for `image explain` (ROOT/images/ID/starts.json, docs/operations.md).
 */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "snapshotter/node/images/image_index.h"
#include "snapshotter/node/starts/prefetch.h"
#include "snapshotter/node/starts/starts_priv.h"
#include "snapshotter/node/traces/trace_lookup.h"

#define NOTES_MAX 16 /* starts that starts.json keeps */
#define NOTES_BYTES_MAX (1u << 20)
#define MISSED_FILES_MAX 20
/* All data from which a start's figures are made. */
struct finish {
	struct container_start *s;
	struct image_index view;
	uint32_t *touched, *missed; /* entries of the map */
	size_t n_touched, n_missed;
	/* Blocks fetched by the prefetch, and those for the hot set: bits, or NULL. */
	uint8_t *fetched, *fetched_hot;
	struct prefetch_stats prefetch;
	struct recorder_stats reads;
	struct trace *trace;
	/* Sums of stored bytes and of blocks. */
	uint64_t cached_bytes, missed_bytes;
	uint64_t used_bytes, used_blocks, unused_bytes, unused_blocks;
};

static void finish_fini(struct finish *f)
{
	trace_free(f->trace);
	free(f->touched);
	free(f->missed);
	free(f->fetched);
	free(f->fetched_hot);
	image_index_close(&f->view);
}

/* ------------------------------------------------------------------- trace --- */

static uint32_t ms_between(int64_t from, int64_t to)
{
	return to > from ? (uint32_t)((to - from) / NS_PER_MS) : 0;
}

static int make_trace(struct finish *f, struct error *err)
{
	struct container_start *s = f->s;
	AUTO_FREE char *repo = image_repo(s->image);
	int64_t end_ns = s->mixed_ns ? s->mixed_ns : s->end_ns;
	uint32_t until = ms_between(s->watch_ns, end_ns);
	const struct trace_info info = {
		.image = image_manifest(s->image),
		.repo = repo,
		.workload = s->workload,
		.created_at = (uint64_t)s->begun_at,
		.ready_ms = s->end == START_READY
				    ? ms_between(s->watch_ns, s->end_ns)
				    : 0,
		.runs = 1,
	};

	if (!repo)
		return error_nomem(err);
	return recorder_trace(s->recorder, &info, &f->view.map, f->view.files,
			      until + 1, &f->trace, err);
}

/* Ask the stores which traces they have of this start, or NULL. */
static const struct recording_known *
ask_known_traces(const struct container_start *s, struct recording_known *ret)
{
	struct error err = ERROR_INIT;
	struct trace_answer a;

	if (trace_lookup_peek(s->all->of.traces, s->image, s->workload, &a,
			      &err) < 0)
		return NULL;
	*ret = (struct recording_known){
		.is_own = a.found && a.match == TRACE_MATCH_OWN,
		.is_wanted = a.wanted,
		.length_ms = a.length_ms,
	};
	return ret;
}

/* Decide the final state of the recording. */
static void decide_recording(struct finish *f)
{
	struct container_start *s = f->s;
	const struct recording_end e = {
		.end = s->end,
		.words = s->words,
		.watched_ms = ms_between(s->watch_ns, s->end_ns),
		.has_key = *s->workload != '\0',
		.n_entries = f->trace->n,
		.alone_ns = s->mixed_ns ? s->mixed_ns - s->watch_ns : INT64_MAX,
	};
	struct recording_known known = { .length_ms = 0 };

	s->recording = recording_end(s->recording, &e);
	if (recording_has_to_ask(s->recording))
		s->recording = recording_judge(s->recording, &e,
					       ask_known_traces(s, &known));
	if (s->recording == RECORDING_FRAGMENT)
		log_info("starts",
			 "not kept image=%.12s workload=\"%s\" reason=\"gone "
			 "after %u ms, others take %u\"",
			 s->image->hex, s->workload, e.watched_ms,
			 known.length_ms);
}

static void keep_recording(struct finish *f)
{
	struct container_start *s = f->s;
	struct error err = ERROR_INIT;
	int rc = trace_keep(s->all->of.traces, s->image, f->trace, &err);

	pthread_mutex_lock(&s->all->lock);
	if (rc == 0)
		s->all->stats.recorded++;
	else
		s->all->stats.record_failed++;
	pthread_mutex_unlock(&s->all->lock);
	if (rc < 0)
		log_warning("starts",
			    "trace not kept image=%.12s reason=\"%s\"",
			    s->image->hex, err.msg);
	else
		log_info("starts",
			 "recorded image=%.12s workload=\"%s\" entries=%zu",
			 s->image->hex, s->workload, f->trace->n);
}

/* ------------------------------------------------------------------ figures --- */

static bool has_bit(const uint8_t *bits, size_t block)
{
	return bits && bits[block / 8] & 1u << block % 8;
}

static void count_blocks(struct finish *f)
{
	size_t n = f->view.map.n_blocks, k;
	AUTO_FREE uint8_t *is_touched = calloc(n / 8 + 1, 1);
	AUTO_FREE uint8_t *is_missed = calloc(n / 8 + 1, 1);
	struct block b;

	if (!is_touched || !is_missed)
		return;
	for (k = 0; k < f->n_missed; k++) {
		is_missed[f->missed[k] / 8] |=
			(uint8_t)(1u << f->missed[k] % 8);
		blockmap_block(&f->view.map, f->missed[k], &b);
		f->missed_bytes += b.csize;
	}
	for (k = 0; k < f->n_touched; k++) {
		uint32_t i = f->touched[k];

		is_touched[i / 8] |= (uint8_t)(1u << i % 8);
		blockmap_block(&f->view.map, i, &b);
		if (!has_bit(f->fetched, i) &&
		    !(is_missed[i / 8] & 1u << i % 8))
			f->cached_bytes += b.csize;
	}
	/* Blocks of the hot set that were not read count as mistakes only on a fresh mount:
	 * otherwise the page cache may have answered reads unseen. */
	if (f->s->sight != RECORDING_FRESH)
		return;
	/* Only blocks that were fetched for the hot set can be mistakes. */
	for (k = 0; k < n; k++) {
		if (!has_bit(f->fetched_hot, k))
			continue;
		blockmap_block(&f->view.map, k, &b);
		if (is_touched[k / 8] & 1u << k % 8) {
			f->used_blocks++;
			f->used_bytes += b.csize;
		} else {
			f->unused_blocks++;
			f->unused_bytes += b.csize;
		}
	}
}

struct missed_file {
	const char *path;
	uint64_t bytes;
};

static int compare_missed_files_by_digest(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct digest));
}

static int compare_missed_files_by_path(const void *a, const void *b)
{
	const struct missed_file *x = a, *y = b;

	return strcmp(x->path, y->path);
}

static int compare_missed_files_by_bytes(const void *a, const void *b)
{
	const struct missed_file *x = a, *y = b;

	return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1)
				    : strcmp(x->path, y->path);
}

/* Sum up equal paths; returns how many are left. */
static size_t merge_paths(struct missed_file *v, size_t n)
{
	size_t k, m = 0;

	if (n)
		qsort(v, n, sizeof(*v), compare_missed_files_by_path);
	for (k = 0; k < n; k++) {
		if (m && strcmp(v[m - 1].path, v[k].path) == 0)
			v[m - 1].bytes += v[k].bytes;
		else
			v[m++] = v[k];
	}
	if (m)
		qsort(v, m, sizeof(*v), compare_missed_files_by_bytes);
	return m;
}

/* The files with the most bytes that were missing when read, so that readers waited longest. */
static json_t *missed_files(const struct finish *f)
{
	const struct trace *t = f->trace;
	AUTO_FREE struct digest *missed =
		calloc(f->n_missed + 1, sizeof(*missed));
	AUTO_FREE struct missed_file *v =
		calloc((t ? t->n : 0) + 1, sizeof(*v));
	json_t *list = json_array();
	struct block b;
	size_t k, n = 0;

	if (!missed || !v || !t)
		return list;
	for (k = 0; k < f->n_missed; k++) {
		blockmap_block(&f->view.map, f->missed[k], &b);
		missed[k] = b.digest;
	}
	qsort(missed, f->n_missed, sizeof(*missed),
	      compare_missed_files_by_digest);
	for (k = 0; k < t->n; k++) {
		if (bsearch(&t->entries[k].block, missed, f->n_missed,
			    sizeof(*missed), compare_missed_files_by_digest))
			v[n++] = (struct missed_file){ t->entries[k].path,
						       t->entries[k].len };
	}
	n = merge_paths(v, n);
	/* Skip a path that is not UTF-8: JSON cannot contain it. */
	for (k = 0; k < n && json_array_size(list) < MISSED_FILES_MAX; k++)
		(void)json_array_append_new(list,
					    json_pack("{s:s, s:I}", "path",
						      v[k].path, "bytes",
						      (json_int_t)v[k].bytes));
	return list;
}

/* Was the hot set a prediction, by a trace of another workload or by a search of the image? */
static bool was_predicted(const struct finish *f)
{
	return f->s->is_predicted ||
	       (!f->s->reply.found && f->prefetch.is_predicted);
}

static const char *match_name(const struct finish *f)
{
	const struct container_start *s = f->s;
	static const char *const names[] = {
		[TRACE_MATCH_OWN] = "own",
		[TRACE_MATCH_RELATIVE] = "relative",
		[TRACE_MATCH_WORKLOAD] = "workload",
		[TRACE_MATCH_FAR] = "far",
		[TRACE_MATCH_PREDICTED] = "predicted",
	};

	if (was_predicted(f))
		return names[TRACE_MATCH_PREDICTED];
	return s->reply.found ? names[s->reply.match] : "none";
}

static json_t *origin_json(const struct finish *f)
{
	const struct container_start *s = f->s;
	const struct prefetch_stats *a = &s->prefetch_before, *b = &f->prefetch;

	return json_pack("{s:I, s:I, s:I, s:I}", "demand",
			 (json_int_t)(s->device_after.fetched_bytes -
				      s->device_before.fetched_bytes),
			 "hot",
			 (json_int_t)(b->hot_fetched_bytes -
				      a->hot_fetched_bytes),
			 "cold",
			 (json_int_t)(b->cold_fetched_bytes -
				      a->cold_fetched_bytes),
			 "cache", (json_int_t)f->cached_bytes);
}

static json_t *hot_json(const struct finish *f)
{
	const struct prefetch_stats *p = &f->prefetch;

	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "blocks",
			 (json_int_t)p->hot_blocks, "bytes",
			 (json_int_t)p->hot_bytes, "fetched_blocks",
			 (json_int_t)p->hot_fetched_blocks, "fetched_bytes",
			 (json_int_t)p->hot_fetched_bytes, "used_blocks",
			 (json_int_t)f->used_blocks, "used_bytes",
			 (json_int_t)f->used_bytes, "unused_blocks",
			 (json_int_t)f->unused_blocks, "unused_bytes",
			 (json_int_t)f->unused_bytes);
}

static json_t *figures_json(const struct finish *f)
{
	static const char *const ends[] = {
		[START_READY] = "ready",
		[START_WINDOW] = "window",
		[START_GONE] = "gone",
	};
	const struct container_start *s = f->s;

	return json_pack(
		"{s:I, s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:b, s:b, s:I, s:I, s:I, "
		"s:I, s:I, s:o, s:o, s:o}",
		"start", (json_int_t)s->number, "started_at",
		(json_int_t)s->begun_at, "workload", s->workload, "trace",
		match_name(f), "end", ends[s->end], "ready_ms",
		(json_int_t)(s->end == START_READY
				     ? ms_between(s->begun_ns, s->end_ns)
				     : 0),
		"watched_ms", (json_int_t)ms_between(s->watch_ns, s->end_ns),
		"waited_ms", (json_int_t)(s->reply.waited_ns / NS_PER_MS),
		"watched", (int)(s->recorder != NULL), "recorded",
		(int)recording_is_on(s->recording), "reads",
		(json_int_t)f->reads.reads, "read_bytes",
		(json_int_t)f->reads.read_bytes, "read_blocks",
		(json_int_t)f->n_touched, "missed_blocks",
		(json_int_t)f->n_missed, "missed_bytes",
		(json_int_t)f->missed_bytes, "fetched", origin_json(f), "hot",
		hot_json(f), "missed_files", missed_files(f));
}

/* ------------------------------------------------------------- starts.json --- */

json_t *starts_explain(const struct image *i)
{
	AUTO_FREE char *path = image_path(i, "starts.json");
	AUTO_BUF text = BUF_INIT;
	json_t *list = NULL;

	if (path && fs_read_file(path, NOTES_BYTES_MAX, &text, NULL) == 0 &&
	    text.len)
		list = json_loadb(text.data, text.len, 0, NULL);
	/* There are no notes yet, or the file is damaged: begin with an empty list. */
	if (!json_is_array(list)) {
		json_decref(list);
		list = json_array();
	}
	return list;
}

/* Format the notes for starts.json: the oldest ones are dropped while the text is too long.  A
 * single note fits, since MISSED_FILES_MAX names are most of it. */
static char *dump_notes(json_t *list)
{
	char *text = json_dumps(list, JSON_INDENT(1));

	while (text && strlen(text) > NOTES_BYTES_MAX &&
	       json_array_size(list) > 1) {
		(void)json_array_remove(list, json_array_size(list) - 1);
		free(text);
		text = json_dumps(list, JSON_INDENT(1));
	}
	return text;
}

static int note_figures(const struct image *i, json_t *figures,
			struct error *err)
{
	AUTO_FREE char *path = image_path(i, "starts.json");
	AUTO_JSON *list = starts_explain(i);
	AUTO_FREE char *text = NULL;

	if (!path || json_array_insert(list, 0, figures) < 0)
		return error_nomem(err);
	while (json_array_size(list) > NOTES_MAX)
		(void)json_array_remove(list, NOTES_MAX);
	text = dump_notes(list);
	if (!text)
		return error_nomem(err);
	return fs_replace_file(path, text, strlen(text), 0600, err);
}

int starts_note(struct image *i, json_t *figures, struct error *err)
{
	int rc;

	pthread_mutex_lock(&i->saving);
	rc = note_figures(i, figures, err);
	pthread_mutex_unlock(&i->saving);
	json_decref(figures);
	return rc;
}

/* -------------------------------------------------- --- sums of all starts --- */

static void add_stats(const struct finish *f)
{
	struct container_start *s = f->s;
	struct starts_stats *st = &s->all->stats;

	pthread_mutex_lock(&s->all->lock);
	st->misses += f->n_missed;
	st->hot_used_bytes += f->used_bytes;
	st->hot_unused_bytes += f->unused_bytes;
	if (was_predicted(f)) {
		st->predicted++;
		st->predicted_used_bytes += f->used_bytes;
		st->predicted_unused_bytes += f->unused_bytes;
	}
	if (s->end == START_READY)
		counter_add_ms(&st->ready_after,
			       ms_between(s->begun_ns, s->end_ns));
	pthread_mutex_unlock(&s->all->lock);
}

/* --------------------------------------------------------- --- the whole work --- */

static int gather_figures(struct finish *f, struct error *err)
{
	struct container_start *s = f->s;
	int rc;

	(void)node_prefetch_stats(s->image, &f->prefetch);
	if (!s->recorder)
		return 0;
	recorder_get_stats(s->recorder, &f->reads);
	rc = image_index_open(s->image, &f->view, err);
	if (rc == 0)
		rc = recorder_blocks(s->recorder, &f->view.map, &f->touched,
				     &f->n_touched, &f->missed, &f->n_missed,
				     err);
	if (rc == 0)
		rc = make_trace(f, err);
	if (rc < 0)
		return rc;
	/* Without a prefetch these fail and leave NULL. */
	(void)!node_prefetch_fetched(s->image, false, &f->fetched, NULL);
	(void)!node_prefetch_fetched(s->image, true, &f->fetched_hot, NULL);
	count_blocks(f);
	decide_recording(f);
	if (s->recording == RECORDING_KEPT)
		keep_recording(f);
	return 0;
}

void container_start_finish(struct container_start *s)
{
	struct finish f = { .s = s, .view = IMAGE_INDEX_INIT };
	struct error err = ERROR_INIT;
	json_t *figures;
	int rc = gather_figures(&f, &err);

	figures = rc == 0 ? figures_json(&f) : NULL;
	json_incref(figures);
	if (rc == 0)
		rc = figures ? starts_note(s->image, figures, &err)
			     : error_nomem(&err);
	if (rc < 0)
		log_warning("starts", "no figures image=%.12s reason=\"%s\"",
			    s->image->hex, err.msg);
	container_start_say_end(s, &f.prefetch, f.n_missed);
	if (figures)
		container_start_report(s, figures);
	json_decref(figures);
	add_stats(&f);
	finish_fini(&f);
}
