// SPDX-License-Identifier: Apache-2.0
/* The answer of p2p.status: docs/formats/control.md. */

#include "common/json.h"
#include "snapshotter/node/peers/image_swarm_priv.h"

static void add_peer(void *arg, const struct p2p_peer_info *i)
{
	(void)json_array_append_new(
		arg,
		json_pack("{s:o, s:o, s:o, s:o, s:s, s:b, s:b, s:I, s:I, s:I, "
			  "s:I, s:I, s:i, s:i, s:o}",
			  "node", json_bytes(i->node), "addr",
			  json_bytes(i->addr), "rack", json_bytes(i->rack),
			  "zone", json_bytes(i->zone), "distance", i->distance,
			  "up", (int)i->is_up, "rdma", (int)i->is_rdma,
			  "received_bytes", (json_int_t)i->received_bytes,
			  "sent_bytes", (json_int_t)i->sent_bytes, "rate",
			  (json_int_t)i->rate, "rtt_us",
			  (json_int_t)(i->rtt_ns / 1000), "quarantine_ms",
			  (json_int_t)(i->quarantine_ns / 1000000), "strikes",
			  (int)i->strikes, "failures", (int)i->failures,
			  "error", json_bytes(i->why)));
}

static void add_image(void *arg, const struct p2p_image_info *i)
{
	char id[DIGEST_STR_MAX];

	digest_format(&i->image, id);
	(void)json_array_append_new(
		arg,
		json_pack("{s:s, s:o, s:b, s:I, s:I, s:I, s:I, s:I, s:o}", "id",
			  id, "name", json_bytes(i->label), "metadata",
			  (int)i->is_metadata, "pieces", (json_int_t)i->pieces,
			  "have", (json_int_t)i->have, "peers",
			  (json_int_t)i->peers, "peer_bytes",
			  (json_int_t)i->from_peers, "origin_bytes",
			  (json_int_t)i->from_origin, "error",
			  json_bytes(i->refusal)));
}

static void add_tracker(void *arg, const struct p2p_tracker_info *i)
{
	(void)json_array_append_new(arg,
				    json_pack("{s:s, s:s, s:o}", "url", i->url,
					      "state", i->state, "error",
					      json_bytes(i->why)));
}

static json_t *failures_json(const struct p2p_stats *s)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "unreachable",
			 (json_int_t)s->links_unreachable_total, "untrusted",
			 (json_int_t)s->links_untrusted_total, "unlike",
			 (json_int_t)s->links_unlike_total, "namesake",
			 (json_int_t)s->links_namesake_total, "refused",
			 (json_int_t)s->links_refused_total, "denied",
			 (json_int_t)s->denied_total);
}

static json_t *last_failure_json(struct p2p *p)
{
	struct p2p_failure_info i;

	if (!p2p_last_failure(p, &i))
		return json_null();
	return json_pack("{s:o, s:s, s:b, s:I, s:o}", "node",
			 json_bytes(i.node), "addr", i.addr, "outgoing",
			 (int)i.is_outgoing, "ago_ms",
			 (json_int_t)(i.ago_ns / 1000000), "error",
			 json_bytes(i.why));
}

static json_t *totals_json(const struct p2p_stats *s)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "rack_bytes",
			 (json_int_t)s->rack_bytes_total, "zone_bytes",
			 (json_int_t)s->zone_bytes_total, "remote_bytes",
			 (json_int_t)s->remote_bytes_total, "origin_bytes",
			 (json_int_t)s->origin_bytes_total, "served_bytes",
			 (json_int_t)s->served_bytes_total, "rdma_bytes",
			 (json_int_t)s->rdma_bytes_total, "tracker",
			 (int)(s->trackers_good != 0));
}

void image_swarms_stats(struct image_swarms *s, struct p2p_stats *ret)
{
	*ret = (struct p2p_stats){ .peers = 0 };
	if (s)
		p2p_get_stats(s->p2p, ret);
}

json_t *image_swarms_json(struct image_swarms *all)
{
	AUTO_JSON *peers = json_array();
	AUTO_JSON *images = json_array();
	AUTO_JSON *trackers = json_array();
	struct p2p_stats s;
	struct p2p *p2p;

	if (!peers || !images || !trackers)
		return NULL;
	if (!all)
		return json_pack("{s:b}", "on", 0);
	p2p = all->p2p;
	if (p2p_each_peer(p2p, add_peer, peers, NULL) < 0 ||
	    p2p_each_image(p2p, add_image, images, NULL) < 0)
		return NULL;
	p2p_get_stats(p2p, &s);
	p2p_each_tracker(p2p, add_tracker, trackers);
	return json_pack("{s:b, s:s, s:I, s:o, s:O, s:o, s:o, s:I, s:O, s:O}",
			 "on", 1, "node", all->name, "port",
			 (json_int_t)p2p_port(p2p), "totals", totals_json(&s),
			 "trackers", trackers, "failures", failures_json(&s),
			 "last_failure", last_failure_json(p2p),
			 "certificate_not_after", (json_int_t)s.cert_not_after,
			 "peers", peers, "images", images);
}
