// SPDX-License-Identifier: Apache-2.0
/* Convert exports of VictoriaMetrics. */
#ifndef BOOTSEER_CLI_OPS_EXPORT_H
#define BOOTSEER_CLI_OPS_EXPORT_H

#include "common/error.h"

/*
 * Convert JSON lines in the form of VictoriaMetrics' /api/v1/export (metric, values, timestamps)
 * from `in` to OpenMetrics in the new file `path`.
 *   -EINVAL  a line has another form; the message names it
 *   -ENOMEM; -EFBIG: a line is longer than 64 MiB; errors of fopen()
 */
int ops_export_convert(int in, const char *path, struct error *err) MUST_CHECK;

#endif
