// SPDX-License-Identifier: Apache-2.0
/* The results of `bootseer node doctor --report`, which nodes send. */
#ifndef BOOTSEER_REGISTRY_DOCTOR_H
#define BOOTSEER_REGISTRY_DOCTOR_H

#include "registry/db.h"

/* All nodes that reported; `fresh`: within three hours; of these, `missing`: nodes that lack
 * something they need; `advice`: nodes that got advice. */
struct doctor_counts {
	int64_t nodes, fresh, missing, advice;
};

/* Delete nodes that have not reported for a week, and count the others. Blocks. */
int doctor_sweep(struct db *db, int64_t now, struct doctor_counts *ret,
		 struct error *err) MUST_CHECK;

#endif
