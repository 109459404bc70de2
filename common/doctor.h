// SPDX-License-Identifier: Apache-2.0
/* A list of checks: a JSON array in the form of node.doctor (docs/formats/control.md). */
#ifndef BOOTSEER_COMMON_DOCTOR_H
#define BOOTSEER_COMMON_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>

#include "common/error.h"

/* DOCTOR_NEEDED: without this, images cannot be mounted. */
enum doctor_need { DOCTOR_ADVICE, DOCTOR_NEEDED };

/* Append the result of a check to the list; `cure` is left out when `ok`. */
void doctor_add(json_t *list, const char *name, bool ok, enum doctor_need need,
		const char *cure, const char *fmt, ...) PRINTF(6, 7);

#endif
