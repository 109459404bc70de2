// SPDX-License-Identifier: Apache-2.0
/*
 * criu(8), the program that dumps and restores processes: its arguments, its answers and
 * its deadlines.  docs/formats/environment.md says what is dumped, and what cannot be.
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

/* A dump or a restore; all is borrowed. */
struct criu_job {
	const char *images; /* folder of the dump, absolute */
	const char *log;    /* where criu says what it does */
	/* The log of the dumped process, as criu_name_file() has it. */
	const char *output;
	int64_t timeout_ms;
};

/* The words of a command; they are in `text`. */
struct criu_args {
	char *argv[CRIU_ARGS_MAX + 1];
	size_t n;
	struct buf text; /* freed by criu_args_fini() */
};
void criu_args_fini(struct criu_args *a);
#define AUTO_CRIU_ARGS __attribute__((cleanup(criu_args_fini))) struct criu_args

/* How `criu` is called; `output_fd` is what the log is in the restored process. */
int criu_dump_args(const struct criu_job *j, pid_t pid, struct criu_args *ret,
		   struct error *err) MUST_CHECK;
int criu_restore_args(const struct criu_job *j, const char *pidfile,
		      int output_fd, struct criu_args *ret,
		      struct error *err) MUST_CHECK;
/* The first error of criu's log, without time and place; "" if none. `room` is at least
 * 1. */
void criu_reason(const char *text, char *ret, size_t room);
/* How criu names an open file that is not the dump's own: "file[MOUNT:INODE]". */
int criu_name_file(int fd, char ret[CRIU_FILE_MAX],
		   struct error *err) MUST_CHECK;
/* Is it such a name? */
int criu_check_file(const char *name, struct error *err) MUST_CHECK;

/* -ENOENT: no criu is in PATH; -ENOTSUP: it does not tell. */
int criu_version(int64_t timeout_ms, char ret[CRIU_VERSION_MAX],
		 struct error *err) MUST_CHECK;
/* -ENOTSUP: it does not work on this kernel. */
int criu_check(int64_t timeout_ms, struct error *err) MUST_CHECK;

/*
 * Dump `pid`, the first process of a PID namespace, and all in it, into j->images, which
 * is there.  They go on.  -ETIMEDOUT: criu was killed, and the processes may be broken;
 * other errors: they go on as before.
 */
int criu_dump(const struct criu_job *j, pid_t pid,
	      struct error *err) MUST_CHECK;

/*
 * Restore a dump, with `output_fd` as its log.  The first process becomes a child of ours.
 * When it fails, or takes longer, nothing of it is left.
 */
int criu_restore(const struct criu_job *j, const char *pidfile, int output_fd,
		 pid_t *ret, struct error *err) MUST_CHECK;

#endif
