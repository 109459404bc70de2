// SPDX-License-Identifier: Apache-2.0
/* config.json of a container: whoever it is of, the job is one that events may have, and
 * a pod's is of its own namespace. */
#include "snapshotter/node/starts/bundle.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const char *const spaces[] = { BUNDLE_CRI, "default" };

	for (size_t i = 0; i < 2; i++) {
		struct bundle b;

		if (bundle_parse((const char *)data, len, spaces[i], &b, NULL) <
		    0)
			continue;
		if (!b.key ||
		    (b.owner.job[0] && !stage_is_job(stage_text(b.owner.job))))
			__builtin_trap();
		if (i == 0 && b.owner.job[0] && !strchr(b.owner.job, '/'))
			__builtin_trap();
		bundle_fini(&b);
	}
	return 0;
}
