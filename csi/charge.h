// SPDX-License-Identifier: Apache-2.0
/*
 * Memory of this node that volumes with a process use, charged to the namespace of their pod: a
 * file STATE/ID/charge for each volume, so that it survives a restart of the plugin.  The
 * charge ends when the volume's folder is removed.
 */
#ifndef BOOTSEER_CSI_CHARGE_H
#define BOOTSEER_CSI_CHARGE_H

#include "csi/request.h"

/* The texts are borrowed. */
struct volume_charge {
	const char *id; /* volume id of TARGET_ID_MAX bytes */
	const char *namespace;
	enum volume_kind kind;
	uint64_t memory; /* bytes, for kind ckpt */
	/* bytes that all volumes of the namespace may have, for kind ckpt */
	uint64_t total;
};

/*
 * Charge the namespace, and make the folder STATE/ID.  If the volume exists already
 * (`is_there`), the total is not checked.  The caller runs one call of the same `state` at a
 * time.
 *     -EDQUOT  the namespace has too much; the message has the cure
 */
int charge_take(const char *state, const struct volume_charge *c, bool is_there,
		struct error *err) MUST_CHECK;

/* The namespace that volume `id` is charged to; NULL: none.  The caller frees it. */
char *charge_namespace(const char *state, const char *id) MUST_CHECK;

#endif
