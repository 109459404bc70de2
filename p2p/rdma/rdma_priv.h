// SPDX-License-Identifier: Apache-2.0
/* Structures shared by the files of rdma; rdma.h is the interface. */
#ifndef BOOTSEER_P2P_RDMA_RDMA_PRIV_H
#define BOOTSEER_P2P_RDMA_RDMA_PRIV_H

#include "p2p/rdma/rdma_device.h"

#define RDMA_HANDSHAKES_MAX 8u
#define RDMA_BANS_MAX 256u
#define RDMA_QUEUE 64u /* pieces of a link, served or read */
#define RDMA_PIECE_MAX (4u << 20)

enum rdma_state {
	RDMA_NONE,     /* no queue pair */
	RDMA_OFFERED,  /* this end is in INIT, an offer was sent */
	RDMA_ACCEPTED, /* this end may serve, the peer maybe not yet */
	RDMA_UP,
};

/* A piece that this node serves. */
struct rdma_served {
	bool used;
	uint32_t id;
	uint32_t len;
	uint64_t tag;
	uint64_t bits; /* its parts of the lane's memory; 0: taken back */
	int64_t since;
};

/* A piece that this node reads or waits to read. */
struct rdma_pull {
	bool used;
	struct rdma_grant grant;
	/* Its parts of the lane's memory; 0: it waits for memory. */
	uint64_t bits;
	int64_t since;
};

struct rdma_link {
	struct rdma *r;
	struct rdma_link *next;
	void *user;
	char *peer;
	bool is_first; /* this node's name is the lower one */
	bool is_dead;  /* freed by its user */

	enum rdma_state state;
	uint32_t epochs; /* attempts that this node made */
	uint32_t epoch;  /* number of the present attempt, by either end */
	uint32_t serial; /* number of the queue pair, in completions */
	uint32_t psn;
	struct rdma_lane *lane; /* NULL if RDMA_NONE, like `qp` */
	struct ibv_qp *qp;
	uint64_t moved;
	int64_t retry_at;
	int64_t deadline; /* end of the handshake's time */
	int64_t used;     /* when the queue pair was last used */

	struct rdma_served served[RDMA_QUEUE];
	unsigned int n_served;
	uint32_t next_id;

	struct rdma_pull pulls[RDMA_QUEUE];
	unsigned int n_pulls;
	uint8_t waits[RDMA_QUEUE]; /* a ring of pulls without memory */
	unsigned int first_wait, n_waits;
	unsigned int sends; /* work requests that may still be posted */
	int64_t progress;   /* when a READ last completed, or the first began */
};

/* A peer with which RDMA is not tried for a time. */
struct rdma_ban {
	char *peer;
	int64_t until, length;
};

struct rdma {
	struct rdma_config cfg;
	char *node;
	struct verbs *library; /* NULL: the config's table */
	struct rdma_device dev;
	struct loop_watch completions, faults;
	struct loop_timer timer;
	struct loop_timer again; /* more completions than one turn takes */
	int64_t timer_at;        /* when the timer fires; 0: not running */
	bool is_broken;          /* the device is gone for good */
	unsigned int busy;       /* nested calls that may call events */
	uint32_t serials;
	struct rdma_link *links;
	struct rdma_link *by_lane[RDMA_LINKS_MAX];
	struct rdma_ban bans[RDMA_BANS_MAX];
	uint64_t random;
	struct rdma_stats stats;
};

/* ---- rdma_base.c ---- */

/* Call around code that calls events: links freed in between are released at the last leave. */
void rdma_enter(struct rdma *r);
void rdma_leave(struct rdma *r);
uint64_t rdma_random(struct rdma *r);
/* A random time from `ns` to twice that. */
int64_t rdma_jitter(struct rdma *r, int64_t ns);
/* Check deadlines in `ns` at the latest. */
void rdma_wake(struct rdma *r, int64_t ns);
void rdma_tell(struct rdma_link *l, const struct rdma_msg *m);

/* ---- rdma_link.c ---- */

void rdma_link_try(struct rdma_link *l, int64_t now);
/* Close the queue pair after a fault, tell the peer, and use no RDMA with it for a while. */
void rdma_link_fail(struct rdma_link *l, const char *why);
/* Refuse an OFFER of another version, or an invalid one. */
void rdma_link_refuse(struct rdma_link *l, uint32_t epoch, enum rdma_close why,
		      int64_t retry_ns);

/* Release the pieces of a queue pair that is gone. */
void rdma_transfer_reset(struct rdma_link *l);
int rdma_transfer_hear(struct rdma_link *l, const struct rdma_msg *m,
		       struct error *err) MUST_CHECK;
/* Has a deadline passed? Returns why, or NULL. */
const char *rdma_transfer_overdue(const struct rdma_link *l, int64_t now);
void rdma_transfer_complete(struct rdma_link *l, const struct ibv_wc *wc);
/* Completions name their link by lane and serial number. */
#define RDMA_WR_LANE(id) ((unsigned int)((id) >> 56))
#define RDMA_WR_SERIAL(id) ((uint32_t)((id) >> 24))

#endif
