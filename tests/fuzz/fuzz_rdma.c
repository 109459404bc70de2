// SPDX-License-Identifier: Apache-2.0
/* Bodies of the RDMA messages: the first byte is the type, less 32. */
#include <assert.h>
#include <string.h>

#include "p2p/rdma/rdma_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t body[RDMA_BODY_MAX];
	struct rdma_msg m;

	if (size < 1 || rdma_wire_get(RDMA_OFFER + data[0] % 7u, data + 1,
				      size - 1, &m, NULL) < 0)
		return 0;
	/* There is one way only to say a thing. */
	assert(rdma_wire_put(body, &m) == size - 1);
	assert(memcmp(body, data + 1, size - 1) == 0);
	return 0;
}
