// SPDX-License-Identifier: Apache-2.0
/* WWW-Authenticate headers. */
#include <assert.h>
#include <string.h>

#include "objects/oci_registry_auth.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE char *text = strndup((const char *)data, size);
	struct challenge c;

	if (!text || challenge_parse(text, &c, NULL) < 0)
		return 0;
	assert(c.basic || (c.bearer && c.realm));
	challenge_fini(&c);
	return 0;
}
