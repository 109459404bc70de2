// SPDX-License-Identifier: Apache-2.0
/* The metrics of the service. */
#ifndef BOOTSEER_REGISTRY_METRICS_H
#define BOOTSEER_REGISTRY_METRICS_H

#include <stdio.h>

#include "common/buf.h"

struct service;

/* Write all metrics as Prometheus text. Call on the loop thread. */
int metrics_format(struct service *s, struct buf *ret) MUST_CHECK;
/* Print the names and meanings of all metrics. */
void metrics_list(FILE *out);

#endif
