// SPDX-License-Identifier: Apache-2.0
/* The figures of the service. */
#ifndef BOOTSEER_REGISTRY_METRICS_H
#define BOOTSEER_REGISTRY_METRICS_H

#include <stdio.h>

#include "common/buf.h"

struct service;

/* As Prometheus text.  On the loop. */
int metrics_format(struct service *s, struct buf *ret) MUST_CHECK;
/* Names and meanings, for people. */
void metrics_list(FILE *out);

#endif
