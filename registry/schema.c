// SPDX-License-Identifier: Apache-2.0
/*
 * A `start` is an image, a workload and a repository; its `version` grows with
 * each change of its votes, and its other columns repeat what is asked for often.
 * A `vote` is the last recording of a node.  `hot` is the merged list, of the
 * version that it was made from.  Times are seconds since 1970, but hot.made_ms.
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

/* Images and nodes that get no capability: '' is every image, or every node.  Keys that sign
 * images, by their ids in hex, and are not believed any more. */
static const char trust_tables[] = "CREATE TABLE revocation ("
				   " image TEXT NOT NULL,"
				   " node TEXT NOT NULL,"
				   " since BIGINT NOT NULL,"
				   " PRIMARY KEY (image, node));"
				   "CREATE TABLE trust_revoked ("
				   " key_id TEXT PRIMARY KEY,"
				   " since BIGINT NOT NULL);";

/* Orders to fetch an image, or an environment, whose snapshot `env` is (JSON, as nodes get
 * it); `everybody` or the nodes that have a line in preheat_node, where they report. */
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
 * Starts of jobs and their stage events (docs/formats/stage-events.md; STAGE_NONE
 * where an event lacks something), and the best exchange of each node and boot.
 *
 * job_start: first_ns, last_ns and ready_ns repeat what the events say, on the service's
 * clock; `revision` grows with each batch.  `space`, `node_name` and `node_count` are the
 * owner of the start: the namespace of its job, its first node and how many there are, so
 * that one who makes starts up hides none of the others'.  `summary` is what the list says
 * of a start that is over (JSON, starts_summary_json()).  `placed` says that a start's nodes
 * were found or its image loaded.  Starts whose times, or whose loads and saves, could not
 * be summed up `..._tries` times are tried again after `..._after`, so that others come to
 * their turns.  `ckpt_revision` and `ckpt_seen`: see the tables of checkpoints.
 *
 * `stage_node` counts a node's events in a start, so that a batch costs the same however
 * many came before it; its `revision` is that of the start when the node last sent something
 * new, by which an analysis that is kept finds what changed since it was made.
 *
 * In SQLite the events lie in the order of their key: one tree instead of two, and a start
 * is read from one end to the other.
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
 * Sums that outlive the events.  When a start is over it is summed up once: into a row of each
 * node (start_node) and into the rows of the node's days, so that who asks for slow nodes
 * reads no start; into the rows of its day (start_day), where stage '' is the start as a
 * whole, `class` is enum start_class, and `tops` says in how many starts a stage lay within
 * no other; and into a row by the size of the job (start_scale), for what days do not tell:
 * how times spread.  A start has one row there, with stage '' and the text of its stages
 * (scale_stage_format()): a row to read, not twenty-six.  Starts of several nodes are read
 * before those of one, and found by the index alone.
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
 * Loads and saves of checkpoints, by start and stage, as of the start's revision
 * `ckpt_revision`; they are summed up again as more comes, and go with the start. `last`:
 * when the last run ended.  Their events are there once more, packed by node
 * (registry/ckpt_parts.h); `ckpt_seen` of a start's `events` are.
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
 * The index of environment snapshots.  `repo` is the store; `capture` and `description` say
 * which snapshot the key has, '' none.  `generation` is of the lease that was taken last,
 * which lasts until `until_ms`; it begins with the time, so that it grows although rows
 * are forgotten.  `failures` counts commands that failed: those that wait look for a change.
 *
 * env_count: how many keys there are, of each store, and of each token that was the first to
 * name them: whoever names a new one counts none while others wait.  Sweeps count anew.
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
 * Reports of nodes on their starts of images, the last of each start and node; ids grow
 * with the time of saying. Texts, which lists do not want, are apart: `figures` is JSON of
 * docs/formats/registry-api.md, `peers` has a giver and its bytes in a line
 * (registry/peer_sums.h), since a question reads tens of thousands.
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
 * the node that makes one is over.  Parts are rows, so that no index is in memory whole.
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
 * Pushed images that workers convert (registry/conversion_db.h).  `tries` also tells one try from
 * the next; `due` is when it may be taken, when its worker's lease ends, or when it was over.
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

/* The last result of a node's doctor; `failed` is JSON (registry/doctor.c). */
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
/* In the order of enum statement. */
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
