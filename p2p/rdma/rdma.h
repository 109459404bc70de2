// SPDX-License-Identifier: Apache-2.0
/*
 * Pieces by RDMA, beside a link's TCP, where both ends have a device.
 *
 * The receiver pulls: the server copies a piece into registered memory and sends its place
 * (GRANT); the receiver READs it and confirms (DONE). These messages travel over the link's
 * control connection, which also sets the queue pairs up (docs/formats/p2p.md, RDMA). After any
 * fault the piece goes by TCP at once: a fault makes a transfer slower but never fails it.
 *
 * Each link that uses RDMA has a *lane*: a protection domain with memory of its own, so that the
 * card refuses a peer that reads another peer's piece.
 *
 * Everything is on the thread of one loop. Reasons: docs/decisions/0010-rdma.md.
 */
#ifndef BOOTSEER_P2P_RDMA_RDMA_H
#define BOOTSEER_P2P_RDMA_RDMA_H

#include "net/loop.h"

#define RDMA_ABOUT_MAX 64u /* bytes of the sender's description of a piece */
#define RDMA_BODY_MAX 128u /* bytes of a message's body at most */
#define RDMA_LINKS_MAX 64u /* links with a queue pair at a time */

/* Messages; the numbers are those of docs/formats/p2p.md. */
enum rdma_type {
	RDMA_OFFER = 32,
	RDMA_ACCEPT,
	RDMA_READY,
	RDMA_GRANT,
	RDMA_DONE,
	RDMA_CLOSE,
};

struct verbs_ops;
struct rdma;
struct rdma_link;

/* Callbacks, called on the loop, also from within the rdma_*() functions below.  Each of these
 * callbacks may free the link, with rdma_link_free(). */
struct rdma_events {
	/* Put this message on the link's control connection. */
	void (*tell)(void *user, enum rdma_type type, const void *body,
		     size_t len);
	/* A piece came, with the sender's description `about`; the bytes are valid during the
	 * call and not verified. */
	void (*arrived)(void *user, const void *about, size_t n_about,
			const void *data, size_t len);
	/* The peer has the piece `tag` of rdma_link_send(). */
	void (*sent)(void *user, uint64_t tag);
	/* RDMA failed for the piece: send its bytes by TCP. */
	void (*fall_back)(void *user, uint64_t tag);
	/* For a log line: the queue pair was given up. May be NULL. */
	void (*fault)(void *user, const char *why);
};

/* Time limits, in nanoseconds. */
struct rdma_times {
	int64_t handshake; /* OFFER to READY */
	/* A granted piece is not overwritten for this long. */
	int64_t lease;
	int64_t stall;  /* longest wait for a completion */
	int64_t forget; /* longest wait for DONE of a granted piece */
	/* An unused link may lose its lane after this. */
	int64_t idle;
	int64_t retry; /* after "busy", jittered to twice as long */
	/* No RDMA with a peer after a fault; doubled each time. */
	int64_t ban, ban_max;
};
extern const struct rdma_times rdma_times_default;

struct rdma_config {
	struct loop *loop;
	const struct verbs_ops *verbs; /* NULL: libibverbs, if it is here */
	const char *device;            /* NULL: the one of `addr`, or the first
	                                * with an active port */
	const char *addr;              /* IP address of this node; NULL: any */
	const char *node;              /* its name */
	uint64_t slab;           /* bytes of memory to register; 0: 256 MiB */
	uint64_t min_moved;      /* bytes by TCP before RDMA is tried: 64 MiB */
	uint64_t seed;           /* seed of random delays; 0: random */
	struct rdma_times times; /* members that are 0 get their default */
	const struct rdma_events *events;
};

/*
 * Open a device, take memory and register it: blocks for as long as that takes.
 * -ENOENT: no library; -ENODEV: no device or no active port; -ENOMEM, -EPERM: the
 * memory cannot be locked or registered, err says what to raise.
 */
int rdma_new(const struct rdma_config *cfg, struct rdma **ret,
	     struct error *err) MUST_CHECK;
/* All links must be freed. */
void rdma_free(struct rdma *r);
DEFINE_AUTO(rdma)

/* A link to `peer` is up; both ends must call this.  `user` is for the events. */
int rdma_link_new(struct rdma *r, const char *peer, void *user,
		  struct rdma_link **ret, struct error *err) MUST_CHECK;
/* The link is down. No events follow for pieces that were sent. */
void rdma_link_free(struct rdma_link *l);

/* Count bytes of pieces moved by TCP, in either direction; enough of them set up a queue pair. */
void rdma_link_moved(struct rdma_link *l, uint64_t bytes);
/* A message of the other end's tell() came.  -EPROTO: it breaks the format or the order; close
 * the link. */
int rdma_link_hear(struct rdma_link *l, unsigned int type, const void *body,
		   size_t len, struct error *err) MUST_CHECK;
/*
 * Offer the bytes [off, off + len) of `fd`, or, when that is -1, those at `data`;
 * they are copied before this returns.
 * True: sent() or fall_back() follows with `tag`, never from within.  False: not
 * now, send by TCP.
 */
bool rdma_link_send(struct rdma_link *l, const void *about, size_t n_about,
		    int fd, uint64_t off, const void *data, uint32_t len,
		    uint64_t tag) MUST_CHECK;
bool rdma_link_is_ready(const struct rdma_link *l);

struct rdma_stats {
	uint64_t links; /* links with a working queue pair now */
	uint64_t opened_total, failed_total, evicted_total, refused_total;
	uint64_t sent_bytes_total, received_bytes_total;
	/* Granted pieces that went by TCP after all. */
	uint64_t fallbacks_total;
	/* Granted pieces that were read too late. */
	uint64_t stale_total;
};
void rdma_get_stats(const struct rdma *r, struct rdma_stats *ret);
/* Device that was opened, for a log line: "mlx5_0 port 1 gid 3 ...". */
const char *rdma_device(const struct rdma *r);

#endif
