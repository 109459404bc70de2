// SPDX-License-Identifier: Apache-2.0
/* Limits how many refused calls are logged, so that a client that tries tokens cannot fill the
 * disk. */
#ifndef BOOTSEER_REGISTRY_REFUSALS_H
#define BOOTSEER_REGISTRY_REFUSALS_H

#include <stdbool.h>
#include <stdint.h>

#define REFUSALS_TOLD 10u /* log lines in a minute */

/* Initialise with zeros. */
struct refusals {
	int64_t since; /* when the current minute began */
	unsigned int told;
	uint64_t untold;
};

/* Shall the refusal at `now_ns` be logged? If true, `*ret_untold` refusals were not logged since
 * the last one that was. */
bool refusals_tell(struct refusals *r, int64_t now_ns, uint64_t *ret_untold);

#endif
