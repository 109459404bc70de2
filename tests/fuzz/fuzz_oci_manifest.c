// SPDX-License-Identifier: Apache-2.0
/* Manifests, indexes and image configs: one text given to all three readers,
 * because that is what an attacker can do. */
#include <assert.h>
#include <string.h>

#include "blockstore/oci.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct digest d, *ids = NULL;
	struct oci_image m;
	size_t n = 0;

	if (oci_image_parse(data, size, &m, NULL) == 0) {
		for (size_t i = 0; i < m.n_layers; i++)
			free(oci_annotation(m.layers[i].annotations, "a"));
		/* Nothing is both. */
		assert(oci_index_select(data, size, "linux/amd64", &d, NULL) <
		       0);
		oci_image_fini(&m);
	}
	if (oci_index_select(data, size, NULL, &d, NULL) < 0)
		(void)!oci_index_select(data, size, "linux/arm/v7", &d, NULL);
	if (oci_config_diff_ids(data, size, &ids, &n, NULL) == 0) {
		if (n)
			(void)!oci_chain_id(ids, n, &d);
		free(ids);
	}
	return 0;
}
