// SPDX-License-Identifier: Apache-2.0
/* The results of `bootseer node doctor --report`, which nodes send. */
#ifndef BOOTSEER_REGISTRY_DOCTOR_H
#define BOOTSEER_REGISTRY_DOCTOR_H

#include "registry/db.h"

/* Nodes that reported; those that did within three hours, and of these the ones that lack
 * what they need, and the ones that have advice. */
struct doctor_counts {
	int64_t nodes, fresh, missing, advice;
};

/* Forget nodes that have not reported for a week, and count the others.  Blocks. */
int doctor_sweep(struct db *db, int64_t now, struct doctor_counts *ret,
		 struct error *err) MUST_CHECK;

#endif
