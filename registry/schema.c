// SPDX-License-Identifier: Apache-2.0
/*
 * A `start` is an image, a workload and a repository; its `version` grows with
 * each change of its votes, and its other columns repeat what is asked for often.
 * A `vote` is the last recording of a node.  `hot` is the merged list, of the
 * version that it was made from.  Times are seconds since 1970, but hot.made_ms.
 */
#include "registry/schema.h"

static const char version_1[] =
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
	" trace @BLOB@ NOT NULL)";

/* Who gets no capability: '' is every image, or every node. */
static const char version_2[] = "CREATE TABLE revocation ("
				" image TEXT NOT NULL,"
				" node TEXT NOT NULL,"
				" since BIGINT NOT NULL,"
				" PRIMARY KEY (image, node))";

/* Orders to fetch an image; `everybody` or the nodes that have a line in
 * preheat_node, where they report. */
static const char version_3[] =
	"CREATE TABLE preheat ("
	" id @ID@,"
	" ref TEXT NOT NULL,"
	" repo TEXT NOT NULL,"
	" what TEXT NOT NULL,"
	" everybody BIGINT NOT NULL,"
	" created BIGINT NOT NULL);"
	"CREATE INDEX preheat_created ON preheat (created);"
	"CREATE TABLE preheat_node ("
	" preheat BIGINT NOT NULL REFERENCES preheat (id) ON DELETE CASCADE,"
	" node TEXT NOT NULL,"
	" state TEXT NOT NULL,"
	" have BIGINT NOT NULL,"
	" total BIGINT NOT NULL,"
	" error TEXT NOT NULL,"
	" changed BIGINT NOT NULL,"
	" PRIMARY KEY (preheat, node))";

/* Keys that sign images, by their ids in hex, and are not believed any more. */
static const char version_4[] = "CREATE TABLE trust_revoked ("
				" key_id TEXT PRIMARY KEY,"
				" since BIGINT NOT NULL)";

/*
 * Starts of jobs and their stage events (docs/formats/stage-events.md; STAGE_NONE
 * where an event lacks something), and the best exchange of each node and boot.
 * first_ns, last_ns and ready_ns repeat what the events say, on the service's clock.
 */
static const char version_5[] =
	"CREATE TABLE job_start ("
	" id @ID@,"
	" job TEXT NOT NULL,"
	" attempt BIGINT NOT NULL,"
	" first_ns BIGINT NOT NULL,"
	" last_ns BIGINT NOT NULL,"
	" ready_ns BIGINT NOT NULL,"
	" events BIGINT NOT NULL,"
	" received BIGINT NOT NULL,"
	" UNIQUE (job, attempt));"
	"CREATE INDEX job_start_first ON job_start (first_ns);"
	"CREATE INDEX job_start_received ON job_start (received);"
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
	" PRIMARY KEY (start, node, event));"
	"CREATE TABLE stage_clock ("
	" start BIGINT NOT NULL REFERENCES job_start (id) ON DELETE CASCADE,"
	" node TEXT NOT NULL,"
	" boot BIGINT NOT NULL,"
	" mono_offset BIGINT NOT NULL,"
	" wall_offset BIGINT NOT NULL,"
	" rtt BIGINT NOT NULL,"
	" PRIMARY KEY (start, node, boot))";

static const char *const scripts[] = { version_1, version_2, version_3,
				       version_4, version_5 };

#define JOB \
	"SELECT id, job, attempt, first_ns, last_ns, ready_ns, events, " \
	"received FROM job_start "
#define JOB_TYPES "itiiiiii"
#define EVENT_PUT \
	"INSERT INTO stage_event (start, node, event, stage, ev, ts, mono, " \
	"boot, rank, status) VALUES "
#define EVENT_ROW(a, b, c, d, e, f, g, h) \
	"($1, $2, $" #a ", $" #b ", $" #c ", $" #d ", $" #e ", $" #f ", $" #g \
	", $" #h ")"
#define ROW_1 EVENT_ROW(3, 4, 5, 6, 7, 8, 9, 10)
#define ROW_2 ", " EVENT_ROW(11, 12, 13, 14, 15, 16, 17, 18)
#define ROW_3 ", " EVENT_ROW(19, 20, 21, 22, 23, 24, 25, 26)
#define ROW_4 ", " EVENT_ROW(27, 28, 29, 30, 31, 32, 33, 34)
#define ROW_5 ", " EVENT_ROW(35, 36, 37, 38, 39, 40, 41, 42)
#define ROW_6 ", " EVENT_ROW(43, 44, 45, 46, 47, 48, 49, 50)
#define ROW_7 ", " EVENT_ROW(51, 52, 53, 54, 55, 56, 57, 58)
#define ROW_8 ", " EVENT_ROW(59, 60, 61, 62, 63, 64, 65, 66)
#define ROW_9 ", " EVENT_ROW(67, 68, 69, 70, 71, 72, 73, 74)
#define ROW_10 ", " EVENT_ROW(75, 76, 77, 78, 79, 80, 81, 82)
#define EVENT_ONCE " ON CONFLICT (start, node, event) DO NOTHING"

#define FIND \
	"SELECT id, repo, image, workload, version, votes, newest, used " \
	"FROM start "
#define FIND_TYPES "itttiiii"
#define LIST \
	"SELECT repo, image, workload, votes, bytes, newest, used, " \
	"created, window_ms, ready_ms, entries, truncated FROM start "
#define LIST_TYPES "tttiiiiiiiii"
/* `p` is the parameter with the prefix that a token is bound to, or ''. */
#define SEES(p) \
	"(" p " = '' OR repo = " p " OR " \
	"substr(repo, 1, length(" p ") + 1) = " p " || '/') "

/* Clocks of a node in a start, as text: a node that makes boots up fills no disk. */
#define STAGE_BOOTS_MAX "16"

static const struct db_statement statements[SQL_COUNT_] = {
	[SQL_PING] = { "ping", "SELECT 1", "i" },
	/* image, workload, prefix, repo */
	[SQL_FIND_OWN] = { "find own",
			   FIND "WHERE image = $1 AND workload = $2 AND " SEES(
				   "CAST($3 AS TEXT)") "ORDER BY CASE WHEN repo = $4 THEN 0 ELSE 1 END, "
						       "newest DESC LIMIT 1",
			   FIND_TYPES },
	/* repo, workload */
	[SQL_FIND_RELATIVE] = { "find relative",
				FIND "WHERE repo = $1 AND workload = $2 "
				     "ORDER BY newest DESC LIMIT 1",
				FIND_TYPES },
	/* image, prefix, repo */
	[SQL_FIND_WORKLOAD] = { "find workload",
				FIND "WHERE image = $1 AND " SEES(
					"CAST($2 AS TEXT)") "ORDER BY CASE WHEN repo = $3 THEN 0 ELSE 1 "
							    "END, newest DESC LIMIT 1",
				FIND_TYPES },
	[SQL_FIND_FAR] = { "find far",
			   FIND "WHERE repo = $1 "
				"ORDER BY newest DESC LIMIT 1",
			   FIND_TYPES },
	/* image, prefix, repo or '', limit */
	[SQL_LIST_IMAGE] = { "list image",
			     LIST "WHERE image = $1 AND " SEES(
				     "CAST($2 AS TEXT)") "AND (CAST($3 AS TEXT) = '' OR repo = $3) "
							 "ORDER BY newest DESC, id DESC "
							 "LIMIT CAST($4 AS BIGINT)",
			     LIST_TYPES },
	[SQL_LIST_REPO] = { "list repo",
			    LIST "WHERE repo = $1 "
				 "ORDER BY newest DESC, id DESC "
				 "LIMIT CAST($2 AS BIGINT)",
			    LIST_TYPES },
	/* repo, image, workload, now, used: the start's row, locked */
	[SQL_TOUCH] = { "touch",
			"INSERT INTO start (repo, image, workload, version, "
			"votes, bytes, newest, used, created, window_ms, "
			"ready_ms, entries, truncated) "
			"VALUES ($1, $2, $3, 1, 0, 0, $4, $5, 0, 0, 0, 0, 0) "
			"ON CONFLICT (image, workload, repo) "
			"DO UPDATE SET version = start.version + 1 "
			"RETURNING id",
			"i" },
	[SQL_USED] = { "used", "UPDATE start SET used = $1 WHERE id = $2", "" },
	[SQL_VOTES] = { "votes",
			"SELECT token, node, received, memory FROM vote "
			"WHERE start = $1 ORDER BY memory, received DESC, "
			"token, node",
			"ttii" },
	[SQL_VOTE] = { "vote",
		       "SELECT trace FROM vote "
		       "WHERE start = $1 AND token = $2 AND node = $3",
		       "b" },
	/* start, token, node, received, bytes, memory, trace */
	[SQL_VOTE_PUT] = { "put vote",
			   "INSERT INTO vote (start, token, node, received, "
			   "bytes, memory, trace) "
			   "VALUES ($1, $2, $3, $4, $5, $6, $7) "
			   "ON CONFLICT (start, token, node) DO UPDATE SET "
			   "received = excluded.received, "
			   "bytes = excluded.bytes, memory = excluded.memory, "
			   "trace = excluded.trace",
			   "" },
	[SQL_VOTE_REMOVE] = { "remove vote",
			      "DELETE FROM vote "
			      "WHERE start = $1 AND token = $2 AND node = $3",
			      "" },
	/* newest, created, window_ms, ready_ms, entries, truncated, start */
	[SQL_SUMMARY] = { "summary",
			  "UPDATE start SET newest = $1, created = $2, "
			  "window_ms = $3, ready_ms = $4, entries = $5, "
			  "truncated = $6 WHERE id = $7",
			  "" },
	[SQL_SUM] = { "sum",
		      "UPDATE start SET "
		      "votes = (SELECT count(*) FROM vote WHERE start = $1), "
		      "bytes = (SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) "
		      "FROM vote WHERE start = $1) + "
		      "coalesce((SELECT bytes FROM hot WHERE start = $1), 0) "
		      "WHERE id = $1",
		      "" },
	/* since, token, node: starts since then, bytes */
	[SQL_VOTER] = { "voter",
			"SELECT CAST(coalesce(sum(CASE WHEN received > "
			"CAST($1 AS BIGINT) THEN 1 ELSE 0 END), 0) AS BIGINT), "
			"CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM vote "
			"WHERE token = $2 AND node = $3",
			"ii" },
	[SQL_VOTER_OLDEST] = { "oldest vote of a node",
			       "SELECT start FROM vote WHERE token = $1 AND "
			       "node = $2 AND start <> $3 "
			       "ORDER BY received, start LIMIT 1",
			       "i" },
	[SQL_REPO_BYTES] = { "bytes of a repository",
			     "SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) "
			     "FROM start WHERE repo = $1",
			     "i" },
	/* repo, not this one */
	[SQL_REPO_OLDEST] = { "least used of a repository",
			      "SELECT id FROM start WHERE repo = $1 AND "
			      "id <> $2 ORDER BY used, id LIMIT 1",
			      "i" },
	[SQL_REPO_LARGEST] = { "largest repository",
			       "SELECT repo FROM start GROUP BY repo "
			       "ORDER BY sum(bytes) DESC, repo LIMIT 1",
			       "t" },
	[SQL_REMOVE] = { "remove", "DELETE FROM start WHERE id = $1", "" },
	[SQL_REMOVE_EMPTY] = { "remove empty",
			       "DELETE FROM start WHERE id = $1 AND NOT EXISTS "
			       "(SELECT 1 FROM vote WHERE start = $1)",
			       "" },
	/* image, workload or '', repo or '', prefix */
	[SQL_FORGET] = { "forget",
			 "DELETE FROM start WHERE image = $1 AND "
			 "(CAST($2 AS TEXT) = '' OR workload = $2) AND "
			 "(CAST($3 AS TEXT) = '' OR repo = $3) AND " SEES(
				 "CAST($4 AS TEXT)"),
			 "" },
	[SQL_HOT] = { "hot",
		      "SELECT version, made_ms, votes, trace FROM hot "
		      "WHERE start = $1",
		      "iiib" },
	/* start, version, made_ms, votes, bytes, trace */
	[SQL_HOT_PUT] = { "put hot",
			  "INSERT INTO hot (start, version, made_ms, votes, "
			  "bytes, trace) VALUES ($1, $2, $3, $4, $5, $6) "
			  "ON CONFLICT (start) DO UPDATE SET "
			  "version = excluded.version, "
			  "made_ms = excluded.made_ms, "
			  "votes = excluded.votes, bytes = excluded.bytes, "
			  "trace = excluded.trace "
			  "WHERE excluded.version >= hot.version",
			  "" },
	/* before, at most */
	[SQL_EXPIRE] = { "expire",
			 "DELETE FROM start WHERE id IN (SELECT id FROM start "
			 "WHERE used < $1 ORDER BY used "
			 "LIMIT CAST($2 AS BIGINT))",
			 "" },
	/* image, node */
	[SQL_REVOKED] = { "revoked",
			  "SELECT since FROM revocation WHERE "
			  "(image = $1 OR image = '') AND "
			  "(node = $2 OR node = '') LIMIT 1",
			  "i" },
	[SQL_REVOCATIONS] = { "revocations",
			      "SELECT image, node, since FROM revocation "
			      "ORDER BY image, node",
			      "tti" },
	/* image, node, since, at most */
	[SQL_REVOKE] = { "revoke",
			 "INSERT INTO revocation (image, node, since) "
			 "SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), "
			 "CAST($3 AS BIGINT) WHERE "
			 "(SELECT count(*) FROM revocation) < "
			 "CAST($4 AS BIGINT) "
			 "ON CONFLICT (image, node) DO NOTHING",
			 "" },
	[SQL_RESTORE] = { "restore",
			  "DELETE FROM revocation WHERE image = $1 AND "
			  "node = $2",
			  "" },
	/* before */
	[SQL_PREHEAT_EXPIRE] = { "expire preheats",
				 "DELETE FROM preheat WHERE created < $1", "" },
	/* ref, repo, what, everybody, created, at most */
	[SQL_PREHEAT_PUT] = { "put preheat",
			      "INSERT INTO preheat (ref, repo, what, "
			      "everybody, created) "
			      "SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), "
			      "CAST($3 AS TEXT), CAST($4 AS BIGINT), "
			      "CAST($5 AS BIGINT) WHERE "
			      "(SELECT count(*) FROM preheat) < "
			      "CAST($6 AS BIGINT) RETURNING id",
			      "i" },
	/* preheat, node, now */
	[SQL_PREHEAT_NAME] = { "name a node to preheat",
			       "INSERT INTO preheat_node (preheat, node, "
			       "state, have, total, error, changed) "
			       "VALUES ($1, $2, 'waiting', 0, 0, '', $3) "
			       "ON CONFLICT (preheat, node) DO NOTHING",
			       "" },
	/* node, since, prefix, limit: what is not over for it */
	[SQL_PREHEAT_FOR] = { "preheats of a node",
			      "SELECT id, ref, what FROM preheat "
			      "LEFT JOIN preheat_node AS n "
			      "ON n.preheat = id AND n.node = $1 "
			      "WHERE created >= $2 AND " SEES(
				      "CAST($3 AS TEXT)") "AND CASE WHEN n.state IS "
							  "NULL THEN everybody = 1 ELSE "
							  "n.state IN ('waiting', 'running') END "
							  "ORDER BY id LIMIT CAST($4 AS BIGINT)",
			      "itt" },
	/* node, state, have, total, error, now, preheat, at most */
	[SQL_PREHEAT_REPORT] = { "report a preheat",
				 "INSERT INTO preheat_node (preheat, node, "
				 "state, have, total, error, changed) "
				 "SELECT id, CAST($1 AS TEXT), "
				 "CAST($2 AS TEXT), CAST($3 AS BIGINT), "
				 "CAST($4 AS BIGINT), CAST($5 AS TEXT), "
				 "CAST($6 AS BIGINT) FROM preheat WHERE "
				 "id = $7 AND (EXISTS (SELECT 1 FROM "
				 "preheat_node WHERE preheat = id AND "
				 "node = $1) OR (everybody = 1 AND "
				 "(SELECT count(*) FROM preheat_node WHERE "
				 "preheat = id) < CAST($8 AS BIGINT))) "
				 "ON CONFLICT (preheat, node) DO UPDATE SET "
				 "state = excluded.state, "
				 "have = excluded.have, "
				 "total = excluded.total, "
				 "error = excluded.error, "
				 "changed = excluded.changed",
				 "" },
	/* id, prefix */
	[SQL_PREHEAT_GET] = { "preheat",
			      "SELECT id, ref, what, everybody, created "
			      "FROM preheat WHERE id = $1 AND " SEES(
				      "CAST($2 AS TEXT)"),
			      "ittii" },
	[SQL_PREHEAT_NODES] = { "nodes of a preheat",
				"SELECT node, state, have, total, error, "
				"changed FROM preheat_node WHERE preheat = $1 "
				"ORDER BY node",
				"ttiiti" },
	[SQL_TRUST_FIND] = { "find a revoked key",
			     "SELECT since FROM trust_revoked "
			     "WHERE key_id = $1",
			     "i" },
	/* key, since, at most */
	[SQL_TRUST_REVOKE] = { "revoke a key",
			       "INSERT INTO trust_revoked (key_id, since) "
			       "SELECT CAST($1 AS TEXT), CAST($2 AS BIGINT) "
			       "WHERE (SELECT count(*) FROM trust_revoked) < "
			       "CAST($3 AS BIGINT) "
			       "ON CONFLICT (key_id) DO NOTHING",
			       "" },
	[SQL_TRUST_RESTORE] = { "restore a key",
				"DELETE FROM trust_revoked WHERE key_id = $1",
				"" },
	[SQL_TRUST_REVOKED] = { "revoked keys",
				"SELECT key_id, since FROM trust_revoked "
				"ORDER BY key_id",
				"ti" },
	[SQL_TOTAL] = { "total",
			"SELECT CAST(count(*) AS BIGINT), "
			"CAST(coalesce(sum(votes), 0) AS BIGINT), "
			"CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM start",
			"iii" },
	/* job, attempt, now: the start's row, locked */
	[SQL_JOB_TOUCH] = { "touch a start",
			    "INSERT INTO job_start (job, attempt, first_ns, "
			    "last_ns, ready_ns, events, received) "
			    "VALUES ($1, $2, 0, 0, 0, 0, $3) "
			    "ON CONFLICT (job, attempt) "
			    "DO UPDATE SET received = excluded.received "
			    "RETURNING id, events",
			    "ii" },
	/* new events, first_ns, last_ns, ready_ns, id */
	[SQL_JOB_SUM] = { "sum of a start",
			  "UPDATE job_start SET "
			  "events = events + CAST($1 AS BIGINT), "
			  "first_ns = CASE WHEN events = 0 OR "
			  "first_ns > CAST($2 AS BIGINT) THEN "
			  "CAST($2 AS BIGINT) ELSE first_ns END, "
			  "last_ns = CASE WHEN last_ns < CAST($3 AS BIGINT) "
			  "THEN CAST($3 AS BIGINT) ELSE last_ns END, "
			  "ready_ns = CASE WHEN ready_ns < CAST($4 AS BIGINT) "
			  "THEN CAST($4 AS BIGINT) ELSE ready_ns END "
			  "WHERE id = $5",
			  "" },
	/* job or '', limit */
	[SQL_JOB_LIST] = { "list starts",
			   JOB "WHERE events > 0 AND "
			       "(CAST($1 AS TEXT) = '' OR job = $1) "
			       "ORDER BY first_ns DESC, id DESC "
			       "LIMIT CAST($2 AS BIGINT)",
			   JOB_TYPES },
	[SQL_JOB_GET] = { "start", JOB "WHERE id = $1", JOB_TYPES },
	/* before, at most */
	[SQL_JOB_EXPIRE] = { "expire starts",
			     "DELETE FROM job_start WHERE id IN "
			     "(SELECT id FROM job_start WHERE received < $1 "
			     "ORDER BY received LIMIT CAST($2 AS BIGINT))",
			     "" },
	[SQL_JOB_TOTAL] = { "events of all starts",
			    "SELECT CAST(coalesce(sum(events), 0) AS BIGINT) "
			    "FROM job_start",
			    "i" },
	[SQL_JOB_REMOVE_OLDEST] = { "remove the oldest start",
				    "DELETE FROM job_start WHERE id = "
				    "(SELECT id FROM job_start ORDER BY "
				    "received, id LIMIT 1)",
				    "" },
	[SQL_STAGE_COUNT] = { "events of a node",
			      "SELECT CAST(count(*) AS BIGINT) FROM "
			      "stage_event WHERE start = $1 AND node = $2",
			      "i" },
	/* start, node; and of each event id, stage, ev, ts, mono, boot, rank, status */
	[SQL_STAGE_PUT] = { "put an event", EVENT_PUT ROW_1 EVENT_ONCE, "" },
	[SQL_STAGE_PUT_ROWS] = { "put events",
				 EVENT_PUT ROW_1 ROW_2 ROW_3 ROW_4 ROW_5 ROW_6
					 ROW_7 ROW_8 ROW_9 ROW_10 EVENT_ONCE,
				 "" },
	[SQL_STAGE_EVENTS] = { "events of a start",
			       "SELECT node, stage, ev, ts, mono, boot, rank, "
			       "status FROM stage_event WHERE start = $1 "
			       "ORDER BY node, event",
			       "ttiiiiii" },
	/* start, node, boot, mono_offset, wall_offset, rtt */
	[SQL_STAGE_CLOCK_PUT] = { "put a clock",
				  "INSERT INTO stage_clock (start, node, boot, "
				  "mono_offset, wall_offset, rtt) "
				  "SELECT CAST($1 AS BIGINT), "
				  "CAST($2 AS TEXT), CAST($3 AS BIGINT), "
				  "CAST($4 AS BIGINT), CAST($5 AS BIGINT), "
				  "CAST($6 AS BIGINT) WHERE "
				  "(SELECT count(*) FROM stage_clock "
				  "WHERE start = $1 AND node = $2 "
				  "AND boot <> $3) < " STAGE_BOOTS_MAX " "
				  "ON CONFLICT (start, node, boot) DO UPDATE "
				  "SET mono_offset = excluded.mono_offset, "
				  "wall_offset = excluded.wall_offset, "
				  "rtt = excluded.rtt "
				  "WHERE excluded.rtt < stage_clock.rtt",
				  "" },
	[SQL_STAGE_CLOCKS] = { "clocks of a start",
			       "SELECT node, boot, mono_offset, wall_offset, "
			       "rtt FROM stage_clock WHERE start = $1",
			       "tiiii" },
};

const struct db_schema schema = {
	.scripts = scripts,
	.n = ARRAY_SIZE(scripts),
	.statements = statements,
	.n_statements = SQL_COUNT_,
};
