// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_REGISTRY_STARTS_JSON_H
#define BOOTSEER_REGISTRY_STARTS_JSON_H

#include <jansson.h>

#include "registry/stage_db.h"

/* The entry of a start in the list, at `now_ns`; NULL: memory is short. */
json_t *starts_job_json(const struct job_start *s, int64_t now_ns);
/* "ready": training began; "open": it may yet; "stopped": nobody expects it. */
const char *starts_state(const struct job_start *s, int64_t now_ns);

/* Whom a start waits for at `now_ns`, what failed in it, and what the list says of it more;
 * null where there is nothing to say, NULL: memory is short. */
json_t *starts_waiting_json(const struct start_report *r, int64_t now_ns);
json_t *starts_failed_json(const struct start_report *r);
json_t *starts_summary_json(const struct start_report *r);
/* The same as text, the caller's. */
char *starts_summary_text(const struct start_report *r);

/* The spread of times that nodes took; NULL: memory is short. */
json_t *starts_spread_json(const struct start_spread *s);

#endif
