// SPDX-License-Identifier: Apache-2.0
/* From a trace that was found to the blocks that are prefetched. */
#include "common/log.h"
#include "snapshotter/node/images/image_index.h"
#include "snapshotter/node/starts/image_closure.h"
#include "snapshotter/node/starts/prefetch.h"

/* Find the image's blocks that the trace names.  Hashes both files of the image. */
static int map_trace(const struct image *i, const struct trace *trace,
		     struct hot_list *ret, struct error *err)
{
	struct image_index index = IMAGE_INDEX_INIT;
	int rc = image_index_open(i, &index, err);

	if (rc == 0)
		rc = hot_list_make(trace, &index.map, index.files, ret, err);
	image_index_close(&index);
	if (rc == 0)
		log_info("traces",
			 "hot set image=%.12s blocks=%zu bytes=%llu "
			 "by_digest=%zu by_path=%zu lost=%zu predicted=%d",
			 i->hex, ret->n, (unsigned long long)ret->bytes,
			 ret->by_digest, ret->by_path, ret->lost,
			 ret->is_predicted);
	return rc;
}

/* Prefetch the trace's blocks; runs on a thread of the trace searches.  A trace of another
 * workload's starts tells little, so a search of the image itself follows. */
static void prefetch_on_trace(void *arg, struct image *i,
			      const struct trace *trace, bool for_start)
{
	struct closure_searches *searches = arg;
	struct hot_list hot = { .n = 0 };
	struct error err = ERROR_INIT;
	int rc = trace ? map_trace(i, trace, &hot, &err) : 0;

	if (rc == 0 && (!trace || (hot.is_predicted && !hot.has_twin)))
		closure_searches_begin(searches, i, &hot, for_start);
	else if (rc == 0)
		rc = node_prefetch(closure_searches_prefetches(searches), i,
				   for_start ? PREFETCH_ON_TRACE_START
					     : PREFETCH_ON_TRACE,
				   &hot, NULL, &err);
	if (rc < 0)
		log_warning("traces", "no prefetch image=%.12s reason=\"%s\"",
			    i->hex, err.msg);
}

struct trace_user node_prefetch_trace_user(const struct node_config *cfg,
					   struct closure_searches *s)
{
	enum prefetch_mode mode = prefetch_mode_of(cfg->prefetch);
	bool is_used = prefetch_choose(mode, PREFETCH_ON_TRACE) !=
		       PREFETCH_CHOICE_NOTHING;

	/* Do not map a trace whose blocks nobody wants. */
	return (struct trace_user){ .found = is_used ? prefetch_on_trace : NULL,
				    .arg = s };
}
