// SPDX-License-Identifier: Apache-2.0
/*
 * Traces in memory: the rules for all traces, and the builder. Equal paths are found by a tree
 * instead of a hash: paths are untrusted, and no choice of names makes a tree slow.
 */
#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"
#include "recorder/trace_priv.h"

#define CHUNK_SIZE ((size_t)64 << 10)

/* Paths lie in chunks that are never moved, so entries can point to them. */
struct path_chunk {
	struct path_chunk *next;
	size_t used, size;
	char data[];
};

struct trace_builder {
	struct trace *trace;
	size_t cap;       /* entries there is room for */
	size_t bytes;     /* memory that the trace takes */
	void *index;      /* tsearch() of its paths */
	const char *last; /* the path added last */
};

/* ------------------------------------------------------------------- rules --- */

int trace_info_check(const struct trace_info *info, struct error *err)
{
	if (!info->workload || !*info->workload ||
	    !text_is_word(info->workload, TRACE_WORKLOAD_MAX))
		return error_set(err, EINVAL,
				 "trace: the workload key is not 1 to %u "
				 "printable characters without spaces",
				 TRACE_WORKLOAD_MAX);
	if (!info->repo || !text_is_word(info->repo, TRACE_REPO_MAX))
		return error_set(err, EINVAL,
				 "trace: the repository is not up to %u "
				 "printable characters without spaces",
				 TRACE_REPO_MAX);
	if (info->runs < 1 || info->runs > TRACE_RUNS_MAX)
		return error_set(err, EINVAL,
				 "trace: %" PRIu32 " runs, want 1 to %u",
				 info->runs, TRACE_RUNS_MAX);
	if (info->created_at > TRACE_OFFSET_MAX)
		return error_set(err, EINVAL,
				 "trace: made %" PRIu64 " seconds after 1970",
				 info->created_at);
	return 0;
}

int trace_path_check(const char *path, size_t len, struct error *err)
{
	if (len < 1 || len > TRACE_PATH_MAX)
		return error_set(err, EINVAL,
				 "trace: a path of %zu bytes, want 1 to %u",
				 len, TRACE_PATH_MAX);
	if (path[0] != '/' || memchr(path, '\0', len))
		return error_set(err, EINVAL,
				 "trace: a path is not absolute or holds NUL");
	return 0;
}

int trace_entry_check(const struct trace_entry *e, struct error *err)
{
	if (e->len < 1 || e->len > TRACE_BLOCK_MAX)
		return error_set(err, EINVAL,
				 "trace: a range of %" PRIu32
				 " bytes, want 1 to %u",
				 e->len, TRACE_BLOCK_MAX);
	if (e->off > TRACE_OFFSET_MAX)
		return error_set(err, EINVAL,
				 "trace: offset %" PRIu64 " is too large",
				 e->off);
	if (e->csize > TRACE_BLOCK_MAX)
		return error_set(err, EINVAL,
				 "trace: a block of %" PRIu32
				 " stored bytes, %u at most",
				 e->csize, TRACE_BLOCK_MAX);
	if (e->confidence < 1 || e->confidence > TRACE_CERTAIN)
		return error_set(err, EINVAL,
				 "trace: confidence %u, want 1 to %u",
				 e->confidence, TRACE_CERTAIN);
	return 0;
}

/* ---------------------------------------------------------------- in memory --- */

int trace_info_copy(const struct trace_info *src, struct trace_info *ret,
		    struct error *err)
{
	AUTO_FREE char *repo = strdup(src->repo);
	AUTO_FREE char *workload = strdup(src->workload);

	if (!repo || !workload)
		return error_nomem(err);
	*ret = *src;
	ret->repo = steal_ptr(&repo);
	ret->workload = steal_ptr(&workload);
	return 0;
}

void trace_info_fini(struct trace_info *i)
{
	free(i->repo);
	free(i->workload);
	memset(i, 0, sizeof(*i));
}

void trace_free(struct trace *t)
{
	struct path_chunk *chunk, *next;

	if (!t)
		return;
	for (chunk = t->paths; chunk; chunk = next) {
		next = chunk->next;
		free(chunk);
	}
	trace_info_fini(&t->info);
	free(t->entries);
	free(t->readers);
	free(t);
}

uint64_t trace_memory(const struct trace *t)
{
	uint64_t n = t->n * sizeof(t->entries[0]);

	for (size_t i = 0; i < t->n; i++)
		if (i == 0 || t->entries[i].path != t->entries[i - 1].path)
			n += strlen(t->entries[i].path) + 1;
	return n;
}

char *trace_path_room(struct trace *t, size_t len)
{
	struct path_chunk *chunk = t->paths;
	size_t size;
	char *room;

	if (!chunk || chunk->size - chunk->used < len) {
		size = len > CHUNK_SIZE ? len : CHUNK_SIZE;
		chunk = malloc(sizeof(*chunk) + size);
		if (!chunk)
			return NULL;
		chunk->next = t->paths;
		chunk->used = 0;
		chunk->size = size;
		t->paths = chunk;
	}
	room = chunk->data + chunk->used;
	chunk->used += len;
	return room;
}

/* ----------------------------------------------------------------- builder --- */

static int compare_paths(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Frees nothing, since the paths in the tree belong to the trace. */
static void ignore_path(void *path)
{
	(void)path;
}

void trace_builder_free(struct trace_builder *b)
{
	if (!b)
		return;
	tdestroy(b->index, ignore_path);
	trace_free(b->trace);
	free(b);
}

int trace_builder_new(const struct trace_info *info, struct trace_builder **ret,
		      struct error *err)
{
	AUTO(trace_builder) b = NULL;
	int rc = trace_info_check(info, err);

	if (rc < 0)
		return rc;
	b = calloc(1, sizeof(*b));
	if (!b)
		return error_nomem(err);
	b->trace = calloc(1, sizeof(*b->trace));
	if (!b->trace)
		return error_nomem(err);
	rc = trace_info_copy(info, &b->trace->info, err);
	if (rc < 0)
		return rc;
	*ret = steal_ptr(&b);
	return 0;
}

static int fail_trace_full(const struct trace_builder *b, struct error *err)
{
	return error_set(err, ENOSPC,
			 "trace: full with %zu entries, %zu bytes in memory",
			 b->trace->n, b->bytes);
}

/* Get the trace's own copy of `path`; made at its first use. */
static int intern_path(struct trace_builder *b, const char *path, size_t len,
		       const char **ret, struct error *err)
{
	void *found;
	char *copy;

	/* Usually it is the path of the entry before. */
	if (b->last && (b->last == path || strcmp(b->last, path) == 0)) {
		*ret = b->last;
		return 0;
	}
	found = tfind(path, &b->index, compare_paths);
	if (found) {
		*ret = *(char **)found;
		return 0;
	}
	if (len + 1 > TRACE_DECODED_MAX - b->bytes)
		return fail_trace_full(b, err);
	copy = trace_path_room(b->trace, len + 1);
	if (!copy)
		return error_nomem(err);
	memcpy(copy, path, len + 1);
	if (!tsearch(copy, &b->index, compare_paths))
		return error_nomem(err);
	b->bytes += len + 1;
	*ret = copy;
	return 0;
}

int trace_builder_path(struct trace_builder *b, const char *path,
		       const char **ret, struct error *err)
{
	size_t len = strnlen(path, TRACE_PATH_MAX + 1);
	int rc = trace_path_check(path, len, err);

	if (rc == 0)
		rc = intern_path(b, path, len, ret, err);
	if (rc == 0)
		b->last = *ret;
	return rc;
}

int trace_builder_add(struct trace_builder *b, const struct trace_entry *e,
		      struct error *err)
{
	struct trace *t = b->trace;
	const char *path = NULL;
	int rc = trace_entry_check(e, err);

	if (rc < 0)
		return rc;
	if (t->n == TRACE_ENTRIES_MAX ||
	    sizeof(*e) > TRACE_DECODED_MAX - b->bytes)
		return fail_trace_full(b, err);
	if (array_grow(&t->entries, t->n, &b->cap, 64) < 0)
		return error_nomem(err);
	b->bytes += sizeof(*e);
	rc = trace_builder_path(b, e->path, &path, err);
	if (rc < 0) {
		b->bytes -= sizeof(*e);
		return rc;
	}
	t->entries[t->n] = *e;
	t->entries[t->n++].path = path;
	return 0;
}

int trace_builder_finish(struct trace_builder *b, struct trace **ret,
			 struct error *err)
{
	(void)err;
	*ret = steal_ptr(&b->trace);
	trace_builder_free(b);
	return 0;
}
