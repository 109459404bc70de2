// SPDX-License-Identifier: Apache-2.0
/*
 * Run a command and write what it took to a file:
 *
 *	measure RESULT COMMAND [ARG]...
 *
 * RESULT receives one line: wall seconds, CPU seconds of all its processes, and
 * the largest resident set of one of them in bytes.  The exit status is that of
 * the command, 128 + N when signal N ended it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(struct timeval tv)
{
	return (double)tv.tv_sec + (double)tv.tv_usec / 1e6;
}

int main(int argc, char **argv)
{
	struct timespec t0, t1;
	struct rusage ru;
	FILE *out;
	pid_t pid;
	int status;

	if (argc < 3) {
		fprintf(stderr, "usage: measure RESULT COMMAND [ARG]...\n");
		return 125;
	}
	clock_gettime(CLOCK_MONOTONIC, &t0);
	pid = fork();
	if (pid == 0) {
		execvp(argv[2], argv + 2);
		perror(argv[2]);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &ru) < 0) {
		perror("measure");
		return 125;
	}
	clock_gettime(CLOCK_MONOTONIC, &t1);

	out = fopen(argv[1], "w");
	if (!out ||
	    fprintf(out, "%.6f %.6f %lld\n",
		    (double)(t1.tv_sec - t0.tv_sec) +
			    (double)(t1.tv_nsec - t0.tv_nsec) / 1e9,
		    seconds(ru.ru_utime) + seconds(ru.ru_stime),
		    (long long)ru.ru_maxrss * 1024) < 0 ||
	    fclose(out) != 0) {
		perror(argv[1]);
		return 125;
	}
	if (WIFSIGNALED(status))
		return 128 + WTERMSIG(status);
	return WEXITSTATUS(status);
}
