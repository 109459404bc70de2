// SPDX-License-Identifier: Apache-2.0
/* Pieces whose bytes the kernel still reads: net_ack.c. */
#ifndef BOOTSEER_P2P_NET_NET_ACK_H
#define BOOTSEER_P2P_NET_NET_ACK_H

#include "p2p/net/net_priv.h"

/* Does sending this answer use the file's own pages? */
bool ack_is_wanted(const struct conn *c, const struct net_answer *a);
/* Wait for the acknowledgement of an answer that was written whole; piece_acked() follows,
 * unless ack_take() removes it. */
void ack_await(struct conn *c, struct net_answer *a);
struct net_answer *ack_take(struct conn *c); /* the oldest, or NULL */
void ack_look(struct conn *c);
/* Call before the socket is closed. */
void ack_forget(struct conn *c);
void acks_look(struct net *n);
void acks_on_timer(struct loop_timer *t);

/* net_piece.c: the peer has the piece. */
void piece_acked(struct net_link *l, struct net_answer *a);

#endif
