// SPDX-License-Identifier: Apache-2.0
/*
 * Reports of starts that wait to be sent to the service: a folder with one file for each, so
 * that they survive the end of bootseerd, or a kill.
 *
 * The files are not synced: no decision depends on a report, and a start may be waiting for the
 * disk.  A file that a power loss left incomplete does not parse, and is dropped.
 */
#ifndef BOOTSEER_NODE_REPORT_FILES_H
#define BOOTSEER_NODE_REPORT_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "common/cleanup.h"
#include "common/error.h"

struct report_files;

/* The folder is created if it is missing. */
int report_files_open(const char *dir, struct report_files **ret,
		      struct error *err) MUST_CHECK;
void report_files_close(struct report_files *f); /* NULL is allowed */

/*
 * Call `each` for the last `max` reports, the oldest first; texts are borrowed.  A negative
 * result ends the calls and is returned.  Older reports and damaged files are removed;
 * `*ret_dropped` counts them.  `body_max`: largest body in bytes.
 */
int report_files_load(struct report_files *f, size_t max, size_t body_max,
		      int (*each)(void *arg, uint64_t number, const char *path,
				  const char *body),
		      void *arg, uint64_t *ret_dropped,
		      struct error *err) MUST_CHECK;

/* Keep a report; `*ret_number` counts up from 1. */
int report_files_put(struct report_files *f, const char *path, const char *body,
		     uint64_t *ret_number, struct error *err) MUST_CHECK;

/* Remove a report that was sent, or is not wanted any more. */
void report_files_drop(struct report_files *f, uint64_t number);

#endif
