// SPDX-License-Identifier: Apache-2.0
/* Answers about bootseerd itself: node.status and /metrics. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "common/clock.h"
#include "common/counter.h"
#include "common/json.h"
#include "fuse/fuse.h"
#include "snapshotter/datapath.h"
#include "snapshotter/node/control/control.h"
#include "snapshotter/node/control/disk.h"
#include "snapshotter/node/control/environment.h"
#include "snapshotter/node/control/node.h"
#include "snapshotter/node/control/registries.h"
#include "snapshotter/node/control/status.h"
#include "snapshotter/node/mirror/mirror.h"
#include "snapshotter/node/peers/image_swarm.h"
#include "snapshotter/node/starts/mount.h"
#include "snapshotter/node/starts/prefetch.h"
#include "snapshotter/node/starts/starts.h"
#include "snapshotter/node/traces/trace_lookup.h"
#include "snapshotter/node/trust/admission.h"
#include "snapshotter/node/trust/key_revocations.h"

/* Everything that /metrics shows, as plain numbers. */
struct figures {
	uint64_t calls, calls_failed;
	uint64_t prepares, prepares_fetched, prepares_stale, prepares_failed;
	uint64_t prepares_untrusted;
	uint64_t mounts_lazy, mounts_complete, mounts_adopted, mounts_failed;
	uint64_t layers_applied, reloads, reloads_failed;
	uint64_t images, images_mounted, images_complete, users;
	uint64_t reads, read_bytes, misses, fetches, fetched_bytes, read_errors;
	uint64_t blocks, blocks_held;
	struct datapath_stats datapath;
	struct cache_stats cache;
	struct prefetch_sums prefetch;
	struct starts_stats starts;
	struct trace_lookup_stats traces;
	struct p2p_stats p2p;
	struct mirror_stats mirror;
	struct key_revocations_stats trust;
	uint64_t trust_asked_s;
	struct disk_usage disk;
	uint64_t doctor_missing, doctor_advice, doctor_at;
	uint64_t resident_bytes, started_at;
};

#define AT(member) offsetof(struct figures, member)

static const struct counter_spec table[] = {
	{ "calls_total", COUNTER_TOTAL, AT(calls),
	  "Requests on the control socket." },
	{ "calls_failed_total", COUNTER_TOTAL, AT(calls_failed),
	  "Requests answered with an error." },
	{ "prepares_total", COUNTER_TOTAL, AT(prepares),
	  "Images asked for by image.prepare." },
	{ "prepares_fetched_total", COUNTER_TOTAL, AT(prepares_fetched),
	  "Images whose metadata was fetched." },
	{ "prepares_stale_total", COUNTER_TOTAL, AT(prepares_stale),
	  "Tags answered from memory because the registry was out of reach." },
	{ "prepares_failed_total", COUNTER_TOTAL, AT(prepares_failed),
	  "Images that could not be prepared: the disk is full, the registry "
	  "fails or refuses; one that is not there is none." },
	{ "prepares_untrusted_total", COUNTER_TOTAL, AT(prepares_untrusted),
	  "Images whose artifact no --trust rule allows: they start the "
	  "ordinary way; bootseer node doctor says why." },
	{ "mounts_lazy_total", COUNTER_TOTAL, AT(mounts_lazy),
	  "Images mounted, or adopted, with blocks fetched on demand." },
	{ "mounts_complete_total", COUNTER_TOTAL, AT(mounts_complete),
	  "Images mounted straight from the cache's files." },
	{ "mounts_adopted_total", COUNTER_TOTAL, AT(mounts_adopted),
	  "Complete mounts taken over from the bootseerd before." },
	{ "mounts_failed_total", COUNTER_TOTAL, AT(mounts_failed),
	  "Mounts that failed." },
	{ "layers_applied_total", COUNTER_TOTAL, AT(layers_applied),
	  "Ordinary layers unpacked." },
	{ "reloads_total", COUNTER_TOTAL, AT(reloads),
	  "Times that credentials were read again." },
	{ "reloads_failed_total", COUNTER_TOTAL, AT(reloads_failed),
	  "Of these, times that some could not be used." },
	{ "images", COUNTER_GAUGE, AT(images), "Images on the node." },
	{ "images_mounted", COUNTER_GAUGE, AT(images_mounted),
	  "Images mounted now." },
	{ "images_complete", COUNTER_GAUGE, AT(images_complete),
	  "Images mounted now without a daemon in the path." },
	{ "images_no_xattr", COUNTER_GAUGE, AT(datapath.images_no_xattr),
	  "Images on the data path fuse whose files have no extended "
	  "attributes: the kernel does not ask for any." },
	{ "xattr_requests_total", COUNTER_TOTAL, AT(datapath.xattr_requests),
	  "Questions for extended attributes that reached bootseerd, on the "
	  "data path fuse only." },
	{ "users", COUNTER_GAUGE, AT(users), "Users of mounts." },
	{ "reads_total", COUNTER_TOTAL, AT(reads),
	  "Reads of lazy mounts that reached bootseerd." },
	{ "read_bytes_total", COUNTER_TOTAL, AT(read_bytes),
	  "Bytes of these reads." },
	{ "misses_total", COUNTER_TOTAL, AT(misses),
	  "Reads that had to wait for a registry." },
	{ "fetches_total", COUNTER_TOTAL, AT(fetches),
	  "Requests for blocks to registries." },
	{ "fetched_bytes_total", COUNTER_TOTAL, AT(fetched_bytes),
	  "Stored bytes of blocks that registries sent." },
	{ "read_errors_total", COUNTER_TOTAL, AT(read_errors),
	  "Reads that failed." },
	{ "blocks", COUNTER_GAUGE, AT(blocks),
	  "Blocks of the images mounted lazily now." },
	{ "blocks_held", COUNTER_GAUGE, AT(blocks_held),
	  "Those of them that are in the cache." },
	{ "cache_bytes", COUNTER_GAUGE, AT(cache.bytes),
	  "Bytes of blocks in the cache." },
	{ "cache_blocks", COUNTER_GAUGE, AT(cache.blocks),
	  "Blocks in the cache." },
	{ "cache_pinned_bytes", COUNTER_GAUGE, AT(cache.pinned_bytes),
	  "Bytes of blocks that may not be evicted." },
	{ "cache_quota_bytes", COUNTER_GAUGE, AT(cache.quota),
	  "Bytes that the cache may keep." },
	{ "disk_images_bytes", COUNTER_GAUGE, AT(disk.images),
	  "Bytes on the disk of images' metadata." },
	{ "disk_stages_bytes", COUNTER_GAUGE, AT(disk.stages),
	  "The same of images that are being fetched." },
	{ "disk_traces_bytes", COUNTER_GAUGE, AT(disk.traces),
	  "The same of recordings." },
	{ "disk_peers_bytes", COUNTER_GAUGE, AT(disk.peers),
	  "The same of blocks kept to be passed on." },
	{ "disk_index_bytes", COUNTER_GAUGE, AT(disk.index),
	  "The same of the cache's index." },
	{ "disk_environments_bytes", COUNTER_GAUGE, AT(disk.environments),
	  "The same of what may be written into mounted environments." },
	{ "disk_other_bytes", COUNTER_GAUGE, AT(disk.other),
	  "The same of all else below ROOT." },
	{ "cache_hits_total", COUNTER_TOTAL, AT(cache.hits),
	  "Blocks read from the cache." },
	{ "cache_misses_total", COUNTER_TOTAL, AT(cache.misses),
	  "Blocks asked for that the cache had not." },
	{ "cache_verified_total", COUNTER_TOTAL, AT(cache.verified),
	  "Blocks hashed before their first use." },
	{ "cache_damaged_total", COUNTER_TOTAL, AT(cache.damaged),
	  "Blocks found damaged on disk and dropped." },
	{ "cache_scrubbed_bytes_total", COUNTER_TOTAL, AT(cache.scrubbed),
	  "Bytes of blocks read from the disk again and compared." },
	{ "cache_mended_total", COUNTER_TOTAL, AT(cache.mended),
	  "Blocks damaged on the disk and written again from memory." },
	{ "cache_evicted_total", COUNTER_TOTAL, AT(cache.evicted),
	  "Blocks dropped to make room." },
	{ "cache_put_failed_total", COUNTER_TOTAL, AT(cache.put_failed),
	  "Blocks that could not be kept." },
	{ "cache_mounts_lingering", COUNTER_GAUGE, AT(cache.mounts_lingering),
	  "Complete mounts whose mount point is gone and that are in use "
	  "yet: their blocks stay." },
	{ "cache_frozen_files", COUNTER_GAUGE, AT(cache.frozen_files),
	  "Files of the cache that something unknown reads: nothing in them is "
	  "freed." },
	{ "cache_frozen_bytes", COUNTER_GAUGE, AT(cache.frozen_bytes),
	  "Bytes in these files that are of no known block." },
	{ "prefetches", COUNTER_GAUGE, AT(prefetch.under_way),
	  "Images that are prefetched now." },
	{ "prefetch_hot_bytes_total", COUNTER_TOTAL, AT(prefetch.hot_bytes),
	  "Stored bytes of recorded blocks fetched before they were read." },
	{ "prefetch_cold_bytes_total", COUNTER_TOTAL, AT(prefetch.cold_bytes),
	  "The same of the rest of images." },
	{ "prefetch_hot_blocks_total", COUNTER_TOTAL, AT(prefetch.hot_blocks),
	  "Recorded blocks fetched before they were read." },
	{ "prefetch_cold_blocks_total", COUNTER_TOTAL, AT(prefetch.cold_blocks),
	  "The same of the rest of images." },
	{ "prefetch_pauses_total", COUNTER_TOTAL, AT(prefetch.pauses),
	  "Times that a prefetch waited because the node was short of disk or "
	  "memory." },
	{ "prefetch_failures_total", COUNTER_TOTAL, AT(prefetch.failures),
	  "Times that a prefetch was stopped by an error." },
	{ "starts_total", COUNTER_TOTAL, AT(starts.begun),
	  "Starts of containers and in environments, and recordings." },
	{ "starts_with_trace_total", COUNTER_TOTAL, AT(starts.with_trace),
	  "Those of them for which a trace was found." },
	{ "starts_ready_total", COUNTER_TOTAL, AT(starts.ready),
	  "Starts that said that they were ready." },
	{ "starts_unready_total", COUNTER_TOTAL, AT(starts.unready),
	  "Starts that ended otherwise." },
	{ "starts_under_way", COUNTER_GAUGE, AT(starts.under_way),
	  "Starts watched now." },
	{ "starts_recorded_total", COUNTER_TOTAL, AT(starts.recorded),
	  "Recordings that were kept." },
	{ "starts_record_failed_total", COUNTER_TOTAL, AT(starts.record_failed),
	  "Recordings that could not be kept." },
	{ "starts_waited_ms_total", COUNTER_TOTAL, AT(starts.waited_ms),
	  "Milliseconds that starts waited for their hot sets." },
	{ "starts_missed_blocks_total", COUNTER_TOTAL, AT(starts.misses),
	  "Blocks that starts had to wait for." },
	{ "starts_hot_used_bytes_total", COUNTER_TOTAL,
	  AT(starts.hot_used_bytes),
	  "Stored bytes of hot sets that starts read." },
	{ "starts_hot_unused_bytes_total", COUNTER_TOTAL,
	  AT(starts.hot_unused_bytes),
	  "Stored bytes of hot sets that starts did not read." },
	{ "starts_predicted_total", COUNTER_TOTAL, AT(starts.predicted),
	  "Starts without a trace for which there was a prediction." },
	{ "starts_predicted_used_bytes_total", COUNTER_TOTAL,
	  AT(starts.predicted_used_bytes),
	  "Stored bytes that were fetched by predictions and read." },
	{ "starts_predicted_unused_bytes_total", COUNTER_TOTAL,
	  AT(starts.predicted_unused_bytes),
	  "Stored bytes that were fetched by predictions and not read." },
	{ "start_ready_seconds", COUNTER_SECONDS, AT(starts.ready_after),
	  "Time from start.begin to ready, the wait included." },
	{ "start_reports_sent_total", COUNTER_TOTAL, AT(starts.reports_sent),
	  "Starts of which the service was told how they went." },
	{ "start_reports_waiting", COUNTER_GAUGE, AT(starts.reports_waiting),
	  "Starts of which it is yet to be told." },
	{ "start_reports_dropped_total", COUNTER_TOTAL,
	  AT(starts.reports_dropped),
	  "Starts of which it is not told: too many waited, or it refused." },
	{ "trace_lookups_total", COUNTER_TOTAL, AT(traces.lookups),
	  "Searches for traces." },
	{ "trace_found_total", COUNTER_TOTAL, AT(traces.found),
	  "Searches that found one." },
	{ "trace_store_failures_total", COUNTER_TOTAL, AT(traces.failed),
	  "Stores that failed in a search." },
	{ "traces_sent_total", COUNTER_TOTAL, AT(traces.sent),
	  "Recordings sent to the service and to registries." },
	{ "traces_waiting", COUNTER_GAUGE, AT(traces.waiting),
	  "Recordings that wait to be sent." },
	{ "trust_revoked_keys", COUNTER_GAUGE, AT(trust.keys),
	  "Keys of images that are not believed any more." },
	{ "trust_revoked_failures_total", COUNTER_TOTAL,
	  AT(trust.failures_total),
	  "Times that a service did not tell which these are." },
	{ "trust_revoked_asked_seconds", COUNTER_GAUGE, AT(trust_asked_s),
	  "When all last did, seconds since 1970; 0: not since the start." },
	{ "p2p_peers", COUNTER_GAUGE, AT(p2p.peers),
	  "Nodes that blocks are exchanged with now." },
	{ "p2p_images", COUNTER_GAUGE, AT(p2p.images),
	  "Swarms: one of an image's blocks, one of its metadata." },
	{ "p2p_images_refused", COUNTER_GAUGE, AT(p2p.images_refused),
	  "Those of them that this node was given no capability for." },
	{ "p2p_rack_bytes_total", COUNTER_TOTAL, AT(p2p.rack_bytes_total),
	  "Bytes of blocks from nodes of this rack." },
	{ "p2p_zone_bytes_total", COUNTER_TOTAL, AT(p2p.zone_bytes_total),
	  "Bytes of blocks from other nodes of this zone." },
	{ "p2p_remote_bytes_total", COUNTER_TOTAL, AT(p2p.remote_bytes_total),
	  "Bytes of blocks from nodes further away." },
	{ "p2p_origin_bytes_total", COUNTER_TOTAL, AT(p2p.origin_bytes_total),
	  "Stored bytes that this node read from registries for the swarm." },
	{ "p2p_served_bytes_total", COUNTER_TOTAL, AT(p2p.served_bytes_total),
	  "Bytes of blocks sent to other nodes." },
	{ "p2p_rdma_bytes_total", COUNTER_TOTAL, AT(p2p.rdma_bytes_total),
	  "Those of all these that moved by RDMA." },
	{ "p2p_twice_bytes_total", COUNTER_TOTAL, AT(p2p.twice_bytes_total),
	  "Bytes that came though they were here already." },
	{ "p2p_dropped_bytes_total", COUNTER_TOTAL, AT(p2p.dropped_bytes_total),
	  "Bytes of blocks that were on their way when they were not wanted "
	  "any more." },
	{ "p2p_wrong_total", COUNTER_TOTAL, AT(p2p.wrong_total),
	  "Blocks of other nodes that were not what they should be." },
	{ "p2p_strikes_total", COUNTER_TOTAL, AT(p2p.strikes_total),
	  "Times that a node was found to lie or to stall." },
	{ "p2p_stalls_total", COUNTER_TOTAL, AT(p2p.stalls_total),
	  "Blocks asked for elsewhere because nothing came." },
	{ "p2p_hedges_total", COUNTER_TOTAL, AT(p2p.hedges_total),
	  "Blocks for readers asked for at a second node." },
	{ "p2p_hedges_won_total", COUNTER_TOTAL, AT(p2p.hedges_won_total),
	  "Those where the second was first." },
	{ "p2p_refused_total", COUNTER_TOTAL, AT(p2p.refused_total),
	  "Requests that other nodes had no place for." },
	{ "p2p_denied_total", COUNTER_TOTAL, AT(p2p.denied_total),
	  "Nodes that were refused an image that they have no right to." },
	{ "p2p_links_unreachable_total", COUNTER_TOTAL,
	  AT(p2p.links_unreachable_total),
	  "Links that did not come about: nobody answered there." },
	{ "p2p_links_untrusted_total", COUNTER_TOTAL,
	  AT(p2p.links_untrusted_total),
	  "The same: a certificate or a name was not believed." },
	{ "p2p_links_unlike_total", COUNTER_TOTAL, AT(p2p.links_unlike_total),
	  "The same: the other side has another p2p-security, or is no "
	  "node." },
	{ "p2p_links_namesake_total", COUNTER_TOTAL,
	  AT(p2p.links_namesake_total),
	  "Times that another node was found to have this one's name." },
	{ "p2p_links_refused_total", COUNTER_TOTAL, AT(p2p.links_refused_total),
	  "The same: the other side closed the link, or said nothing." },
	{ "p2p_leases_total", COUNTER_TOTAL, AT(p2p.leases_total),
	  "Blocks that the tracker let this node read from registries." },
	{ "p2p_tracker_calls_total", COUNTER_TOTAL, AT(p2p.tracker_calls_total),
	  "Calls to trackers." },
	{ "p2p_tracker_failures_total", COUNTER_TOTAL,
	  AT(p2p.tracker_failures_total), "Calls that failed." },
	{ "p2p_trackers", COUNTER_GAUGE, AT(p2p.trackers),
	  "Trackers that are named." },
	{ "p2p_trackers_good", COUNTER_GAUGE, AT(p2p.trackers_good),
	  "Those of them that do what they are asked." },
	{ "p2p_trackers_lost", COUNTER_GAUGE, AT(p2p.trackers_lost),
	  "Those that do not answer." },
	{ "p2p_trackers_refusing", COUNTER_GAUGE, AT(p2p.trackers_refusing),
	  "Those that refuse this node, or are no trackers." },
	{ "p2p_certificate_not_after_seconds", COUNTER_GAUGE,
	  AT(p2p.cert_not_after),
	  "When this node's certificate, or its authority's, ends, seconds "
	  "since 1970; 0: it has none." },
	{ "p2p_relay_bytes", COUNTER_GAUGE, AT(p2p.relay_bytes),
	  "Bytes kept to be passed on." },
	{ "p2p_memory_bytes", COUNTER_GAUGE, AT(p2p.memory_bytes),
	  "Memory of blocks that are on their way." },
	{ "mirror_layers", COUNTER_GAUGE, AT(mirror.layers),
	  "Layers of ordinary images that are kept for peers (--mirror)." },
	{ "mirror_layers_bytes", COUNTER_GAUGE, AT(mirror.layers_bytes),
	  "Their bytes." },
	{ "mirror_served_total", COUNTER_TOTAL, AT(mirror.served_total),
	  "Requests of containerd for layers that the mirror answered." },
	{ "mirror_passed_total", COUNTER_TOTAL, AT(mirror.passed_total),
	  "Those that it left to the registry: the image is not known to it, or "
	  "there was no room." },
	{ "mirror_failed_total", COUNTER_TOTAL, AT(mirror.failed_total),
	  "Layers that could not be had, so that containerd got them itself." },
	{ "mirror_wrong_total", COUNTER_TOTAL, AT(mirror.wrong_total),
	  "Nodes that were found to have sent wrong bytes of layers." },
	{ "mirror_served_bytes_total", COUNTER_TOTAL,
	  AT(mirror.served_bytes_total), "Bytes sent to containerd." },
	{ "mirror_registry_bytes_total", COUNTER_TOTAL,
	  AT(mirror.registry_bytes_total),
	  "Bytes of layers that came from registries." },
	{ "mirror_peers_bytes_total", COUNTER_TOTAL,
	  AT(mirror.peers_bytes_total), "The same from other nodes." },
	{ "doctor_failures", COUNTER_GAUGE, AT(doctor_missing),
	  "What the node needs and lacks, by the last bootseer node doctor "
	  "--report." },
	{ "doctor_advice", COUNTER_GAUGE, AT(doctor_advice),
	  "What that advised." },
	{ "doctor_time_seconds", COUNTER_GAUGE, AT(doctor_at),
	  "When it was, seconds since 1970; 0: not since the start." },
	{ "resident_bytes", COUNTER_GAUGE, AT(resident_bytes),
	  "Memory of the process, VmRSS." },
	{ "start_time_seconds", COUNTER_GAUGE, AT(started_at),
	  "When bootseerd started, seconds since 1970." },
	{ NULL, 0, 0, NULL },
};

static uint64_t resident_bytes(void)
{
	unsigned long pages = 0, all;
	AUTO_FCLOSE FILE *f = fopen("/proc/self/statm", "re");

	if (!f || fscanf(f, "%lu %lu", &all, &pages) != 2)
		return 0;
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void add_device_figures(struct figures *f, const struct device_stats *d)
{
	f->reads += d->reads;
	f->read_bytes += d->read_bytes;
	f->misses += d->misses;
	f->fetches += d->fetches;
	f->fetched_bytes += d->fetched_bytes;
	f->read_errors += d->errors;
	f->blocks += d->blocks;
}

/* Count an image's blocks in the cache.  The mount is held instead of the lock, since the count
 * visits every block and the lock is shared by all images. */
static size_t count_held(struct image *i)
{
	struct mounted *m = mounted_hold(i);
	size_t n = m ? device_count_held(m->device) : 0;

	mounted_release(m);
	return n;
}

static void add_image_figures(struct node *n, struct image *i,
			      struct figures *f)
{
	struct device_stats d;

	images_lock(n->images);
	f->images++;
	f->users += i->state.users.n;
	f->images_mounted += i->mounted != NULL;
	if (i->mounted && mounted_stats(i->mounted, &d))
		add_device_figures(f, &d);
	else if (i->mounted)
		f->images_complete++;
	images_unlock(n->images);
	f->blocks_held += count_held(i);
}

static int gather_figures(struct node *n, struct figures *f, struct error *err)
{
	const struct node_events *e = &n->events;
	struct mounts_stats mounts;
	struct image **list;
	size_t len, k;
	int rc;

	mounts_get_stats(n->mounts, &mounts);
	*f = (struct figures){
		.calls = atomic_load(&e->calls),
		.calls_failed = atomic_load(&e->calls_failed),
		.prepares = atomic_load(&e->prepares),
		.prepares_fetched = atomic_load(&e->prepares_fetched),
		.prepares_stale = atomic_load(&e->prepares_stale),
		.prepares_failed = atomic_load(&e->prepares_failed),
		.prepares_untrusted = atomic_load(&e->prepares_untrusted),
		.mounts_lazy = mounts.lazy,
		.mounts_complete = mounts.complete,
		.mounts_adopted = mounts.adopted,
		.mounts_failed = mounts.failed,
		.layers_applied = atomic_load(&e->layers_applied),
		.reloads = atomic_load(&e->reloads),
		.reloads_failed = atomic_load(&e->reloads_failed),
		.doctor_missing = atomic_load(&n->doctor.missing),
		.doctor_advice = atomic_load(&n->doctor.advice),
		.doctor_at = atomic_load(&n->doctor.at),
		.resident_bytes = resident_bytes(),
		.started_at = (uint64_t)n->started_at,
	};
	if (n->datapath->ops->get_stats)
		n->datapath->ops->get_stats(n->datapath, &f->datapath);
	cache_get_stats(n->cache, &f->cache);
	disk_get(n->disk, &f->disk);
	node_prefetch_sums(n->prefetches, &f->prefetch);
	starts_get_stats(n->starts, &f->starts);
	trace_lookup_get_stats(n->traces, &f->traces);
	image_swarms_stats(n->peers, &f->p2p);
	mirror_get_stats(n->mirror, &f->mirror);
	key_revocations_get_stats(n->key_revocations, &f->trust);
	f->trust_asked_s = (uint64_t)f->trust.asked_s;
	f->fetches = f->prefetch.fetches;
	f->fetched_bytes = f->prefetch.fetched_bytes;
	add_device_figures(f, &mounts.past);
	rc = images_list(n->images, &list, &len, err);
	if (rc < 0)
		return rc;
	for (k = 0; k < len; k++)
		add_image_figures(n, list[k], f);
	images_list_free(list, len);
	return 0;
}

int node_metrics(struct node *n, struct buf *ret)
{
	struct figures f;
	int rc = gather_figures(n, &f, NULL);

	return rc < 0 ? rc : counter_format(table, &f, "bootseer_node_", ret);
}

void node_metrics_list(FILE *out)
{
	counter_list(table, "bootseer_node_", out);
}

/* ------------------------------------------------------------------ status --- */

static json_t *names_json(const struct names *l)
{
	json_t *list = json_array();
	size_t k;

	for (k = 0; list && k < l->n; k++)
		(void)json_array_append_new(list, json_string(l->v[k]));
	return list;
}

static json_t *device_json(const struct device_stats *d, size_t held)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "reads",
			 (json_int_t)d->reads, "read_bytes",
			 (json_int_t)d->read_bytes, "misses",
			 (json_int_t)d->misses, "fetches",
			 (json_int_t)d->fetches, "fetched_bytes",
			 (json_int_t)d->fetched_bytes, "errors",
			 (json_int_t)d->errors, "blocks", (json_int_t)d->blocks,
			 "blocks_held", (json_int_t)held);
}

static const char *mode_of(const struct image *i)
{
	if (!i->mounted)
		return "none";
	return mounted_is_complete(i->mounted) ? "complete" : "lazy";
}

json_t *node_prefetch_json(struct image *i)
{
	struct prefetch_stats s;
	json_t *j;

	(void)node_prefetch_stats(i, &s);
	j = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "phase",
		      prefetch_phase_name(s.phase), "hot_bytes",
		      (json_int_t)s.hot_bytes, "hot_have_bytes",
		      (json_int_t)s.hot_have_bytes, "all_bytes",
		      (json_int_t)s.all_bytes, "all_have_bytes",
		      (json_int_t)s.all_have_bytes, "fetched_bytes",
		      (json_int_t)(s.hot_fetched_bytes + s.cold_fetched_bytes),
		      "hot_ms", (json_int_t)(s.hot_ns / 1000000), "all_ms",
		      (json_int_t)(s.all_ns / 1000000));
	if (j && s.error.code)
		(void)json_object_set_new(j, "error", json_bytes(s.error.msg));
	return j;
}

static json_t *error_json(const struct error *e, int64_t at)
{
	return json_pack("{s:I, s:i, s:o}", "at", (json_int_t)at, "errno",
			 e->code, "message", json_bytes(e->msg));
}

static json_t *image_json(struct node *n, struct image *i)
{
	AUTO_FREE char *label = image_label(i);
	char id[DIGEST_STR_MAX], manifest[DIGEST_STR_MAX];
	char artifact[DIGEST_STR_MAX];
	size_t held = count_held(i);
	struct device_stats d = { .error_at = 0 };
	json_t *j;

	digest_format(&i->id, id);
	digest_format(&i->artifact.image, manifest);
	digest_format(&i->artifact.digest, artifact);
	images_lock(n->images);
	j = json_pack("{s:s, s:o, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:o, s:o}",
		      "id", id, "name", json_bytes(label ? label : id),
		      "manifest", manifest, "artifact", artifact, "mode",
		      mode_of(i), "path", i->mountpoint, "packs",
		      (json_int_t)i->artifact.n_packs, "device_bytes",
		      (json_int_t)i->artifact.device_size, "image_bytes",
		      (json_int_t)i->artifact.image_size, "names",
		      names_json(&i->state.names), "users",
		      names_json(&i->state.users));
	if (j && i->mounted && mounted_stats(i->mounted, &d))
		(void)json_object_set_new(j, "device", device_json(&d, held));
	if (j && (i->last_error_at || d.error_at))
		(void)json_object_set_new(j, "last_error",
					  d.error_at < i->last_error_at
						  ? error_json(&i->last_error,
							       i->last_error_at)
						  : error_json(&d.error,
							       d.error_at));
	images_unlock(n->images);
	if (j)
		(void)json_object_set_new(j, "prefetch", node_prefetch_json(i));
	return j;
}

static void add_users(struct image *i, const char *prefix, json_t *list)
{
	const struct names *users = &i->state.users;

	images_lock(i->all);
	for (size_t k = 0; k < users->n; k++) {
		if (strncmp(users->v[k], prefix, strlen(prefix)) == 0)
			(void)json_array_append_new(list,
						    json_string(users->v[k]));
	}
	images_unlock(i->all);
}

json_t *node_users(struct node *n, const char *prefix)
{
	AUTO_JSON *users = json_array();
	struct image **list;
	size_t len;

	if (!users || images_list(n->images, &list, &len, NULL) < 0)
		return NULL;
	for (size_t k = 0; k < len; k++)
		add_users(list[k], prefix, users);
	images_list_free(list, len);
	return json_pack("{s:O}", "users", users);
}

static json_t *cache_json(const struct cache_stats *c)
{
	int64_t since_ns = clock_now_ns() - c->put_failed_ns;

	return json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
		"s:I, s:I, s:I, s:I, s:I}",
		"bytes", (json_int_t)c->bytes, "blocks", (json_int_t)c->blocks,
		"pinned_bytes", (json_int_t)c->pinned_bytes, "quota",
		(json_int_t)c->quota, "hits", (json_int_t)c->hits, "misses",
		(json_int_t)c->misses, "verified", (json_int_t)c->verified,
		"damaged", (json_int_t)c->damaged, "evicted",
		(json_int_t)c->evicted, "put_failed", (json_int_t)c->put_failed,
		"put_failed_seconds",
		(json_int_t)(c->put_failed ? since_ns / INT64_C(1000000000)
					   : -1),
		"mounts_lingering", (json_int_t)c->mounts_lingering,
		"frozen_files", (json_int_t)c->frozen_files, "frozen_bytes",
		(json_int_t)c->frozen_bytes, "scrubbed",
		(json_int_t)c->scrubbed, "mended", (json_int_t)c->mended);
}

static json_t *disk_json(const struct disk_usage *u, unsigned int min_free)
{
	return json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
			 "min_free_percent", (int)min_free, "images",
			 (json_int_t)u->images, "stages", (json_int_t)u->stages,
			 "traces", (json_int_t)u->traces, "peers",
			 (json_int_t)u->peers, "index", (json_int_t)u->index,
			 "environments", (json_int_t)u->environments, "other",
			 (json_int_t)u->other);
}

static void add_environment(void *arg, const struct environment_room *r)
{
	(void)json_array_append_new(arg,
				    json_pack("{s:s, s:I, s:I}", "name",
					      r->name, "bytes",
					      (json_int_t)r->all, "free_bytes",
					      (json_int_t)r->left));
}

/* The counts of peers only; p2p.status has the details. */
static json_t *p2p_json(const struct node *n, const struct p2p_stats *p)
{
	if (!n->peers)
		return json_null();
	return json_pack("{s:I, s:I, s:I, s:I}", "peers", (json_int_t)p->peers,
			 "trackers", (json_int_t)p->trackers, "trackers_bad",
			 (json_int_t)(p->trackers_lost + p->trackers_refusing),
			 "links_failed",
			 (json_int_t)(p->links_unreachable_total +
				      p->links_untrusted_total +
				      p->links_unlike_total +
				      p->links_namesake_total +
				      p->links_refused_total));
}

/* The options for reaching registries, for commands that ask a registry themselves. */
static json_t *access_json(const struct node_config *cfg)
{
	json_t *plain = json_array();
	char **host;

	for (host = cfg->plain_http; plain && host && *host; host++)
		(void)json_array_append_new(plain, json_string(*host));
	return json_pack("{s:s?, s:s?, s:s?, s:o}", "auth_file", cfg->auth_file,
			 "ca_file", cfg->ca_file, "hosts_dirs", cfg->hosts_dir,
			 "plain_http", plain);
}

json_t *node_status(struct node *n)
{
	AUTO_JSON *images = json_array();
	AUTO_JSON *environments = json_array();
	struct image **list;
	struct figures f;
	size_t len, k;

	if (!images || !environments || gather_figures(n, &f, NULL) < 0 ||
	    images_list(n->images, &list, &len, NULL) < 0)
		return NULL;
	for (k = 0; k < len; k++)
		(void)json_array_append_new(images, image_json(n, list[k]));
	images_list_free(list, len);
	environments_each_room(&n->environments, add_environment, environments);
	return json_pack(
		"{s:s, s:i, s:I, s:s, s:b, s:s, s:s, s:I, s:I, s:o, s:o, "
		"s:O, s:o, s:o, s:s?, s:s, s:o, s:o, s:o, s:O}",
		"version", BOOTSEER_VERSION, "pid", (int)getpid(), "started_at",
		(json_int_t)n->started_at, "datapath", n->datapath->ops->name,
		"survives_crash", (int)fd_keeper_is_durable(n->keeper), "root",
		n->cfg->root, "run", n->cfg->run, "resident_bytes",
		(json_int_t)f.resident_bytes, "fetched_bytes",
		(json_int_t)f.fetched_bytes, "cache", cache_json(&f.cache),
		"disk", disk_json(&f.disk, n->min_free), "images", images,
		"starts", starts_under_way(n->starts), "p2p",
		p2p_json(n, &f.p2p), "mirror", n->cfg->mirror,
		"containerd_root", n->cfg->containerd_root, "untrusted",
		admission_refusals(n->admission), "registries",
		node_registries(n->origins), "access", access_json(n->cfg),
		"environments", environments);
}
