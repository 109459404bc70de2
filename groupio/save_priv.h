// SPDX-License-Identifier: Apache-2.0
/* Declarations that the files of a save share. */
#ifndef BOOTSEER_GROUPIO_SAVE_PRIV_H
#define BOOTSEER_GROUPIO_SAVE_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "ckpt-fuse/ckpt.h"
#include "common/pace.h"
#include "common/thread.h"
#include "groupio/identity.h"
#include "groupio/read_session.h"
#include "groupio/save.h"
#include "groupio/save_bundle.h"
#include "groupio/save_known.h"
#include "groupio/save_plan.h"
#include "net/http.h"
#include "net/httpd.h"
#include "net/loop.h"
#include "net/pool.h"

#define SAVE_JOB_LEN 32u
#define SAVE_ID_MAX 48u /* bytes of a job's name, '-', and a number */
#define SAVE_PLAN_LEN (2 * DIGEST_SIZE)
#define SAVE_CLIENTS_MAX 128u /* 64, plus those of reads and blocks */
#define SAVE_REPORTS 16u      /* reports that wait to be taken */
/* xattr of a file: ID of the save that made it */
#define SAVE_XATTR "user.bootseer.save"

enum save_state {
	SAVE_BEGUN,  /* ranks of this node are arriving */
	SAVE_TABLED, /* all ranks of this node are here, with digests */
	/* the tables of all nodes are here, and the plan is made */
	SAVE_PLANNED,
	SAVE_STAGED, /* all units that this node keeps are in its memory */
	/* Every node has staged its units: each byte is on two nodes. */
	SAVE_BUFFERED,
	SAVE_DURABLE,
	SAVE_FAILED, /* save.err says why */
};

/* The tensors that a rank handed in. */
struct save_rank {
	unsigned int rank;
	void *map; /* mapped sealed memfd; NULL: the rank has no bytes */
	size_t size;
	uid_t uid;
	gid_t gid;
	/* its tensors, until those of all ranks are joined */
	struct save_table table;
	uint64_t n_chunks; /* of its tensors */
};

/* The part of a save's manifest with the units of one node, as this node writes it. */
enum save_part_state { PART_NONE, PART_BUSY, PART_READY, PART_FAILED };
struct save_part {
	enum save_part_state state;
	struct buf text; /* text of the part, once PART_READY */
};

/* The terms of a save, on which all its ranks must agree. */
struct save_terms {
	char id[SAVE_ID_MAX]; /* made of job and number */
	char job[SAVE_JOB_LEN + 1];
	uint32_t number; /* each rank saves in ascending order of these */
	char *path;
	size_t n_nodes, n_ranks, self;
	char (*members)[64]; /* address of each node */
	uint8_t *node_of;    /* node of each rank */
	/* limits of the time to stage and to store */
	int64_t stage_ns, store_ns;
};
void save_terms_fini(struct save_terms *t);
/* Split an ID into job and number. */
bool save_id_parse(const char *id, char job[SAVE_JOB_LEN + 1],
		   uint32_t *number);

/* Messages that other nodes have sent on their own. */
struct save_told {
	uint64_t tables, staged, parts, failures; /* one bit for each node */
	/* Empty, with the node's bit set: the text is too large and must be fetched. */
	struct buf table[SAVE_NODES_MAX], part[SAVE_NODES_MAX];
	struct error why; /* reason of the last failure */
};

/* State of the look at the file's path, which only the first node makes, for all. */
enum save_look { LOOK_NONE, LOOK_DONE, LOOK_FAILED };

struct save {
	struct saves *all;
	TAILQ_ENTRY(save) of_all;
	struct thread thread;
	struct save_terms terms;
	/* Below: protected by saves.lock, except members that are set once before a state
	 * change and read after it. */
	/* references by clients, and by answers with its bytes */
	unsigned int refs;
	enum save_state state;
	bool is_over;    /* its thread has ended */
	bool is_dropped; /* its bytes were freed */
	struct error err;
	int64_t ended_ns, until_ns;
	struct save_report report; /* as far as the save has come */
	/* Which was last to come: rank of this node, node with its table, node with its
	 * message that all its units are in memory. */
	size_t last_rank, last_table, last_staged;
	struct save_rank *ranks;
	size_t n_here, n_local;
	struct save_table *tables; /* by node */
	struct buf text;           /* this node's table, encoded */
	enum save_look look;
	/* what is at the path; on other nodes set together with the plan */
	struct save_seen seen;
	struct save_told told;
	struct buf bundle; /* message with all tables; on the first node */
	struct save_plan *plan;
	/* Id of the plan in hex digits, by which nodes refer to it. */
	char plan_id[SAVE_PLAN_LEN + 1];
	/* chunks received from other nodes, by number in the plan */
	char **pulled;
	uint64_t *order; /* units that this node keeps: save_plan_order() */
	size_t n_order;
	uint8_t *is_kept; /* flags of units that are completely in memory */
	uint64_t memory;  /* bytes of it counted in saves.used */
	struct save_part parts[SAVE_NODES_MAX];
	atomic_bool gone[SAVE_NODES_MAX], was_seen[SAVE_NODES_MAX];
	/* 0: not refused */
	atomic_int_fast64_t first_refused_ns[SAVE_NODES_MAX];
	bool is_single; /* a node died: some bytes have one copy */
	/* it must fail before it is planned; `err` says why */
	bool is_doomed;
	bool were_all_staged; /* all living nodes have staged their units */
	bool is_given_up;     /* its bytes will never be written */
	/* mask of other nodes whose units this node was asked to write */
	uint64_t asked_parts;
};

enum client_step { CLIENT_READS, CLIENT_JOINS, CLIENT_WAITS };

struct save_client {
	struct saves *all;
	struct thread thread;
	int fd;
	/* With saves.lock. */
	bool is_used, is_over;
	enum client_step step;
	uint64_t number; /* sequence number of connections */
	pid_t pid;       /* process of the rank */
	/* Set from CLIENT_JOINS on: */
	char job[SAVE_JOB_LEN + 1];
	unsigned int rank;
	struct save *save; /* the save that it waits for */
	bool has_left;     /* the rank has ended or closed the connection */
};

/* A waiting request of another node. */
struct save_parked {
	TAILQ_ENTRY(save_parked) of_all;
	struct httpd_request *request;
	int64_t until_ns;
};

struct saves {
	struct saves_config cfg;
	char *socket, *mount;
	/* device and inode of the socket: by now another socket may have its name */
	dev_t socket_dev;
	ino_t socket_ino;
	int listen_fd, end_fd;
	int wake_fd; /* event: there is another client to watch */
	struct thread accepting;
	struct save_client clients[SAVE_CLIENTS_MAX];
	struct rank_readers readers;
	uint64_t n_clients; /* connections ever accepted */
	/* Server for other nodes, started when the first rank connects; most of it belongs
	 * to its loop. */
	pthread_mutex_t peers_lock; /* so that it starts only once */
	atomic_bool is_serving;
	char addr[64];
	struct identity_files identity;
	char *client_cas[2]; /* that of `identity`, as httpd_tls.h has it */
	struct loop *loop;
	struct httpd_tls *tls;
	struct httpd *httpd;
	struct http *http;
	struct pool *pool; /* writes units of dead nodes */
	struct thread serving;
	struct loop_timer tick;
	struct loop_call kick, stop, stopped;
	atomic_bool is_kicked;
	TAILQ_HEAD(, save_parked) parked; /* used on the loop only */
	atomic_bool is_ending;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_cond_t
		told; /* wakes ranks' connections: a save is buffered or over */
	TAILQ_HEAD(, save) list;
	uint64_t used; /* bytes of cfg.memory */
	/* has its own lock; NULL: every unit is stored */
	struct known_units *known;
	struct saves_stats stats;
	/* ring of reports of finished saves */
	struct save_report reports[SAVE_REPORTS];
	/* total reports made, and taken */
	uint64_t n_reports, n_taken;
};

/* ---- save.c */
/* Create (then *ret_is_new) or join the save with these terms. On success takes `t` and `r`,
 * and returns the save with a reference, which save_put() releases. */
int saves_join(struct saves *s, struct save_terms *t, struct save_rank *r,
	       struct save **ret, bool *ret_is_new,
	       struct error *err) MUST_CHECK;
/* Is an earlier save of the same path running? With the lock. */
bool save_has_earlier(const struct save *v);
/* Look which file is at the path now. */
int saves_look(const struct saves *s, const char *path, struct save_seen *ret,
	       struct error *err) MUST_CHECK;
/* May this user replace the file that was seen? Same rules as on the mount. */
int save_check_owner(const struct save *v, const struct save_seen *seen,
		     uid_t uid, struct error *err) MUST_CHECK;
/* Get the ID of the save that made the file at the path; "": no save did. */
int saves_look_id(const struct saves *s, const char *path,
		  char ret[SAVE_ID_MAX], struct error *err) MUST_CHECK;
/* releases a reference; without the lock */
void save_put(struct save *v);
/* releases a reference; with the lock */
void save_unref(struct save *v);
struct save *saves_find(struct saves *s, const char *id); /* with the lock */
/* Is a later save of the job here, so that this one will never come? With the lock. */
bool saves_have_later(const struct saves *s, const char *job, uint32_t number);
void save_set_state(struct save *v, enum save_state state);
void save_fail(struct save *v, const struct error *why);
/* Note that a phase of the save has ended. */
void save_end_phase(struct save *v, enum save_phase phase);
/* Count the result of a finished save, and add its report. With the lock. */
void save_report(struct save *v);
/* Store a received chunk at *place, once memory for it is granted; takes *chunk, unless
 * another thread has stored the same chunk first, as two units may share it. //   -ENOBUFS  no
 * memory was granted in time, or ever can be */
int save_keep_chunk(struct save *v, char **place, char **chunk, uint32_t len,
		    struct error *err) MUST_CHECK;
/* Wait until a rank's save may take the rank's bytes, before the rank joins; *has_left (with
 * the lock) ends the wait. //   -ENOBUFS    as in save_keep_chunk() //   -ECANCELED  a rank has
 * skipped this save, or this rank has left */
int saves_take_rank(struct saves *s, const struct save_terms *t,
		    const struct save_rank *r, const bool *has_left,
		    int64_t until_ns, struct error *err) MUST_CHECK;
/* Have the save fail before its plan is made. With the lock. */
void save_doom(struct save *v, const struct error *why);
void saves_give(struct saves *s, uint64_t bytes);
void rank_fini(struct save_rank *r);

/* ---- save_run.c: thread of a save */
void *save_main(void *arg);

/* ---- save_stage.c: moves bytes into memory, and from memory to the store */
int stage_units(struct save *v, struct error *err) MUST_CHECK;
/* Bytes of a chunk on this node, valid while the save is referenced; NULL: not here. With
 * saves.lock. */
const char *chunk_here(const struct save *v, const struct save_entry *e,
		       uint32_t chunk);
/* Write the units of node `of`, which this node keeps, and make their part. */
int part_write(struct save *v, size_t of, struct error *err) MUST_CHECK;

/* ---- save_lead.c: the first living node gathers what all nodes have, and answers them */
/* Get the tables of all nodes, and what the first node saw at the path. */
int lead_tables(struct save *v, struct error *err) MUST_CHECK;
/* Wait until all living nodes have their units in memory. */
int lead_staged(struct save *v, struct error *err) MUST_CHECK;
/* Gather in v->told.part what the other living nodes have written. */
int lead_parts(struct save *v, struct error *err) MUST_CHECK;
/* May the save go on without a node that failed with `rc`? After `buffered` it may (1):
 * other nodes have copies of the units that it was to write. */
int lead_excuse(struct save *v, size_t node, int rc, const struct error *why);
/* Tell the leader that the save has failed here. */
void lead_tell_failure(struct save *v);

/* ---- save_ranks.c */
int ranks_begin(struct saves *s, struct error *err) MUST_CHECK;
void ranks_end(struct saves *s);

#endif
