// SPDX-License-Identifier: Apache-2.0
/*
 * Problems that are reported to the operator, who has to fix them. Private to engine*.c; used on
 * the loop only.
 */
#ifndef BOOTSEER_P2P_ENGINE_ENGINE_FAULT_H
#define BOOTSEER_P2P_ENGINE_ENGINE_FAULT_H

#include "p2p/net/net.h"
#include "p2p/p2p.h"

struct member;

struct faults {
	struct {
		int64_t at;     /* when the last note was given; 0: never */
		unsigned int n; /* notes left out since then */
	} notes[P2P_NOTES];
	uint64_t links[NET_FAULTS]; /* failed links, by reason */
	struct p2p_failure_info last;
	int64_t last_at; /* when that failed; 0: never */
	enum cert_state {
		CERT_GOOD,
		CERT_ENDS,
		CERT_OVER,
	} cert;
	int64_t cert_days; /* days left when that was reported */
};

/* Report `what` to the operator, as enum p2p_note describes. */
void engine_note(struct p2p *p, enum p2p_note what, const char *about,
		 const char *why);
/* A link could not be made. */
void fault_link(void *p2p, const struct net_failure *f);
/* A connection to `m` could not be begun. */
/* Is this node itself the reason that a link fails? */
bool fault_is_own(const struct error *why);
void fault_dial(struct p2p *p, const struct member *m, const struct error *why);
/* A tracker knows another node with this node's name at `addr` ("": no longer). */
void fault_namesake(struct p2p *p, const char *addr);
/* A right to an image is missing on one side: this node says so (`by_us`), or the peer. */
void fault_denied(struct p2p *p, const struct net_node *peer, bool by_us,
		  const char *why);
/* Check whether the certificate has expired or soon will. `is_told`: the caller itself reports
 * an expired one. */
void fault_check_cert(struct p2p *p, int64_t now_s, bool is_told);

#endif
