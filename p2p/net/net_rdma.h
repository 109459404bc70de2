// SPDX-License-Identifier: Apache-2.0
/* RDMA in net: connects p2p/rdma/rdma.h with the pieces of net_piece.c. */
#ifndef BOOTSEER_P2P_NET_NET_RDMA_H
#define BOOTSEER_P2P_NET_NET_RDMA_H

#include "p2p/net/net_priv.h"
#include "p2p/rdma/rdma.h"

/* Without a device: 0, and n->no_rdma says why. -EINVAL, -ENOMEM, -EPERM. */
int net_rdma_open(struct net *n, struct error *err) MUST_CHECK;
/* Call when no link is left. */
void net_rdma_close(struct net *n);
/* Features that HELLO says. */
uint32_t net_rdma_features(const struct net *n);
/* The link came up; it went down. */
void net_rdma_up(struct net_link *l);
void net_rdma_down(struct net_link *l);
/* Count bytes of pieces moved by TCP; enough of them start RDMA. */
void net_rdma_moved(struct net_link *l, uint32_t n);
/* True: the piece goes by RDMA; piece_rdma_sent() or piece_rdma_failed() follows. */
bool net_rdma_send(struct net_link *l, struct net_answer *a) MUST_CHECK;
message_fn net_rdma_hear;

/* net_piece.c */
/* A whole piece came by RDMA; a piece was sent by RDMA, or failed to be. */
int piece_on_rdma(struct net_link *l, uint32_t req, const struct wire_data *d,
		  const void *bytes, struct error *err) MUST_CHECK;
void piece_rdma_sent(struct net_link *l, struct net_answer *a);
void piece_rdma_failed(struct net_link *l, struct net_answer *a);

#endif
