// SPDX-License-Identifier: Apache-2.0
/* Clean up after a `bootseer image record` that was killed (kill -9). */
#ifndef BOOTSEER_CLI_LEFTOVERS_H
#define BOOTSEER_CLI_LEFTOVERS_H

#include "common/error.h"
#include "snapshotter/client.h"

/* Note in a recording's folder the user name that bootseerd knows it by; with that note other
 * processes can clean it up. */
int leftovers_note(const char *dir, const char *user,
		   struct error *err) MUST_CHECK;

/* End containers and mounts of recordings whose process is gone, and remove their folders.
 * Failures are reported on standard error. */
void leftovers_clean(struct node_client *c);

#endif
