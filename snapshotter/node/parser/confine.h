// SPDX-License-Identifier: Apache-2.0
/*
 * Rights that bootseerd and its helpers keep at the kernel: capabilities, and a
 * filter of system calls. docs/decisions/0014-confinement.md says why these.
 */
#ifndef BOOTSEER_NODE_CONFINE_H
#define BOOTSEER_NODE_CONFINE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

/*
 * Give up, for good and before there are threads, what the calling process needs
 * not.  Each goes as far as the kernel and the rights of its caller let it; 0, or
 * -errno with what could not be given up, when the rest was.
 */

/* bootseerd: capabilities other than those that it needs, and more through a
 * program that it runs; system calls that are for loading code, looking into
 * other processes and changing the machine fail with EPERM. */
int confine_node(struct error *err) MUST_CHECK;

/* The holder: all capabilities, but the bootseerd that it runs has its own. */
int confine_holder(struct error *err) MUST_CHECK;

/* The parser: it becomes a user that owns nothing, without capabilities, and can
 * only receive jobs, fork, name its children and kill them. */
int confine_parser(struct error *err) MUST_CHECK;

/*
 * A process of the parser, for one job: it reads, writes and maps what it has
 * open, and asks for memory, nothing else.  `memory` is what it may allocate from
 * now on, `file` how long a file may become by it, both in bytes.
 */
int confine_job(uint64_t memory, uint64_t file, struct error *err) MUST_CHECK;

/* Private memory that this process has, in bytes, which RLIMIT_DATA counts too. */
uint64_t confine_data_bytes(void);

/*
 * The process that makes an index (offers/build.c): a user that owns nothing, without
 * capabilities, that can begin no program and no connection.
 */
int confine_index(struct error *err) MUST_CHECK;
#define CONFINE_INDEX_ID \
	2063621868 /* as CONFINE_PARSER_ID, and not the parser's */

/*
 * Uid and gid of the parser: of nobody else, since whoever has a process's uid may
 * stop it.  Above what systemd gives to containers (1879048191) and SSSD's id mapping
 * to domains (2000200000), below systemd's foreign ids (2147352576) and the sign bit;
 * far from subuids (600100000) and NIS.  Where it cannot be had it is 65534.
 */
#define CONFINE_PARSER_ID 2063621869

/* As /proc/PID/status has it. */
struct confined {
	uint32_t uid;
	uint64_t effective, bounding; /* capabilities, one bit each */
	unsigned int n_effective;
	bool no_new_privs;
	bool has_filter;
};

int confine_look(int pid, struct confined *ret, struct error *err) MUST_CHECK;

/* The capabilities of confine_node(). */
uint64_t confine_node_capabilities(void);

#endif
