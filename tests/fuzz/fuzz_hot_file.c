// SPDX-License-Identifier: Apache-2.0
/* hot.json of an unfinished prefetch; what is read is written as it was. */
#include "snapshotter/node/starts/hot_file.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct hot_list hot = { .blocks = NULL }, again = { .blocks = NULL };
	AUTO_BUF text = BUF_INIT;

	if (hot_file_parse((const char *)data, len, &hot, NULL) < 0)
		return 0;
	if (hot_file_format(&hot, &text, NULL) < 0 ||
	    hot_file_parse(text.data, text.len, &again, NULL) < 0 ||
	    again.n != hot.n ||
	    (hot.n && memcmp(hot.blocks, again.blocks,
			     hot.n * sizeof(*hot.blocks)) != 0))
		__builtin_trap();
	hot_list_fini(&hot);
	hot_list_fini(&again);
	return 0;
}
