// SPDX-License-Identifier: Apache-2.0
/*
 * Kernel rights that bootseerd and its helpers keep: capabilities, and a filter of system
 * calls. docs/decisions/0014-confinement.md says why these.
 */
#ifndef BOOTSEER_NODE_CONFINE_H
#define BOOTSEER_NODE_CONFINE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

/*
 * Each confine function gives up, for good and before there are threads, the rights that the
 * calling process does not need, as far as kernel and privileges allow it.  0, or -errno with
 * the step that failed after all others were done.
 */

/* bootseerd: keeps only the capabilities that it needs, also for programs that it runs; system
 * calls to load code, look into other processes or change the machine fail with EPERM. */
int confine_node(struct error *err) MUST_CHECK;

/* The holder: gives up all capabilities, but the bootseerd that it runs gets those it needs. */
int confine_holder(struct error *err) MUST_CHECK;

/* The parser: becomes a user that owns nothing, without capabilities, and can only receive
 * jobs, fork, report its children and kill them. */
int confine_parser(struct error *err) MUST_CHECK;

/*
 * A process of the parser, for one job: it may only read, write and map its open files, and
 * allocate memory.  `memory` limits what it allocates from now on, `file` how long it may make
 * a file, both in bytes.
 */
int confine_job(uint64_t memory, uint64_t file, struct error *err) MUST_CHECK;

/* Bytes of private memory of this process, as RLIMIT_DATA counts them. */
uint64_t confine_data_bytes(void);

/*
 * The process that makes an index (offers/build.c): becomes a user that owns nothing, without
 * capabilities, and can run no program and open no connection.
 */
int confine_index(struct error *err) MUST_CHECK;
#define CONFINE_INDEX_ID \
	2063621868 /* chosen as CONFINE_PARSER_ID, but different from it */

/*
 * Uid and gid of the parser: used by no other process, since a process with the same uid could
 * stop the parser.  Above what systemd gives to containers (1879048191) and SSSD's id mapping
 * to domains (2000200000), below systemd's foreign ids (2147352576) and the sign bit; far from
 * subuids (600100000) and NIS.  Where it cannot be had it is 65534.
 */
#define CONFINE_PARSER_ID 2063621869

/* A process's rights, as /proc/PID/status has them. */
struct confined {
	uint32_t uid;
	uint64_t effective, bounding; /* capabilities, one bit each */
	unsigned int n_effective;
	bool no_new_privs;
	bool has_filter;
};

int confine_look(int pid, struct confined *ret, struct error *err) MUST_CHECK;

/* The capabilities that confine_node() keeps. */
uint64_t confine_node_capabilities(void);

#endif
