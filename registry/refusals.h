// SPDX-License-Identifier: Apache-2.0
/* How many refusals are logged: somebody who tries tokens must not fill a disk. */
#ifndef BOOTSEER_REGISTRY_REFUSALS_H
#define BOOTSEER_REGISTRY_REFUSALS_H

#include <stdbool.h>
#include <stdint.h>

#define REFUSALS_TOLD 10u /* of a minute */

/* Zeros at first. */
struct refusals {
	int64_t since; /* begin of the minute */
	unsigned int told;
	uint64_t untold;
};

/* Is this one, at `now_ns`, to be told?  Then `*ret_untold` were not since the last
 * one that was. */
bool refusals_tell(struct refusals *r, int64_t now_ns, uint64_t *ret_untold);

#endif
