// SPDX-License-Identifier: Apache-2.0
/* Files of a job's checkpoint, read before the program asks for them. */
#ifndef BOOTSEER_CLI_JOB_READ_H
#define BOOTSEER_CLI_JOB_READ_H

/* First word: "bootseer --job-read PID GO PATH...". */
#define JOB_READ "--job-read"

/*
 * Read the files, and those in the folders, and keep them mapped until process `pid` has ended:
 * the kernel may drop an inode that nobody has open, and takes back pages that nobody has mapped
 * first, and with either what was read for the program.
 *
 * A container's start is not kept waiting by this: nothing is read before the pipe `go`
 * ("0": none) has a byte, which nobody takes, but for thirty seconds at most.
 */
int job_read_main(const char *pid, const char *go, char *const *paths);

#endif
