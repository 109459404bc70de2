// SPDX-License-Identifier: Apache-2.0
/* Files of a job's checkpoint, read before the program asks for them. */
#ifndef BOOTSEER_CLI_JOB_READ_H
#define BOOTSEER_CLI_JOB_READ_H

/* First word: "bootseer --job-read PID PATH...". */
#define JOB_READ "--job-read"

/*
 * Read the files, and those in the folders, and keep them mapped until process `pid` has ended:
 * the kernel may drop an inode that nobody has open, and takes back pages that nobody has mapped
 * first, and with either what was read for the program.
 */
int job_read_main(const char *pid, char *const *paths);

#endif
