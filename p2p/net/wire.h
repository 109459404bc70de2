// SPDX-License-Identifier: Apache-2.0
/*
 * Encoding of the messages between nodes: docs/formats/p2p.md. No I/O and no state; a message that
 * breaks the format or a limit is refused as a whole.
 */
#ifndef BOOTSEER_P2P_NET_WIRE_H
#define BOOTSEER_P2P_NET_WIRE_H

#include "common/buf.h"
#include "p2p/net/net.h"

#define WIRE_VERSION 1u
#define WIRE_VERSION_MIN 1u

#define WIRE_HEAD_SIZE 16u
#define WIRE_MAC_SIZE 16u  /* after the head of a signed message */
#define WIRE_DATA_SIZE 16u /* fields of DATA before the piece's bytes */
#define WIRE_NONCE_SIZE 16u

#define WIRE_CONTROL_MAX (64u << 10) /* bytes of a message other than DATA */
#define WIRE_DATA_MAX (WIRE_DATA_SIZE + BLOCK_USIZE_MAX)
#define WIRE_CAPABILITY_MAX 1024u
#define WIRE_RANGES_MAX ((WIRE_CONTROL_MAX - 12u) / 8u)
#define WIRE_MEMBERS_MAX 64u
#define WIRE_TEXT_MAX 255u /* bytes of GOAWAY's text */

enum wire_type {
	WIRE_HELLO = 1,
	WIRE_HELLO_ACK = 2,
	WIRE_BIND = 3,
	WIRE_BIND_ACK = 4,
	WIRE_PING = 5,
	WIRE_PONG = 6,
	WIRE_GOAWAY = 7,
	WIRE_OPEN = 8,
	WIRE_OPEN_ACK = 9,
	WIRE_CLOSE = 10,
	WIRE_HAVE = 11,
	WIRE_WANT = 12,
	WIRE_DATA = 13,
	WIRE_NACK = 14,
	WIRE_CANCEL = 15,
	WIRE_PEX = 16,
	WIRE_RENEW = 17,
	WIRE_IMAGE_PEX = 18,
	WIRE_RDMA_FIRST = 32, /* enum rdma_type */
	WIRE_RDMA_LAST = 47,
};

#define WIRE_FEATURE_RDMA 1u
#define WIRE_FEATURE_OTHERS 2u /* a WANT may name other pieces */
#define WIRE_FEATURE_IMAGE_PEX 4u

/* A receiver that does not know the type skips the message. */
#define WIRE_OPTIONAL 0x8000u

struct wire_head {
	uint32_t len; /* bytes after the head, without a MAC */
	uint8_t type;
	uint8_t prio; /* enum source_priority */
	uint16_t flags;
	uint32_t req;
};

void wire_put_head(uint8_t out[WIRE_HEAD_SIZE], const struct wire_head *h);
/* -EBADMSG: the check sum differs; -EMSGSIZE: longer than its type may be;
 * -EINVAL: no such priority or flag. */
int wire_get_head(const uint8_t in[WIRE_HEAD_SIZE], struct wire_head *ret,
		  struct error *err) MUST_CHECK;

/*
 * Bodies.  wire_put_X() appends a whole message, head first: 0, -ENOMEM, or
 * -EFBIG when the buffer's limit is reached.  wire_get_X() reads a body:
 * -EINVAL says what is wrong with it.
 */

struct wire_hello {
	/* Newest and oldest version that the sender speaks. */
	uint16_t version, version_min;
	uint8_t security;  /* enum net_security */
	uint32_t features; /* WIRE_FEATURE_X */
	uint64_t instance; /* drawn when the node started */
	/* HELLO_ACK: the nonce that the bulk connection must show; HELLO: random. */
	uint8_t nonce[WIRE_NONCE_SIZE];
	struct net_node node;
};
int wire_put_hello(struct buf *b, enum wire_type type,
		   const struct wire_hello *h) MUST_CHECK;
int wire_get_hello(const void *body, size_t len, struct wire_hello *ret,
		   struct error *err) MUST_CHECK;

struct wire_bind {
	uint8_t nonce[WIRE_NONCE_SIZE];
};
int wire_put_bind(struct buf *b, enum wire_type type,
		  const struct wire_bind *m) MUST_CHECK;
int wire_get_bind(const void *body, size_t len, struct wire_bind *ret,
		  struct error *err) MUST_CHECK;

/* PING, PONG and CANCEL: nothing but the head. */
int wire_put_empty(struct buf *b, enum wire_type type, uint32_t req) MUST_CHECK;

enum wire_leave {
	WIRE_LEAVE_CLOSED = 0, /* the link is closed after this */
	WIRE_LEAVE_TWICE = 2,  /* another link between the two is kept */
};
struct wire_goaway {
	enum wire_leave kind;
	char text[WIRE_TEXT_MAX + 1];
};
int wire_put_goaway(struct buf *b, enum wire_leave kind,
		    const char *text) MUST_CHECK;
int wire_get_goaway(const void *body, size_t len, struct wire_goaway *ret,
		    struct error *err) MUST_CHECK;

struct wire_open {
	uint16_t alias; /* number that the sender uses for the image */
	uint32_t n_pieces;
	struct digest image;
	const void *capability; /* borrowed from the body */
	size_t capability_len;
};
int wire_put_open(struct buf *b, uint32_t req,
		  const struct wire_open *m) MUST_CHECK;
/* OPEN again with a newer capability; a node that does not know this message skips it. */
int wire_put_renew(struct buf *b, const struct wire_open *m) MUST_CHECK;
/* The body of both messages. */
int wire_get_open(const void *body, size_t len, struct wire_open *ret,
		  struct error *err) MUST_CHECK;

/* OPEN_ACK and CLOSE. */
struct wire_verdict {
	/* OPEN_ACK: alias of the OPEN; CLOSE: the sender's own. */
	uint16_t alias;
	bool ok; /* only in OPEN_ACK */
	enum swarm_refusal why;
};
int wire_put_verdict(struct buf *b, enum wire_type type, uint32_t req,
		     const struct wire_verdict *m) MUST_CHECK;
int wire_get_verdict(const void *body, size_t len, struct wire_verdict *ret,
		     struct error *err) MUST_CHECK;

struct wire_have {
	uint16_t alias;
	uint32_t eta_ms; /* time until promised pieces are there */
	size_t n_have, n_lost, n_promised;
};
/* `ranges`: first the pieces it has, then lost ones, then promised ones; at most
 * WIRE_RANGES_MAX in all. */
int wire_put_have(struct buf *b, const struct wire_have *m,
		  const struct swarm_range *ranges) MUST_CHECK;
/* Each range is not empty and lies within SWARM_PIECES_MAX; those of a kind ascend
 * and do not overlap. */
int wire_get_have(const void *body, size_t len, struct wire_have *ret,
		  struct swarm_range ranges[WIRE_RANGES_MAX],
		  struct error *err) MUST_CHECK;

struct wire_want {
	uint16_t alias;
	uint32_t piece;
	/* Largest answer that the requester accepts, in bytes. */
	uint32_t len_max;
	/* Pieces accepted instead of `piece`. */
	uint32_t others[SWARM_OTHERS_MAX];
	uint16_t n_others;
};
int wire_put_want(struct buf *b, uint32_t req, enum source_priority prio,
		  const struct wire_want *m) MUST_CHECK;
int wire_get_want(const void *body, size_t len, struct wire_want *ret,
		  struct error *err) MUST_CHECK;

/* The fields before the bytes [off, off + n) of a piece. */
struct wire_data {
	uint32_t piece, off, total;
	enum net_form form;
};
void wire_put_data(uint8_t out[WIRE_DATA_SIZE], const struct wire_data *d);
/* `n` bytes of the piece follow. */
int wire_get_data(const uint8_t in[WIRE_DATA_SIZE], uint32_t n,
		  struct wire_data *ret, struct error *err) MUST_CHECK;

struct wire_nack {
	bool cancelled; /* the answer to a CANCEL */
	enum swarm_refusal why;
	uint32_t retry_ms;
};
int wire_put_nack(struct buf *b, uint32_t req,
		  const struct wire_nack *m) MUST_CHECK;
int wire_get_nack(const void *body, size_t len, struct wire_nack *ret,
		  struct error *err) MUST_CHECK;

/* An RDMA message; its body is made by p2p/rdma/rdma_wire.h. */
int wire_put_rdma(struct buf *b, uint8_t type, const void *body,
		  size_t len) MUST_CHECK;

/* PEX: members without an image, for nodes that do not know IMAGE_PEX. */
int wire_put_members(struct buf *b, const struct net_node *nodes,
		     size_t n) MUST_CHECK;
int wire_get_members(const void *body, size_t len,
		     struct net_node ret[WIRE_MEMBERS_MAX], size_t *ret_n,
		     struct error *err) MUST_CHECK;
/* IMAGE_PEX: members of the image with this number of the sender. */
int wire_put_image_members(struct buf *b, uint16_t alias,
			   const struct net_node *nodes, size_t n) MUST_CHECK;
int wire_get_image_members(const void *body, size_t len, uint16_t *ret_alias,
			   struct net_node ret[WIRE_MEMBERS_MAX], size_t *ret_n,
			   struct error *err) MUST_CHECK;

#endif
