// SPDX-License-Identifier: Apache-2.0
/* Internal functions that the files trace*.c share. */
#ifndef BOOTSEER_RECORDER_TRACE_PRIV_H
#define BOOTSEER_RECORDER_TRACE_PRIV_H

#include "recorder/trace.h"

#define TRACE_OFFSET_MAX ((uint64_t)1 << 62) /* sums of two never overflow */

/* Check the rules of docs/formats/trace.md; -EINVAL says which is broken. */
int trace_info_check(const struct trace_info *info,
		     struct error *err) MUST_CHECK;
/* Check an entry except its path. */
int trace_entry_check(const struct trace_entry *e,
		      struct error *err) MUST_CHECK;
/* Check a path of any bytes, as it comes from a file; NUL is refused. */
int trace_path_check(const char *path, size_t len,
		     struct error *err) MUST_CHECK;

/* Copy `src` with its strings; the former content of `ret` is not released. */
int trace_info_copy(const struct trace_info *src, struct trace_info *ret,
		    struct error *err) MUST_CHECK;

/* Get the builder's copy of `path`; -EINVAL, -ENOSPC. */
int trace_builder_path(struct trace_builder *b, const char *path,
		       const char **ret, struct error *err) MUST_CHECK;

/* Allocate `len` bytes that live as long as the trace. */
char *trace_path_room(struct trace *t, size_t len) MUST_CHECK;

#endif
