// SPDX-License-Identifier: Apache-2.0
/* Lists of traces, as the trace service sends them. */
#include <assert.h>
#include <string.h>

#include "recorder/store_priv.h"
#include "recorder/trace_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct store_list all = { .infos = NULL }, some = { .infos = NULL };

	if (store_list_parse((const char *)data, size, NULL, &all, NULL) < 0)
		return 0;
	for (size_t i = 0; i < all.n; i++)
		assert(trace_info_check(&all.infos[i], NULL) == 0);
	assert(store_list_parse((const char *)data, size, "train", &some,
				NULL) == 0);
	assert(some.n <= all.n);
	for (size_t i = 0; i < some.n; i++)
		assert(strcmp(some.infos[i].workload, "train") == 0);
	store_list_fini(&all);
	store_list_fini(&some);
	return 0;
}
