// SPDX-License-Identifier: Apache-2.0
/* Manifests of artifacts that carry a trace: what is read can be written, and
 * read again. */
#include <assert.h>
#include <string.h>

#include "recorder/store_artifact.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_and_read(const struct trace_artifact *a)
{
	struct trace t = { .info = { .image = a->image,
				     .workload = a->workload,
				     .created_at = (uint64_t)a->created,
				     .runs = 1 } };
	const struct trace_publication p = {
		.trace = &t,
		.layer = a->layer,
		.layer_size = a->layer_size,
		.media_type = TRACE_MANIFEST_TYPE,
		.size = 1,
	};
	AUTO_FREE char *text = trace_artifact_format(&p);
	struct trace_artifact b;

	assert(text);
	assert(trace_artifact_parse(text, strlen(text), &b, NULL) == 0);
	assert(digest_equal(&a->image, &b.image));
	assert(digest_equal(&a->layer, &b.layer));
	assert(a->layer_size == b.layer_size);
	assert(strcmp(a->workload, b.workload) == 0);
	trace_artifact_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char tag[TRACE_TAG_MAX];
	struct trace_artifact a;

	if (trace_artifact_parse(data, size, &a, NULL) < 0)
		return 0;
	assert(trace_artifact_tag(a.workload, tag, NULL) == 0);
	assert(strlen(tag) == TRACE_TAG_MAX - 1);
	write_and_read(&a);
	trace_artifact_fini(&a);
	return 0;
}
