// SPDX-License-Identifier: Apache-2.0
/* docker's config.json. */
#include <assert.h>
#include <string.h>

#include "objects/oci_registry_auth.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct credentials c;
	char *helper = NULL;

	if (credentials_parse(data, size, "h:1/team/app", &c, &helper, NULL) <
	    0) {
		assert(!helper);
		return 0;
	}
	/* Its name becomes a program's. */
	assert(!helper || !strchr(helper, '/'));
	free(helper);
	credentials_fini(&c);
	return 0;
}
