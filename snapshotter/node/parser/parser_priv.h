// SPDX-License-Identifier: Apache-2.0
/*
 * The protocol between bootseerd and the parser.  A job is one message on a SOCK_SEQPACKET,
 * with its descriptors.  The parser forks and sends the PID of the job's process on the last
 * descriptor; that process waits for a byte from bootseerd before it touches data.
 */
#ifndef BOOTSEER_NODE_PARSER_PRIV_H
#define BOOTSEER_NODE_PARSER_PRIV_H

#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"
#include "image/artifact/artifact.h"
#include "snapshotter/node/parser/parser.h"

#define PARSER_FD 3 /* the parser's end of the socket */

/* Descriptors that come with each job. */
enum parser_fd {
	PARSER_FD_FIRST, /* the file to fill, or to check */
	/* UNPACK: compressed bytes; else the same as the first */
	PARSER_FD_SECOND,
	PARSER_FD_REPLY, /* a pipe for the job's reply */
	/* SOCK_SEQPACKET: the parser sends struct parser_begun, then bootseerd a byte */
	PARSER_FD_BEGIN,
	PARSER_N_FDS,
};

enum parser_kind {
	PARSER_UNPACK,     /* unpack the second descriptor into the first */
	PARSER_CHECK_META, /* check the first descriptor */
	PARSER_CHECK_MAP,
};

struct parser_job {
	uint32_t kind;
	uint64_t size; /* of the file; for UNPACK its largest size */
};

/* The parser's answer about a job: its PID if `rc` is 0. The parser sends it, not the job,
 * since a job that malicious bytes took over could name another process. */
struct parser_begun {
	int32_t rc;
	int32_t pid;
};

/* The reply that a job writes before it ends; a job that crashes writes none. */
struct parser_reply {
	int rc;
	struct error err;
};

/* Time limits in milliseconds. */
struct parser_bounds {
	int begin; /* until the parser has forked */
	/* longest time that a job may neither use the processor nor end */
	int stall;
	int whole; /* from the last byte that a job gets until its end */
};

extern const struct parser_bounds parser_bounds;

struct parser {
	struct artifact_parser of_artifacts;
	struct parser_bounds bounds;
	char *program;
	pthread_mutex_t lock; /* protects the rest */
	uint64_t generation;  /* how often the parser was started */
	int sock;
	int pidfd;
	pid_t pid; /* 0: the parser does not run */
};

/* parser_open() with other time limits. */
int parser_open_bounded(const char *program, const struct parser_bounds *bounds,
			struct parser **ret, struct error *err) MUST_CHECK;

/* The function that a job's process runs; it exits at the end. */
typedef void parser_do_fn(const struct parser_job *job,
			  const int fds[PARSER_N_FDS], uint64_t memory);

/* Confine the process, do the job, and exit. */
_Noreturn void parser_do(const struct parser_job *job,
			 const int fds[PARSER_N_FDS], uint64_t memory);

/* Fork for each job, until bootseerd has closed the socket.  `memory`: bytes that the process
 * already uses. */
void parser_serve(parser_do_fn *fn, uint64_t memory);

#endif
