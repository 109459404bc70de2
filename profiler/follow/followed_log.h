// SPDX-License-Identifier: Apache-2.0
/*
 * A log that is followed over its rotations. Only its position survives a restart: which
 * file, how far, and what that file begins with.
 */
#ifndef BOOTSEER_PROFILER_FOLLOW_FOLLOWED_LOG_H
#define BOOTSEER_PROFILER_FOLLOW_FOLLOWED_LOG_H

#include <sys/types.h>
#include <zlib.h>

#include "common/hash.h"
#include "profiler/cri_lines.h"
#include "profiler/follow/allowance.h"
#include "profiler/pod_log.h"

#define LOG_HEAD_MAX \
	1024u /* bytes that tell a file from another in its place */

/* A place in one of a log's files. */
struct log_place {
	uint64_t dev, ino; /* 0: none yet */
	uint64_t
		offset; /* the first byte that was not read; unpacked, of .gz */
	uint32_t head_n, head_crc; /* CRC-32C of its first bytes */
	uint64_t salt; /* of this content; 0 for pods, whose lines have
	                            * times that tell them apart */
	char rotated[POD_ROTATED_LEN + 1]; /* all up to this name were read */
};

struct followed_log;
struct event_follower;

/* The functions in which kinds of logs differ. */
struct log_kind {
	const char *name;
	bool is_cri;            /* lines have the runtime's header */
	bool has_rotated_times; /* NAME.TIME, NAME.TIME.gz */
	/* Fill in whose the event is.  1: it is to be sent; 0: it is left out. */
	int (*own)(struct event_follower *f, struct followed_log *l,
		   struct stage_event *e, uint64_t place);
};

struct followed_log {
	UT_hash_handle hh;
	const struct log_kind *kind;
	char *folder; /* below the root of its kind */
	char *base;   /* the file that is written to: "0.log" */
	int root_fd; /* borrowed: beneath it the folder is, by no link; AT_FDCWD:
	               * it was named by the operator, who may use links */

	struct log_place at;
	struct log_place held; /* as long as pieces of a line of the file before
	                        * wait for their rest */
	bool has_held;

	int fd;          /* -1: closed, as nothing comes */
	gzFile gz;       /* the same, packed; owns its descriptor */
	bool is_rotated; /* nobody writes to it any more */
	char reading[POD_ROTATED_LEN + 1]; /* the name of it; "": not known */
	int64_t quiet_ns; /* since when there is nothing more; 0: there may be */
	struct cri_lines lines;

	struct pod_name pod;
	char container[POD_CONTAINER_MAX + 1];
	uint32_t restart;
	char job[STAGE_JOB_MAX + 1]; /* the last that its lines named */
	int64_t attempt, rank;
	int64_t begin_ns,
		stage_end_ns; /* of the container's first line, of the last
	                                 * stage that ended; STAGE_NONE */
	bool is_training;

	struct allowance_of_log share;
	int lane;                /* spool of the event that it says just now */
	bool is_told;            /* why it cannot be read */
	unsigned int seen;       /* the scan that saw it last; 0: none */
	unsigned int first_scan; /* that saw it first */

	size_t key_len;
	char key[]; /* "pod NAMESPACE_POD_UID/CONTAINER/0.log" */
};

void followed_log_free(struct followed_log *l); /* NULL is allowed */
DEFINE_AUTO(followed_log)

/* Read a chunk and hand over the lines that are whole.  Returns the bytes that were
 * read, 0: there is nothing more now, or -errno. */
ssize_t followed_log_read(struct event_follower *f, struct followed_log *l,
			  struct error *err) MUST_CHECK;

/* The beginning of an open file: how much of it, and its CRC-32C. */
uint32_t log_head(int fd, uint32_t *ret_crc);

/* The place that may be remembered: whoever begins there loses nothing. */
struct log_place followed_log_place(const struct followed_log *l);

#endif
