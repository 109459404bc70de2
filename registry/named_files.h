// SPDX-License-Identifier: Apache-2.0
/* Detects changes of the token, certificate and key files that the configuration names: in a pod a
 * changed secret sends no SIGHUP. */
#ifndef BOOTSEER_REGISTRY_NAMED_FILES_H
#define BOOTSEER_REGISTRY_NAMED_FILES_H

#include <stdint.h>

struct registry_config;

/* A checksum that changes when one of the files is replaced, written, created or removed. */
uint64_t named_files_sum(const struct registry_config *c);

#endif
