// SPDX-License-Identifier: Apache-2.0
/*
 * Reports of starts that wait for the service, in a folder: one file each, so that they are
 * there when bootseerd ends, or is killed, before they were sent.
 *
 * They are not synced: a report is a figure that nobody decides by, and a disk that a start
 * waits for has better things to do.  What a power loss leaves half written is found by
 * parsing it, and dropped.
 */
#ifndef BOOTSEER_NODE_REPORT_FILES_H
#define BOOTSEER_NODE_REPORT_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "common/cleanup.h"
#include "common/error.h"

struct report_files;

/* The folder is created. */
int report_files_open(const char *dir, struct report_files **ret,
		      struct error *err) MUST_CHECK;
void report_files_close(struct report_files *f); /* NULL is allowed */

/*
 * Show the last `max` that are there to `each`, the oldest first; texts are borrowed.  A
 * negative result ends, and is returned.  Older ones, and those that are none, are removed;
 * `*ret_dropped` is how many.  `body_max`: bytes of one.
 */
int report_files_load(struct report_files *f, size_t max, size_t body_max,
		      int (*each)(void *arg, uint64_t number, const char *path,
				  const char *body),
		      void *arg, uint64_t *ret_dropped,
		      struct error *err) MUST_CHECK;

/* Keep one; `*ret_number`, from 1 on, grows. */
int report_files_put(struct report_files *f, const char *path, const char *body,
		     uint64_t *ret_number, struct error *err) MUST_CHECK;

/* Remove a report that was sent, or is not wanted any more. */
void report_files_drop(struct report_files *f, uint64_t number);

#endif
