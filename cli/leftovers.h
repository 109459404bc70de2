// SPDX-License-Identifier: Apache-2.0
/* Leftovers of a `bootseer image record` that was killed (kill -9). */
#ifndef BOOTSEER_CLI_LEFTOVERS_H
#define BOOTSEER_CLI_LEFTOVERS_H

#include "common/error.h"
#include "snapshotter/client.h"

/* Note in the folder of a recording by whom bootseerd knows it: from here on it
 * can be cleaned up by others. */
int leftovers_note(const char *dir, const char *user,
		   struct error *err) MUST_CHECK;

/* End containers and mounts of recordings whose process is gone, and remove
 * their folders.  What cannot be is told on standard error. */
void leftovers_clean(struct node_client *c);

#endif
