// SPDX-License-Identifier: Apache-2.0
#include "image/writer/oci_target.h"

#include "common/bytes.h"
#include "objects/oci.h"

static int oci_target_store(struct upload_target *target,
			    const struct digest *d, uint64_t size, int fd,
			    struct error *err)
{
	struct oci_target *t = container_of(target, struct oci_target, target);

	return oci_put_blob(t->store, d, size, fd, NULL, err);
}

void oci_target_init(struct oci_target *t, struct oci_store *store)
{
	t->target.store = oci_target_store;
	t->store = store;
}
