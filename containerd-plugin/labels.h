// SPDX-License-Identifier: Apache-2.0
/* The labels of a snapshot: names with values, none of them empty. */
#ifndef BOOTSEER_CONTAINERD_PLUGIN_LABELS_H
#define BOOTSEER_CONTAINERD_PLUGIN_LABELS_H

#include <stddef.h>

#include "common/buf.h"
#include "common/error.h"

#define LABELS_MAX 1024     /* labels of one snapshot */
#define LABEL_SIZE_MAX 4096 /* bytes of a name and its value */

/* On a snapshot for a layer that a client is about to fetch: the layer's chain id. */
#define LABEL_SNAPSHOT_REF "containerd.io/snapshot.ref"

struct label {
	char *key;
	char *value;
};

struct labels {
	struct label *v; /* in order of arrival */
	size_t n;
};

#define LABELS_INIT \
	{ \
		.v = NULL \
	}

void labels_fini(struct labels *l);

/* The value of a label, borrowed until the next change; NULL when there is none. */
const char *labels_get(const struct labels *l, const char *key);

/* Set a label, or remove it when `value` is "". -EINVAL: too long or too many. */
int labels_set(struct labels *l, const char *key, const char *value,
	       struct error *err) MUST_CHECK;

/* As stored: key NUL value NUL, repeated. */
int labels_encode(const struct labels *l, struct buf *ret) MUST_CHECK;
int labels_decode(const void *data, size_t len, struct labels *ret,
		  struct error *err) MUST_CHECK;

#endif
