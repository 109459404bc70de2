// SPDX-License-Identifier: Apache-2.0
/*
 * Links to other nodes: connections, handshake, security, and the messages of
 * docs/formats/p2p.md.  A link is a pair of connections, one for control and
 * demand, one for bulk.  Everything is on the thread of one loop.  The process
 * ignores SIGPIPE.
 *
 * This is where bytes of strangers come in: what arrives is checked against the
 * format, the limits and the right to the image before it is passed on.
 */
#ifndef BOOTSEER_P2P_NET_NET_H
#define BOOTSEER_P2P_NET_NET_H

#include "blockstore/blockstore.h"
#include "net/loop.h"
#include "p2p/core/swarm.h"

/* Opened by one side of a link; an image is two, with its metadata. */
#define NET_IMAGES_MAX 512u
#define NET_LINKS_MAX 1024u
#define NET_WANTS_MAX 1024u /* pieces asked for and not answered, on one link */

struct net;
struct net_link;
struct rdma_config;

/* Identity of a node: what HELLO says, checked against the certificate. */
struct net_node {
	char name[256];
	char addr[64]; /* where it listens */
	char rack[64], zone[64], region[64];
};

/* A piece as it travels. */
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
	NET_UNREACHABLE, /* nobody answers there */
	NET_UNTRUSTED, /* a certificate or a name is not believed, here or there */
	NET_UNLIKE,    /* it has another security, or is no node at all */
	NET_NAMESAKE, /* it has this node's own name */
	NET_REFUSED,  /* it closed the link, or does not go on */
};
#define NET_FAULTS 5u

struct net_failure {
	enum net_fault fault;
	bool outgoing;
	const char *name; /* as far as it is known; "": not at all */
	char addr[64];
	const struct error *why; /* with a cure, where there is one */
};

/*
 * Events, on the loop, never from within a function below but net_free().  Any
 * function but net_free() may be called from within any of them; a link may be
 * closed there.  All must be set, unless they say otherwise.
 */
struct net_events {
	/* The handshake is done. */
	void (*up)(void *arg, struct net_link *l);
	/* The link is gone after this returns; `why` is NULL when we closed
	 * it.  For each link that net_connect() gave or up() told of, once;
	 * rooms and tags are given back before.  Codes: EALREADY: another link
	 * to the same node is kept (see net_connect()); ESHUTDOWN: the other
	 * side closed it, the text is its; EACCES: a certificate, or a
	 * name; EPROTONOSUPPORT: its security is another; ELOOP: its name is
	 * this node's; EPROTO, EBADMSG, ENOBUFS: it broke the protocol or a limit;
	 * ETIMEDOUT: it was silent; else from the socket.  */
	void (*down)(void *arg, struct net_link *l, const struct error *why);
	/* A link did not come about, of those that we began, before down(), or of
	 * those that others began.  May be NULL. */
	void (*failed)(void *arg, const struct net_failure *f);
	/* May this node have the image?  With what it brought to prove it. 0,
	 * or -EACCES; -ENOENT: it may, but the image is not here.  The image is open when
	 * both sides have taken part and said yes, so who says yes calls
	 * net_open_image() too, if he did not.  Again when it brings a newer
	 * proof: what fails then closes the image. */
	int (*may_open)(void *arg, struct net_link *l,
			const struct digest *image, const void *capability,
			size_t len, struct error *err);
	/* The other side takes part in an image that is open on both sides
	 * now. */
	void (*opened)(void *arg, struct net_link *l,
		       const struct digest *image);
	/* The other side refused the image, or takes part in it no more.  What was asked and
	 * wanted of the image is over; to take part again, open it again. */
	void (*closed)(void *arg, struct net_link *l,
		       const struct digest *image, enum swarm_refusal why);
	/* News of the other side; ranges are within the image's n_pieces, those of a
	 * kind ascend and do not overlap. */
	void (*news)(void *arg, struct net_link *l, const struct digest *image,
		     const struct swarm_range *have, size_t n_have,
		     const struct swarm_range *lost, size_t n_lost,
		     const struct swarm_range *promised, size_t n_promised,
		     int64_t eta_ns);
	/* The peer asks for one of `n` pieces, to be answered by net_send() or net_refuse() of
	 * the first, or of what net_choose() chose; or not any more, when it was not answered
	 * yet. */
	void (*wanted)(void *arg, struct net_link *l,
		       const struct digest *image, const uint32_t *pieces,
		       size_t n, enum source_priority priority);
	void (*unwanted)(void *arg, struct net_link *l,
			 const struct digest *image, uint32_t piece);
	/* Memory for a piece that was asked for with net_ask(), p->len bytes;
	 * NULL: there is none now, and what comes is dropped (no event
	 * follows).  It is the receiver's; got() or lost() tells that nothing
	 * more is written.  lost(): the image or the link is closed. */
	void *(*room)(void *arg, struct net_link *l, const struct net_piece *p);
	/* `n` more bytes of it came. */
	void (*moves)(void *arg, struct net_link *l, const struct net_piece *p,
		      uint32_t n);
	void (*got)(void *arg, struct net_link *l, const struct net_piece *p,
		    void *room);
	void (*lost)(void *arg, struct net_link *l, const struct net_piece *p,
		     void *room);
	/* The answer to net_ask(): no.  After SWARM_BUSY in `retry_ns`
	 * again. */
	void (*refused)(void *arg, struct net_link *l,
			const struct digest *image, uint32_t piece,
			enum swarm_refusal why, int64_t retry_ns);
	/* All of a piece that net_send() was given is in the kernel's queue;
	 * sent() follows when the other side has it.  May be NULL; is not
	 * told where sent() follows at once. */
	void (*left)(void *arg, struct net_link *l, uint64_t tag);
	/* A piece that net_send() was given has left, or will not: its bytes
	 * may change now. */
	void (*sent)(void *arg, struct net_link *l, uint64_t tag);
	/* RDMA with it failed; TCP goes on.  May be NULL. */
	void (*fault)(void *arg, struct net_link *l, const char *why);
	/* The other side says that these take part in the image; NULL: in one that is
	 * open with it.  May be NULL. */
	void (*members)(void *arg, struct net_link *l,
			const struct digest *image,
			const struct net_node *nodes, size_t n);
};

enum net_security {
	NET_MUTUAL_TLS,  /* all bytes; the default */
	NET_SIGNED_BULK, /* control by TLS; bulk plain, each header signed with
	                  * a key of that TLS session, each body checked by its
	                  * digest: inside one fabric.  Sends by sendfile. */
	NET_OPEN,        /* nothing: a lab */
};

struct net_config {
	struct loop *loop;
	const char *listen;   /* "ADDR:PORT", port 0: a free one */
	struct net_node self; /* addr "": what is listened on */
	enum net_security security;
	/* PEM: all that a CA signed are nodes; the certificate has one SAN URI,
	 * bootseer://node/NAME, and, where it names uses of the key, both that
	 * of a server and of a client. */
	const char *ca_file, *cert_file, *key_file;
	unsigned int links_max; /* 0: NET_LINKS_MAX */
	/* To connect, until up(), of silence; 0: 1 s, 5 s, 60 s. */
	int64_t connect_ns, handshake_ns, idle_ns;
	/* Bytes of pieces a second; 0 none.  Demand goes first. */
	uint64_t upload_rate, download_rate;
	unsigned int dscp; /* of all packets; 0: the system's */
	/* RDMA beside TCP where both ends have it; NULL: TCP only.  Loop, node,
	 * addr and events are filled in.  Not with NET_MUTUAL_TLS, since
	 * nothing encrypts it, nor with a download_rate. */
	const struct rdma_config *rdma;
	const struct net_events *events;
	void *arg;
};

int net_new(const struct net_config *cfg, struct net **ret,
	    struct error *err) MUST_CHECK;
/* Links go down first (with events). */
void net_free(struct net *n);
unsigned int net_port(const struct net *n);
/* Name and address of this node as others are told. */
const struct net_node *net_self(const struct net *n);
/* Do the files belong together and to this node, and are they good today? */
int net_check_files(const char *node, const char *ca_file,
		    const char *cert_file, const char *key_file,
		    struct error *err) MUST_CHECK;
/* Does the file have a certificate of an authority that is good today? */
int net_check_ca(const char *ca_file, struct error *err) MUST_CHECK;
/* Certificates as they are on disk now, for handshakes from now on. */
int net_reload(struct net *n, struct error *err) MUST_CHECK;
/* Times of the node's own certificate: when it begins, and when it or an authority of it ends;
 * seconds since 1970.  0: there is none. */
struct net_times {
	int64_t not_before, not_after;
};
void net_get_times(const struct net *n, struct net_times *ret);

/*
 * Begin a link to "ADDR:PORT" (a number, not a name); up() or down() follows.  The
 * one there must have the certificate of `name` (NULL: anybody of the CA).
 *
 * Between two nodes there is one link.  When both connect at the same time, that
 * of the lower name is kept, and the other goes down with EALREADY, also when it
 * was up already.  A node that was started anew takes the place of its old link.
 */
int net_connect(struct net *n, const char *addr, const char *name,
		struct net_link **ret, struct error *err) MUST_CHECK;
/* `why` is told to the other side.  down() follows, and no other event but lost()
 * and sent(). */
void net_close(struct net_link *l, const char *why);
/* The node at the other end; before up() only what net_connect() was told. */
const struct net_node *net_peer(const struct net_link *l);
/* For the user's own. */
void net_set_user(struct net_link *l, void *user);
void *net_user(const struct net_link *l);

/* Take part in an image over this link, with the right to it.  opened() or
 * closed() follows.  -EALREADY: it is done already; -EINVAL: the other side said
 * that the image has another number of pieces; -ENOSPC: NET_IMAGES_MAX. */
int net_open_image(struct net_link *l, const struct digest *image,
		   uint32_t n_pieces, const void *capability, size_t len,
		   struct error *err) MUST_CHECK;
/* Show a newer right to an image that is taken part in; else nothing. */
void net_renew_image(struct net_link *l, const struct digest *image,
		     const void *capability, size_t len);
/* SWARM_GONE, or SWARM_DENIED: the other side has no right to it any more. */
void net_close_image(struct net_link *l, const struct digest *image,
		     enum swarm_refusal why);

/* The rest is queued and never fails: a link that cannot keep up goes down, and
 * what is about an image that is not open is dropped.  Ranges of a kind ascend and do
 * not overlap. */
void net_news(struct net_link *l, const struct digest *image,
	      const struct swarm_range *have, size_t n_have,
	      const struct swarm_range *lost, size_t n_lost,
	      const struct swarm_range *promised, size_t n_promised,
	      int64_t eta_ns);
/* Does the other side understand a request that names several pieces?  If not it is
 * asked for the first. */
bool net_takes_others(const struct net_link *l);
/* Ask for one of `n` pieces, 1 to 1 + SWARM_OTHERS_MAX; of no more than `len_max`
 * bytes.  When the first is asked for already: nothing.  Answered by got() or lost()
 * of the one that it is; refused() of the first; closed() or down(). */
void net_ask(struct net_link *l, const struct digest *image,
	     const uint32_t *pieces, size_t n, uint32_t len_max,
	     enum source_priority priority);
/* `piece` is what room() told, before it the first that was asked for. No event of
 * it follows.  Returns the memory that room() gave, to which nothing
 * more is written; NULL: none was. */
void *net_cancel(struct net_link *l, const struct digest *image,
		 uint32_t piece);
/* The answer to what was wanted as `was` is `piece`; false: that is wanted by itself, or the
 * link is closed. */
bool net_choose(struct net_link *l, const struct digest *image, uint32_t was,
		uint32_t piece) MUST_CHECK;
void net_refuse(struct net_link *l, const struct digest *image, uint32_t piece,
		enum swarm_refusal why, int64_t retry_ns);
/* Where the bytes of a piece are: in a file, sent by sendfile where nothing is
 * encrypted, or in memory. */
struct net_body {
	int fd;           /* -1: in memory */
	uint64_t off;     /* in the file */
	const void *data; /* the memory */
};
/* Answer wanted() with the p->len bytes of `body`, which stay until sent(tag), also
 * when the piece is not wanted any more. */
void net_send(struct net_link *l, const struct net_piece *p,
	      enum source_priority priority, const struct net_body *body,
	      uint64_t tag);
/* Tell the other side that these nodes take part in the image. */
void net_members(struct net_link *l, const struct digest *image,
		 const struct net_node *nodes, size_t n);

struct net_link_stats {
	bool is_up, is_rdma;
	uint64_t sent_bytes, received_bytes; /* of pieces */
	uint64_t queued_bytes;               /* to be sent */
	int64_t rtt_ns;                      /* of the last ping; 0 unknown */
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
