// SPDX-License-Identifier: Apache-2.0
/*
 * Between bootseerd and the parser.  A job is one message on a SOCK_SEQPACKET, with
 * its descriptors.  The parser forks and says on the last of them which process has
 * the job; that process touches nothing before bootseerd has heard of it and says so.
 */
#ifndef BOOTSEER_NODE_PARSER_PRIV_H
#define BOOTSEER_NODE_PARSER_PRIV_H

#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"
#include "image/artifact/artifact.h"
#include "snapshotter/node/parser/parser.h"

#define PARSER_FD 3 /* of its side of the socket */

/* Descriptors that come with each job. */
enum parser_fd {
	PARSER_FD_FIRST,  /* the file to fill, or to check */
	PARSER_FD_SECOND, /* UNPACK: packed bytes; else the first again */
	PARSER_FD_REPLY,  /* the job's, of a pipe */
	PARSER_FD_BEGIN,  /* SOCK_SEQPACKET: struct parser_begun, then a byte */
	PARSER_N_FDS,
};

enum parser_kind {
	PARSER_UNPACK,     /* from the second into the first descriptor */
	PARSER_CHECK_META, /* the first one; the second is the same */
	PARSER_CHECK_MAP,
};

struct parser_job {
	uint32_t kind;
	uint64_t size; /* of the file; UNPACK: that it gets at most */
};

/* The parser's answer about a job: its process when `rc` is 0. The job answers
 * nothing here: a process that a stranger's bytes took over names nobody. */
struct parser_begun {
	int32_t rc;
	int32_t pid;
};

/* The reply that a job writes before it ends; nothing when it does not come
 * that far. */
struct parser_reply {
	int rc;
	struct error err;
};

/* In milliseconds. */
struct parser_bounds {
	int begin; /* until the parser has forked */
	int stall; /* a job that neither uses the processor nor ends */
	int whole; /* from the last byte that a job gets until its end */
};

extern const struct parser_bounds parser_bounds;

struct parser {
	struct artifact_parser of_artifacts;
	struct parser_bounds bounds;
	char *program;
	pthread_mutex_t lock; /* protects the rest */
	uint64_t generation;  /* how often it was run */
	int sock;
	int pidfd;
	pid_t pid; /* 0: none runs */
};

/* parser_open() with other bounds. */
int parser_open_bounded(const char *program, const struct parser_bounds *bounds,
			struct parser **ret, struct error *err) MUST_CHECK;

/* The work of a parser's process on a job; the process ends there. */
typedef void parser_do_fn(const struct parser_job *job,
			  const int fds[PARSER_N_FDS], uint64_t memory);

/* Do the job, confined, and end. */
_Noreturn void parser_do(const struct parser_job *job,
			 const int fds[PARSER_N_FDS], uint64_t memory);

/* Fork for each job that comes, until nobody is left to ask for any.  `memory` is
 * what the process has already. */
void parser_serve(parser_do_fn *fn, uint64_t memory);

#endif
