// SPDX-License-Identifier: Apache-2.0
#include "registry/refusals.h"

#define MINUTE_NS INT64_C(60000000000)

bool refusals_tell(struct refusals *r, int64_t now_ns, uint64_t *ret_untold)
{
	if (r->told == 0 || now_ns - r->since >= MINUTE_NS) {
		r->since = now_ns;
		r->told = 0;
	}
	if (r->told == REFUSALS_TOLD) {
		r->untold++;
		return false;
	}
	r->told++;
	*ret_untold = r->untold;
	r->untold = 0;
	return true;
}
