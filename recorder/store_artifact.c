// SPDX-License-Identifier: Apache-2.0
#include "recorder/store_artifact.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "common/json.h"

#define EMPTY_TYPE "application/vnd.oci.empty.v1+json"
#define A_CREATED "org.opencontainers.image.created"
#define A_WORKLOAD "dev.bootseer.trace.workload"
#define A_RUNS "dev.bootseer.trace.runs"
#define A_REPLACES "dev.bootseer.trace.replaces"
#define TIME_FORMAT "%Y-%m-%dT%H:%M:%SZ"

void trace_artifact_fini(struct trace_artifact *a)
{
	free(a->workload);
	free(a->replaces);
}

int trace_artifact_tag(const char *workload, char out[TRACE_TAG_MAX],
		       struct error *err)
{
	strcpy(out, TRACE_TAG_PREFIX);
	return store_workload_hash(workload, TRACE_TAG_HEX, out + strlen(out)) <
			       0
		       ? error_nomem(err)
		       : 0;
}

/* ------------------------------------------------------------------- parsing --- */

static int64_t parse_time(const char *text)
{
	struct tm tm = { .tm_isdst = 0 };

	return text && strptime(text, TIME_FORMAT, &tm) ? timegm(&tm) : 0;
}

static bool is_trace(const struct oci_image *i)
{
	return i->has_subject && i->n_layers == 1 &&
	       strcmp(i->artifact_type, TRACE_MEDIA_TYPE) == 0 &&
	       strcmp(i->layers[0].media_type, TRACE_MEDIA_TYPE) == 0 &&
	       i->layers[0].size <= TRACE_BYTES_MAX;
}

/* Are the texts short enough? Each is searched and compared often. */
static bool has_sane_texts(const struct trace_artifact *a)
{
	return a->workload && *a->workload &&
	       strlen(a->workload) <= TRACE_WORKLOAD_MAX &&
	       (!a->replaces ||
		strlen(a->replaces) <= TRACE_ARTIFACTS_MAX * DIGEST_STR_MAX);
}

int trace_artifact_parse(const void *json, size_t len,
			 struct trace_artifact *ret, struct error *err)
{
	struct trace_artifact a = { .workload = NULL };
	AUTO_FREE char *created = NULL;
	struct oci_image i;
	int rc = oci_image_parse(json, len, &i, err);

	if (rc < 0)
		return rc;
	if (is_trace(&i)) {
		a.image = i.subject;
		a.layer = i.layers[0].digest;
		a.layer_size = i.layers[0].size;
		a.workload = oci_annotation(i.annotations, A_WORKLOAD);
		a.replaces = oci_annotation(i.annotations, A_REPLACES);
		created = oci_annotation(i.annotations, A_CREATED);
		a.created = parse_time(created);
	}
	oci_image_fini(&i);
	if (!has_sane_texts(&a)) {
		trace_artifact_fini(&a);
		return error_set(err, EINVAL, "it carries no trace");
	}
	*ret = a;
	return 0;
}

/* ---------------------------------------------------------------- formatting --- */

static json_t *make_annotations(const struct trace_info *info,
				const char *replaces)
{
	time_t at = (time_t)info->created_at;
	char created[64] = "", runs[16];
	struct tm tm;
	json_t *j;

	if (gmtime_r(&at, &tm))
		(void)strftime(created, sizeof(created), TIME_FORMAT, &tm);
	(void)snprintf(runs, sizeof(runs), "%" PRIu32, info->runs);
	j = json_pack("{s:s, s:s, s:s}", A_CREATED, created, A_WORKLOAD,
		      info->workload, A_RUNS, runs);
	if (*replaces && j &&
	    json_object_set_new(j, A_REPLACES, json_string(replaces)) < 0) {
		json_decref(j);
		return NULL;
	}
	return j;
}

char *trace_artifact_format(const struct trace_publication *p)
{
	const struct trace_info *info = &p->trace->info;
	json_t *j =
		json_pack("{s:i, s:s, s:s, s:o, s:[o], s:o, s:o}",
			  "schemaVersion", 2, "mediaType", TRACE_MANIFEST_TYPE,
			  "artifactType", TRACE_MEDIA_TYPE, "config",
			  json_descriptor(EMPTY_TYPE, &p->config,
					  strlen(TRACE_CONFIG_JSON)),
			  "layers",
			  json_descriptor(TRACE_MEDIA_TYPE, &p->layer,
					  p->layer_size),
			  "subject",
			  json_descriptor(p->media_type, &info->image, p->size),
			  "annotations",
			  make_annotations(info, p->replaces.data
							 ? p->replaces.data
							 : ""));
	char *text =
		j ? json_dumps(j, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;

	json_decref(j);
	return text;
}
