// SPDX-License-Identifier: Apache-2.0
/*
 * Trouble that the operator is told of, and has to mend.  Private to engine*.c; everything is
 * the loop's.
 */
#ifndef BOOTSEER_P2P_ENGINE_ENGINE_FAULT_H
#define BOOTSEER_P2P_ENGINE_ENGINE_FAULT_H

#include "p2p/net/net.h"
#include "p2p/p2p.h"

struct member;

struct faults {
	struct {
		int64_t at;     /* when the last one was told; 0: never */
		unsigned int n; /* that were not since */
	} notes[P2P_NOTES];
	uint64_t links[NET_FAULTS]; /* that did not come about */
	struct p2p_failure_info last;
	int64_t last_at; /* 0: never */
	enum cert_state {
		CERT_GOOD,
		CERT_ENDS,
		CERT_OVER,
	} cert;
	int64_t cert_days; /* left, when that was told */
};

/* Tell the operator, as enum p2p_note says. */
void engine_note(struct p2p *p, enum p2p_note what, const char *about,
		 const char *why);
/* A link did not come about. */
void fault_link(void *p2p, const struct net_failure *f);
/* A connection could not even be begun. */
/* The reason lies at this node itself that a link does not come about. */
bool fault_is_own(const struct error *why);
void fault_dial(struct p2p *p, const struct member *m, const struct error *why);
/* A tracker knows another node of this name there ("": it does not). */
void fault_namesake(struct p2p *p, const char *addr);
/* A right to an image is missing at one end, says this node (`by_us`) or the other one. */
void fault_denied(struct p2p *p, const struct net_node *peer, bool by_us,
		  const char *why);
/* Is the certificate over, or soon?  `is_told`: who asks tells himself of one that is
 * over. */
void fault_check_cert(struct p2p *p, int64_t now_s, bool is_told);

#endif
