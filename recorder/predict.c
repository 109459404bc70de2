// SPDX-License-Identifier: Apache-2.0
/*
 * Chooses the part of a prediction that applies to an image. A donor (an image whose start is
 * known) of whose files the image has nearly all is its twin: another version, or the same
 * program elsewhere. All that twins read is chosen. Otherwise files read by the same set of
 * donors (from a base, an interpreter, a library) are chosen if the image has nearly all of
 * them. Of other users' donors only common files are known, so any may look like a twin; a twin
 * must therefore not exclude other files. Having a single file means little: an image has many
 * that its start does not read.
 */
#include <errno.h>

#include "common/compare.h"
#include "recorder/recorder_priv.h"

/* Percentage of a donor's files that the image must have; chosen by the measurements in
 * docs/decisions/0028-predicted-starts.md. */
#define PERCENT 80u
#define FILES_MIN 4u

struct predicted_path {
	const char *path; /* equal paths have the same pointer */
	uint32_t entry;   /* first entry with this path */
	uint64_t readers;
	bool is_here, is_chosen;
};

struct choosing {
	const struct trace *t;
	struct predicted_path *paths;
	size_t n_paths;
};

static int compare_paths_by_pointer(const void *a, const void *b)
{
	const struct predicted_path *x = a, *y = b;
	int c = ORDER((uintptr_t)x->path, (uintptr_t)y->path);

	return c ? c : ORDER(x->entry, y->entry);
}

static int compare_paths_by_readers(const void *a, const void *b)
{
	const struct predicted_path *x = a, *y = b;
	int c = ORDER(x->readers, y->readers);

	return c ? c : ORDER(x->entry, y->entry);
}

static int ignore_range(void *arg, const struct file_range *f)
{
	(void)arg;
	(void)f;
	return 0;
}

/* List each path once, and note whether the image has it. */
static int look_for_files(struct choosing *c, struct file_map *files,
			  struct error *err)
{
	for (size_t i = 0; i < c->t->n; i++)
		c->paths[i] = (struct predicted_path){
			.path = c->t->entries[i].path,
			.entry = (uint32_t)i,
			.readers = c->t->readers[i],
		};
	qsort(c->paths, c->t->n, sizeof(*c->paths), compare_paths_by_pointer);
	for (size_t i = 0; i < c->t->n; i++) {
		struct predicted_path *last =
			c->n_paths ? &c->paths[c->n_paths - 1] : NULL;
		int rc;

		if (last && last->path == c->paths[i].path)
			continue;
		last = &c->paths[c->n_paths++];
		*last = c->paths[i];
		rc = files->ops->of(files, last->path, 0, 1, ignore_range, NULL,
				    err);
		if (rc < 0 && rc != -ENOENT)
			return rc;
		last->is_here = rc == 0;
	}
	return 0;
}

static bool is_large_share(size_t here, size_t all)
{
	return all >= FILES_MIN && here * 100 >= all * PERCENT;
}

static uint64_t find_twin_donors(const struct choosing *c)
{
	uint64_t twins = 0;

	for (unsigned int d = 0; d < PREDICTION_DONORS_MAX; d++) {
		uint64_t bit = UINT64_C(1) << d;
		size_t all = 0, here = 0;

		for (size_t i = 0; i < c->n_paths; i++) {
			bool is_its = c->paths[i].readers & bit;

			all += is_its;
			here += is_its && c->paths[i].is_here;
		}
		twins |= is_large_share(here, all) ? bit : 0;
	}
	return twins;
}

static bool choose_paths_of_twins(struct choosing *c)
{
	uint64_t twins = find_twin_donors(c);

	for (size_t i = 0; i < c->n_paths; i++)
		c->paths[i].is_chosen |=
			c->paths[i].is_here && c->paths[i].readers & twins;
	return twins;
}

static void choose_groups(struct choosing *c)
{
	struct predicted_path *p = c->paths;
	size_t from = 0, to, here;

	qsort(p, c->n_paths, sizeof(*p), compare_paths_by_readers);
	for (; from < c->n_paths; from = to) {
		here = 0;
		for (to = from;
		     to < c->n_paths && p[to].readers == p[from].readers; to++)
			here += p[to].is_here;
		for (size_t i = from; i < to && is_large_share(here, to - from);
		     i++)
			p[i].is_chosen |= p[i].is_here;
	}
}

static int find_pointer(const void *key, const void *path)
{
	const struct predicted_path *p = path;

	return ORDER((uintptr_t)key, (uintptr_t)p->path);
}

/* Copy the chosen entries, in their order. */
static int copy_chosen_entries(struct choosing *c, struct trace *ret,
			       struct error *err)
{
	ret->entries = calloc(c->t->n + 1, sizeof(*ret->entries));
	if (!ret->entries)
		return error_nomem(err);
	qsort(c->paths, c->n_paths, sizeof(*c->paths),
	      compare_paths_by_pointer);
	for (size_t i = 0; i < c->t->n; i++) {
		const struct trace_entry *e = &c->t->entries[i];
		const struct predicted_path *p =
			bsearch(e->path, c->paths, c->n_paths,
				sizeof(*c->paths), find_pointer);

		if (p && p->is_chosen)
			ret->entries[ret->n++] = *e;
	}
	return 0;
}

int prediction_choose(const struct trace *t, struct file_map *files,
		      struct trace *ret, bool *ret_has_twin, struct error *err)
{
	AUTO_FREE struct predicted_path *paths =
		calloc(t->n + 1, sizeof(*paths));
	struct choosing c = { .t = t, .paths = paths };
	int rc;

	*ret_has_twin = false;
	if (!paths)
		return error_nomem(err);
	if (!files || !t->n)
		return 0;
	rc = look_for_files(&c, files, err);
	if (rc < 0)
		return rc;
	*ret_has_twin = choose_paths_of_twins(&c);
	choose_groups(&c);
	return copy_chosen_entries(&c, ret, err);
}
