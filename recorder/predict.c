// SPDX-License-Identifier: Apache-2.0
/*
 * What of a prediction holds for an image.  A donor whose files the image has nearly all
 * is its twin (another version, or the same program elsewhere): then what twins read is
 * all that is taken.  Without one it is the parts that the image has nearly whole: of each
 * donor the files that others read too (a base, an interpreter), and those that only it
 * read.  A file alone says little: an image has many that its start does not read.
 */
#include <errno.h>
#include <string.h>

#include "recorder/recorder_priv.h"

/* Of a donor's files, in hundredths, that the image must have: as measured in
 * docs/decisions/0027-predicted-starts.md. */
#define TWIN_PERCENT 90u
#define PART_PERCENT 80u
#define PART_FILES_MIN 4u

enum donor_part {
	PART_COMMON,
	PART_ALONE,
	PARTS,
};

struct part_files {
	uint32_t all, here;
};

struct predicted_path {
	const char *path; /* equal paths are one pointer */
	uint32_t entry;
	bool is_here;
};

struct choosing {
	const struct trace *t;
	struct predicted_path *paths; /* by path */
	struct part_files files[PREDICTION_DONORS_MAX][PARTS];
	uint64_t twins, parts[PARTS]; /* donors that hold */
};

static int by_pointer(const void *a, const void *b)
{
	const struct predicted_path *x = a, *y = b;
	uintptr_t p = (uintptr_t)x->path, q = (uintptr_t)y->path;

	return p != q ? (p < q ? -1 : 1)
		      : (x->entry > y->entry) - (x->entry < y->entry);
}

static enum donor_part part_of(uint64_t readers)
{
	return readers & (readers - 1) ? PART_COMMON : PART_ALONE;
}

static int ignore_range(void *arg, const struct file_range *f)
{
	(void)arg;
	(void)f;
	return 0;
}

static int look_for_files(struct choosing *c, struct file_map *files,
			  struct error *err)
{
	for (size_t i = 0; i < c->t->n; i++) {
		struct predicted_path *p = &c->paths[i];
		uint64_t readers = c->t->readers[p->entry];
		int rc;

		if (i > 0 && p->path == c->paths[i - 1].path) {
			p->is_here = c->paths[i - 1].is_here;
			continue;
		}
		rc = files->ops->of(files, p->path, 0, 1, ignore_range, NULL,
				    err);
		if (rc < 0 && rc != -ENOENT)
			return rc;
		p->is_here = rc == 0;
		for (unsigned int d = 0; d < PREDICTION_DONORS_MAX; d++) {
			struct part_files *f = &c->files[d][part_of(readers)];

			f->all += readers >> d & 1;
			f->here += (readers >> d & 1) && p->is_here;
		}
	}
	return 0;
}

static bool is_share(uint32_t here, uint32_t all, uint32_t percent)
{
	return all >= PART_FILES_MIN &&
	       (uint64_t)here * 100 >= (uint64_t)all * percent;
}

static void judge_donors(struct choosing *c)
{
	for (unsigned int d = 0; d < PREDICTION_DONORS_MAX; d++) {
		const struct part_files *f = c->files[d];
		uint64_t bit = UINT64_C(1) << d;

		if (is_share(f[PART_COMMON].here + f[PART_ALONE].here,
			     f[PART_COMMON].all + f[PART_ALONE].all,
			     TWIN_PERCENT))
			c->twins |= bit;
		for (int k = 0; k < PARTS; k++)
			if (is_share(f[k].here, f[k].all, PART_PERCENT))
				c->parts[k] |= bit;
	}
}

static bool holds(const struct choosing *c, uint64_t readers)
{
	return c->twins ? readers & c->twins
			: readers & c->parts[part_of(readers)];
}

/* Chosen entries go to where they were, which keeps their order. */
static int take_chosen(struct choosing *c, struct trace *ret, struct error *err)
{
	AUTO_FREE bool *is_chosen = calloc(c->t->n + 1, sizeof(*is_chosen));

	ret->entries = calloc(c->t->n + 1, sizeof(*ret->entries));
	if (!is_chosen || !ret->entries)
		return error_nomem(err);
	for (size_t i = 0; i < c->t->n; i++) {
		const struct predicted_path *p = &c->paths[i];

		is_chosen[p->entry] =
			p->is_here && holds(c, c->t->readers[p->entry]);
	}
	for (size_t i = 0; i < c->t->n; i++)
		if (is_chosen[i])
			ret->entries[ret->n++] = c->t->entries[i];
	return 0;
}

int prediction_choose(const struct trace *t, struct file_map *files,
		      struct trace *ret, struct error *err)
{
	AUTO_FREE struct choosing *c = calloc(1, sizeof(*c));
	AUTO_FREE struct predicted_path *paths =
		calloc(t->n + 1, sizeof(*paths));
	int rc;

	if (!c || !paths)
		return error_nomem(err);
	c->t = t;
	c->paths = paths;
	for (size_t i = 0; i < t->n; i++)
		paths[i] = (struct predicted_path){ .path = t->entries[i].path,
						    .entry = (uint32_t)i };
	if (t->n)
		qsort(paths, t->n, sizeof(*paths), by_pointer);
	if (!files)
		return 0;
	rc = look_for_files(c, files, err);
	if (rc < 0)
		return rc;
	judge_donors(c);
	return take_chosen(c, ret, err);
}
