// SPDX-License-Identifier: Apache-2.0
/* Internal functions that the files of bootseer-events share. */
#ifndef BOOTSEER_PROFILER_FOLLOW_FOLLOWER_H
#define BOOTSEER_PROFILER_FOLLOW_FOLLOWER_H

#include "profiler/follow/deliver.h"
#include "profiler/follow/followed_log.h"
#include "profiler/follow/train_line.h"

#define LOGS_MAX 4096u
#define POD_LOGS_ALL_MAX (LOGS_MAX - 256u) /* followed logs of all pods */
#define READ_CHUNK (256u << 10)

struct follow_config {
	char *config;
	char *service, *token_file, *ca_file, *node, *state, *pods, *events;
	char *job, *attempt, *train_pattern, *log_level;
	char *pod_status, *pod_status_token_file, *pod_status_ca_file;
	uint64_t spool_max, read_rate, pod_events, node_events;
	int64_t max_age;
	bool once;
};

struct follow_stats {
	uint64_t lines, bytes, events, junk, foreign, no_job, no_time, limited,
		links, lost_files, stdin_lost;
};

struct event_follower {
	const struct follow_config *cfg;
	const char *node;
	struct event_spool *spools[SPOOLS];
	struct deliverer *deliverer;
	/* pattern of a first training step; NULL: none */
	struct train_line *train;
	struct followed_log *logs;
	int pods_fd, events_fd;     /* -1: the folder does not exist (yet) */
	int64_t own_attempt;        /* --attempt; STAGE_NONE */
	char *chunk;                /* buffer of READ_CHUNK bytes */
	struct buf plain;           /* current line without colours */
	struct buf pending[SPOOLS]; /* lines that are not in a spool yet */
	struct allowance allowance;
	/* it was logged that too many files without a pod exist */
	bool is_others_told;
	bool is_dirty;     /* places changed since they were saved */
	bool wants_commit; /* save places before the next line is read */
	/* a log went on to another file, which was not read yet */
	bool has_moved;
	bool is_full;  /* the spool is full */
	bool is_first; /* no places were saved before: skip old lines */
	unsigned int scan;
	struct follow_stats stats;
};

/* follow_event.c: the lines of a log */
int follow_line(struct event_follower *f, struct followed_log *l,
		const char *line, size_t len, uint64_t offset) MUST_CHECK;
int follow_add(struct event_follower *f, int lane,
	       const struct stage_event *e) MUST_CHECK;
extern const struct log_kind log_kind_pod, log_kind_own, log_kind_file;

/* follow_scan.c: which logs there are */
void follow_scan(struct event_follower *f, char **files);
/* Find or add a log. NULL: memory is short or there are too many logs; logged. */
struct followed_log *follow_find(struct event_follower *f,
				 const struct log_kind *kind,
				 const char *folder, const char *base);

/* follow_stdin.c: standard input */
struct follow_stdin;
int follow_stdin_new(struct event_follower *f, struct follow_stdin **ret,
		     struct error *err) MUST_CHECK;
void follow_stdin_free(struct follow_stdin *s); /* NULL is allowed */
/* Read the available input. 1: more may come; 0: end of the input. */
int follow_stdin_read(struct follow_stdin *s, struct error *err) MUST_CHECK;

/* follow_places.c: positions that survive a restart */
int follow_load(struct event_follower *f, struct error *err) MUST_CHECK;
int follow_save(struct event_follower *f, struct error *err) MUST_CHECK;

#endif
