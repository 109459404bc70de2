// SPDX-License-Identifier: Apache-2.0
/* The first byte says which: what a kubelet's connection sends, or one PullImage request. */
#include <assert.h>
#include <string.h>

#include "containerd-plugin/cri_pull.h"
#include "net/grpc_tap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take_request(void *arg, const void *message, size_t len)
{
	struct cri_pull p;

	(void)arg;
	if (cri_pull_parse(message, len, &p, NULL) < 0)
		return;
	assert(p.image && strchr(p.image, '/') && p.namespace_);
	assert(!p.user == !p.password && !(p.user && p.identity_token));
	cri_pull_fini(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct grpc_tap *tap;
	size_t half;

	if (size < 1)
		return 0;
	if (data[0] % 2) {
		take_request(NULL, data + 1, size - 1);
		return 0;
	}
	if (grpc_tap_new(CRI_PULL_METHOD, take_request, NULL, &tap, NULL) < 0)
		return 0;
	half = (size - 1) / 2;
	if (grpc_tap_feed(tap, data + 1, half, NULL) == 0)
		(void)!grpc_tap_feed(tap, data + 1 + half, size - 1 - half,
				     NULL);
	grpc_tap_free(tap);
	return 0;
}
