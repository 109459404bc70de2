// SPDX-License-Identifier: Apache-2.0
/*
 * The first process of a job's container.  If the program itself were the first process, the
 * kernel would drop signals that it does not handle, and its orphans would not be reaped.
 */
#ifndef BOOTSEER_CLI_JOB_INIT_H
#define BOOTSEER_CLI_JOB_INIT_H

/* First arguments: "bootseer --job-init DIR COMMAND...". */
#define JOB_INIT "--job-init"
/* name of the process in /proc/PID/comm */
#define JOB_INIT_COMM "bootseer-init"
#define JOB_CONTAINER_DIR "/run/bootseer-job" /* DIR in a container */
/* FIFOs in DIR. */
#define JOB_INIT_SIGNALS "signals"
#define JOB_INIT_STATUS "status"
/* Variable that keeps the image's LD_PRELOAD, which must not affect this program. */
#define JOB_INIT_PRELOAD "BOOTSEER_JOB_PRELOAD"

/*
 * Run `command`.  Send it each signal whose number `bootseer job run` writes as a byte to the FIFO
 * "signals" in `dir`, and each signal sent to this process.  Ends when the command does, with its
 * status or 128 + its signal; that ends the container.  The status is also written as a byte to
 * the FIFO "status", if it exists, as containerd may be away just then.  When "signals" loses its
 * last writer, `job run` was killed: then the command is killed, too.
 */
int job_init_main(const char *dir, char *const *command);

#endif
