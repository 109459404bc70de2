// SPDX-License-Identifier: Apache-2.0
/*
 * Links to other nodes: connections, handshake, security, and the messages of docs/formats/p2p.md.
 * A link is a pair of connections: one for control and demand, one for bulk. Everything is used on
 * the thread of one loop. The process ignores SIGPIPE.
 *
 * Bytes from other nodes are checked here against the format, the limits and the right to the
 * image, before they are passed on.
 */
#ifndef BOOTSEER_P2P_NET_NET_H
#define BOOTSEER_P2P_NET_NET_H

#include "blockstore/blockstore.h"
#include "net/loop.h"
#include "p2p/core/swarm.h"

/* images opened by one side of a link; an image counts twice, with its metadata */
#define NET_IMAGES_MAX 512u
#define NET_LINKS_MAX 1024u
#define NET_WANTS_MAX 1024u /* pieces asked for and not answered, on one link */

struct net;
struct net_link;
struct rdma_config;

/* Identity of a node: what HELLO says, checked against the certificate. */
struct net_node {
	char name[256];
	char addr[64]; /* address where the node listens */
	char rack[64], zone[64], region[64];
};

/* Form in which a piece is sent. */
enum net_form {
	NET_STORED, /* as in the pack: struct block's codec, csize bytes */
	NET_PLAIN,  /* unpacked: usize bytes */
};

struct net_piece {
	struct digest image;
	uint32_t piece;
	enum net_form form;
	uint32_t len;
};

enum net_fault {
	NET_UNREACHABLE, /* no node answers at the address */
	/* A certificate or a name is not trusted, on either side. */
	NET_UNTRUSTED,
	/* The peer has another --p2p-security, or is not a node. */
	NET_UNLIKE,
	NET_NAMESAKE, /* the peer has this node's name */
	NET_REFUSED,  /* the peer closed the link or stopped answering */
};
#define NET_FAULTS 5u

struct net_failure {
	enum net_fault fault;
	bool outgoing;
	const char *name; /* name of the peer; "": unknown */
	char addr[64];
	const struct error *why; /* with advice where there is any */
};

/*
 * Events, on the loop, never from within a function below but net_free().  Any
 * function but net_free() may be called from within any of them; a link may be
 * closed there.  All must be set, unless they say otherwise.
 */
struct net_events {
	/* The handshake is done. */
	void (*up)(void *arg, struct net_link *l);
	/* The link is freed after this returns; `why` is NULL when this node closed it. Called
	 * once for each link from net_connect() or reported by up(), after all rooms and tags
	 * were given back. Codes: EALREADY: another link to the same node is kept (see
	 * net_connect()); ESHUTDOWN: the peer closed it, with its text; EACCES: a certificate
	 * or a name; EPROTONOSUPPORT: another security; ELOOP: the peer has this node's name;
	 * EPROTO, EBADMSG, ENOBUFS: the peer broke the protocol or a limit; ETIMEDOUT: it was
	 * silent; else from the socket. */
	void (*down)(void *arg, struct net_link *l, const struct error *why);
	/* An incoming or outgoing link could not be made; for outgoing ones before down(). May
	 * be NULL. */
	void (*failed)(void *arg, const struct net_failure *f);
	/* May the peer have the image, by the capability that it sent? 0; -EACCES; -ENOENT: it
	 * may, but the image is not here. The image is open when both sides have opened and
	 * accepted it, so a host that accepts also calls net_open_image(), if it did not
	 * before. Called again for a newer capability; a failure then closes the image. */
	int (*may_open)(void *arg, struct net_link *l,
			const struct digest *image, const void *capability,
			size_t len, struct error *err);
	/* The image is now open on both sides. */
	void (*opened)(void *arg, struct net_link *l,
		       const struct digest *image);
	/* The peer refused or closed the image. Requests in both directions have ended; to go
	 * on, open the image again. */
	void (*closed)(void *arg, struct net_link *l,
		       const struct digest *image, enum swarm_refusal why);
	/* News of the peer: ranges are within the image's n_pieces; those of a kind ascend and
	 * do not overlap. */
	void (*news)(void *arg, struct net_link *l, const struct digest *image,
		     const struct swarm_range *have, size_t n_have,
		     const struct swarm_range *lost, size_t n_lost,
		     const struct swarm_range *promised, size_t n_promised,
		     int64_t eta_ns);
	/* wanted(): the peer asks for one of `n` pieces. Answer by net_send() or net_refuse()
	 * of the first, or of the one given to net_choose(). unwanted(): the peer cancels an
	 * unanswered request. */
	void (*wanted)(void *arg, struct net_link *l,
		       const struct digest *image, const uint32_t *pieces,
		       size_t n, enum source_priority priority);
	void (*unwanted)(void *arg, struct net_link *l,
			 const struct digest *image, uint32_t piece);
	/* Return memory for p->len bytes of a piece asked for with net_ask(); NULL: none, so
	 * the piece is dropped without further events. It belongs to the net until got() or
	 * lost(), after which nothing more is written to it. lost(): the image or the link is
	 * closed. */
	void *(*room)(void *arg, struct net_link *l, const struct net_piece *p);
	/* `n` more bytes of the piece came. */
	void (*moves)(void *arg, struct net_link *l, const struct net_piece *p,
		      uint32_t n);
	void (*got)(void *arg, struct net_link *l, const struct net_piece *p,
		    void *room);
	void (*lost)(void *arg, struct net_link *l, const struct net_piece *p,
		     void *room);
	/* The peer refused net_ask(). After SWARM_BUSY, ask again in `retry_ns`. */
	void (*refused)(void *arg, struct net_link *l,
			const struct digest *image, uint32_t piece,
			enum swarm_refusal why, int64_t retry_ns);
	/* All bytes of a piece given to net_send() are in the kernel's queue; sent() follows
	 * when the peer has them. Left out when sent() follows at once. May be NULL. */
	void (*left)(void *arg, struct net_link *l, uint64_t tag);
	/* A piece given to net_send() was sent, or will not be: its bytes may change now. */
	void (*sent)(void *arg, struct net_link *l, uint64_t tag);
	/* RDMA with the peer failed; TCP goes on. May be NULL. */
	void (*fault)(void *arg, struct net_link *l, const char *why);
	/* The peer says that these nodes take part in the image; NULL: in an image that is open
	 * with it. May be NULL. */
	void (*members)(void *arg, struct net_link *l,
			const struct digest *image,
			const struct net_node *nodes, size_t n);
};

enum net_security {
	NET_MUTUAL_TLS,  /* TLS for all bytes; the default */
	NET_SIGNED_BULK, /* control by TLS; bulk plain, each header signed with
	                  * a key of that TLS session, each body checked by its
	                  * digest: inside one fabric.  Sends by sendfile. */
	NET_OPEN,        /* no security; for a lab */
};

struct net_config {
	struct loop *loop;
	const char *listen;   /* "ADDR:PORT", port 0: a free one */
	struct net_node self; /* addr "": the address of the listener */
	enum net_security security;
	/* PEM files. Any certificate signed by the CA is a node's; it has one SAN URI,
	 * bootseer://node/NAME, and, if it names key usages, both server and client. */
	const char *ca_file, *cert_file, *key_file;
	unsigned int links_max; /* 0: NET_LINKS_MAX */
	/* Time limits to connect, until up(), and of silence; 0: 1 s, 5 s, 60 s. */
	int64_t connect_ns, handshake_ns, idle_ns;
	/* Limits in bytes of pieces a second; 0: none. Demand goes first. */
	uint64_t upload_rate, download_rate;
	unsigned int dscp; /* DSCP of all packets; 0: the system's default */
	/* RDMA beside TCP, used where both ends have it; NULL: TCP only. Loop, node, addr and
	 * events are filled in by the net. Not with NET_MUTUAL_TLS, because RDMA is not
	 * encrypted, nor with a download_rate. */
	const struct rdma_config *rdma;
	const struct net_events *events;
	void *arg;
};

int net_new(const struct net_config *cfg, struct net **ret,
	    struct error *err) MUST_CHECK;
/* Closes all links first, with events. */
void net_free(struct net *n);
unsigned int net_port(const struct net *n);
/* Name and address of this node as sent to others. */
const struct net_node *net_self(const struct net *n);
/* Do the files match each other and this node, and are they valid today? */
int net_check_files(const char *node, const char *ca_file,
		    const char *cert_file, const char *key_file,
		    struct error *err) MUST_CHECK;
/* Does the file have a certificate of an authority that is good today? */
int net_check_ca(const char *ca_file, struct error *err) MUST_CHECK;
/* Reload the certificates from disk, for handshakes from now on. */
int net_reload(struct net *n, struct error *err) MUST_CHECK;
/* Validity of the node's own certificate: its begin, and its end or that of its authority if
 * earlier; seconds since 1970; 0: no certificate. */
struct net_times {
	int64_t not_before, not_after;
};
void net_get_times(const struct net *n, struct net_times *ret);

/*
 * Begin a link to "ADDR:PORT" (an IP address, not a host name); up() or down() follows. The peer
 * must have the certificate of `name` (NULL: any node of the CA).
 *
 * There is one link between two nodes. When both connect at the same time, the link begun by the
 * lower name is kept and the other goes down with EALREADY, even if it was up already. A restarted
 * node's new link replaces its old one.
 */
int net_connect(struct net *n, const char *addr, const char *name,
		struct net_link **ret, struct error *err) MUST_CHECK;
/* Close the link and send `why` to the peer. down() follows, and of the other events only
 * lost() and sent(). */
void net_close(struct net_link *l, const char *why);
/* The peer; before up() only what was given to net_connect(). */
const struct net_node *net_peer(const struct net_link *l);
/* A pointer that the user may attach to the link. */
void net_set_user(struct net_link *l, void *user);
void *net_user(const struct net_link *l);

/* Open an image on this link, with this node's capability. opened() or closed() follows.
 * -EALREADY: it is open or being opened; -EINVAL: the peer named another number of pieces;
 * -ENOSPC: NET_IMAGES_MAX. */
int net_open_image(struct net_link *l, const struct digest *image,
		   uint32_t n_pieces, const void *capability, size_t len,
		   struct error *err) MUST_CHECK;
/* Send a newer capability for an open image; no effect if it is not open. */
void net_renew_image(struct net_link *l, const struct digest *image,
		     const void *capability, size_t len);
/* `why`: SWARM_GONE, or SWARM_DENIED if the peer has no right to the image any more. */
void net_close_image(struct net_link *l, const struct digest *image,
		     enum swarm_refusal why);

/* The following calls queue messages and never fail: a link that cannot keep up goes down, and
 * messages for an image that is not open are dropped. Ranges of a kind ascend and do not
 * overlap. */
void net_news(struct net_link *l, const struct digest *image,
	      const struct swarm_range *have, size_t n_have,
	      const struct swarm_range *lost, size_t n_lost,
	      const struct swarm_range *promised, size_t n_promised,
	      int64_t eta_ns);
/* Does the peer understand a request that names several pieces? If not, only the first is
 * requested. */
bool net_takes_others(const struct net_link *l);
/* Ask for one of `n` pieces (1 to 1 + SWARM_OTHERS_MAX) of at most `len_max` bytes. No effect
 * if the first is asked for already. Answered by got() or lost() with the piece that is sent;
 * refused() with the first; closed() or down(). */
void net_ask(struct net_link *l, const struct digest *image,
	     const uint32_t *pieces, size_t n, uint32_t len_max,
	     enum source_priority priority);
/* Cancel a request. `piece` is the piece given to room() or, before that, the first of the
 * request. No event follows. Returns the memory from room(), to which nothing more is written;
 * NULL: room() was not called. */
void *net_cancel(struct net_link *l, const struct digest *image,
		 uint32_t piece);
/* Answer the request whose first piece is `was` with `piece`; false: `piece` is requested by
 * itself, or the link is closed. */
bool net_choose(struct net_link *l, const struct digest *image, uint32_t was,
		uint32_t piece) MUST_CHECK;
void net_refuse(struct net_link *l, const struct digest *image, uint32_t piece,
		enum swarm_refusal why, int64_t retry_ns);
/* Where the bytes of a piece are: in a file (sent by sendfile if not encrypted) or in memory. */
struct net_body {
	int fd;           /* -1: in memory */
	uint64_t off;     /* in the file */
	const void *data; /* the memory */
};
/* Answer wanted() with the p->len bytes of `body`, which must stay valid until sent(tag), even
 * if the request is cancelled. */
void net_send(struct net_link *l, const struct net_piece *p,
	      enum source_priority priority, const struct net_body *body,
	      uint64_t tag);
/* Tell the other side that these nodes take part in the image. */
void net_members(struct net_link *l, const struct digest *image,
		 const struct net_node *nodes, size_t n);

struct net_link_stats {
	bool is_up, is_rdma;
	uint64_t sent_bytes, received_bytes; /* bytes of pieces */
	uint64_t queued_bytes;               /* to be sent */
	/* Round-trip time of the last ping; 0: unknown. */
	int64_t rtt_ns;
};
void net_get_link(const struct net_link *l, struct net_link_stats *ret);

struct net_stats {
	uint64_t links, links_total, accepted_total, refused_total;
	uint64_t handshakes_failed_total, protocol_errors_total;
	uint64_t sent_bytes_total, received_bytes_total, dropped_bytes_total;
	uint64_t rdma_bytes_total, rdma_fallbacks_total;
};
void net_get_stats(const struct net *n, struct net_stats *ret);
/* For a log line: the RDMA device, or why there is none. */
const char *net_rdma_text(const struct net *n);

#endif
