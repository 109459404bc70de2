// SPDX-License-Identifier: Apache-2.0
/* The report of a start that ended, for bootseer-registry
 * (docs/formats/registry-api.md, "Images"). */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "snapshotter/node/images/image_index.h"
#include "snapshotter/node/starts/starts_priv.h"

static json_t *givers_json(const struct image_flow *f)
{
	json_t *list = json_array();

	for (size_t k = 0; k < f->n; k++)
		if (stage_is_node(stage_text(f->givers[k].node)))
			(void)json_array_append_new(
				list,
				json_pack("[s, I]", f->givers[k].node,
					  (json_int_t)f->givers[k].bytes));
	return list;
}

/* The bytes from the registry; without peers those are all fetched bytes. */
static uint64_t origin_bytes(const json_t *figures)
{
	static const char *const parts[] = { "demand", "hot", "cold" };
	const json_t *fetched = json_object_get(figures, "fetched");
	json_int_t n = 0;

	for (size_t k = 0; k < ARRAY_SIZE(parts); k++)
		n += json_integer_value(json_object_get(fetched, parts[k]));
	return n > 0 ? (uint64_t)n : 0;
}

static json_t *report_json(const struct container_start *s, json_t *figures,
			   const struct image_flow *f)
{
	AUTO_FREE char *name = container_start_image_name(s);
	bool has_peers = s->all->of.peers;

	return json_pack("{s:s, s:s, s:I, s:I, s:I, s:o, s:O}", "name",
			 name && stage_is_image(stage_text(name)) ? name : "",
			 "job", s->owner.job, "attempt",
			 (json_int_t)(s->owner.attempt > 0 ? s->owner.attempt
							   : 0),
			 "peer_bytes", (json_int_t)f->peer_bytes,
			 "origin_bytes",
			 (json_int_t)(has_peers ? f->origin_bytes
						: origin_bytes(figures)),
			 "peers", givers_json(f), "start", figures);
}

/* Format the report.  If it is too long for the service, files are left out, then the peers
 * that sent least. */
static char *report_text(json_t *report)
{
	json_t *lists[] = {
		json_object_get(json_object_get(report, "start"),
				"missed_files"),
		json_object_get(report, "peers"),
	};
	char *text = json_dumps(report, JSON_COMPACT);

	for (size_t k = 0; text && k < ARRAY_SIZE(lists); k++)
		while (text && strlen(text) > START_REPORT_BYTES &&
		       json_array_size(lists[k])) {
			(void)json_array_remove(lists[k],
						json_array_size(lists[k]) - 1);
			free(text);
			text = json_dumps(report, JSON_COMPACT);
		}
	return text;
}

void container_start_report(struct container_start *s, const json_t *figures)
{
	struct digest manifest = image_manifest(s->image);
	AUTO_FREE char *repo = NULL;
	AUTO_JSON *report = NULL;
	struct image_flow flow;

	/* The service shows images by their registry's repository, which an environment does
	 * not have. */
	if (!s->all->reports || image_is_environment(s->image))
		return;
	if (!s->owner.job[0])
		container_start_read_owner(s);
	image_swarm_take_flow(s->all->of.peers, s->image, &flow);
	repo = image_repo(s->image);
	report = report_json(s, json_deep_copy(figures), &flow);
	if (report && repo)
		start_reports_add(s->all->reports,
				  &(struct start_reported){ &manifest, repo,
							    s->workload },
				  report_text(report));
}
