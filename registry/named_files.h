// SPDX-License-Identifier: Apache-2.0
/* Which files the configuration names for tokens, certificates and keys, and whether they
 * are others than before: in a pod nobody sends SIGHUP when a secret changes. */
#ifndef BOOTSEER_REGISTRY_NAMED_FILES_H
#define BOOTSEER_REGISTRY_NAMED_FILES_H

#include <stdint.h>

struct registry_config;

/* A number that changes when one of the files is replaced, written, made or removed. */
uint64_t named_files_sum(const struct registry_config *c);

#endif
