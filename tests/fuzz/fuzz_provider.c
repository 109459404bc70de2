// SPDX-License-Identifier: Apache-2.0
/* The first byte says which: a credential provider's answer, or the kubelet's configuration
 * of such, or one pattern. */
#include <assert.h>
#include <string.h>

#include "objects/oci_providers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void answer(const uint8_t *data, size_t size)
{
	struct provider_answer a = { .auth = NULL };
	struct credentials c;

	if (provider_answer_parse(data, size, &a, NULL) < 0)
		return;
	assert(a.kept_ns >= -1);
	if (provider_answer_pick(a.auth, "1.dkr.ecr.eu.amazonaws.com", "a/b",
				 &c, NULL) == 0)
		credentials_fini(&c);
	json_decref(a.auth);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *list = NULL;
	char *text;

	if (size < 1)
		return 0;
	switch (data[0] % 3) {
	case 0:
		answer(data + 1, size - 1);
		break;
	case 1:
		if (provider_config_parse(data + 1, size - 1, &list, NULL) == 0)
			assert(json_is_array(list));
		json_decref(list);
		break;
	default:
		text = strndup((const char *)data + 1, size - 1);
		if (text) {
			(void)provider_pattern_fits(text, "a.b:1", "r/s");
			(void)provider_duration_parse(text);
		}
		free(text);
		break;
	}
	return 0;
}
