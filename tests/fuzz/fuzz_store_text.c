// SPDX-License-Identifier: Apache-2.0
/* URLs of stores, and what the object of a lease says. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "objects/store/store_lease_priv.h"
#include "objects/store/store_url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE char *text = strndup((const char *)data, size);
	AUTO_BUF encoded = BUF_INIT;
	struct lease_text lease;
	struct store_url u;

	if (lease_text_parse((const char *)data, size, &lease) == 0)
		assert(lease.generation > 0 &&
		       strlen(lease.owner) <= LEASE_OWNER_MAX);
	if (!text)
		return 0;
	if (store_url_parse(text, &u, NULL) == 0) {
		assert(*u.scheme && *u.path != '/');
		(void)!store_url_check(&u, NULL);
		store_url_fini(&u);
	}
	/* What was encoded comes back. */
	if (store_url_encode(&encoded, text, "/") == 0 && encoded.data) {
		assert(store_url_decode(encoded.data) == 0);
		assert(strcmp(encoded.data, text) == 0);
	}
	return 0;
}
