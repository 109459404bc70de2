// SPDX-License-Identifier: Apache-2.0
/* Filters of List: a text may be refused, or matched against a snapshot. */
#include <stdint.h>
#include <string.h>

#include "containerd-plugin/filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct label label = { .key = (char[]){ "a.b" },
			       .value = (char[]){ "v" } };
	struct labels labels = { .v = &label, .n = 1 };
	const struct filter_subject subject = { .name = "ns/1/name",
						.parent = "parent",
						.kind = "committed",
						.labels = &labels };
	AUTO_FREE char *text = strndup((const char *)data, size);
	const char *const texts[] = { text };
	AUTO(filter) f = NULL;

	if (text && filter_parse(texts, 1, &f, NULL) == 0)
		(void)filter_matches(f, &subject);
	return 0;
}
