// SPDX-License-Identifier: Apache-2.0
/* Collects a mount's metrics, as a table for Prometheus (also in docs/checkpoints.md) and as its
 * status in JSON. */
#include <errno.h>
#include <unistd.h>

#include "ckpt-fuse/mount/mount.h"
#include "common/clock.h"
#include "common/counter.h"
#include "common/json.h"

#define PREFIX "bootseer_ckpt_"
/* Bytes in a status for paths of lost files; a further path is added while below that. */
#define STATUS_LOST_MAX 4096u

struct ckpt_figures {
	uint64_t save_bytes, save_ns, load_bytes, load_ns, fetched, unused;
	struct ckpt_waits waits;
	uint64_t commits, failures, written, staged, lost;
	uint64_t memory, memory_used, memory_peak, requests, retries, hedges;
	struct group_stats group;
	struct saves_stats saves;
	struct blocks_stats blocks;
	struct disk_cache_stats cache;
	struct counter_latency read, write, name;
};

#define AT(member) offsetof(struct ckpt_figures, member)

static const struct counter_spec figures[] = {
	{ "save_bytes_total", COUNTER_TOTAL, AT(save_bytes),
	  "Bytes that programs wrote." },
	{ "save_seconds_total", COUNTER_NS, AT(save_ns),
	  "Time that programs waited in write, close and fsync." },
	{ "load_bytes_total", COUNTER_TOTAL, AT(load_bytes),
	  "Bytes that programs read." },
	{ "load_seconds_total", COUNTER_NS, AT(load_ns),
	  "Time that programs waited in open and read." },
	{ "fetched_bytes_total", COUNTER_TOTAL, AT(fetched),
	  "Bytes that were read from the store in blocks, also ahead." },
	{ "unused_bytes_total", COUNTER_TOTAL, AT(unused),
	  "Bytes of these that nobody read." },
	{ "save_queue_seconds_total", COUNTER_NS, AT(waits.save.queue_ns),
	  "Time that bytes to be stored waited for memory, places and threads." },
	{ "save_storage_seconds_total", COUNTER_NS, AT(waits.save.storage_ns),
	  "Time that puts of bytes waited for the store's answer." },
	{ "save_network_seconds_total", COUNTER_NS, AT(waits.save.network_ns),
	  "Time that puts of bytes took to connect and to send them." },
	{ "load_queue_seconds_total", COUNTER_NS, AT(waits.load.queue_ns),
	  "Time that blocks to be read waited for threads." },
	{ "load_storage_seconds_total", COUNTER_NS, AT(waits.load.storage_ns),
	  "Time that reads of ranges waited for the store's first byte." },
	{ "load_network_seconds_total", COUNTER_NS, AT(waits.load.network_ns),
	  "Time that reads of ranges took to connect and for all other bytes." },
	{ "commits_total", COUNTER_TOTAL, AT(commits),
	  "Files that became durable." },
	{ "failures_total", COUNTER_TOTAL, AT(failures),
	  "Files whose bytes could not be stored." },
	{ "files_written", COUNTER_GAUGE, AT(written),
	  "Files that are open to be written." },
	{ "files_staged", COUNTER_GAUGE, AT(staged),
	  "Files that were closed and are not stored yet." },
	{ "files_lost", COUNTER_GAUGE, AT(lost),
	  "Files that were closed and could not be stored." },
	{ "memory_bytes", COUNTER_GAUGE, AT(memory),
	  "Memory that may be used for what is written and read ahead." },
	{ "memory_used_bytes", COUNTER_GAUGE, AT(memory_used),
	  "Memory of that which is used." },
	{ "store_requests_total", COUNTER_TOTAL, AT(requests),
	  "Requests to the store." },
	{ "store_retries_total", COUNTER_TOTAL, AT(retries),
	  "Requests that were made again." },
	{ "store_hedges_total", COUNTER_TOTAL, AT(hedges),
	  "Requests that were made beside a slow one." },
	{ "store_read_seconds", COUNTER_LATENCY, AT(read),
	  "How long reads of ranges took." },
	{ "store_write_seconds", COUNTER_LATENCY, AT(write),
	  "How long puts of bytes, and commits of objects, took." },
	{ "store_name_seconds", COUNTER_LATENCY, AT(name),
	  "How long calls about names took: stat, list, open, delete, rename." },
	{ "cache_read_bytes_total", COUNTER_TOTAL, AT(cache.read_bytes),
	  "Bytes that were read from --cache instead of the store." },
	{ "cache_kept_bytes_total", COUNTER_TOTAL, AT(cache.kept_bytes),
	  "Bytes that were written to --cache." },
	{ "group_members", COUNTER_GAUGE, AT(group.members),
	  "Other mounts of its --group that this one is linked with." },
	{ "group_fetched_bytes_total", COUNTER_TOTAL, AT(group.fetched_bytes),
	  "Bytes that this mount read from the store, for itself and its group." },
	{ "group_received_bytes_total", COUNTER_TOTAL, AT(group.received_bytes),
	  "Bytes that other mounts sent instead." },
	{ "group_sent_bytes_total", COUNTER_TOTAL, AT(group.sent_bytes),
	  "Bytes that were sent to other mounts." },
	{ "group_memory_read_bytes_total", COUNTER_TOTAL,
	  AT(group.memory_read_bytes),
	  "Bytes that were read from --group-memory, without store and mounts." },
	{ "group_read_seconds_total", COUNTER_NS, AT(group.read_ns),
	  "Time that blocks waited for the store, other mounts and memory." },
	{ "group_memory_bytes", COUNTER_GAUGE, AT(group.memory_bytes),
	  "Memory of --group-memory that has bytes of files." },
	{ "group_left_out_total", COUNTER_TOTAL, AT(group.late_total),
	  "Times that another mount was left out, since it held others up." },
	{ "group_wrong_total", COUNTER_TOTAL, AT(group.wrong_total),
	  "Units of other mounts that were not the file's." },
	{ "group_save_given_bytes_total", COUNTER_TOTAL, AT(saves.given_bytes),
	  "Bytes that ranks of this node handed in to be saved." },
	{ "group_save_copied_bytes_total", COUNTER_TOTAL,
	  AT(saves.copied_bytes),
	  "Bytes of saves that other mounts sent, as copies." },
	{ "group_save_stored_bytes_total", COUNTER_TOTAL,
	  AT(saves.stored_bytes),
	  "Bytes of saves that this mount wrote to the store." },
	{ "group_save_unchanged_bytes_total", COUNTER_TOTAL,
	  AT(saves.named_bytes),
	  "Bytes of saves that it did not, as an earlier save had." },
	{ "group_save_memory_bytes", COUNTER_GAUGE, AT(saves.memory_bytes),
	  "Memory of --group-staging that has tensors not in the store yet." },
	{ "group_saves_buffered", COUNTER_GAUGE, AT(saves.buffered),
	  "Saves that are in the memory of two nodes, and not in the store." },
	{ "group_saves_durable_total", COUNTER_TOTAL, AT(saves.durable_total),
	  "Saves of ranks that became durable." },
	{ "group_saves_failed_total", COUNTER_TOTAL, AT(saves.failed_total),
	  "Saves of ranks that failed." },
	{ "group_saves_lost_total", COUNTER_TOTAL, AT(saves.lost_total),
	  "Saves of these that had been buffered." },
	{ "group_save_wrong_total", COUNTER_TOTAL, AT(saves.wrong_total),
	  "Chunks of other mounts that were not what they had said." },
	{ "group_save_ranks_seconds_total", COUNTER_NS, AT(saves.ranks_ns),
	  "Time from a save's first rank here to the last and their digests." },
	{ "group_save_plan_seconds_total", COUNTER_NS, AT(saves.plan_ns),
	  "Time from then until the tables of all nodes were here, and a plan." },
	{ "group_save_buffer_seconds_total", COUNTER_NS, AT(saves.buffer_ns),
	  "Time from then until all nodes had their units in memory." },
	{ "group_save_store_seconds_total", COUNTER_NS, AT(saves.store_ns),
	  "Time from then until the file was in the store." },
	{ "group_blocks_members", COUNTER_GAUGE, AT(blocks.members),
	  "Other mounts that keep blocks (--group-blocks) and are asked." },
	{ "group_blocks_memory_bytes", COUNTER_GAUGE, AT(blocks.memory_bytes),
	  "Memory of --group-blocks that has blocks." },
	{ "group_blocks_pending", COUNTER_GAUGE, AT(blocks.pending),
	  "Blocks on their way to their owner's memory, or to the store." },
	{ "group_blocks_put_total", COUNTER_TOTAL, AT(blocks.put_total),
	  "Blocks that programs of this node gave." },
	{ "group_blocks_memory_reads_total", COUNTER_TOTAL,
	  AT(blocks.memory_total),
	  "Reads of blocks that were in this mount's memory, or coming." },
	{ "group_blocks_member_reads_total", COUNTER_TOTAL,
	  AT(blocks.member_total), "Reads that another mount answered." },
	{ "group_blocks_store_reads_total", COUNTER_TOTAL,
	  AT(blocks.store_total), "Reads that the store answered." },
	{ "group_blocks_misses_total", COUNTER_TOTAL, AT(blocks.none_total),
	  "Reads of blocks that nobody has." },
	{ "group_blocks_received_bytes_total", COUNTER_TOTAL,
	  AT(blocks.received_bytes), "Bytes of blocks from other mounts." },
	{ "group_blocks_sent_bytes_total", COUNTER_TOTAL, AT(blocks.sent_bytes),
	  "Bytes of blocks that were sent to other mounts." },
	{ "group_blocks_fetched_bytes_total", COUNTER_TOTAL,
	  AT(blocks.fetched_bytes),
	  "Bytes of blocks that this mount read from the store, for all." },
	{ "group_blocks_stored_bytes_total", COUNTER_TOTAL,
	  AT(blocks.stored_bytes),
	  "Bytes of blocks that this mount wrote to the store." },
	{ "group_blocks_evicted_total", COUNTER_TOTAL, AT(blocks.evicted_total),
	  "Blocks that left memory for others (--group-blocks)." },
	{ "group_blocks_dropped_total", COUNTER_TOTAL, AT(blocks.dropped_total),
	  "Blocks that left the store for others (--group-blocks-store)." },
	{ "group_blocks_wrong_total", COUNTER_TOTAL, AT(blocks.wrong_total),
	  "Blocks that were not what a mount had sealed." },
	{ .name = NULL },
};

static void gather_store(struct ckpt_mount *m, struct ckpt_figures *f)
{
	struct object_store_stats s = object_store_stats(m->store);

	f->requests = s.n_requests;
	f->retries = s.n_retries;
	f->hedges = s.n_hedges;
	counter_copy_latency(&f->read, &s.read);
	counter_copy_latency(&f->write, &s.write);
	counter_copy_latency(&f->name, &s.name);
}

static uint64_t waited_ns(struct budget *b)
{
	AUTO_UNLOCK held = mutex_hold(&b->lock);

	return b->waited_ns;
}

struct ckpt_waits ckpt_mount_waits(struct ckpt_mount *m)
{
	struct object_store_stats s = object_store_stats(m->store);
	struct ckpt_waits w = { .load = s.read_waits, .save = s.write_waits };

	w.load.queue_ns += pool_waited_ns(m->readers);
	w.save.queue_ns += pool_waited_ns(m->senders) + waited_ns(&m->budget) +
			   waited_ns(&m->writings.slots);
	return w;
}

static struct ckpt_figures gather_figures(struct ckpt_mount *m)
{
	struct ckpt_figures f = {
		.save_bytes = atomic_load(&m->writings.bytes_written),
		.save_ns = atomic_load(&m->save_ns),
		.load_bytes = atomic_load(&m->readings.bytes_read),
		.load_ns = atomic_load(&m->load_ns),
		.fetched = atomic_load(&m->readings.bytes_ahead),
		.unused = atomic_load(&m->readings.bytes_unused),
		.waits = ckpt_mount_waits(m),
		.commits = atomic_load(&m->writings.commits),
		.failures = atomic_load(&m->writings.failures),
		.written = atomic_load(&m->writings.n),
		.staged = nodes_count_late(&m->nodes, NULL),
		.lost = atomic_load(&m->nodes.n_lost),
		.memory = m->budget.most,
	};

	(void)pthread_mutex_lock(&m->budget.lock);
	f.memory_used = m->budget.used;
	f.memory_peak = m->budget.peak;
	(void)pthread_mutex_unlock(&m->budget.lock);
	gather_store(m, &f);
	if (m->group)
		group_stats(m->group, &f.group);
	if (m->group_saves)
		saves_stats(m->group_saves, &f.saves);
	if (m->blocks)
		blocks_stats(m->blocks, &f.blocks);
	if (m->cache)
		disk_cache_stats(m->cache, &f.cache);
	return f;
}

int ckpt_mount_metrics(struct ckpt_mount *m, struct buf *out)
{
	const struct ckpt_figures f = gather_figures(m);

	return counter_format(figures, &f, PREFIX, out);
}

/* --------------------------------------------------------------------- the status --- */

/* Paths of lost files, as many as a status has room for. */
struct lost_paths {
	json_t *list;
	size_t n_bytes;
};

static void add_lost_file(void *arg, struct ckpt_node *n)
{
	struct lost_paths *l = arg;
	AUTO_BUF path = BUF_INIT;

	if (!n->lost_rc || l->n_bytes > STATUS_LOST_MAX ||
	    nodes_path_locked(n, &path) < 0)
		return;
	(void)json_array_append_new(l->list, json_bytes(path.data));
	l->n_bytes += path.len;
}

static json_t *list_lost_files(struct ckpt_mount *m)
{
	struct lost_paths l = { .list = json_array() };

	nodes_each(&m->nodes, NULL, add_lost_file, &l);
	return l.list;
}

/* Describe a store that does not answer, since programs hang then and users look at the status
 * first. JSON null: the store answers, or no request is running. */
static json_t *describe_silent_store(struct ckpt_mount *m)
{
	struct error why = ERROR_INIT;
	int64_t ns;

	if (!object_store_is_away(m->store, &ns, &why))
		return json_null();
	return json_pack("{s:I, s:o}", "seconds", (json_int_t)(ns / NS_PER_S),
			 "reason", json_bytes(why.msg));
}

/* Describe the mount's group. JSON null: the mount has no group. */
static json_t *describe_group(const struct ckpt_mount *m,
			      const struct ckpt_figures *f)
{
	const struct group_stats *s = &f->group;
	const struct saves_stats *w = &f->saves;
	const struct blocks_stats *k = &f->blocks;
	json_t *saves, *blocks;

	if (!m->group)
		return json_null();
	saves = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
			  "given", w->given_bytes, "copied", w->copied_bytes,
			  "stored", w->stored_bytes, "unchanged",
			  w->named_bytes, "memory_used", w->memory_bytes,
			  "wrong", w->wrong_total, "buffered", w->buffered,
			  "durable", w->durable_total, "failed",
			  w->failed_total);
	blocks = json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
		"members", k->members, "memory_used", k->memory_bytes, "put",
		k->put_total, "from_memory", k->memory_total, "from_member",
		k->member_total, "from_store", k->store_total, "none",
		k->none_total, "bytes_fetched", k->fetched_bytes,
		"bytes_stored", k->stored_bytes, "evicted", k->evicted_total,
		"wrong", k->wrong_total);
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, "
			 "s:o}",
			 "members", s->members, "bytes_fetched",
			 s->fetched_bytes, "bytes_received", s->received_bytes,
			 "bytes_sent", s->sent_bytes, "bytes_from_memory",
			 s->memory_read_bytes, "read_ms",
			 s->read_ns / NS_PER_MS, "memory_used", s->memory_bytes,
			 "late", s->late_total, "wrong", s->wrong_total,
			 "saves", saves, "blocks", blocks);
}

static json_t *describe_counts(const struct ckpt_mount *m,
			       const struct ckpt_figures *f)
{
	return json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
		"s:I, s:I}",
		"memory", m->cfg->memory, "memory_used", f->memory_used,
		"memory_peak", f->memory_peak, "files_written", f->written,
		"files_staged", f->staged, "files_lost", f->lost,
		"bytes_written", f->save_bytes, "commits", f->commits,
		"failures", f->failures, "bytes_read", f->load_bytes,
		"bytes_fetched", f->fetched, "bytes_unused", f->unused,
		"bytes_from_cache", f->cache.read_bytes, "bytes_cached",
		f->cache.kept_bytes);
}

static json_t *describe_times(const struct ckpt_figures *f)
{
	const struct object_waits *s = &f->waits.save, *l = &f->waits.load;

	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
			 "save_ms", f->save_ns / NS_PER_MS, "save_queue_ms",
			 s->queue_ns / NS_PER_MS, "save_storage_ms",
			 s->storage_ns / NS_PER_MS, "save_network_ms",
			 s->network_ns / NS_PER_MS, "load_ms",
			 f->load_ns / NS_PER_MS, "load_queue_ms",
			 l->queue_ns / NS_PER_MS, "load_storage_ms",
			 l->storage_ns / NS_PER_MS, "load_network_ms",
			 l->network_ns / NS_PER_MS, "requests", f->requests,
			 "retries", f->retries);
}

int ckpt_mount_status(struct ckpt_mount *m, const char *path, bool is_adopted,
		      struct buf *out)
{
	const struct ckpt_figures f = gather_figures(m);
	AUTO_JSON *all = json_pack("{s:o, s:o, s:i, s:b, s:o, s:o, s:o}",
				   "path", json_bytes(path), "store",
				   json_bytes(object_store_url(m->store)),
				   "pid", (int)getpid(), "restarted",
				   is_adopted, "lost", list_lost_files(m),
				   "store_away", describe_silent_store(m),
				   "group", describe_group(m, &f));
	AUTO_JSON *counts = describe_counts(m, &f);
	AUTO_JSON *times = describe_times(&f);
	AUTO_FREE char *text = NULL;

	if (!all || json_object_update(all, counts) < 0 ||
	    json_object_update(all, times) < 0)
		return -ENOMEM;
	text = json_dumps(all, 0);
	return text ? buf_printf(out, "%s\n", text) : -ENOMEM;
}
