// SPDX-License-Identifier: Apache-2.0
#include "registry/hot_files.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

static int compare_entries_by_block(const void *x, const void *y, void *arg)
{
	const struct trace_entry *e = arg;
	uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
	int order = memcmp(&e[a].block, &e[b].block, sizeof(e->block));

	/* For the same block, put hot entries before others, even if they are read later. */
	if (order == 0 &&
	    (e[a].confidence >= TRACE_HOT) != (e[b].confidence >= TRACE_HOT))
		return e[a].confidence >= TRACE_HOT ? -1 : 1;
	return order ? order : (a > b) - (a < b);
}

static int compare_entries_by_path(const void *x, const void *y, void *arg)
{
	const struct trace_entry *e = arg;
	uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
	int order = e[a].path == e[b].path ? 0 : strcmp(e[a].path, e[b].path);

	return order ? order : (a > b) - (a < b);
}

static int compare_files_by_stored(const void *x, const void *y)
{
	const struct hot_file *a = x, *b = y;

	if (a->stored != b->stored)
		return a->stored < b->stored ? 1 : -1;
	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return strcmp(a->path, b->path);
}

static void mark_blocks(const struct trace *t, uint32_t *order, bool *is_first)
{
	qsort_r(order, t->n, sizeof(*order), compare_entries_by_block,
		t->entries);
	for (size_t i = 0; i < t->n; i++)
		is_first[order[i]] =
			i == 0 || memcmp(&t->entries[order[i]].block,
					 &t->entries[order[i - 1]].block,
					 sizeof(struct digest)) != 0;
}

static void add_entry_to_file(struct hot_file *f, const struct trace_entry *e,
			      bool is_first)
{
	f->bytes += e->len;
	if (e->confidence > f->confidence)
		f->confidence = e->confidence;
	if (e->at_ms < f->first_ms)
		f->first_ms = e->at_ms;
	if (is_first) {
		f->stored += e->csize;
		f->blocks++;
	}
}

static void add_files(const struct trace *t, uint32_t *order,
		      const bool *is_first, struct hot_summary *s)
{
	qsort_r(order, t->n, sizeof(*order), compare_entries_by_path,
		t->entries);
	for (size_t i = 0; i < t->n; i++) {
		const struct trace_entry *e = &t->entries[order[i]];

		if (e->confidence < TRACE_HOT)
			continue;
		if (!s->n_files ||
		    strcmp(s->files[s->n_files - 1].path, e->path) != 0)
			s->files[s->n_files++] =
				(struct hot_file){ .path = e->path,
						   .first_ms = e->at_ms };
		add_entry_to_file(&s->files[s->n_files - 1], e,
				  is_first[order[i]]);
	}
	if (s->n_files)
		qsort(s->files, s->n_files, sizeof(*s->files),
		      compare_files_by_stored);
}

static void add_sums(const struct trace *t, const bool *is_first,
		     struct hot_summary *s)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct trace_entry *e = &t->entries[i];

		if (e->confidence < TRACE_HOT) {
			s->rare_entries++;
			s->rare_blocks += is_first[i];
			s->rare_stored += is_first[i] ? e->csize : 0;
			continue;
		}
		s->entries++;
		s->bytes += e->len;
		s->blocks += is_first[i];
		s->stored += is_first[i] ? e->csize : 0;
		if (e->at_ms > s->last_ms)
			s->last_ms = e->at_ms;
	}
}

static void add_times(const struct trace *t, const bool *is_first,
		      struct hot_summary *s)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct trace_entry *e = &t->entries[i];
		uint64_t step = (uint64_t)e->at_ms * HOT_STEPS /
				((uint64_t)s->last_ms + 1);

		if (is_first[i] && e->confidence >= TRACE_HOT)
			s->by_time[step] += e->csize;
	}
	for (size_t k = 1; k < HOT_STEPS; k++)
		s->by_time[k] += s->by_time[k - 1];
}

int hot_summary_make(const struct trace *t, struct hot_summary *ret,
		     struct error *err)
{
	AUTO_FREE uint32_t *order = calloc(t->n + 1, sizeof(*order));
	AUTO_FREE bool *is_first = calloc(t->n + 1, sizeof(*is_first));

	*ret = (struct hot_summary){ .files = calloc(t->n + 1,
						     sizeof(*ret->files)) };
	if (!order || !is_first || !ret->files) {
		hot_summary_fini(ret);
		return error_nomem(err);
	}
	for (size_t i = 0; i < t->n; i++)
		order[i] = (uint32_t)i;
	mark_blocks(t, order, is_first);
	add_files(t, order, is_first, ret);
	add_sums(t, is_first, ret);
	add_times(t, is_first, ret);
	return 0;
}

void hot_summary_fini(struct hot_summary *s)
{
	free(s->files);
	s->files = NULL;
	s->n_files = 0;
}
