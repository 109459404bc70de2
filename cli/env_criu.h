// SPDX-License-Identifier: Apache-2.0
/*
 * criu(8), the program that dumps and restores processes: its arguments, output and timeouts.
 * docs/formats/environment.md says what is dumped, and what cannot be.
 */
#ifndef BOOTSEER_CLI_ENV_CRIU_H
#define BOOTSEER_CLI_ENV_CRIU_H

#include <stdint.h>
#include <sys/types.h>

#include "common/buf.h"
#include "common/error.h"

#define CRIU_VERSION_MAX 64u
#define CRIU_FILE_MAX 64u
#define CRIU_ARGS_MAX 24u

/* A dump or a restore; all members are borrowed. */
struct criu_job {
	const char *images; /* folder of the dump, absolute */
	const char *log;    /* path of criu's own log */
	/* The dumped process's log file, in the form of criu_name_file(). */
	const char *output;
	int64_t timeout_ms;
};

/* The words of a command line, stored in `text`. */
struct criu_args {
	char *argv[CRIU_ARGS_MAX + 1];
	size_t n;
	struct buf text; /* freed by criu_args_fini() */
};
void criu_args_fini(struct criu_args *a);
#define AUTO_CRIU_ARGS __attribute__((cleanup(criu_args_fini))) struct criu_args

/* Make criu's command lines; `output_fd` becomes the restored process's log. */
int criu_dump_args(const struct criu_job *j, pid_t pid, struct criu_args *ret,
		   struct error *err) MUST_CHECK;
int criu_restore_args(const struct criu_job *j, const char *pidfile,
		      int output_fd, struct criu_args *ret,
		      struct error *err) MUST_CHECK;
/* The first error in criu's log, without time and place; "" if there is none.  `room` >= 1. */
void criu_reason(const char *text, char *ret, size_t room);
/* criu's name for an open file that is not part of the dump: "file[MOUNT:INODE]". */
int criu_name_file(int fd, char ret[CRIU_FILE_MAX],
		   struct error *err) MUST_CHECK;
/* Check that `name` has the form of criu_name_file(). */
int criu_check_file(const char *name, struct error *err) MUST_CHECK;

/* Get criu's version.  -ENOENT: no criu in PATH; -ENOTSUP: its output has no version. */
int criu_version(int64_t timeout_ms, char ret[CRIU_VERSION_MAX],
		 struct error *err) MUST_CHECK;
/* Run `criu check`.  -ENOTSUP: criu does not work on this kernel. */
int criu_check(int64_t timeout_ms, struct error *err) MUST_CHECK;

/*
 * Dump the processes of a PID namespace, whose first is `pid`, into the existing folder j->images.
 * The processes go on.  -ETIMEDOUT: criu was killed, and the processes may be broken; after other
 * errors they go on unharmed.
 */
int criu_dump(const struct criu_job *j, pid_t pid,
	      struct error *err) MUST_CHECK;

/*
 * Restore a dump with `output_fd` as its log.  The namespace's first process becomes our child.
 * On failure or timeout no restored process is left.
 */
int criu_restore(const struct criu_job *j, const char *pidfile, int output_fd,
		 pid_t *ret, struct error *err) MUST_CHECK;

#endif
