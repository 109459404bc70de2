// SPDX-License-Identifier: Apache-2.0
/* Structures that the files of rdma share; rdma.h is the interface. */
#ifndef BOOTSEER_P2P_RDMA_RDMA_PRIV_H
#define BOOTSEER_P2P_RDMA_RDMA_PRIV_H

#include "p2p/rdma/rdma_device.h"

#define RDMA_HANDSHAKES_MAX 8u
#define RDMA_BANS_MAX 256u
#define RDMA_QUEUE 64u /* pieces of a link, served or read */
#define RDMA_PIECE_MAX (4u << 20)

enum rdma_state {
	RDMA_NONE,     /* no queue pair */
	RDMA_OFFERED,  /* ours is in INIT, the peer is asked */
	RDMA_ACCEPTED, /* ours may serve, the peer's perhaps not yet */
	RDMA_UP,
};

/* A piece that we serve. */
struct rdma_served {
	bool used;
	uint32_t id;
	uint32_t len;
	uint64_t tag;
	uint64_t bits; /* its places in memory; 0: they were taken back */
	int64_t since;
};

/* A piece that we read, or wait to. */
struct rdma_pull {
	bool used;
	struct rdma_grant grant;
	uint64_t bits; /* its places in memory; 0: it waits for some */
	int64_t since;
};

struct rdma_link {
	struct rdma *r;
	struct rdma_link *next;
	void *user;
	char *peer;
	bool is_first; /* our name is the lower one */
	bool is_dead;  /* freed by its user */

	enum rdma_state state;
	uint32_t epochs; /* attempts of ours */
	uint32_t epoch;  /* the attempt, ours or the peer's */
	uint32_t serial; /* of the queue pair, in completions */
	uint32_t psn;
	struct rdma_lane *lane; /* with `qp`, unless RDMA_NONE */
	struct ibv_qp *qp;
	uint64_t moved;
	int64_t retry_at;
	int64_t deadline; /* of the handshake */
	int64_t used;     /* when the queue pair was last of use */

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

/* A peer that RDMA is not tried with. */
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
	int64_t timer_at;        /* when it fires; 0: it does not */
	bool is_broken;          /* the device is gone for good */
	unsigned int busy;       /* depth of calls that tell events */
	uint32_t serials;
	struct rdma_link *links;
	struct rdma_link *by_lane[RDMA_LINKS_MAX];
	struct rdma_ban bans[RDMA_BANS_MAX];
	uint64_t random;
	struct rdma_stats stats;
};

/* ---- rdma_base.c ---- */

/* Around all that tells events: links freed meanwhile go at the last leave. */
void rdma_enter(struct rdma *r);
void rdma_leave(struct rdma *r);
uint64_t rdma_random(struct rdma *r);
/* `ns` to twice as long. */
int64_t rdma_jitter(struct rdma *r, int64_t ns);
/* Have deadlines looked at in `ns`, or before. */
void rdma_wake(struct rdma *r, int64_t ns);
void rdma_tell(struct rdma_link *l, const struct rdma_msg *m);

/* ---- rdma_link.c ---- */

void rdma_link_try(struct rdma_link *l, int64_t now);
/* A fault: the peer is told, and left alone for a while. */
void rdma_link_fail(struct rdma_link *l, const char *why);
/* An OFFER in a version that is not ours, or one that cannot be. */
void rdma_link_refuse(struct rdma_link *l, uint32_t epoch, enum rdma_close why,
		      int64_t retry_ns);

/* Take back what a queue pair that is gone was used for. */
void rdma_transfer_reset(struct rdma_link *l);
int rdma_transfer_hear(struct rdma_link *l, const struct rdma_msg *m,
		       struct error *err) MUST_CHECK;
/* Whether a deadline has passed: why, or NULL. */
const char *rdma_transfer_overdue(const struct rdma_link *l, int64_t now);
void rdma_transfer_complete(struct rdma_link *l, const struct ibv_wc *wc);
/* Completions name their link by lane and serial number. */
#define RDMA_WR_LANE(id) ((unsigned int)((id) >> 56))
#define RDMA_WR_SERIAL(id) ((uint32_t)((id) >> 24))

#endif
