// SPDX-License-Identifier: Apache-2.0
/* Computes where the time of NFS requests goes. */
#include "profiler/ops/ops_priv.h"

bool ops_find_request(const struct ops_rpc *r, struct ops_request *ret)
{
	if (!(r->requests > 0) || !(r->response_s > 0) || !(r->node_s > 0))
		return false;
	*ret = (struct ops_request){
		.wait_s = r->queue_s / r->requests,
		.serve_s = r->response_s / r->requests,
		.wait_share = r->queue_s / (r->queue_s + r->response_s),
		.bytes = r->bytes / r->requests,
		.in_flight = r->response_s / r->node_s,
	};
	return true;
}

double ops_slots_rate(const struct ops_request *r, double slots)
{
	return slots * r->bytes / r->serve_s;
}
