// SPDX-License-Identifier: Apache-2.0
/* Exports of VictoriaMetrics. */
#ifndef BOOTSEER_CLI_OPS_EXPORT_H
#define BOOTSEER_CLI_OPS_EXPORT_H

#include "common/error.h"

/*
 * Write what `in` has, JSON lines as /api/v1/export of VictoriaMetrics gives them (metric, values,
 * timestamps), as OpenMetrics into the new file `path`.
 *   -EINVAL  a line is none of these; it is named
 *   -ENOMEM, -EFBIG: a line is longer than 64 MiB; as fopen()
 */
int ops_export_convert(int in, const char *path, struct error *err) MUST_CHECK;

#endif
