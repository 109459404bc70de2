// SPDX-License-Identifier: Apache-2.0
/* A save, as the files that it is done by share it. */
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
#define SAVE_ID_MAX 48u /* bytes: a job, '-', and a number */
#define SAVE_PLAN_LEN (2 * DIGEST_SIZE)
#define SAVE_CLIENTS_MAX 128u           /* 64 beside reads and blocks */
#define SAVE_REPORTS 16u                /* that wait to be taken */
#define SAVE_XATTR "user.bootseer.save" /* a file's: the save that made it */

enum save_state {
	SAVE_BEGUN,   /* ranks of this node come */
	SAVE_TABLED,  /* all are here, and their digests are known */
	SAVE_PLANNED, /* other nodes' tables are, too */
	SAVE_STAGED,  /* all that this node is to keep is in its memory */
	/* Every node has staged what it is to keep: each byte is on two. */
	SAVE_BUFFERED,
	SAVE_DURABLE,
	SAVE_FAILED, /* save.err says why */
};

/* The tensors that a rank handed in. */
struct save_rank {
	unsigned int rank;
	void *map; /* of a sealed memfd; NULL: it has no bytes */
	size_t size;
	uid_t uid;
	gid_t gid;
	struct save_table table; /* until all are here */
	uint64_t n_chunks;       /* of its tensors */
};

/* Units that one node is to write, as written by this one. */
enum save_part_state { PART_NONE, PART_BUSY, PART_READY, PART_FAILED };
struct save_part {
	enum save_part_state state;
	struct buf text; /* of the part; once it is PART_READY */
};

/* The terms of a save, which its ranks have to state alike. */
struct save_terms {
	char id[SAVE_ID_MAX]; /* of the next two */
	char job[SAVE_JOB_LEN + 1];
	uint32_t number; /* each rank saves in the order of these */
	char *path;
	size_t n_nodes, n_ranks, self;
	char (*members)[64];        /* addresses, by node */
	uint8_t *node_of;           /* rank */
	int64_t stage_ns, store_ns; /* how long each may take */
};
void save_terms_fini(struct save_terms *t);
/* The job and the number that an ID names. */
bool save_id_parse(const char *id, char job[SAVE_JOB_LEN + 1],
		   uint32_t *number);

/* Messages that other nodes have sent unasked. */
struct save_told {
	uint64_t tables, staged, parts, failures; /* a bit each node */
	/* With its bit, an empty one is to be fetched. */
	struct buf table[SAVE_NODES_MAX], part[SAVE_NODES_MAX];
	struct error why; /* of the last failure */
};

/* The first node alone looks at the path, for all. */
enum save_look { LOOK_NONE, LOOK_DONE, LOOK_FAILED };

struct save {
	struct saves *all;
	TAILQ_ENTRY(save) of_all;
	struct thread thread;
	struct save_terms terms;
	/* All below with saves.lock, but what is set once and read by those who saw the state
	 * after it. */
	unsigned int refs; /* answers that have bytes of it, and clients */
	enum save_state state;
	bool is_over;    /* its thread has ended */
	bool is_dropped; /* its bytes are not here any more */
	struct error err;
	int64_t ended_ns, until_ns;
	struct save_report report; /* as far as the save has come */
	/* That came last: a rank of this node, the table of a node, and its word that it has all
	 * its units. */
	size_t last_rank, last_table, last_staged;
	struct save_rank *ranks;
	size_t n_here, n_local;
	struct save_table *tables; /* by node */
	struct buf text;           /* this node's table, as it is sent */
	enum save_look look;
	struct save_seen seen; /* on other nodes once the plan is made */
	struct save_told told;
	struct buf bundle; /* of all tables, on the first node */
	struct save_plan *plan;
	/* Hex digits; nodes name it to one another. */
	char plan_id[SAVE_PLAN_LEN + 1];
	char **pulled; /* chunks of other nodes, by their number in the plan */
	uint64_t *order; /* units that this node keeps: save_plan_order() */
	size_t n_order;
	uint8_t *is_kept; /* units that are whole in memory */
	uint64_t memory;  /* bytes of saves.used */
	struct save_part parts[SAVE_NODES_MAX];
	atomic_bool gone[SAVE_NODES_MAX], was_seen[SAVE_NODES_MAX];
	atomic_int_fast64_t first_refused_ns[SAVE_NODES_MAX]; /* or 0 */
	bool is_single;       /* a node died: some bytes have one copy */
	bool is_doomed;       /* before it is planned; `err` has why */
	bool were_all_staged; /* all nodes that are not gone have said so */
	bool is_given_up;     /* its bytes will not be written */
	uint64_t asked_parts; /* of other nodes' units, to be written here */
};

enum client_step { CLIENT_READS, CLIENT_JOINS, CLIENT_WAITS };

struct save_client {
	struct saves *all;
	struct thread thread;
	int fd;
	/* With saves.lock. */
	bool is_used, is_over;
	enum client_step step;
	uint64_t number; /* in the order in which they came */
	pid_t pid;       /* whose it is */
	/* From CLIENT_JOINS on. */
	char job[SAVE_JOB_LEN + 1];
	unsigned int rank;
	struct save *save; /* that it waits for */
	bool has_left;     /* its rank has ended, or closed the connection */
};

/* A request of another node that waits for something. */
struct save_parked {
	TAILQ_ENTRY(save_parked) of_all;
	struct httpd_request *request;
	int64_t until_ns;
};

struct saves {
	struct saves_config cfg;
	char *socket, *mount;
	dev_t socket_dev; /* and its inode: another may stand there by now */
	ino_t socket_ino;
	int listen_fd, end_fd;
	int wake_fd; /* another client is to be watched */
	struct thread accepting;
	struct save_client clients[SAVE_CLIENTS_MAX];
	struct rank_readers readers;
	uint64_t n_clients; /* that ever came */
	/* Other nodes ask here: peers' loop, once a rank has come. */
	pthread_mutex_t peers_lock; /* that it begins once */
	atomic_bool is_serving;
	char addr[64];
	struct identity_files identity;
	char *client_cas[2]; /* that of `identity`, as httpd_tls.h has it */
	struct loop *loop;
	struct httpd_tls *tls;
	struct httpd *httpd;
	struct http *http;
	struct pool *pool; /* writes units of nodes that are gone */
	struct thread serving;
	struct loop_timer tick;
	struct loop_call kick, stop, stopped;
	atomic_bool is_kicked;
	TAILQ_HEAD(, save_parked) parked; /* the loop's */
	atomic_bool is_ending;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_cond_t
		told; /* ranks' connections: a save is buffered, or over */
	TAILQ_HEAD(, save) list;
	uint64_t used;             /* bytes of cfg.memory */
	struct known_units *known; /* its own lock; NULL: all is stored */
	struct saves_stats stats;
	struct save_report reports[SAVE_REPORTS]; /* of saves that are over */
	uint64_t n_reports, n_taken;              /* ever */
};

/* ---- save.c */
/* A save of these terms, new (then *ret_is_new) or joined: takes `t` and `r` where it succeeds,
 * with a reference to the save, until save_put(). */
int saves_join(struct saves *s, struct save_terms *t, struct save_rank *r,
	       struct save **ret, bool *ret_is_new,
	       struct error *err) MUST_CHECK;
/* Is an earlier save of the path under way?  With the lock. */
bool save_has_earlier(const struct save *v);
/* Look at the path: the file that is there now. */
int saves_look(const struct saves *s, const char *path, struct save_seen *ret,
	       struct error *err) MUST_CHECK;
/* May this user replace what was seen there?  As on the mount. */
int save_check_owner(const struct save *v, const struct save_seen *seen,
		     uid_t uid, struct error *err) MUST_CHECK;
/* The ID of the save that made what is there; "": none has. */
int saves_look_id(const struct saves *s, const char *path,
		  char ret[SAVE_ID_MAX], struct error *err) MUST_CHECK;
void save_put(struct save *v);                            /* without the lock */
void save_unref(struct save *v);                          /* with it */
struct save *saves_find(struct saves *s, const char *id); /* with it */
/* With the lock: is a later save of the job here, so that this one will not come? */
bool saves_have_later(const struct saves *s, const char *job, uint32_t number);
void save_set_state(struct save *v, enum save_state state);
void save_fail(struct save *v, const struct error *why);
/* A phase of the save has ended. */
void save_end_phase(struct save *v, enum save_phase phase);
/* With the lock: the save is over; what became of it is counted, and may be taken. */
void save_report(struct save *v);
/* Keep a chunk of another node at *place, once the save may have so many bytes more: takes *chunk,
 * unless another thread has kept it there meanwhile, as two units may share a chunk.
 *   -ENOBUFS  there was no memory in time, or never can be */
int save_keep_chunk(struct save *v, char **place, char **chunk, uint32_t len,
		    struct error *err) MUST_CHECK;
/* Wait until a rank's save may have its bytes, before the rank joins; *has_left (with the lock):
 * nobody waits for that any more.
 *   -ENOBUFS    as above
 *   -ECANCELED  a rank has left the save out, or this one has */
int saves_take_rank(struct saves *s, const struct save_terms *t,
		    const struct save_rank *r, const bool *has_left,
		    int64_t until_ns, struct error *err) MUST_CHECK;
/* With the lock: before its plan is made, the save fails. */
void save_doom(struct save *v, const struct error *why);
void saves_give(struct saves *s, uint64_t bytes);
void rank_fini(struct save_rank *r);

/* ---- save_run.c: the thread of a save */
void *save_main(void *arg);

/* ---- save_stage.c: bytes in memory, and from it to the store */
int stage_units(struct save *v, struct error *err) MUST_CHECK;
/* Bytes of a chunk that are here, as long as the save is held; NULL: they are not.  With
 * saves.lock. */
const char *chunk_here(const struct save *v, const struct save_entry *e,
		       uint32_t chunk);
/* Write the units of a node, which this one keeps, and have their part. */
int part_write(struct save *v, size_t of, struct error *err) MUST_CHECK;

/* ---- save_lead.c: the first node that is there gathers what all have, and answers them */
/* The tables of all nodes, and what the first one saw at the path. */
int lead_tables(struct save *v, struct error *err) MUST_CHECK;
/* Until all nodes have their units in memory, but for those that are gone. */
int lead_staged(struct save *v, struct error *err) MUST_CHECK;
/* To v->told.part what the others that are there have written. */
int lead_parts(struct save *v, struct error *err) MUST_CHECK;
/* After `buffered` a node that fails, or lies, is as good as one that died: others have copies of
 * what it was to write.  1: the save goes on without it. */
int lead_excuse(struct save *v, size_t node, int rc, const struct error *why);
/* The save has failed here: who leads is told. */
void lead_tell_failure(struct save *v);

/* ---- save_ranks.c */
int ranks_begin(struct saves *s, struct error *err) MUST_CHECK;
void ranks_end(struct saves *s);

#endif
