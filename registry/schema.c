// SPDX-License-Identifier: Apache-2.0
/*
 * The tables. A `start` is an image, a workload and a repository; its `version` grows with each
 * change of its votes, and its other columns cache sums that are read often. A `vote` is the last
 * recording of a node. `hot` is the merged list, with the version of the start it was made from.
 * Times are seconds since 1970, except hot.made_ms.
 */
#include "registry/schema.h"

#include "registry/sql.h"

static const char trace_tables[] =
	"CREATE TABLE start ("
	" id @ID@,"
	" repo TEXT NOT NULL,"
	" image TEXT NOT NULL,"
	" workload TEXT NOT NULL,"
	" version BIGINT NOT NULL,"
	" votes BIGINT NOT NULL,"
	" bytes BIGINT NOT NULL,"
	" newest BIGINT NOT NULL,"
	" used BIGINT NOT NULL,"
	" created BIGINT NOT NULL,"
	" window_ms BIGINT NOT NULL,"
	" ready_ms BIGINT NOT NULL,"
	" entries BIGINT NOT NULL,"
	" truncated BIGINT NOT NULL,"
	" UNIQUE (image, workload, repo));"
	"CREATE INDEX start_relative ON start (repo, workload, newest);"
	"CREATE INDEX start_repo ON start (repo, newest);"
	"CREATE INDEX start_lru ON start (repo, used);"
	"CREATE INDEX start_used ON start (used);"
	"CREATE TABLE vote ("
	" start BIGINT NOT NULL REFERENCES start (id) ON DELETE CASCADE,"
	" token TEXT NOT NULL,"
	" node TEXT NOT NULL,"
	" received BIGINT NOT NULL,"
	" bytes BIGINT NOT NULL,"
	" memory BIGINT NOT NULL,"
	" trace @BLOB@ NOT NULL,"
	" PRIMARY KEY (start, token, node));"
	"CREATE INDEX vote_voter ON vote (token, node, received);"
	"CREATE TABLE hot ("
	" start BIGINT PRIMARY KEY REFERENCES start (id) ON DELETE CASCADE,"
	" version BIGINT NOT NULL,"
	" made_ms BIGINT NOT NULL,"
	" votes BIGINT NOT NULL,"
	" bytes BIGINT NOT NULL,"
	" trace @BLOB@ NOT NULL);";

/* revocation: images and nodes that get no capability; '' stands for every image or every node.
 * trust_revoked: ids, in hex, of keys that signed images and are no longer trusted. */
static const char trust_tables[] = "CREATE TABLE revocation ("
				   " image TEXT NOT NULL,"
				   " node TEXT NOT NULL,"
				   " since BIGINT NOT NULL,"
				   " PRIMARY KEY (image, node));"
				   "CREATE TABLE trust_revoked ("
				   " key_id TEXT PRIMARY KEY,"
				   " since BIGINT NOT NULL);";

/* Orders to fetch an image or an environment; `env` is the environment's snapshot (JSON, as sent to
 * nodes). An order is for all nodes (`everybody`) or for those with a row in preheat_node, where
 * nodes report their progress. */
static const char preheat_tables[] =
	"CREATE TABLE preheat ("
	" id @ID@,"
	" ref TEXT NOT NULL,"
	" repo TEXT NOT NULL,"
	" what TEXT NOT NULL,"
	" everybody BIGINT NOT NULL,"
	" created BIGINT NOT NULL,"
	" env TEXT NOT NULL DEFAULT '');"
	"CREATE INDEX preheat_created ON preheat (created);"
	"CREATE TABLE preheat_node ("
	" preheat BIGINT NOT NULL REFERENCES preheat (id) ON DELETE CASCADE,"
	" node TEXT NOT NULL,"
	" state TEXT NOT NULL,"
	" have BIGINT NOT NULL,"
	" total BIGINT NOT NULL,"
	" error TEXT NOT NULL,"
	" changed BIGINT NOT NULL,"
	" PRIMARY KEY (preheat, node));";

/*
 * Starts of jobs, their stage events (docs/formats/stage-events.md; STAGE_NONE for a value that an
 * event lacks), and the best clock exchange of each node and boot.
 *
 * job_start: first_ns, last_ns and ready_ns are times of its events on the service's clock;
 * `revision` grows with each batch. `space`, `node_name` and `node_count` identify the start's
 * owner (the namespace of its job, its first node, its number of nodes), so that a node that
 * invents starts cannot push those of others out of lists. `summary` is the list's text on a
 * finished start (JSON, starts_summary_json()). `placed`: the start's nodes were chosen or its
 * image loaded. A start whose times, or loads and saves, could not be summed up `..._tries` times
 * is tried again after `..._after`, so that it does not hold up the others. `ckpt_revision` and
 * `ckpt_seen`: see the tables of checkpoints.
 *
 * `stage_node` counts a node's events in a start, so that the cost of a batch does not grow with
 * the events before it. Its `revision` is the start's revision when the node last sent new events:
 * a cached analysis then reads only nodes that changed since.
 *
 * SQLite stores the events in the order of their primary key: one tree instead of two, and the
 * events of a start are read in sequence.
 */
static const char stage_tables[] =
	"CREATE TABLE job_start ("
	" id @ID@,"
	" job TEXT NOT NULL,"
	" attempt BIGINT NOT NULL,"
	" first_ns BIGINT NOT NULL,"
	" last_ns BIGINT NOT NULL,"
	" ready_ns BIGINT NOT NULL,"
	" events BIGINT NOT NULL,"
	" received BIGINT NOT NULL,"
	" image TEXT NOT NULL DEFAULT '',"
	" label TEXT NOT NULL DEFAULT '',"
	" revision BIGINT NOT NULL DEFAULT 0,"
	" summed BIGINT NOT NULL DEFAULT 0,"
	" ckpt_revision BIGINT NOT NULL DEFAULT 0,"
	" ckpt_summed BIGINT NOT NULL DEFAULT 0,"
	" ckpt_seen BIGINT NOT NULL DEFAULT 0,"
	" sum_tries BIGINT NOT NULL DEFAULT 0,"
	" sum_after BIGINT NOT NULL DEFAULT 0,"
	" ckpt_tries BIGINT NOT NULL DEFAULT 0,"
	" space TEXT NOT NULL DEFAULT '',"
	" node_name TEXT NOT NULL DEFAULT '',"
	" node_count BIGINT NOT NULL DEFAULT 0,"
	" summary TEXT NOT NULL DEFAULT '',"
	" placed BIGINT NOT NULL DEFAULT 0,"
	" UNIQUE (job, attempt));"
	"CREATE INDEX job_start_first ON job_start (first_ns);"
	"CREATE INDEX job_start_received ON job_start (received);"
	"CREATE INDEX job_start_summed ON job_start (summed, received);"
	"CREATE INDEX job_start_ckpt ON job_start (received) "
	"WHERE ckpt_revision < revision;"
	"CREATE TABLE stage_event ("
	" start BIGINT NOT NULL REFERENCES job_start (id) ON DELETE CASCADE,"
	" node TEXT NOT NULL,"
	" event BIGINT NOT NULL,"
	" stage TEXT NOT NULL,"
	" ev BIGINT NOT NULL,"
	" ts BIGINT NOT NULL,"
	" mono BIGINT NOT NULL,"
	" boot BIGINT NOT NULL,"
	" rank BIGINT NOT NULL,"
	" status BIGINT NOT NULL,"
	" facts TEXT NOT NULL DEFAULT '',"
	" PRIMARY KEY (start, node, event))@CLUSTERED@;"
	"CREATE INDEX stage_event_ckpt ON stage_event ((start + 0), node, event) "
	"WHERE " CKPT_STAGES ";"
	"CREATE TABLE stage_node ("
	" start BIGINT NOT NULL REFERENCES job_start (id) ON DELETE CASCADE,"
	" node TEXT NOT NULL,"
	" events BIGINT NOT NULL,"
	" revision BIGINT NOT NULL,"
	" PRIMARY KEY (start, node))@CLUSTERED@;"
	"CREATE INDEX stage_node_revision ON stage_node (start, revision);"
	"CREATE TABLE stage_clock ("
	" start BIGINT NOT NULL REFERENCES job_start (id) ON DELETE CASCADE,"
	" node TEXT NOT NULL,"
	" boot BIGINT NOT NULL,"
	" mono_offset BIGINT NOT NULL,"
	" wall_offset BIGINT NOT NULL,"
	" rtt BIGINT NOT NULL,"
	" PRIMARY KEY (start, node, boot));";

/*
 * Sums that are kept longer than the events. A finished start is summed up once. start_node has a
 * row for each of its nodes; node_day sums these by day, so that a list of slow nodes reads no
 * starts. start_day sums starts by day: stage '' is the whole start, `class` is enum start_class,
 * and `tops` counts starts in which the stage lay within no other. start_scale has one row for each
 * start, for the spread of times by size of job, which sums by day do not show: its stages are a
 * text (scale_stage_format()), so that a start is one row instead of twenty-six. Starts of several
 * nodes are read before those of one node, by the index alone.
 */
static const char history_tables[] =
	"CREATE TABLE start_node ("
	" node TEXT NOT NULL,"
	" start BIGINT NOT NULL,"
	" job TEXT NOT NULL,"
	" at BIGINT NOT NULL,"
	" busy_ms BIGINT NOT NULL,"
	" median_ms BIGINT NOT NULL,"
	" slow BIGINT NOT NULL,"
	" stage TEXT NOT NULL,"
	" cause TEXT NOT NULL,"
	" PRIMARY KEY (node, start));"
	"CREATE INDEX start_node_at ON start_node (at);"
	"CREATE TABLE node_day ("
	" node TEXT NOT NULL,"
	" day BIGINT NOT NULL,"
	" starts BIGINT NOT NULL,"
	" slow BIGINT NOT NULL,"
	" excess_ms BIGINT NOT NULL,"
	" last BIGINT NOT NULL,"
	" PRIMARY KEY (node, day))@CLUSTERED@;"
	"CREATE TABLE start_day ("
	" day BIGINT NOT NULL,"
	" image TEXT NOT NULL,"
	" label TEXT NOT NULL,"
	" class BIGINT NOT NULL,"
	" stage TEXT NOT NULL,"
	" starts BIGINT NOT NULL,"
	" nodes BIGINT NOT NULL,"
	" median_ms BIGINT NOT NULL,"
	" job_ms BIGINT NOT NULL,"
	" worst_ms BIGINT NOT NULL,"
	" slow BIGINT NOT NULL,"
	" node_ms BIGINT NOT NULL,"
	" wait_ms BIGINT NOT NULL,"
	" tops BIGINT NOT NULL,"
	" PRIMARY KEY (day, image, label, class, stage));"
	"CREATE TABLE start_scale ("
	" start BIGINT NOT NULL,"
	" stage TEXT NOT NULL,"
	" at BIGINT NOT NULL,"
	" job TEXT NOT NULL,"
	" image TEXT NOT NULL,"
	" label TEXT NOT NULL,"
	" nodes BIGINT NOT NULL,"
	" gpus BIGINT NOT NULL,"
	" job_ms BIGINT NOT NULL,"
	" median_ms BIGINT NOT NULL,"
	" max_ms BIGINT NOT NULL,"
	" stages TEXT NOT NULL DEFAULT '',"
	" class BIGINT NOT NULL DEFAULT 0,"
	" PRIMARY KEY (start, stage))@CLUSTERED@;"
	"CREATE INDEX start_scale_at ON start_scale (at, nodes);"
	"CREATE INDEX start_scale_nodes ON start_scale (nodes, at) "
	"WHERE stage = '';";

/*
 * ckpt_sum: sums of checkpoint loads and saves by start and stage, as of the start's revision
 * `ckpt_revision`. They are made again when more events come, and deleted with the start. `last`:
 * when the last run ended. ckpt_part: the same events again, packed by node
 * (registry/ckpt_parts.h); `ckpt_seen` of a start's `events` are in there.
 */
static const char ckpt_tables[] =
	"CREATE TABLE ckpt_sum ("
	" start BIGINT NOT NULL REFERENCES job_start (id) ON DELETE CASCADE,"
	" stage TEXT NOT NULL,"
	" last BIGINT NOT NULL,"
	" rounds BIGINT NOT NULL,"
	" nodes BIGINT NOT NULL,"
	" runs BIGINT NOT NULL,"
	" open BIGINT NOT NULL,"
	" bytes BIGINT NOT NULL,"
	" job_ms BIGINT NOT NULL,"
	" run_ms BIGINT NOT NULL,"
	" wait_ms BIGINT NOT NULL,"
	" queue_ms BIGINT NOT NULL,"
	" storage_ms BIGINT NOT NULL,"
	" network_ms BIGINT NOT NULL,"
	" median_ms BIGINT NOT NULL,"
	" max_ms BIGINT NOT NULL,"
	" slow BIGINT NOT NULL,"
	" slowest TEXT NOT NULL,"
	" PRIMARY KEY (start, stage))@CLUSTERED@;"
	"CREATE INDEX ckpt_sum_last ON ckpt_sum (last);"
	"CREATE TABLE ckpt_part ("
	" start BIGINT NOT NULL REFERENCES job_start (id) ON DELETE CASCADE,"
	" node TEXT NOT NULL,"
	" part BIGINT NOT NULL,"
	" events @BLOB@ NOT NULL,"
	" PRIMARY KEY (start, node, part))@CLUSTERED@;";

/*
 * The index of environment snapshots. `repo` is the store; `capture` and `description` identify the
 * key's snapshot, '': none. `generation` is that of the latest lease, which lasts until `until_ms`;
 * it starts from the time, so that it grows even if the row was deleted in between. `failures`
 * counts failed commands: waiting nodes look for a change of it.
 *
 * env_count: number of keys of each store, and of each token that added them, so that adding a key
 * need not count rows while others wait for the lock. Sweeps count anew.
 */
static const char env_tables[] =
	"CREATE TABLE env_key ("
	" repo TEXT NOT NULL,"
	" env TEXT NOT NULL,"
	" generation BIGINT NOT NULL,"
	" holder TEXT NOT NULL,"
	" owner TEXT NOT NULL,"
	" ttl_ms BIGINT NOT NULL,"
	" until_ms BIGINT NOT NULL,"
	" failures BIGINT NOT NULL,"
	" touched_ms BIGINT NOT NULL,"
	" capture TEXT NOT NULL DEFAULT '',"
	" description TEXT NOT NULL DEFAULT '',"
	" stored BIGINT NOT NULL DEFAULT 0,"
	" made_by TEXT NOT NULL DEFAULT '',"
	" program TEXT NOT NULL DEFAULT '',"
	" token TEXT NOT NULL DEFAULT '',"
	" made_ms BIGINT NOT NULL DEFAULT 0,"
	" used_ms BIGINT NOT NULL DEFAULT 0,"
	" expires_ms BIGINT NOT NULL DEFAULT 0,"
	" pinned BIGINT NOT NULL DEFAULT 0,"
	" bad TEXT NOT NULL DEFAULT '',"
	" first_owner TEXT NOT NULL DEFAULT '',"
	" PRIMARY KEY (repo, env))@CLUSTERED@;"
	"CREATE TABLE env_count ("
	" what TEXT PRIMARY KEY,"
	" n BIGINT NOT NULL)@CLUSTERED@;" ENV_COUNT_ALL ";";

/*
 * Nodes' reports on starts of images, the last of each start and node; ids grow with time. Long
 * texts are in a table of their own, because lists do not read them: `figures` is JSON of
 * docs/formats/registry-api.md; `peers` has one line for each giver with its bytes
 * (registry/peer_sums.h), since one request reads tens of thousands.
 */
static const char image_tables[] =
	"CREATE TABLE image_start ("
	" id @ID@,"
	" image TEXT NOT NULL,"
	" repo TEXT NOT NULL,"
	" workload TEXT NOT NULL,"
	" node TEXT NOT NULL,"
	" job TEXT NOT NULL,"
	" attempt BIGINT NOT NULL,"
	" name TEXT NOT NULL,"
	" received BIGINT NOT NULL,"
	" peer_bytes BIGINT NOT NULL,"
	" origin_bytes BIGINT NOT NULL,"
	" UNIQUE (image, repo, workload, node, job, attempt));"
	"CREATE INDEX image_start_image ON image_start (image, repo, workload, id);"
	"CREATE INDEX image_start_job ON image_start (job, attempt, id);"
	"CREATE INDEX image_start_node ON image_start (node, id);"
	"CREATE INDEX image_start_received ON image_start (received);"
	"CREATE TABLE image_start_text ("
	" start BIGINT PRIMARY KEY REFERENCES image_start (id) ON DELETE CASCADE,"
	" figures TEXT NOT NULL,"
	" peers TEXT NOT NULL);";

/*
 * Indexes of ordinary images that nodes made (registry/index_db.h); `until` is when the claim of
 * the node that makes the index ends. Parts are rows, so that no whole index has to be in memory.
 */
static const char index_tables[] =
	"CREATE TABLE image_index ("
	" id @ID@,"
	" image TEXT NOT NULL,"
	" repo TEXT NOT NULL,"
	" owner TEXT NOT NULL,"
	" node TEXT NOT NULL,"
	" artifact TEXT NOT NULL,"
	" signature TEXT NOT NULL,"
	" parts BIGINT NOT NULL,"
	" bytes BIGINT NOT NULL,"
	" state BIGINT NOT NULL,"
	" changed BIGINT NOT NULL,"
	" used BIGINT NOT NULL,"
	" until BIGINT NOT NULL);"
	"CREATE UNIQUE INDEX image_index_claim ON image_index "
	"(image, repo, owner) WHERE state = 0;"
	"CREATE INDEX image_index_image ON image_index (image, repo, state);"
	"CREATE INDEX image_index_owner ON image_index (owner, used);"
	"CREATE TABLE image_index_part ("
	" offer BIGINT NOT NULL REFERENCES image_index (id) ON DELETE CASCADE,"
	" part BIGINT NOT NULL,"
	" bytes BIGINT NOT NULL,"
	" data @BLOB@ NOT NULL,"
	" PRIMARY KEY (offer, part));";

/*
 * Pushed images that workers convert (registry/conversion_db.h). `tries` also identifies the
 * current try. `due`: when a waiting conversion may be taken, when a running one's lease ends, or
 * when it finished.
 */
static const char conversion_tables[] =
	"CREATE TABLE conversion ("
	" id @ID@,"
	" repo TEXT NOT NULL,"
	" host TEXT NOT NULL,"
	" owner TEXT NOT NULL,"
	" image TEXT NOT NULL,"
	" tag TEXT NOT NULL,"
	" form TEXT NOT NULL,"
	" state BIGINT NOT NULL,"
	" tries BIGINT NOT NULL,"
	" queued BIGINT NOT NULL,"
	" taken BIGINT NOT NULL,"
	" due BIGINT NOT NULL,"
	" worker TEXT NOT NULL,"
	" error TEXT NOT NULL,"
	" UNIQUE (repo, image));"
	"CREATE INDEX conversion_state ON conversion (state, due);"
	"CREATE INDEX conversion_owner ON conversion (owner, state);"
	"CREATE INDEX conversion_host ON conversion (host, state);";

/* The latest report of `bootseer node doctor` from each node; `failed` is JSON
 * (registry/doctor.c). */
static const char doctor_tables[] = "CREATE TABLE node_doctor ("
				    " node TEXT PRIMARY KEY,"
				    " received BIGINT NOT NULL,"
				    " checks BIGINT NOT NULL,"
				    " missing BIGINT NOT NULL,"
				    " advice BIGINT NOT NULL,"
				    " failed TEXT NOT NULL);";

static const char *const tables[] = {
	trace_tables,   trust_tables,      preheat_tables, stage_tables,
	history_tables, ckpt_tables,       env_tables,     image_tables,
	index_tables,   conversion_tables, doctor_tables,  NULL,
};

#define GROUP(list) \
	{ \
		list, ARRAY_SIZE(list) \
	}
/* The groups must be in the order of enum statement. */
static const struct db_statements statements[] = {
	GROUP(sql_trace),      GROUP(sql_trust),  GROUP(sql_preheat),
	GROUP(sql_image),      GROUP(sql_stage),  GROUP(sql_history),
	GROUP(sql_ckpt),       GROUP(sql_env),    GROUP(sql_index),
	GROUP(sql_conversion), GROUP(sql_doctor),
};

const struct db_schema schema = {
	.tables = tables,
	.version = 25,
	.statements = statements,
	.n_groups = ARRAY_SIZE(statements),
	.n_statements = SQL_COUNT_,
};
