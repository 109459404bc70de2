// SPDX-License-Identifier: Apache-2.0
/*
 * The OCI manifest that carries a trace: docs/formats/trace.md, "As an OCI
 * artifact".  Pure.  Private to store*.c.
 */
#ifndef BOOTSEER_RECORDER_STORE_ARTIFACT_H
#define BOOTSEER_RECORDER_STORE_ARTIFACT_H

#include "recorder/store_priv.h"

#define TRACE_MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"
#define TRACE_CONFIG_JSON "{}" /* the empty descriptor's content */
#define TRACE_TAG_HEX 16
#define TRACE_TAG_MAX (sizeof(TRACE_TAG_PREFIX) + TRACE_TAG_HEX)
#define TRACE_ARTIFACTS_MAX 64 /* artifacts of one image that are examined */

struct trace_artifact {
	struct digest digest; /* digest of the manifest, set by the caller */
	struct digest image;
	struct digest layer;
	uint64_t layer_size;
	char *workload;
	/* digests of replaced artifacts, separated by spaces; or NULL */
	char *replaces;
	int64_t created;
	bool replaced; /* another artifact of the list replaces it */
};

/* Parse a manifest. -EINVAL: it carries no trace, or has invalid members. */
int trace_artifact_parse(const void *json, size_t len,
			 struct trace_artifact *ret,
			 struct error *err) MUST_CHECK;
void trace_artifact_fini(struct trace_artifact *a);

/* A start's merged trace, ready to be published. */
struct trace_publication {
	const struct trace *trace; /* merged */
	struct digest layer, config;
	size_t layer_size;
	const char *media_type; /* media type of the image's manifest */
	uint64_t size;          /* bytes of the image's manifest */
	struct buf replaces;
};

/* Make the manifest, which the caller owns; NULL when memory is short. */
char *trace_artifact_format(const struct trace_publication *p) MUST_CHECK;

/* Make the tag of a workload's newest artifact. */
int trace_artifact_tag(const char *workload, char out[TRACE_TAG_MAX],
		       struct error *err) MUST_CHECK;

#endif
