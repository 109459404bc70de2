// SPDX-License-Identifier: Apache-2.0
/*
 * Memory that volumes with a process have of this node, by the namespace of their pod: a file
 * STATE/ID/charge for each, so that a plugin that is started again knows.  It ends with the
 * folder.
 */
#ifndef BOOTSEER_CSI_CHARGE_H
#define BOOTSEER_CSI_CHARGE_H

#include "csi/request.h"

/* The texts are borrowed. */
struct volume_charge {
	const char *id; /* TARGET_ID_MAX */
	const char *namespace;
	enum volume_kind kind;
	uint64_t memory; /* bytes; of kind ckpt */
	uint64_t total;  /* that the namespace may have; of kind ckpt */
};

/*
 * Charge the namespace, and make the folder STATE/ID.  A volume that is there already,
 * `is_there`, is charged without a look at the total.  Calls of one `state` are not to run
 * at once.
 *   -EDQUOT  the namespace has too much; the message has the cure
 */
int charge_take(const char *state, const struct volume_charge *c, bool is_there,
		struct error *err) MUST_CHECK;

/* The namespace that volume `id` is charged to; NULL: none is.  Caller owns. */
char *charge_namespace(const char *state, const char *id) MUST_CHECK;

#endif
