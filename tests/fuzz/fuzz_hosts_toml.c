// SPDX-License-Identifier: Apache-2.0
/* hosts.toml of containerd: TOML, and what it says of mirrors. */
#include <stddef.h>
#include <stdint.h>

#include "objects/oci_mirrors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error err = ERROR_INIT;
	struct oci_mirrors m;

	if (oci_mirrors_parse((const char *)data, size, "/nonexistent", &m,
			      &err) == 0)
		oci_mirrors_fini(&m);
	return 0;
}
