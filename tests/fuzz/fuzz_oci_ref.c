// SPDX-License-Identifier: Apache-2.0
/* References: what is accepted is formatted to a text that means the same. */
#include <assert.h>
#include <string.h>

#include "objects/oci.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE char *text = strndup((const char *)data, size);
	AUTO_FREE char *again = NULL, *third = NULL;
	struct oci_ref a, b;

	if (!text || oci_ref_parse(text, &a, NULL) < 0)
		return 0;
	again = oci_ref_format(&a);
	assert(again && oci_ref_parse(again, &b, NULL) == 0);
	third = oci_ref_format(&b);
	assert(third && strcmp(again, third) == 0);
	assert(a.transport == b.transport && strcmp(a.repo, b.repo) == 0);
	oci_ref_fini(&a);
	oci_ref_fini(&b);
	return 0;
}
