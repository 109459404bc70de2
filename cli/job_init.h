// SPDX-License-Identifier: Apache-2.0
/*
 * The first process of a job's container.  Were it the program itself, the kernel would throw
 * away each signal that the program does not handle, and nobody would take in what the program's
 * children leave.
 */
#ifndef BOOTSEER_CLI_JOB_INIT_H
#define BOOTSEER_CLI_JOB_INIT_H

/* First word: "bootseer --job-init DIR COMMAND...". */
#define JOB_INIT "--job-init"
#define JOB_INIT_COMM "bootseer-init"         /* its name in /proc/PID/comm */
#define JOB_CONTAINER_DIR "/run/bootseer-job" /* DIR in a container */
/* FIFOs in DIR. */
#define JOB_INIT_SIGNALS "signals"
#define JOB_INIT_STATUS "status"
/* The image's LD_PRELOAD, which is not for this program and its loader. */
#define JOB_INIT_PRELOAD "BOOTSEER_JOB_PRELOAD"

/*
 * Run `command`, and send it each signal whose number comes as a byte of the FIFO "signals" in
 * `dir`, from `bootseer job run`, and those that are sent to this process.  Ends as the command
 * does, with its status or 128 and its signal, and all of the container with it; the status goes
 * as a byte to the FIFO "status", if that is there, since containerd may be away at that moment.
 * Nobody keeps "signals" open when `job run` was killed: then the command is killed, too.
 */
int job_init_main(const char *dir, char *const *command);

#endif
