// SPDX-License-Identifier: Apache-2.0
/* From a trace that was found to the blocks that are prefetched. */
#include "common/log.h"
#include "snapshotter/node/images/image_index.h"
#include "snapshotter/node/starts/prefetch.h"

/* Runs on a thread of the searches: both files of the image are hashed. */
static void prefetch_on_trace(void *arg, struct image *i,
			      const struct trace *trace, bool for_start)
{
	struct image_index index = IMAGE_INDEX_INIT;
	struct hot_list hot = { .n = 0 };
	struct error err = ERROR_INIT;
	int rc;

	rc = image_index_open(i, &index, &err);
	if (rc == 0)
		rc = hot_list_make(trace, &index.map, index.files, &hot, &err);
	image_index_close(&index);
	if (rc == 0) {
		log_info("traces",
			 "hot set image=%.12s blocks=%zu bytes=%llu "
			 "by_digest=%zu by_path=%zu lost=%zu predicted=%d",
			 i->hex, hot.n, (unsigned long long)hot.bytes,
			 hot.by_digest, hot.by_path, hot.lost,
			 hot.is_predicted);
		rc = node_prefetch(arg, i,
				   for_start ? PREFETCH_ON_TRACE_START
					     : PREFETCH_ON_TRACE,
				   &hot, NULL, &err);
	}
	if (rc < 0)
		log_warning("traces", "no prefetch image=%.12s reason=\"%s\"",
			    i->hex, err.msg);
}

struct trace_user node_prefetch_trace_user(struct node *n)
{
	enum prefetch_mode mode = prefetch_mode_of(n->cfg->prefetch);
	bool is_used = prefetch_choose(mode, PREFETCH_ON_TRACE) !=
		       PREFETCH_CHOICE_NOTHING;

	/* No map is made of what nobody wants. */
	return (struct trace_user){ .found = is_used ? prefetch_on_trace : NULL,
				    .arg = n };
}
