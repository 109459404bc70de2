// SPDX-License-Identifier: Apache-2.0
/* Kind of the failure when a link does not come about. */
#include "p2p/net/net_fault.h"

#include <errno.h>

#include "p2p/net/net_addr.h"

static enum net_fault fault_of_error_code(int code, bool outgoing)
{
	switch (code) {
	case EACCES:
		return NET_UNTRUSTED;
	case EPROTONOSUPPORT:
	case EPROTO:
	case EBADMSG:
		return NET_UNLIKE;
	case ELOOP:
		return NET_NAMESAKE;
	case ECONNREFUSED:
	case ETIMEDOUT:
	case EHOSTUNREACH:
	case ENETUNREACH:
		return outgoing ? NET_UNREACHABLE : NET_REFUSED;
	default:
		return NET_REFUSED;
	}
}

void net_tell_failure(struct net *n, const struct net_link *l,
		      const struct sockaddr_storage *addr,
		      const struct error *why)
{
	bool outgoing = l && l->outgoing;
	struct net_failure f = { .fault = fault_of_error_code(why->code,
							      outgoing),
				 .outgoing = outgoing,
				 .name = l ? l->peer.name : "",
				 .why = why };

	if (!n->cfg.events->failed)
		return;
	net_addr_format(addr, f.addr, sizeof(f.addr));
	n->cfg.events->failed(n->cfg.arg, &f);
}
