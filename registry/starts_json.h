// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_REGISTRY_STARTS_JSON_H
#define BOOTSEER_REGISTRY_STARTS_JSON_H

#include <jansson.h>

#include "registry/stage_db.h"

/* The start's entry in a list, at `now_ns`; NULL: memory is short. */
json_t *starts_job_json(const struct job_start *s, int64_t now_ns);
/* "ready": training began; "open": it may still begin; "stopped": it is not expected to begin any
 * more. */
const char *starts_state(const struct job_start *s, int64_t now_ns);

/* The nodes that a start waits for at `now_ns`; its failures; its summary for the list. JSON null
 * if there is nothing to say; NULL: memory is short. */
json_t *starts_waiting_json(const struct start_report *r, int64_t now_ns);
json_t *starts_failed_json(const struct start_report *r);
json_t *starts_summary_json(const struct start_report *r);
/* The summary as JSON text; the caller frees it. */
char *starts_summary_text(const struct start_report *r);

/* The spread of times that nodes took; NULL: memory is short. */
json_t *starts_spread_json(const struct start_spread *s);

#endif
