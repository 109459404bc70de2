// SPDX-License-Identifier: Apache-2.0
/*
 * A log that is followed across its rotations. Only its position survives a restart: which file,
 * how far, and that file's first bytes.
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
	1024u /* first bytes of a file, by which it is recognised */

/* A place in one of a log's files. */
struct log_place {
	uint64_t dev, ino; /* device and inode of the file; 0: none yet */
	/* first byte that was not read; in a .gz file, of the unpacked text */
	uint64_t offset;
	/* length and CRC-32C of the file's first bytes */
	uint32_t head_n, head_crc;
	/* random number of this content, for event ids; 0 for pods, whose lines differ by their
	 * times */
	uint64_t salt;
	/* name of the last rotated file that was read completely */
	char rotated[POD_ROTATED_LEN + 1];
};

struct followed_log;
struct event_follower;

/* The functions in which kinds of logs differ. */
struct log_kind {
	const char *name;
	/* lines begin with the container runtime's header */
	bool is_cri;
	/* rotated files are NAME.TIME or NAME.TIME.gz */
	bool has_rotated_times;
	/* Fill in the event's owner. 1: send it; 0: leave it out. */
	int (*own)(struct event_follower *f, struct followed_log *l,
		   struct stage_event *e, uint64_t place);
};

struct followed_log {
	UT_hash_handle hh;
	const struct log_kind *kind;
	char *folder; /* path below the root folder of its kind */
	char *base;   /* name of the current file: "0.log" */
	/* borrowed: folder that `folder` is below, without links; AT_FDCWD: the operator named the
	 * file, and may use links */
	int root_fd;

	struct log_place at;
	/* place where a line in pieces began in an earlier file, while its rest is missing */
	struct log_place held;
	bool has_held;

	int fd;    /* -1: closed, because no lines come */
	gzFile gz; /* set for a compressed file; owns `fd` */
	/* the open file was rotated: no lines are added to it */
	bool is_rotated;
	/* time in the open file's name; "": not known */
	char reading[POD_ROTATED_LEN + 1];
	/* since when no more lines came; 0: there may be more */
	int64_t quiet_ns;
	struct cri_lines lines;

	struct pod_name pod;
	char container[POD_CONTAINER_MAX + 1];
	uint32_t restart;
	char job[STAGE_JOB_MAX + 1]; /* the last job that its lines named */
	int64_t attempt, rank;
	int64_t begin_ns,
		/* time of the container's first line; end of its last stage; STAGE_NONE: unknown */
		stage_end_ns;
	bool is_training;

	struct allowance_of_log share;
	int lane; /* spool for the current event */
	/* the reason why the log cannot be read was logged */
	bool is_told;
	/* number of the last scan that found it; 0: none */
	unsigned int seen;
	unsigned int first_scan; /* number of the first scan that found it */

	size_t key_len;
	char key[]; /* "pod NAMESPACE_POD_UID/CONTAINER/0.log" */
};

void followed_log_free(struct followed_log *l); /* NULL is allowed */
DEFINE_AUTO(followed_log)

/* Read a chunk and pass on its whole lines. Returns the number of bytes read; 0: nothing more at
 * present; or -errno. */
ssize_t followed_log_read(struct event_follower *f, struct followed_log *l,
			  struct error *err) MUST_CHECK;

/* Compute the CRC-32C of an open file's first bytes; returns how many bytes. */
uint32_t log_head(int fd, uint32_t *ret_crc);

/* The place to save: reading from there after a restart loses nothing. */
struct log_place followed_log_place(const struct followed_log *l);

#endif
