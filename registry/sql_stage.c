// SPDX-License-Identifier: Apache-2.0
/* Statements of stage_db.c: starts of jobs and their events. */
#include "registry/sql.h"

#define JOB \
	"SELECT id, job, attempt, first_ns, last_ns, ready_ns, events, " \
	"received, image, label, revision, node_count, summary, placed, " JOB_OTHERS
/* Number of later attempts of the job; and, for an attempt without placing events, whether an
 * earlier one had some. */
#define JOB_OTHERS \
	"(SELECT CAST(count(*) AS BIGINT) FROM job_start AS n " \
	"WHERE n.job = s.job AND n.attempt > s.attempt AND n.events > 0), " \
	"CAST(CASE WHEN s.placed = 0 AND EXISTS (SELECT 1 FROM job_start AS n " \
	"WHERE n.job = s.job AND n.attempt < s.attempt AND n.placed = 1) " \
	"THEN 1 ELSE 0 END AS BIGINT) "
#define JOB_TYPES "itiiiiiittiitiii"
/* The list is chosen from so many of the newest starts. Of those reported by a single node, at most
 * so many of that node come before those of others. */
#define JOB_LIST_MAX "100000"
#define JOB_OF_NODE_MAX "16"
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

/* Most clocks (boots) of a node in a start, as SQL text: a node that invents boots cannot fill the
 * disk. */
#define STAGE_BOOTS_MAX "16"

#define AT(s) (s - SQL_OF_STAGE)

const struct db_statement sql_stage[SQL_OF_HISTORY - SQL_OF_STAGE] = {
	/* Parameters: job, attempt, now, namespace. Locks the start's row. */
	[AT(SQL_JOB_TOUCH)] = { "touch a start",
				"INSERT INTO job_start (job, attempt, first_ns, "
				"last_ns, ready_ns, events, received, revision, "
				"space) VALUES ($1, $2, 0, 0, 0, 0, $3, 1, $4) "
				"ON CONFLICT (job, attempt) "
				"DO UPDATE SET received = excluded.received, "
				"revision = job_start.revision + 1 "
				"RETURNING id, events, revision",
				"iii" },
	/* Parameters: new events, first_ns, last_ns, ready_ns, image, label, node, new nodes, 1 if
	 * placed, start's id */
	[AT(SQL_JOB_SUM)] = { "sum of a start",
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
			      "ELSE CAST($6 AS TEXT) END, "
			      "node_name = CASE WHEN node_count = 0 THEN "
			      "CAST($7 AS TEXT) ELSE node_name END, "
			      "node_count = node_count + CAST($8 AS BIGINT), "
			      "placed = CASE WHEN placed = 1 THEN 1 ELSE "
			      "CAST($9 AS BIGINT) END WHERE id = $10",
			      "" },
	/* Parameters: job or '', image or '', label or '', limit. While others have starts, at most
	 * half of the rows are of one namespace, and sixteen of a node that is the only one to
	 * report them. */
	[AT(SQL_JOB_LIST)] = { "list starts",
			       JOB
			       "FROM (SELECT * FROM (SELECT k.*, "
			       "row_number() OVER (PARTITION BY space "
			       "ORDER BY of_node > " JOB_OF_NODE_MAX ", "
			       "first_ns DESC, id DESC) AS turn FROM "
			       "(SELECT j.*, CASE WHEN node_count > 1 THEN 1 ELSE "
			       "row_number() OVER (PARTITION BY node_count > 1, "
			       "node_name ORDER BY first_ns DESC, id DESC) END "
			       "AS of_node FROM (SELECT * FROM job_start "
			       "WHERE events > 0 AND "
			       "(CAST($1 AS TEXT) = '' OR job = $1) AND "
			       "(CAST($2 AS TEXT) = '' OR image = $2) AND "
			       "(CAST($3 AS TEXT) = '' OR label = $3) "
			       "ORDER BY first_ns DESC, id DESC "
			       "LIMIT " JOB_LIST_MAX ") AS j) AS k) AS t "
			       "ORDER BY CASE WHEN of_node > " JOB_OF_NODE_MAX
			       " OR 2 * turn > CAST($4 AS BIGINT) + 1 "
			       "THEN 1 ELSE 0 END, first_ns DESC, id DESC "
			       "LIMIT CAST($4 AS BIGINT)) AS s "
			       "ORDER BY first_ns DESC, id DESC",
			       JOB_TYPES },
	[AT(SQL_JOB_GET)] = { "start", JOB "FROM job_start AS s WHERE id = $1",
			      JOB_TYPES },
	/* Parameters: summary, id */
	[AT(SQL_JOB_SUMMARY)] = { "summary of a start",
				  "UPDATE job_start SET summary = $1 "
				  "WHERE id = $2",
				  "" },
	/* Parameters: silent since (ns), now (ns), events since (ns). Counts starts that may
	 * still begin training, how many of these are silent, and the last event of the most
	 * silent one. */
	[AT(SQL_JOB_OPEN)] = { "starts that do not train",
			       "SELECT CAST(count(*) AS BIGINT), "
			       "CAST(coalesce(sum(CASE WHEN last_ns < $1 THEN 1 "
			       "ELSE 0 END), 0) AS BIGINT), "
			       "CAST(coalesce(min(last_ns), $2) AS BIGINT) "
			       "FROM job_start AS s WHERE events > 0 AND "
			       "ready_ns = 0 AND last_ns > $3 AND NOT EXISTS "
			       "(SELECT 1 FROM job_start AS n WHERE "
			       "n.job = s.job AND n.attempt > s.attempt AND "
			       "n.events > 0)",
			       "iii" },
	/* Parameters: id */
	[AT(SQL_JOB_OTHERS)] = { "other attempts of a job",
				 "SELECT " JOB_OTHERS
				 "FROM job_start AS s WHERE id = $1",
				 "ii" },
	/* Parameters: before, limit */
	[AT(SQL_JOB_EXPIRE)] = { "expire starts",
				 "DELETE FROM job_start WHERE id IN "
				 "(SELECT id FROM job_start WHERE received < $1 "
				 "ORDER BY received LIMIT CAST($2 AS BIGINT))",
				 "" },
	[AT(SQL_JOB_TOTAL)] = { "events of all starts",
				"SELECT CAST(coalesce(sum(events), 0) AS BIGINT) "
				"FROM job_start",
				"i" },
	[AT(SQL_JOB_REMOVE_OLDEST)] = { "remove the oldest start",
					"DELETE FROM job_start WHERE id = "
					"(SELECT id FROM job_start ORDER BY "
					"received, id LIMIT 1)",
					"" },
	[AT(SQL_STAGE_COUNT)] = { "events of a node",
				  "SELECT events FROM stage_node "
				  "WHERE start = $1 AND node = $2",
				  "i" },
	/* Parameters: start, node, new events, revision */
	[AT(SQL_STAGE_NODE_SUM)] = { "sum of a node",
				     "INSERT INTO stage_node (start, node, events, "
				     "revision) VALUES ($1, $2, $3, $4) "
				     "ON CONFLICT (start, node) DO UPDATE SET "
				     "events = stage_node.events + excluded.events, "
				     "revision = excluded.revision",
				     "" },
	/* Parameters: start, revision, limit */
	[AT(SQL_STAGE_CHANGED)] = { "nodes that sent something since",
				    "SELECT node FROM stage_node WHERE "
				    "start = $1 AND revision > $2 "
				    "LIMIT CAST($3 AS BIGINT)",
				    "t" },
	/* Parameters: start, node; then for each event id, stage, ev, ts, mono, boot, rank, status,
	 * facts */
	[AT(SQL_STAGE_PUT)] = { "put an event", EVENT_PUT ROW_1 EVENT_ONCE,
				"" },
	[AT(SQL_STAGE_PUT_ROWS)] = { "put events",
				     EVENT_PUT ROW_1 ROW_2 ROW_3 ROW_4 ROW_5
					     ROW_6 ROW_7 ROW_8 ROW_9 ROW_10
						     EVENT_ONCE,
				     "" },
	[AT(SQL_STAGE_EVENTS)] = { "events of a start",
				   "SELECT node, stage, ev, ts, mono, boot, rank, "
				   "status, facts FROM stage_event WHERE start = $1 "
				   "ORDER BY node, event",
				   "ttiiiiiit" },
	[AT(SQL_STAGE_NODE_EVENTS)] = { "events of a node in a start",
					"SELECT node, stage, ev, ts, mono, boot, "
					"rank, status, facts FROM stage_event "
					"WHERE start = $1 AND node = $2 "
					"ORDER BY event",
					"ttiiiiiit" },
	/* Parameters: start, node, boot, mono_offset, wall_offset, rtt */
	[AT(SQL_STAGE_CLOCK_PUT)] = { "put a clock",
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
	[AT(SQL_STAGE_CLOCKS)] = { "clocks of a start",
				   "SELECT node, boot, mono_offset, wall_offset, "
				   "rtt FROM stage_clock WHERE start = $1",
				   "tiiii" },
};
