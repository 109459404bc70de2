// SPDX-License-Identifier: Apache-2.0
/*
 * Links to other nodes: connections, handshake, security, and the messages of
 * docs/formats/p2p.md.  A link is a pair of connections, one for control and
 * demand, one for bulk.  Everything is on the thread of one loop.
 *
 * This is where bytes of strangers come in: what arrives is checked against the
 * format, the limits and the right to the image before it is passed on.
 */
#ifndef BOOTSEER_P2P_NET_H
#define BOOTSEER_P2P_NET_H

#include "blockstore/blockstore.h"
#include "common/loop.h"
#include "p2p/swarm.h"

#define NET_IMAGES_MAX 256u /* open on one link */
#define NET_LINKS_MAX 1024u

struct net;
struct net_link;

/* Who somebody is: what HELLO says, checked against the certificate. */
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

/* Events, on the loop.  A link may be closed from within any of them. */
struct net_events {
	/* The handshake is done. */
	void (*up)(void *arg, struct net_link *l);
	/* The link is gone after this returns; `why` is NULL when we closed
	 * it. */
	void (*down)(void *arg, struct net_link *l, const struct error *why);
	/* May this node have the image?  With what it brought to prove it. 0,
	 * or -EACCES; -ENOENT: the image is not here.  */
	int (*may_open)(void *arg, struct net_link *l,
			const struct digest *image, const void *capability,
			size_t len, struct error *err);
	/* The other side takes part in an image that is open on both sides
	 * now. */
	void (*opened)(void *arg, struct net_link *l,
		       const struct digest *image);
	/* ... it refused, or does not take part any more. */
	void (*closed)(void *arg, struct net_link *l,
		       const struct digest *image, enum swarm_refusal why);
	/* News of the other side; ranges are within the image's n_pieces. */
	void (*news)(void *arg, struct net_link *l, const struct digest *image,
		     const struct swarm_range *have, size_t n_have,
		     const struct swarm_range *lost, size_t n_lost,
		     const struct swarm_range *promised, size_t n_promised,
		     int64_t eta_ns);
	/* It asks for a piece, or not any more. */
	void (*wanted)(void *arg, struct net_link *l,
		       const struct digest *image, uint32_t piece,
		       enum source_priority priority);
	void (*unwanted)(void *arg, struct net_link *l,
			 const struct digest *image, uint32_t piece);
	/* Memory for a piece that was asked for with net_ask(), p->len bytes;
	 * NULL: there is none now, and what comes is dropped.  It is the
	 * receiver's; got() or lost() tells that nothing more is written. */
	void *(*room)(void *arg, struct net_link *l, const struct net_piece *p);
	/* `n` more bytes of it came. */
	void (*moves)(void *arg, struct net_link *l, const struct net_piece *p,
		      uint32_t n);
	void (*got)(void *arg, struct net_link *l, const struct net_piece *p,
		    void *room);
	void (*lost)(void *arg, struct net_link *l, const struct net_piece *p,
		     void *room);
	void (*refused)(void *arg, struct net_link *l,
			const struct digest *image, uint32_t piece,
			enum swarm_refusal why, int64_t retry_ns);
	/* A piece that net_send() was given has left, or will not. */
	void (*sent)(void *arg, struct net_link *l, uint64_t tag);
	/* The other side knows these members too. May be NULL. */
	void (*members)(void *arg, struct net_link *l,
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
	const char *ca_file, *cert_file, *key_file; /* PEM */
	unsigned int links_max;
	int64_t connect_ns, handshake_ns, idle_ns; /* 1 s, 5 s, 60 s */
	uint64_t upload_rate, download_rate;       /* bytes a second; 0 none */
	bool rdma; /* beside TCP where both ends have it */
	const struct net_events *events;
	void *arg;
};

int net_new(const struct net_config *cfg, struct net **ret,
	    struct error *err) MUST_CHECK;
/* Links go down first (with events). */
void net_free(struct net *n);
unsigned int net_port(const struct net *n);
/* Certificates as they are on disk now, for handshakes from now on. */
int net_reload(struct net *n, struct error *err) MUST_CHECK;
/* Tell everybody that this node leaves; accept nobody more. */
void net_drain(struct net *n);

/* Begin a link to "ADDR:PORT"; up() or down() follows.  The one who should have
 * the certificate of `name` (NULL: anybody of the CA). */
int net_connect(struct net *n, const char *addr, const char *name,
		struct net_link **ret, struct error *err) MUST_CHECK;
void net_close(struct net_link *l, const char *why);
const struct net_node *net_peer(const struct net_link *l);
/* For the user's own. */
void net_set_user(struct net_link *l, void *user);
void *net_user(const struct net_link *l);

/* Take part in an image over this link, with the right to it. */
int net_open_image(struct net_link *l, const struct digest *image,
		   uint32_t n_pieces, const void *capability, size_t len,
		   struct error *err) MUST_CHECK;
void net_close_image(struct net_link *l, const struct digest *image);

/* The rest is queued and never fails: a link that cannot keep up goes down. */
void net_news(struct net_link *l, const struct digest *image,
	      const struct swarm_range *have, size_t n_have,
	      const struct swarm_range *lost, size_t n_lost,
	      const struct swarm_range *promised, size_t n_promised,
	      int64_t eta_ns);
void net_ask(struct net_link *l, const struct digest *image, uint32_t piece,
	     uint32_t len_max, enum source_priority priority);
void net_cancel(struct net_link *l, const struct digest *image, uint32_t piece);
void net_refuse(struct net_link *l, const struct digest *image, uint32_t piece,
		enum swarm_refusal why, int64_t retry_ns);
/* Send bytes [off, off + p->len) of `fd` (sendfile where nothing is encrypted);
 * `fd` stays open until sent(tag). */
void net_send(struct net_link *l, const struct net_piece *p,
	      enum source_priority priority, int fd, uint64_t off,
	      uint64_t tag);
void net_members(struct net_link *l, const struct net_node *nodes, size_t n);

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

#endif
