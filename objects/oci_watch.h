// SPDX-License-Identifier: Apache-2.0
/* The watcher of requests to registries that do not go well. */
#ifndef BOOTSEER_OBJECTS_OCI_WATCH_H
#define BOOTSEER_OBJECTS_OCI_WATCH_H

#include <stdbool.h>

#include "common/error.h"

/*
 * Told of reads that wait for a registry which refuses, resets, or answers that it
 * cannot now; called by their threads.
 */
struct oci_watch {
	/* A read begins to wait for `host`; its first attempts failed for `why`. */
	void (*waits)(struct oci_watch *w, const char *host,
		      const struct error *why);
	/* A read ended, well (`is_good`) or not; `waited`: waits() was called. */
	void (*ended)(struct oci_watch *w, const char *host, bool waited,
		      bool is_good);
	/* Any request waits before it is made again, and has waited (`is_over`);
	 * `is_throttled`: the registry has asked for less (429, or a time to come
	 * back). */
	void (*backs_off)(struct oci_watch *w, const char *host,
			  bool is_throttled, bool is_over);
	/* A login for a repository that had worked is refused for `why`, and so was a
	 * new one; or, `why` NULL, one works again. */
	void (*login)(struct oci_watch *w, const char *host, const char *repo,
		      const struct error *why);
	/* The hosts.toml of `host` is left aside, since it cannot be read for `why`. */
	void (*misread)(struct oci_watch *w, const char *host,
			const struct error *why);
};

#endif
