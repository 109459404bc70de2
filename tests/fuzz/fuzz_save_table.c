// SPDX-License-Identifier: Apache-2.0
/* Tables that other nodes send before a save is planned: one that is taken is encoded to the same
 * bytes. */
#include <string.h>

#include "groupio/save_bundle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void try_table(const char *data, size_t len)
{
	AUTO_BUF again = BUF_INIT;
	struct save_table t;

	if (save_table_decode(data, len, &t, NULL) < 0)
		return;
	if (save_table_encode(&t, &again, NULL) < 0 || again.len != len ||
	    (len && memcmp(again.data, data, len) != 0))
		__builtin_trap();
	save_table_fini(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct save_table tables[3] = { { .n = 0 } };
	struct save_seen seen;
	uint64_t absent;

	try_table((const char *)data, len);
	if (save_bundle_decode((const char *)data, len, 3, 1, tables, &absent,
			       &seen, NULL) == 0 &&
	    absent & ~UINT64_C(5))
		__builtin_trap();
	for (size_t i = 0; i < 3; i++)
		save_table_fini(&tables[i]);
	return 0;
}
