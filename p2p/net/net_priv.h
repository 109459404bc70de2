// SPDX-License-Identifier: Apache-2.0
/*
 * Private structures of net. Connections carry frames (net_conn.c begin and end, net_in.c and
 * net_out.c input and output, net_plain.c and net_tls.c the bytes); the handshake (net_shake.c)
 * makes a link of two connections; net_image.c and net_piece.c handle the messages of a link;
 * net.c has the table of links.
 *
 * No event is called from within a function of net.h: such functions change the state and mark the
 * link, and net_settle() calls the events. It also frees links and connections that ended, when no
 * handler is running.
 */
#ifndef BOOTSEER_P2P_NET_NET_PRIV_H
#define BOOTSEER_P2P_NET_NET_PRIV_H

#include <sys/socket.h>
#include <sys/types.h>

#include "net/listener.h"
#include "p2p/net/net_calm.h"
#include "p2p/net/wire.h"

#define NET_PART_MAX (256u << 10)  /* piece bytes between control messages */
#define NET_QUEUE_MAX (1u << 20)   /* control bytes waiting to be sent */
#define NET_STRANGERS_MAX 512u     /* connections without a name yet */
#define NET_STRANGERS_ONE_MAX 128u /* the same, from one address */
#define NET_SCRATCH (64u << 10)
#define NET_WANT_ROWS 256u

/* --------------------------------------------------------------- messages --- */

/* An image on one link. */
struct net_image {
	struct net_image *next;
	struct digest digest;
	uint32_t n_pieces, their_pieces; /* 0: not said */
	uint16_t alias, their_alias;
	uint32_t open_req, their_req; /* request numbers of the OPENs */
	bool asked;                   /* OPEN was sent, and not refused */
	bool let_in;                  /* this side's OPEN was accepted */
	bool theirs;                  /* the peer's OPEN was accepted */
	bool told;                    /* opened() was called */
};

/* A piece that the peer asked for: waits for the user, then in a connection's queue, then to be
 * reported as sent. */
struct net_answer {
	struct net_answer *next, **pprev;
	uint32_t req, len_max;
	struct net_piece piece;
	enum source_priority priority;
	struct net_body body;
	uint64_t tag;
	uint32_t at;         /* bytes of the piece that were sent */
	uint64_t end;        /* connection's byte at its end */
	bool begun, counted; /* in n_wants */
	bool left, chosen;   /* left() called; by net_choose() */
};

/* ------------------------------------------------------------ connections --- */

enum conn_state {
	CONN_CONNECTING,
	CONN_SECURING, /* TLS */
	CONN_GREETING, /* waiting for the first message */
	CONN_UP,
	CONN_DEAD,
};

struct conn;

/* How bytes are sent and read: plain or TLS. Results: bytes, or -errno; -EAGAIN: try later. */
struct conn_io {
	/* Go on with the handshake (TLS; plain: none).  0: it is done; -EAGAIN: later. */
	int (*secure)(struct conn *c, struct error *err);
	/* Read into `a`, then into `b`. 0: end of the stream. */
	ssize_t (*recv)(struct conn *c, void *a, size_t n_a, void *b,
			size_t n_b);
	/* `head`, then n_body bytes of `body`. */
	ssize_t (*send)(struct conn *c, const void *head, size_t n_head,
			const struct net_body *body, size_t n_body);
	/* Send the bytes that send() took and the socket did not: -EAGAIN or 0. */
	int (*flush)(struct conn *c);
	void (*close)(struct conn *c);
};
extern const struct conn_io conn_plain;

struct tls;    /* TLS state of a connection: net_tls.c */
struct signer; /* signs the heads of a bulk connection */

struct conn {
	struct net *net;
	struct net_link *link; /* NULL: not identified yet */
	struct conn *next;     /* list of strangers or of dead */
	struct loop_watch watch;
	int fd;
	enum conn_state state;
	bool bulk, outgoing;
	bool signs; /* each head is followed by a MAC */
	bool rx_paused, tx_paused, again, wants_write;
	int64_t since, rx_at, tx_at;
	const struct conn_io *io;
	struct tls *tls;
	struct signer *signer; /* borrowed from the link */
	const char *why;       /* static text: io's last failure; NULL */
	struct sockaddr_storage from;

	/* In: bytes [in_at, in.len) are not parsed yet. */
	struct buf in;
	size_t in_at;
	uint32_t body_left, body_req; /* DATA: bytes left; request */
	uint32_t wake_at;             /* read at this many bytes; 0: any */

	/* Output: messages, then pieces; the rest of a part that began goes first. */
	struct buf out;
	size_t out_at;
	struct net_answer *answers, **answers_last;
	struct net_answer *unacked, **unacked_last; /* net_ack.c */
	uint64_t tx_total;                          /* bytes sent, if plain */
	uint8_t head[WIRE_HEAD_SIZE + WIRE_MAC_SIZE + WIRE_DATA_SIZE];
	uint32_t head_len, head_at, part_left;
};

struct conn *conn_new(struct net *n, int fd, bool outgoing);
/* Start waiting for events of the socket. */
int conn_start(struct conn *c, unsigned int events,
	       struct error *err) MUST_CHECK;
/* Handle socket events by the connection's state; a failure ends the connection or its link. */
void conn_go(struct conn *c, unsigned int ready);
/* Close the socket; freed later. */
void conn_kill(struct conn *c);
/* End a connection that failed, with its link. */
void conn_fail(struct conn *c, const struct error *why);
/* Update the socket events to wait for. */
void conn_update(struct conn *c);
bool conn_has_output(const struct conn *c);
/* net_in.c */
void conn_read(struct conn *c);
/* net_out.c: send what waits. */
void conn_write(struct conn *c);
/* A message was put into c->out from byte `from` on: sign it. */
int conn_sign_out(struct conn *c, size_t from, struct error *err) MUST_CHECK;

/* ------------------------------------------------------------------ links --- */

enum link_state { LINK_STARTING, LINK_UP, LINK_CLOSED };

struct net_link {
	struct net *net;
	struct net_link *next, **pprev;
	struct net_link *next_marked;
	bool marked;
	enum link_state state;
	bool outgoing, told, came_up; /* told: the user knows the link */
	bool closing_said;
	struct net_node peer;
	char *expected; /* name that the peer must have, or NULL */
	uint64_t instance;
	uint32_t features; /* features of the peer */
	struct rdma_link *rdma;
	uint8_t nonce[WIRE_NONCE_SIZE]; /* the bulk connection shows it */
	struct sockaddr_storage to;
	socklen_t to_len;
	struct conn *control, *bulk;
	struct signer *signer;
	int64_t since;
	void *user;
	struct error why;

	struct net_image *images;
	uint16_t next_alias;
	uint32_t next_open;
	struct piece_ask *asks, *asks_by_slot[NET_WANTS_MAX], *asks_told;
	unsigned int n_asks, next_slot;
	uint32_t serial;
	struct net_answer *wants[NET_WANT_ROWS]; /* hash table by piece */
	struct net_answer *sent, *by_rdma;
	unsigned int n_wants; /* answers not sent yet */
	struct bucket calm, names;

	uint32_t ping_req;
	int64_t ping_at; /* time of the ping under way; 0: none */
	int64_t ping_due;
	struct net_link_stats st;
};

struct net {
	struct net_config cfg;
	char *listen, *ca_file, *cert_file, *key_file;
	struct net_node self;
	uint64_t instance;
	struct loop *loop;
	struct listener listener;
	unsigned int port;
	bool freeing;
	struct security *security; /* NULL: open */
	struct rdma *rdma;         /* NULL: there is none */
	struct error no_rdma;      /* why there is no RDMA */

	struct net_link *links;
	unsigned int n_links;
	struct conn *strangers, *dead;
	unsigned int n_strangers;

	unsigned int depth; /* number of handlers running */
	struct net_link *marked;
	struct net_post *post;
	struct loop_timer tick, refill, acks;
	bool ticking, refilling, acking;
	struct bucket up, down;
	uint64_t lots; /* random state: which link is first at a refill */
	struct net_spent spent[NET_SPENT_MAX];
	struct net_stats st;

	struct buf none;            /* always empty */
	uint8_t *scratch;           /* NET_SCRATCH: for bytes dropped */
	struct swarm_range *ranges; /* WIRE_RANGES_MAX received ranges */
	struct swarm_range *ranges_out;
	struct net_node *members; /* WIRE_MEMBERS_MAX entries */
};

void net_enter(struct net *n);
void net_leave(struct net *n);
/* Mark the link: it has something to send or report. */
void net_mark(struct net_link *l);
/* A rate limit is used up: go on after a refill. */
void net_wait_refill(struct net *n);
/* TLS holds bytes that are not read yet: read again soon. */
void net_read_again(struct conn *c);
void net_start_tick(struct net *n);
void net_forget_stranger(struct conn *c);

struct net_link *link_new(struct net *n, bool outgoing);
/* Close the link for this reason (NULL: the user's wish); events and freeing follow later. */
void link_close(struct net_link *l, enum wire_leave kind,
		const struct error *why);
bool link_is_up(const struct net_link *l);
/* Finish a message for the control connection; `rc` is the result of wire_put_X(). */
void link_put(struct net_link *l, int rc);
struct buf *link_out(struct net_link *l);

/* Handlers of messages; `body` is h->len bytes. */
typedef int message_fn(struct conn *c, const struct wire_head *h,
		       const uint8_t *body, struct error *err);

/* net_shake.c */
void shake_begin(struct conn *c); /* the connection is there, and secure */
message_fn shake_hello, shake_hello_ack, shake_bind, shake_bind_ack;
struct net_link *shake_find(struct net *n, const uint8_t *nonce);
int shake_connect(struct net_link *l, bool bulk, struct error *err) MUST_CHECK;

/* net_image.c */
message_fn image_on_open, image_on_renew, image_on_open_ack, image_on_close,
	image_on_have;
struct net_image *image_find(struct net_link *l, const struct digest *d);
struct net_image *image_by_alias(struct net_link *l, uint16_t their_alias);
bool image_is_open(const struct net_image *i);
void image_free_all(struct net_link *l);

/* net_piece.c */
message_fn piece_on_want, piece_on_nack, piece_on_cancel;
/* The fields of DATA were read and `n` bytes follow. */
int piece_on_data(struct conn *c, const struct wire_head *h,
		  const struct wire_data *d, uint32_t n,
		  struct error *err) MUST_CHECK;
/* Memory for the next bytes of the body, `*n` at most; NULL: drop them. */
uint8_t *piece_place(struct conn *c, uint32_t *n);
/* `n` bytes of the body came. */
void piece_moved(struct conn *c, uint32_t n);
/* Drop all requests for the image on this link. */
void piece_drop_image(struct net_link *l, const struct digest *image);
void piece_drop_all(struct net_link *l);
/* Call the waiting events of a link. */
void piece_tell(struct net_link *l);
void piece_sent(struct conn *c, struct net_answer *a);

/* net_tls.c */
int security_new(const struct net *n, struct security **ret,
		 struct error *err) MUST_CHECK;
void security_free(struct security *s);
/* Make the connection a TLS one. */
int security_wrap(struct conn *c, struct error *err) MUST_CHECK;
/* Get the name in the peer's certificate: -EACCES when there is none, or more. */
int security_name(struct conn *c, char *ret, size_t size,
		  struct error *err) MUST_CHECK;
/* Compare in constant time. */
bool security_equal(const void *a, const void *b, size_t n);
/* Keys for the bulk connection from the TLS session of the control one. */
int signer_new(struct conn *control, struct signer **ret,
	       struct error *err) MUST_CHECK;
void signer_free(struct signer *s);
/* MAC of the next message sent; check that of the next message received. */
int signer_sign(struct signer *s, const void *head, const void *fields,
		size_t n, uint8_t mac[WIRE_MAC_SIZE]) MUST_CHECK;
bool signer_check(struct signer *s, const void *head, const void *fields,
		  size_t n, const uint8_t mac[WIRE_MAC_SIZE]);

#endif
