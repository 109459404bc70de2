// SPDX-License-Identifier: Apache-2.0
/*
 * Reads what programs and log collectors put around a line: times, hosts, pods, ranks, colours,
 * JSON quotes (docs/formats/stage-events.md, "Times"). No I/O. It uses the clock only for the year
 * that journald's short form lacks, and the time zone for times without one.
 */
#ifndef BOOTSEER_PROFILER_LOG_LINE_H
#define BOOTSEER_PROFILER_LOG_LINE_H

#include <stdbool.h>

#include "profiler/stage_event.h"

/* The line's time: of a JSON line its time stamp, of any other line the first time in the `head`
 * bytes before the event. STAGE_NONE: none. */
int64_t log_line_time(const char *line, size_t len, size_t head);

/* The pod (kubectl logs --prefix), host (journald, pdsh), address (Ray) or container (Docker
 * compose) that the line names; empty: none. */
struct stage_text log_line_source(const char *line, size_t len, size_t head);

/* The rank in "[rank3]:" or "[default3]:" (torchrun, c10d) before the event, or the task number of
 * srun or mpirun at the begin of the line; STAGE_NONE: none. */
int64_t log_line_rank(const char *line, size_t head);

/* Is the line the shell's trace of a command that writes the event itself: "+ echo BOOTSEER
 * ..."? */
bool log_line_is_trace(const char *line, size_t head);

#endif
