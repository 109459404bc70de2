// SPDX-License-Identifier: Apache-2.0
/* The search: looks into files in the order in which they were found, in rounds. */
#include "image/closure/closure.h"

#include <errno.h>

#include "common/array.h"
#include "image/closure/closure_priv.h"

#define ROUNDS_MAX 256u
#define NID_BYTES 32u /* of a metadata image: docs/formats/erofs.md */

/* Append ranges that earlier rounds found, up to CLOSURE_AHEAD_MAX bytes, so that they are
 * fetched before the whole search ends. */
static int append_found_ranges(struct closure *c, struct device_span **want,
			       size_t *n, size_t *cap, struct error *err)
{
	for (; c->n_told < c->n_ranges; c->n_told++) {
		const struct device_span *s = &c->ranges[c->n_told];

		if (s->len > CLOSURE_AHEAD_MAX - c->told_bytes)
			return 0;
		if (array_grow(want, *n, cap, 256) < 0)
			return error_nomem(err);
		(*want)[(*n)++] = *s;
		c->told_bytes += s->len;
	}
	return 0;
}

/* Fetch what the files from `done` on need and, behind that, ranges already found: the link
 * should not be idle while the search goes on. */
static int fetch_wanted(struct closure *c, struct error *err)
{
	AUTO_FREE struct device_span *want = NULL;
	size_t n = 0, cap = 0;
	int rc = 0;

	for (size_t i = c->done; i < c->n_files && rc == 0; i++)
		rc = closure_append_spans(c->img, &c->files[i].inode,
					  c->files[i].want.off,
					  c->files[i].want.len, &want, &n, &cap,
					  err);
	if (rc == 0)
		rc = append_found_ranges(c, &want, &n, &cap, err);
	return rc < 0 || n == 0 ? rc : c->ops->fetch(c->arg, want, n, err);
}

static int look_into_files(struct closure *c, struct error *err)
{
	size_t end = c->n_files;
	int rc = fetch_wanted(c, err);

	for (; rc == 0 && c->done < end; c->done++) {
		/* A copy, since the array may move when files are added. */
		struct closure_file f = c->files[c->done];

		c->files[c->done] = (struct closure_file){ .path = NULL };
		rc = f.look(c, &f, err);
		closure_file_fini(&f);
	}
	return rc;
}

static void closure_fini(struct closure *c)
{
	for (size_t i = 0; i < c->n_files; i++)
		closure_file_fini(&c->files[i]);
	for (size_t i = 0; i < c->python.n; i++)
		free(c->python.folders[i]);
	for (size_t i = 0; i < c->n_libraries; i++)
		free(c->libraries[i]);
	free(c->files);
	free(c->ranges);
	free(c->seen);
	buf_fini(&c->ld_cache);
}

int closure_find(const struct erofs_image *img,
		 const struct closure_start *start,
		 const struct closure_ops *ops, void *arg,
		 struct device_span **ret, size_t *ret_n, struct error *err)
{
	AUTO_FINI(closure) c = {
		.img = img,
		.start = start,
		.ops = ops,
		.arg = arg,
		.look_program = closure_look_program,
	};
	int rc = 0;

	c.n_nids = (img->len - img->meta_off) / NID_BYTES + 1;
	c.seen = calloc(c.n_nids / 8 + 1, 1);
	if (!c.seen)
		return error_nomem(err);
	if (start->n_words)
		rc = closure_run(&c, start->words, start->n_words, err);
	if (rc == 0 && c.n_files)
		rc = closure_visit(&c, "/etc/ld.so.cache",
				   closure_look_ld_cache, CLOSURE_TEXT_MAX,
				   err);
	for (unsigned int i = 0;
	     rc == 0 && c.done < c.n_files && i < ROUNDS_MAX; i++)
		rc = look_into_files(&c, err);
	/* -EFBIG: a limit of the search was reached; what was found so far is the result. */
	if (rc == 0 || rc == -EFBIG) {
		*ret = steal_ptr(&c.ranges);
		*ret_n = c.n_ranges;
		rc = 0;
	}
	return rc;
}
