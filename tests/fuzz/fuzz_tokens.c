// SPDX-License-Identifier: Apache-2.0
/* The tokens file of bootseer-registry. */
#include <assert.h>
#include <string.h>

#include "registry/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE char *text = strndup((const char *)data, size);
	struct tokens t;

	if (!text || tokens_parse(text, &t, NULL) < 0)
		return 0;
	for (size_t i = 0; i < t.n; i++)
		assert(t.v[i].name[0] && t.v[i].roles);
	tokens_fini(&t);
	return 0;
}
