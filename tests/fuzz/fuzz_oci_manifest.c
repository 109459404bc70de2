// SPDX-License-Identifier: Apache-2.0
/* Manifests, indexes and image configs: one text given to all three readers,
 * because that is what an attacker can do. */
#include <assert.h>
#include <string.h>

#include "objects/oci.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int choices(const uint8_t *data, size_t size, const char *platform)
{
	struct buf others = { .limit = 128 };
	struct oci_choices c;
	int rc = oci_index_choices(data, size, platform, &c, &others, NULL);

	assert(rc < 0 || c.n <= OCI_CHOICES_MAX);
	buf_fini(&others);
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct digest d, *ids = NULL;
	struct oci_image m;
	size_t n = 0;

	if (oci_image_parse(data, size, &m, NULL) == 0) {
		for (size_t i = 0; i < m.n_layers; i++)
			free(oci_annotation(m.layers[i].annotations, "a"));
		/* Nothing is both. */
		assert(choices(data, size, "linux/amd64") < 0);
		oci_image_fini(&m);
	}
	if (choices(data, size, "linux/s390x") < 0)
		(void)!choices(data, size, "linux/arm/v7");
	if (oci_config_diff_ids(data, size, &ids, &n, NULL) == 0) {
		if (n)
			(void)!oci_chain_id(ids, n, &d);
		free(ids);
	}
	return 0;
}
