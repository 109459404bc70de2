// SPDX-License-Identifier: Apache-2.0
/* Capabilities and key files of strangers. */
#include <stdint.h>
#include <string.h>

#include "p2p/rights/capability.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* RFC 8032, 7.1, TEST 1; what it signs is not in reach of a fuzzer. */
static const char public_pem[] =
	"-----BEGIN PUBLIC KEY-----\n"
	"MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
	"-----END PUBLIC KEY-----\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(capability_keys) k = NULL;
	AUTO(capability_keys) strange = NULL;
	struct capability c, d;

	if (capability_keys_parse((const char *)data, size, &strange, NULL) < 0)
		strange = NULL;
	if (capability_keys_parse(public_pem, strlen(public_pem), &k, NULL) < 0)
		abort();
	if (capability_decode(data, size, &c, NULL) < 0)
		return 0;
	if (strlen(c.node) < 1 || size > CAPABILITY_MAX)
		abort();
	/* Only the golden one is right, and it says so of itself. */
	if (capability_check(k, data, size, &c.image, c.repo, c.node,
			     c.not_before, &d, NULL) == 0 &&
	    strcmp(d.node, "node-7") != 0)
		abort();
	return 0;
}
