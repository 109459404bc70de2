// SPDX-License-Identifier: Apache-2.0
/* Read files of a job's checkpoint into memory before the program needs them. */
#ifndef BOOTSEER_CLI_JOB_READ_H
#define BOOTSEER_CLI_JOB_READ_H

/* First arguments: "bootseer --job-read PID GO PATH...". */
#define JOB_READ "--job-read"

/*
 * Read the files, and all files in the folders, and keep them mapped until process `pid` has
 * ended.  Otherwise the kernel may drop the inodes, which nobody has open, and it reclaims
 * unmapped pages first; either would lose the data.
 *
 * So as not to slow the container's start, reading begins when the pipe `go` ("0": no pipe) has a
 * byte, which is not consumed, or after thirty seconds.
 */
int job_read_main(const char *pid, const char *go, char *const *paths);

#endif
