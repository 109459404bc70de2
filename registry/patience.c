// SPDX-License-Identifier: Apache-2.0
#include "registry/patience.h"

#define SILENT_NS INT64_C(10000000000)

bool patience_begin(struct patience *p, int64_t now_ns)
{
	unsigned int before = atomic_fetch_add(&p->n_asking, 1);

	if (before == 0 || atomic_load(&p->silent_until) <= now_ns)
		return true;
	atomic_fetch_sub(&p->n_asking, 1);
	return false;
}

void patience_end(struct patience *p, int64_t now_ns, bool has_answered)
{
	atomic_store(&p->silent_until, has_answered ? 0 : now_ns + SILENT_NS);
	atomic_fetch_sub(&p->n_asking, 1);
}
