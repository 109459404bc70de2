// SPDX-License-Identifier: Apache-2.0
/* What is asked of the tables (schema.c), with the types of its columns (db.h). */
#include "registry/schema.h"

#define ENV \
	"SELECT env, generation, holder, until_ms, failures, capture, " \
	"description, stored, made_by, program, token, made_ms, used_ms, " \
	"expires_ms, pinned, bad FROM env_key "
#define ENV_TYPES "titiittitttiiiit"
/* A lease that was not taken over or given back: repo, key, generation, owner.  The time
 * is no matter: an hour late is as good as in time while nobody else came. */
#define ENV_HELD(a, b, c, d) \
	"WHERE repo = $" #a " AND env = $" #b " AND generation = $" #c \
	" AND owner = $" #d " AND until_ms > 0"

#define JOB \
	"SELECT id, job, attempt, first_ns, last_ns, ready_ns, events, " \
	"received, image, label, revision FROM job_start "
#define JOB_TYPES "itiiiiiitti"
#define EVENT_PUT \
	"INSERT INTO stage_event (start, node, event, stage, ev, ts, mono, " \
	"boot, rank, status, facts) VALUES "
#define EVENT_ROW(a, b, c, d, e, f, g, h, i) \
	"($1, $2, $" #a ", $" #b ", $" #c ", $" #d ", $" #e ", $" #f ", $" #g \
	", $" #h ", $" #i ")"
#define ROW_1 EVENT_ROW(3, 4, 5, 6, 7, 8, 9, 10, 11)
#define ROW_2 ", " EVENT_ROW(12, 13, 14, 15, 16, 17, 18, 19, 20)
#define ROW_3 ", " EVENT_ROW(21, 22, 23, 24, 25, 26, 27, 28, 29)
#define ROW_4 ", " EVENT_ROW(30, 31, 32, 33, 34, 35, 36, 37, 38)
#define ROW_5 ", " EVENT_ROW(39, 40, 41, 42, 43, 44, 45, 46, 47)
#define ROW_6 ", " EVENT_ROW(48, 49, 50, 51, 52, 53, 54, 55, 56)
#define ROW_7 ", " EVENT_ROW(57, 58, 59, 60, 61, 62, 63, 64, 65)
#define ROW_8 ", " EVENT_ROW(66, 67, 68, 69, 70, 71, 72, 73, 74)
#define ROW_9 ", " EVENT_ROW(75, 76, 77, 78, 79, 80, 81, 82, 83)
#define ROW_10 ", " EVENT_ROW(84, 85, 86, 87, 88, 89, 90, 91, 92)
#define EVENT_ONCE " ON CONFLICT (start, node, event) DO NOTHING"

/* Rows of a day, an image or a label, by stage. */
#define DAY_KEY "image || ' ' || label || ' ' || stage"
/* When there are too many: those of the most nodes. */
#define TREND(key) \
	"SELECT * FROM (" \
	"SELECT " key ", stage, CAST(sum(starts) AS BIGINT), " \
	"CAST(sum(nodes) AS BIGINT), CAST(sum(median_ms) AS BIGINT), " \
	"CAST(sum(job_ms) AS BIGINT), max(worst_ms), " \
	"CAST(sum(slow) AS BIGINT), CAST(sum(node_ms) AS BIGINT), " \
	"CAST(sum(wait_ms) AS BIGINT) FROM start_day WHERE " \
	"day >= $1 AND (CAST($2 AS TEXT) = '' OR image = $2) AND " \
	"(CAST($3 AS TEXT) = '' OR label = $3) GROUP BY 1, 2 " \
	"ORDER BY 4 DESC, 1, 2 LIMIT CAST($4 AS BIGINT)) AS t ORDER BY 1, 2"
#define TREND_TYPES "ttiiiiiiii"

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

/* The same of a start that is asked for as one of `r`: what is of a store is for who names
 * it (call_check_trace_repo()). */
#define SEES_OF(p, r) SEES(p) "AND (repo = " r " OR repo NOT LIKE '%://%') "

/* A sum of bytes over all reports of starts of images, 2^43 of each at most
 * (IMAGE_REPORT_BYTES_MAX): a row from before that bound takes no list away. */
#define IMAGE_BYTES(column) \
	"CAST(sum(CASE WHEN " column " > 8796093022208 THEN 8796093022208 " \
	"ELSE " column " END) AS BIGINT)"

/* Clocks of a node in a start, as text: a node that makes boots up fills no disk. */
#define STAGE_BOOTS_MAX "16"

const struct db_statement schema_statements[SQL_COUNT_] = {
	[SQL_PING] = { "ping", "SELECT 1", "i" },
	/* image, workload, prefix, repo */
	[SQL_FIND_OWN] = { "find own",
			   FIND
			   "WHERE image = $1 AND workload = $2 AND " SEES_OF(
				   "CAST($3 AS TEXT)",
				   "$4") "ORDER BY CASE WHEN repo = $4 THEN 0 ELSE 1 END, "
					 "newest DESC LIMIT 1",
			   FIND_TYPES },
	/* repo, workload */
	[SQL_FIND_RELATIVE] = { "find relative",
				FIND "WHERE repo = $1 AND workload = $2 "
				     "ORDER BY newest DESC LIMIT 1",
				FIND_TYPES },
	/* image, prefix, repo */
	[SQL_FIND_WORKLOAD] = { "find workload",
				FIND "WHERE image = $1 AND " SEES_OF(
					"CAST($2 AS TEXT)",
					"$3") "ORDER BY CASE WHEN repo = $3 THEN 0 ELSE 1 "
					      "END, newest DESC LIMIT 1",
				FIND_TYPES },
	[SQL_FIND_FAR] = { "find far",
			   FIND "WHERE repo = $1 "
				"ORDER BY newest DESC LIMIT 1",
			   FIND_TYPES },
	/* image, prefix, repo or '', limit */
	[SQL_LIST_IMAGE] = { "list image",
			     LIST "WHERE image = $1 AND " SEES_OF(
				     "CAST($2 AS TEXT)",
				     "$3") "AND (CAST($3 AS TEXT) = '' OR repo = $3) "
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
			    "last_ns, ready_ns, events, received, revision) "
			    "VALUES ($1, $2, 0, 0, 0, 0, $3, 1) "
			    "ON CONFLICT (job, attempt) "
			    "DO UPDATE SET received = excluded.received, "
			    "revision = job_start.revision + 1 "
			    "RETURNING id, events, revision",
			    "iii" },
	/* new events, first_ns, last_ns, ready_ns, image, label, id */
	[SQL_JOB_SUM] = { "sum of a start",
			  "UPDATE job_start SET "
			  "events = events + CAST($1 AS BIGINT), "
			  "ckpt_seen = ckpt_seen + CAST($1 AS BIGINT), "
			  "first_ns = CASE WHEN events = 0 OR "
			  "first_ns > CAST($2 AS BIGINT) THEN "
			  "CAST($2 AS BIGINT) ELSE first_ns END, "
			  "last_ns = CASE WHEN last_ns < CAST($3 AS BIGINT) "
			  "THEN CAST($3 AS BIGINT) ELSE last_ns END, "
			  "ready_ns = CASE WHEN ready_ns < CAST($4 AS BIGINT) "
			  "THEN CAST($4 AS BIGINT) ELSE ready_ns END, "
			  "image = CASE WHEN CAST($5 AS TEXT) = '' THEN image "
			  "ELSE CAST($5 AS TEXT) END, "
			  "label = CASE WHEN CAST($6 AS TEXT) = '' THEN label "
			  "ELSE CAST($6 AS TEXT) END "
			  "WHERE id = $7",
			  "" },
	/* job or '', image or '', label or '', limit */
	[SQL_JOB_LIST] = { "list starts",
			   JOB "WHERE events > 0 AND "
			       "(CAST($1 AS TEXT) = '' OR job = $1) AND "
			       "(CAST($2 AS TEXT) = '' OR image = $2) AND "
			       "(CAST($3 AS TEXT) = '' OR label = $3) "
			       "ORDER BY first_ns DESC, id DESC "
			       "LIMIT CAST($4 AS BIGINT)",
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
			      "SELECT events FROM stage_node "
			      "WHERE start = $1 AND node = $2",
			      "i" },
	/* start, node, new events, revision */
	[SQL_STAGE_NODE_SUM] = { "sum of a node",
				 "INSERT INTO stage_node (start, node, events, "
				 "revision) VALUES ($1, $2, $3, $4) "
				 "ON CONFLICT (start, node) DO UPDATE SET "
				 "events = stage_node.events + excluded.events, "
				 "revision = excluded.revision",
				 "" },
	/* start, revision, at most */
	[SQL_STAGE_CHANGED] = { "nodes that sent something since",
				"SELECT node FROM stage_node WHERE "
				"start = $1 AND revision > $2 "
				"LIMIT CAST($3 AS BIGINT)",
				"t" },
	/* start, node; and of each event id, stage, ev, ts, mono, boot, rank, status, facts */
	[SQL_STAGE_PUT] = { "put an event", EVENT_PUT ROW_1 EVENT_ONCE, "" },
	[SQL_STAGE_PUT_ROWS] = { "put events",
				 EVENT_PUT ROW_1 ROW_2 ROW_3 ROW_4 ROW_5 ROW_6
					 ROW_7 ROW_8 ROW_9 ROW_10 EVENT_ONCE,
				 "" },
	[SQL_STAGE_EVENTS] = { "events of a start",
			       "SELECT node, stage, ev, ts, mono, boot, rank, "
			       "status, facts FROM stage_event WHERE start = $1 "
			       "ORDER BY node, event",
			       "ttiiiiiit" },
	[SQL_STAGE_NODE_EVENTS] = { "events of a node in a start",
				    "SELECT node, stage, ev, ts, mono, boot, "
				    "rank, status, facts FROM stage_event "
				    "WHERE start = $1 AND node = $2 "
				    "ORDER BY event",
				    "ttiiiiiit" },
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
	/* before if it is ready, before if not, at most */
	[SQL_JOB_UNSUMMED] = { "starts to sum up",
			       "SELECT id FROM job_start WHERE summed = 0 AND "
			       "events > 0 AND received < CASE WHEN "
			       "ready_ns > 0 THEN CAST($1 AS BIGINT) ELSE "
			       "CAST($2 AS BIGINT) END ORDER BY received "
			       "LIMIT CAST($3 AS BIGINT)",
			       "i" },
	[SQL_JOB_SUMMED] = { "a start is summed up",
			     "UPDATE job_start SET summed = 1 "
			     "WHERE id = $1 AND summed = 0",
			     "" },
	/* node, start, job, at, busy_ms, median_ms, slow, stage, cause */
	[SQL_NODE_PUT] = { "put a node's start",
			   "INSERT INTO start_node (node, start, job, at, "
			   "busy_ms, median_ms, slow, stage, cause) VALUES "
			   "($1, $2, $3, $4, $5, $6, $7, $8, $9) "
			   "ON CONFLICT (node, start) DO NOTHING",
			   "" },
	/* node, at most */
	[SQL_NODE_TRIM] = { "trim starts of a node",
			    "DELETE FROM start_node WHERE node = $1 AND "
			    "start <= (SELECT start FROM start_node WHERE "
			    "node = $1 ORDER BY start DESC LIMIT 1 "
			    "OFFSET CAST($2 AS BIGINT))",
			    "" },
	/* node, start, at most */
	[SQL_NODE_PAST] = { "past of a node",
			    "SELECT CAST(count(*) AS BIGINT), "
			    "CAST(coalesce(sum(slow), 0) AS BIGINT) FROM "
			    "(SELECT slow FROM start_node WHERE node = $1 AND "
			    "start < $2 ORDER BY start DESC "
			    "LIMIT CAST($3 AS BIGINT)) AS past",
			    "ii" },
	/* node, at most */
	[SQL_NODE_STARTS] = { "starts of a node",
			      "SELECT start, job, at, busy_ms, median_ms, "
			      "slow, stage, cause FROM start_node "
			      "WHERE node = $1 ORDER BY start DESC "
			      "LIMIT CAST($2 AS BIGINT)",
			      "itiiiitt" },
	/* node, day, slow, excess_ms, last */
	[SQL_NODE_DAY_PUT] = { "add to a node's day",
			       "INSERT INTO node_day (node, day, starts, slow, "
			       "excess_ms, last) VALUES ($1, $2, 1, $3, $4, $5) "
			       "ON CONFLICT (node, day) DO UPDATE SET "
			       "starts = node_day.starts + 1, "
			       "slow = node_day.slow + excluded.slow, "
			       "excess_ms = node_day.excess_ms + "
			       "excluded.excess_ms, "
			       "last = CASE WHEN node_day.last > excluded.last "
			       "THEN node_day.last ELSE excluded.last END",
			       "" },
	/* since this day, at most: those that were slow */
	[SQL_NODE_LIST] = { "slow nodes",
			    "SELECT node, CAST(sum(slow) AS BIGINT), "
			    "CAST(sum(excess_ms) AS BIGINT), max(last), "
			    "CAST(sum(starts) AS BIGINT) FROM node_day "
			    "WHERE day >= $1 GROUP BY node "
			    "HAVING sum(slow) > 0 "
			    "ORDER BY 2 DESC, 3 DESC, node "
			    "LIMIT CAST($2 AS BIGINT)",
			    "tiiii" },
	/* before this day */
	[SQL_NODE_DAY_EXPIRE] = { "expire days of nodes",
				  "DELETE FROM node_day WHERE day < $1", "" },
	/* before */
	[SQL_NODE_EXPIRE] = { "expire starts of nodes",
			      "DELETE FROM start_node WHERE at < $1", "" },
	/* day, image, label, stage, nodes, median_ms, job_ms, worst_ms, slow, node_ms,
	 * wait_ms */
	[SQL_DAY_PUT] = { "add to a day",
			  "INSERT INTO start_day (day, image, label, stage, "
			  "starts, nodes, median_ms, job_ms, worst_ms, slow, "
			  "node_ms, wait_ms) VALUES ($1, $2, $3, $4, 1, $5, "
			  "$6, $7, $8, $9, $10, $11) "
			  "ON CONFLICT (day, image, label, stage) DO UPDATE "
			  "SET starts = start_day.starts + 1, "
			  "nodes = start_day.nodes + excluded.nodes, "
			  "median_ms = start_day.median_ms + "
			  "excluded.median_ms, "
			  "job_ms = start_day.job_ms + excluded.job_ms, "
			  "worst_ms = CASE WHEN start_day.worst_ms > "
			  "excluded.worst_ms THEN start_day.worst_ms ELSE "
			  "excluded.worst_ms END, "
			  "slow = start_day.slow + excluded.slow, "
			  "node_ms = start_day.node_ms + excluded.node_ms, "
			  "wait_ms = start_day.wait_ms + excluded.wait_ms",
			  "" },
	[SQL_DAY_ROWS] = { "rows of a day",
			   "SELECT CAST(count(*) AS BIGINT) FROM start_day "
			   "WHERE day = $1",
			   "i" },
	/* day, how many: those whose starts had the fewest nodes beyond the first one each,
	 * of which a node that makes starts up has none, however many it makes */
	[SQL_DAY_TRIM] = { "trim a day",
			   "DELETE FROM start_day WHERE day = $1 AND "
			   "(" DAY_KEY ") IN (SELECT " DAY_KEY
			   " FROM start_day WHERE day = $1 "
			   "ORDER BY nodes - starts, starts, 1 "
			   "LIMIT CAST($2 AS BIGINT))",
			   "" },
	/* since, image or '', label or '', at most */
	[SQL_TREND_DAY] = { "trend by day", TREND("CAST(day AS TEXT)"),
			    TREND_TYPES },
	[SQL_TREND_IMAGE] = { "trend by image", TREND("image"), TREND_TYPES },
	[SQL_TREND_LABEL] = { "trend by label", TREND("label"), TREND_TYPES },
	[SQL_DAY_EXPIRE] = { "expire days",
			     "DELETE FROM start_day WHERE day < $1", "" },
	/* start, at, job, image, label, nodes, gpus, job_ms, median_ms, max_ms, stages */
	[SQL_SCALE_PUT] = { "add to starts by size",
			    "INSERT INTO start_scale (start, stage, at, job, "
			    "image, label, nodes, gpus, job_ms, median_ms, "
			    "max_ms, stages) VALUES ($1, '', $2, $3, $4, $5, "
			    "$6, $7, $8, $9, $10, $11) "
			    "ON CONFLICT (start, stage) DO "
			    "UPDATE SET at = excluded.at, job = excluded.job, "
			    "image = excluded.image, label = excluded.label, "
			    "nodes = excluded.nodes, gpus = excluded.gpus, "
			    "job_ms = excluded.job_ms, "
			    "median_ms = excluded.median_ms, "
			    "max_ms = excluded.max_ms, "
			    "stages = excluded.stages",
			    "" },
	/* since, image or '', label or '', nodes from and to, at most: the newest */
	[SQL_SCALE_LIST] = { "starts by size",
			     "SELECT stage, job, nodes, gpus, job_ms, "
			     "median_ms, max_ms, stages FROM start_scale "
			     "WHERE at >= $1 AND "
			     "(CAST($2 AS TEXT) = '' OR image = $2) AND "
			     "(CAST($3 AS TEXT) = '' OR label = $3) AND "
			     "nodes BETWEEN CAST($4 AS BIGINT) AND "
			     "CAST($5 AS BIGINT) "
			     "ORDER BY at DESC LIMIT CAST($6 AS BIGINT)",
			     "ttiiiiit" },
	[SQL_SCALE_EXPIRE] = { "expire starts by size",
			       "DELETE FROM start_scale WHERE at < $1", "" },
	[SQL_SCALE_TOTAL] = { "total of starts by size",
			      "SELECT CAST(count(*) AS BIGINT) FROM start_scale",
			      "i" },
	/* how many starts: those of the fewest nodes, of which one that makes starts up has
	 * one each, the oldest first */
	[SQL_SCALE_TRIM] = { "trim starts by size",
			     "DELETE FROM start_scale WHERE start IN (SELECT "
			     "start FROM start_scale WHERE stage = '' ORDER BY "
			     "nodes, at LIMIT CAST($1 AS BIGINT))",
			     "" },
	[SQL_CKPT_EVENTS] = { "loads and saves of a start",
			      "SELECT node, stage, ev, ts, mono, boot, rank, "
			      "status, facts FROM stage_event "
			      "WHERE start + 0 = $1 AND " CKPT_STAGES
			      " ORDER BY node, event",
			      "ttiiiiiit" },
	/* start, node */
	[SQL_CKPT_PART_LAST] = { "last part of a node's loads and saves",
				 "SELECT part, events FROM ckpt_part "
				 "WHERE start = $1 AND node = $2 "
				 "ORDER BY part DESC LIMIT 1",
				 "ib" },
	/* start, node, part, events */
	[SQL_CKPT_PART_PUT] = { "put a part of loads and saves",
				"INSERT INTO ckpt_part (start, node, part, "
				"events) VALUES ($1, $2, $3, $4) "
				"ON CONFLICT (start, node, part) DO UPDATE SET "
				"events = excluded.events",
				"" },
	[SQL_CKPT_PART_DROP] = { "drop a node's parts of loads and saves",
				 "DELETE FROM ckpt_part WHERE start = $1 AND "
				 "node = $2",
				 "" },
	[SQL_CKPT_PARTS] = { "parts of a start's loads and saves",
			     "SELECT node, events FROM ckpt_part "
			     "WHERE start = $1 ORDER BY node, part",
			     "tb" },
	/* start, node */
	[SQL_CKPT_NODE_EVENTS] = { "a node's loads and saves",
				   "SELECT stage, ev, ts, mono, boot, rank, "
				   "status, facts FROM stage_event "
				   "WHERE start + 0 = $1 AND node = $2 AND " CKPT_STAGES
				   " ORDER BY event",
				   "tiiiiiit" },
	[SQL_CKPT_WHOLE] = { "are all loads and saves in parts",
			     "SELECT CASE WHEN ckpt_seen = events THEN 1 "
			     "ELSE 0 END FROM job_start WHERE id = $1",
			     "i" },
	/* now, at most: a minute after the last time, or later where there is much */
	[SQL_CKPT_DUE] = { "starts whose loads and saves to sum up",
			   "SELECT id FROM job_start WHERE "
			   "ckpt_revision < revision AND events > 0 AND "
			   "ckpt_summed + 60 + events / 1000 <= "
			   "CAST($1 AS BIGINT) ORDER BY received "
			   "LIMIT CAST($2 AS BIGINT)",
			   "i" },
	/* revision, now, id */
	[SQL_CKPT_SUMMED] = { "loads and saves are summed up",
			      "UPDATE job_start SET ckpt_revision = $1, "
			      "ckpt_summed = $2 "
			      "WHERE id = $3 AND ckpt_revision < $1",
			      "" },
	[SQL_CKPT_PUT] = { "put loads or saves",
			   "INSERT INTO ckpt_sum (start, stage, last, rounds, "
			   "nodes, runs, open, bytes, job_ms, run_ms, wait_ms, "
			   "queue_ms, storage_ms, network_ms, median_ms, "
			   "max_ms, slow, slowest) VALUES ($1, $2, $3, $4, $5, "
			   "$6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, "
			   "$17, $18) "
			   "ON CONFLICT (start, stage) DO UPDATE SET "
			   "last = excluded.last, rounds = excluded.rounds, "
			   "nodes = excluded.nodes, runs = excluded.runs, "
			   "open = excluded.open, bytes = excluded.bytes, "
			   "job_ms = excluded.job_ms, "
			   "run_ms = excluded.run_ms, "
			   "wait_ms = excluded.wait_ms, "
			   "queue_ms = excluded.queue_ms, "
			   "storage_ms = excluded.storage_ms, "
			   "network_ms = excluded.network_ms, "
			   "median_ms = excluded.median_ms, "
			   "max_ms = excluded.max_ms, slow = excluded.slow, "
			   "slowest = excluded.slowest",
			   "" },
	/* since, job or '', image or '', label or '', at most */
	[SQL_CKPT_LIST] = { "list loads and saves",
			    "SELECT id, job, attempt, image, label, stage, "
			    "last, rounds, nodes, runs, open, bytes, job_ms, "
			    "run_ms, wait_ms, queue_ms, storage_ms, "
			    "network_ms, median_ms, max_ms, slow, slowest "
			    "FROM ckpt_sum JOIN job_start ON id = start "
			    "WHERE last >= $1 AND "
			    "(CAST($2 AS TEXT) = '' OR job = $2) AND "
			    "(CAST($3 AS TEXT) = '' OR image = $3) AND "
			    "(CAST($4 AS TEXT) = '' OR label = $4) "
			    "ORDER BY last DESC, id DESC, stage "
			    "LIMIT CAST($5 AS BIGINT)",
			    "ititttiiiiiiiiiiiiiiit" },
	/* repo, key */
	[SQL_ENV_GET] = { "environment", ENV "WHERE repo = $1 AND env = $2",
			  ENV_TYPES },
	/* repo, first digits or '', after this key or '', now, at most */
	[SQL_ENV_LIST] = { "environments",
			   ENV "WHERE repo = $1 AND capture <> '' AND "
			       "(CAST($2 AS TEXT) = '' OR "
			       "substr(env, 8, length(CAST($2 AS TEXT))) = $2) "
			       "AND env > $3 AND (pinned = 1 OR "
			       "expires_ms = 0 OR expires_ms > $4) "
			       "ORDER BY env LIMIT CAST($5 AS BIGINT)",
			   ENV_TYPES },
	/* holder, owner, ttl_ms, now, repo, key, longest lease, instead: of a known key */
	[SQL_ENV_TAKE] = { "take the lease of an environment",
			   "UPDATE env_key SET generation = generation + 1, "
			   "holder = $1, owner = $2, "
			   "ttl_ms = CAST($3 AS BIGINT), "
			   "until_ms = CAST($4 AS BIGINT) + CAST($3 AS BIGINT), "
			   "touched_ms = CAST($4 AS BIGINT) "
			   "WHERE repo = $5 AND env = $6 AND "
			   "(until_ms <= CAST($4 AS BIGINT) OR "
			   "until_ms > CAST($4 AS BIGINT) + CAST($7 AS BIGINT)) "
			   "AND (capture = '' OR (pinned = 0 AND "
			   "(capture = CAST($8 AS TEXT) OR "
			   "(expires_ms > 0 AND "
			   "expires_ms <= CAST($4 AS BIGINT))))) "
			   "RETURNING generation",
			   "i" },
	/* repo, key, now, holder, owner, ttl_ms: of one that nobody named */
	[SQL_ENV_NEW] = { "put an environment's key",
			  "INSERT INTO env_key (repo, env, generation, "
			  "holder, owner, first_owner, ttl_ms, until_ms, "
			  "failures, touched_ms) VALUES ($1, $2, "
			  "CAST($3 AS BIGINT), $4, $5, $5, "
			  "CAST($6 AS BIGINT), "
			  "CAST($3 AS BIGINT) + CAST($6 AS BIGINT), 0, "
			  "CAST($3 AS BIGINT)) "
			  "ON CONFLICT (repo, env) DO NOTHING "
			  "RETURNING generation",
			  "i" },
	/* of what: one more */
	[SQL_ENV_COUNT] = { "count an environment's key",
			    "INSERT INTO env_count (what, n) VALUES ($1, 1) "
			    "ON CONFLICT (what) DO UPDATE SET "
			    "n = env_count.n + 1 RETURNING n",
			    "i" },
	[SQL_ENV_COUNT_NONE] = { "forget counts of environments",
				 "DELETE FROM env_count", "" },
	[SQL_ENV_COUNT_ALL] = { "count environments", ENV_COUNT_ALL, "" },
	/* now, and those of ENV_HELD */
	[SQL_ENV_RENEW] = { "renew the lease of an environment",
			    "UPDATE env_key SET "
			    "until_ms = CAST($1 AS BIGINT) + ttl_ms, "
			    "touched_ms = CAST($1 AS BIGINT) " ENV_HELD(2, 3, 4,
									5),
			    "" },
	/* now, failures more, and those of ENV_HELD */
	[SQL_ENV_DROP] = { "drop the lease of an environment",
			   "UPDATE env_key SET until_ms = 0, touched_ms = $1, "
			   "failures = failures + CAST($2 AS BIGINT) " ENV_HELD(
				   3, 4, 5, 6),
			   "" },
	/* now, capture, description, stored, by, program, expires_ms, and those of
	 * ENV_HELD: what was pinned under the lease stays */
	[SQL_ENV_PUBLISH] = { "publish an environment",
			      "UPDATE env_key SET token = owner, made_ms = $1, "
			      "used_ms = $1, touched_ms = $1, capture = $2, "
			      "description = $3, stored = $4, made_by = $5, "
			      "program = $6, expires_ms = $7, "
			      "bad = '' " ENV_HELD(
				      8, 9, 10,
				      11) " AND (pinned = 0 OR capture = '' OR capture = $2)",
			      "" },
	/* now, repo, key, capture, when it was used before that */
	[SQL_ENV_USED] = { "note the use of an environment",
			   "UPDATE env_key SET used_ms = $1 "
			   "WHERE repo = $2 AND env = $3 AND capture = $4 AND "
			   "used_ms <= $5",
			   "" },
	/* why, repo, key, capture: the first word counts */
	[SQL_ENV_BAD] = { "mark an environment bad",
			  "UPDATE env_key SET bad = CASE WHEN bad = '' THEN "
			  "CAST($1 AS TEXT) ELSE bad END "
			  "WHERE repo = $2 AND env = $3 AND capture = $4",
			  "" },
	/* pinned, repo, key */
	[SQL_ENV_PIN] = { "pin an environment",
			  "UPDATE env_key SET pinned = $1 WHERE repo = $2 AND "
			  "env = $3 AND capture <> ''",
			  "" },
	/* now, repo, key */
	[SQL_ENV_REMOVE] = { "remove an environment",
			     "UPDATE env_key SET capture = '', "
			     "description = '', pinned = 0, bad = '', "
			     "until_ms = 0, generation = generation + 1, "
			     "touched_ms = $1 WHERE repo = $2 AND env = $3 AND "
			     "(capture <> '' OR until_ms > 0)",
			     "" },
	/* a day ago, unused since */
	[SQL_ENV_SWEEP] = { "sweep environments",
			    "DELETE FROM env_key WHERE touched_ms < $1 AND "
			    "until_ms < $1 AND "
			    "(capture = '' OR (pinned = 0 AND "
			    "(used_ms < $2 OR (expires_ms > 0 AND "
			    "expires_ms < $1))))",
			    "" },
	/* image, repo, workload, node, job, attempt */
	[SQL_IMAGE_DROP] = { "drop a node's start of an image",
			     "DELETE FROM image_start WHERE image = $1 AND "
			     "repo = $2 AND workload = $3 AND node = $4 AND "
			     "job = $5 AND attempt = $6",
			     "" },
	[SQL_IMAGE_PUT] = { "put a node's start of an image",
			    "INSERT INTO image_start (image, repo, workload, "
			    "node, job, attempt, name, received, peer_bytes, "
			    "origin_bytes) VALUES ($1, $2, $3, $4, $5, $6, $7, "
			    "$8, $9, $10) RETURNING id",
			    "i" },
	[SQL_IMAGE_PUT_TEXT] = { "put figures of a start of an image",
				 "INSERT INTO image_start_text (start, "
				 "figures, peers) VALUES ($1, $2, $3)",
				 "" },
	/* node, how many stay */
	[SQL_IMAGE_TRIM] = { "trim a node's starts of images",
			     "DELETE FROM image_start WHERE node = $1 AND "
			     "id <= (SELECT id FROM image_start WHERE "
			     "node = $1 ORDER BY id DESC LIMIT 1 "
			     "OFFSET CAST($2 AS BIGINT))",
			     "" },
	/* prefix, repo or '', at most: of the images that one node alone started, 16 come
	 * before those of others, and the rest after these */
	[SQL_IMAGE_LIST] = { "list images",
			     "SELECT image, repo, workload, name, starts, "
			     "nodes, received, peer_bytes, origin_bytes FROM "
			     "(SELECT * FROM (SELECT i.*, CASE WHEN nodes > 1 "
			     "THEN 1 ELSE row_number() OVER "
			     "(PARTITION BY nodes > 1, node ORDER BY "
			     "received DESC, image, repo, workload) END AS turn "
			     "FROM (SELECT image, repo, workload, "
			     "max(name) AS name, "
			     "CAST(count(*) AS BIGINT) AS starts, "
			     "CAST(count(DISTINCT node) AS BIGINT) AS nodes, "
			     "max(received) AS received, " IMAGE_BYTES("peer_bytes") " AS peer_bytes, " IMAGE_BYTES(
				     "origin_bytes") " AS origin_bytes, max(node) AS node "
						     "FROM image_start WHERE " SEES(
							     "CAST($1 AS TEXT)") "AND (CAST($2 AS TEXT) = '' OR repo = $2) "
										 "GROUP BY 1, 2, 3) AS i) AS t ORDER BY "
										 "CASE WHEN turn > 16 THEN 1 ELSE 0 END, "
										 "received DESC, image, repo, workload "
										 "LIMIT CAST($3 AS BIGINT)) AS u "
										 "ORDER BY received DESC, image, repo, workload",
			     "ttttiiiii" },
	/* image, repo, workload, at most: the last 8 of each node */
	[SQL_IMAGE_STARTS] = { "starts of an image",
			       "SELECT node, job, attempt, name, received, "
			       "peer_bytes, origin_bytes, figures "
			       "FROM (SELECT s.*, row_number() OVER "
			       "(PARTITION BY node ORDER BY id DESC) AS turn "
			       "FROM image_start AS s WHERE image = $1 AND "
			       "repo = $2 AND workload = $3) AS i "
			       "JOIN image_start_text ON start = id "
			       "WHERE turn <= 8 ORDER BY id DESC "
			       "LIMIT CAST($4 AS BIGINT)",
			       "ttitiiit" },
	/* since, image or '', at most */
	[SQL_IMAGE_PEERS] = { "peers of all starts",
			      "SELECT node, image, repo, workload, "
			      "peer_bytes, origin_bytes, peers "
			      "FROM image_start JOIN image_start_text "
			      "ON start = id WHERE received >= $1 AND "
			      "(CAST($2 AS TEXT) = '' OR image = $2) "
			      "ORDER BY id DESC LIMIT CAST($3 AS BIGINT)",
			      "ttttiit" },
	/* job, attempt, at most */
	[SQL_IMAGE_JOB_PEERS] = { "peers of a start",
				  "SELECT node, image, repo, workload, "
				  "peer_bytes, origin_bytes, peers "
				  "FROM image_start JOIN image_start_text "
				  "ON start = id WHERE job = $1 AND "
				  "attempt = $2 ORDER BY id DESC "
				  "LIMIT CAST($3 AS BIGINT)",
				  "ttttiit" },
	/* before, at most */
	[SQL_IMAGE_EXPIRE] = { "expire starts of images",
			       "DELETE FROM image_start WHERE id IN (SELECT id "
			       "FROM image_start WHERE received < $1 "
			       "LIMIT CAST($2 AS BIGINT))",
			       "" },
	/* how many stay */
	[SQL_IMAGE_BOUND] = { "bound starts of images",
			      "DELETE FROM image_start WHERE id <= (SELECT id "
			      "FROM image_start ORDER BY id DESC LIMIT 1 "
			      "OFFSET CAST($1 AS BIGINT))",
			      "" },
};
