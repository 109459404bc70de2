// SPDX-License-Identifier: Apache-2.0
/* Lists of referrers, in two pages, with and without a type that is wanted. */
#include <assert.h>

#include "objects/oci_referrers_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(const uint8_t *data, size_t size, const char *type)
{
	struct referrers f = { .type = type, .note = "n" };

	(void)!referrers_parse(data, size / 2, &f, NULL);
	(void)!referrers_parse(data, size, &f, NULL);
	assert(!f.all.n || (f.all.digests && f.all.notes && f.is_untyped));
	while (f.all.n)
		referrers_drop(&f, f.all.n / 2);
	referrers_fini(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	parse(data, size, NULL);
	parse(data, size, "a/b");
	return 0;
}
