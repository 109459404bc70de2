// SPDX-License-Identifier: Apache-2.0
/*
 * Text that programs and log collectors put around a line: times, hosts, pods, ranks,
 * colours, quotes of JSON (docs/formats/stage-events.md, "Times"). No I/O; of the clock
 * only the year that journald's short form leaves out, and the time zone of lines that
 * say none.
 */
#ifndef BOOTSEER_PROFILER_LOG_LINE_H
#define BOOTSEER_PROFILER_LOG_LINE_H

#include <stdbool.h>

#include "profiler/stage_event.h"

/* The time that the line has: of a line of JSON that of its time stamp, of any other the
 * first one in its `head` bytes before the event.  STAGE_NONE: none. */
int64_t log_line_time(const char *line, size_t len, size_t head);

/* The pod (kubectl logs --prefix), host (journald, pdsh), address (Ray) or container (Docker's
 * compose) that the line names, or none. */
struct stage_text log_line_source(const char *line, size_t len, size_t head);

/* "[rank3]:" or "[default3]:" of torchrun and c10d before the event, or the task that srun or
 * mpirun has at the begin of the line; STAGE_NONE: none. */
int64_t log_line_rank(const char *line, size_t head);

/* "+ echo BOOTSEER ...": the shell's trace of a command that says the event itself. */
bool log_line_is_trace(const char *line, size_t head);

#endif
