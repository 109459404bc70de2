// SPDX-License-Identifier: Apache-2.0
/*
 * The first process of a job's container.  Were it the program itself, the kernel would throw
 * away each signal that the program does not handle, and nobody would take in what the program's
 * children leave.
 */
#ifndef BOOTSEER_CLI_JOB_INIT_H
#define BOOTSEER_CLI_JOB_INIT_H

/* First word: "bootseer --job-init SIGNALS COMMAND...". */
#define JOB_INIT "--job-init"
/* The image's LD_PRELOAD, which is not for this program and its loader. */
#define JOB_INIT_PRELOAD "BOOTSEER_JOB_PRELOAD"

/*
 * Run `command`, and send it each signal whose number comes as a byte of the FIFO `signals`, from
 * `bootseer job run`, and those that are sent to this process.  Ends as the command does, with its
 * status or 128 and its signal, and all of the container with it.  Nobody keeps the FIFO open when
 * `job run` was killed: then the command is killed, too.
 */
int job_init_main(const char *signals, char *const *command);

#endif
