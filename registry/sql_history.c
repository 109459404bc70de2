// SPDX-License-Identifier: Apache-2.0
/* Statements of history_db.c: finished starts by nodes, days and sizes. */
#include "registry/sql.h"

/* Key of a row within its day. */
#define DAY_KEY "image || ' ' || label || ' ' || class || ' ' || stage"
/* Slow nodes whose starts are read to find the namespaces they belong to. */
#define NODE_LIST_MAX "10000"
/* A trend by `key`. Beyond the limit, rows with the most nodes are kept. */
#define TREND(key) \
	"SELECT * FROM (" \
	"SELECT " key ", stage, CAST(sum(starts) AS BIGINT), " \
	"CAST(sum(nodes) AS BIGINT), CAST(sum(median_ms) AS BIGINT), " \
	"CAST(sum(job_ms) AS BIGINT), max(worst_ms), " \
	"CAST(sum(slow) AS BIGINT), CAST(sum(node_ms) AS BIGINT), " \
	"CAST(sum(wait_ms) AS BIGINT), CAST(sum(tops) AS BIGINT) " \
	"FROM start_day WHERE " \
	"day >= $1 AND (CAST($2 AS TEXT) = '' OR image = $2) AND " \
	"(CAST($3 AS TEXT) = '' OR label = $3) AND " \
	"(CAST($4 AS BIGINT) < 0 OR class = $4) GROUP BY 1, 2 " \
	"ORDER BY 4 DESC, 1, 2 LIMIT CAST($5 AS BIGINT)) AS t ORDER BY 1, 2"
#define TREND_TYPES "ttiiiiiiiii"

#define AT(s) (s - SQL_OF_HISTORY)

const struct db_statement sql_history[SQL_OF_CKPT - SQL_OF_HISTORY] = {
	/* Parameters: last event before, for ready starts; the same for others; now; limit */
	[AT(SQL_JOB_UNSUMMED)] = { "starts to sum up",
				   "SELECT id FROM job_start WHERE summed = 0 AND "
				   "events > 0 AND received < CASE WHEN "
				   "ready_ns > 0 THEN CAST($1 AS BIGINT) ELSE "
				   "CAST($2 AS BIGINT) END AND "
				   "sum_after <= CAST($3 AS BIGINT) "
				   "ORDER BY received "
				   "LIMIT CAST($4 AS BIGINT)",
				   "i" },
	[AT(SQL_JOB_SUMMED)] = { "a start is summed up",
				 "UPDATE job_start SET summed = 1 "
				 "WHERE id = $1 AND summed = 0",
				 "" },
	/* Parameters: tries before the start is set aside, set aside until, now, pause per try,
	 * id */
	[AT(SQL_JOB_SUM_FAILED)] = { "a start could not be summed up",
				     "UPDATE job_start SET "
				     "sum_tries = sum_tries + 1, "
				     "sum_after = CASE WHEN sum_tries + 1 >= "
				     "CAST($1 AS BIGINT) THEN "
				     "CAST($2 AS BIGINT) ELSE CAST($3 AS BIGINT) + "
				     "CAST($4 AS BIGINT) * (sum_tries + 1) END "
				     "WHERE id = $5 RETURNING sum_tries",
				     "i" },
	/* Parameters: node, start, job, at, busy_ms, median_ms, slow, stage, cause */
	[AT(SQL_NODE_PUT)] = { "put a node's start",
			       "INSERT INTO start_node (node, start, job, at, "
			       "busy_ms, median_ms, slow, stage, cause) VALUES "
			       "($1, $2, $3, $4, $5, $6, $7, $8, $9) "
			       "ON CONFLICT (node, start) DO NOTHING",
			       "" },
	/* Parameters: node, limit */
	[AT(SQL_NODE_TRIM)] = { "trim starts of a node",
				"DELETE FROM start_node WHERE node = $1 AND "
				"start <= (SELECT start FROM start_node WHERE "
				"node = $1 ORDER BY start DESC LIMIT 1 "
				"OFFSET CAST($2 AS BIGINT))",
				"" },
	/* Parameters: node, before this start, limit */
	[AT(SQL_NODE_PAST)] = { "past of a node",
				"SELECT CAST(count(*) AS BIGINT), "
				"CAST(coalesce(sum(slow), 0) AS BIGINT) FROM "
				"(SELECT slow FROM start_node WHERE node = $1 AND "
				"start < $2 ORDER BY start DESC "
				"LIMIT CAST($3 AS BIGINT)) AS past",
				"ii" },
	/* Parameters: node, limit */
	[AT(SQL_NODE_STARTS)] = { "starts of a node",
				  "SELECT start, job, at, busy_ms, median_ms, "
				  "slow, stage, cause FROM start_node "
				  "WHERE node = $1 ORDER BY start DESC "
				  "LIMIT CAST($2 AS BIGINT)",
				  "itiiiitt" },
	/* Parameters: node, day, slow, excess_ms, last */
	[AT(SQL_NODE_DAY_PUT)] = { "add to a node's day",
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
	/* Parameters: since this day, limit. Nodes that were slow; at most half of them from starts
	 * of one namespace while others have some. */
	[AT(SQL_NODE_LIST)] = { "slow nodes",
				"WITH c AS (SELECT node, "
				"CAST(sum(slow) AS BIGINT) AS n, "
				"CAST(sum(excess_ms) AS BIGINT) AS e, "
				"max(last) AS l, "
				"CAST(sum(starts) AS BIGINT) AS s "
				"FROM node_day WHERE day >= $1 GROUP BY node "
				"HAVING sum(slow) > 0 "
				"ORDER BY 2 DESC, 3 DESC, node "
				"LIMIT " NODE_LIST_MAX "), "
				"p AS (SELECT DISTINCT c.node, n, e, "
				"rtrim(job, replace(job, '/', '')) AS space "
				"FROM c JOIN start_node AS h ON "
				"h.node = c.node AND h.slow = 1), "
				"t AS (SELECT node, row_number() OVER "
				"(PARTITION BY space ORDER BY n DESC, e DESC, "
				"node) AS turn FROM p), "
				"m AS (SELECT node, min(turn) AS turn FROM t "
				"GROUP BY node) "
				"SELECT node, n, e, l, s FROM (SELECT c.*, "
				"CASE WHEN 2 * coalesce(turn, 1) > "
				"CAST($2 AS BIGINT) + 1 THEN 1 ELSE 0 END AS late "
				"FROM c LEFT JOIN m ON m.node = c.node "
				"ORDER BY late, n DESC, e DESC, c.node "
				"LIMIT CAST($2 AS BIGINT)) AS r "
				"ORDER BY n DESC, e DESC, node",
				"tiiii" },
	/* Parameters: before this day */
	[AT(SQL_NODE_DAY_EXPIRE)] = { "expire days of nodes",
				      "DELETE FROM node_day WHERE day < $1",
				      "" },
	/* Parameters: before */
	[AT(SQL_NODE_EXPIRE)] = { "expire starts of nodes",
				  "DELETE FROM start_node WHERE at < $1", "" },
	/* Parameters: day, image, label, stage, nodes, median_ms, job_ms, worst_ms, slow, node_ms,
	 * wait_ms, 1 if within no other stage, class */
	[AT(SQL_DAY_PUT)] = { "add to a day",
			      "INSERT INTO start_day (day, image, label, stage, "
			      "starts, nodes, median_ms, job_ms, worst_ms, slow, "
			      "node_ms, wait_ms, tops, class) VALUES ($1, $2, $3, $4, "
			      "1, $5, $6, $7, $8, $9, $10, $11, $12, $13) "
			      "ON CONFLICT (day, image, label, class, stage) DO "
			      "UPDATE "
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
			      "wait_ms = start_day.wait_ms + excluded.wait_ms, "
			      "tops = start_day.tops + excluded.tops",
			      "" },
	[AT(SQL_DAY_ROWS)] = { "rows of a day",
			       "SELECT CAST(count(*) AS BIGINT) FROM start_day "
			       "WHERE day = $1",
			       "i" },
	/* Parameters: day, number to delete. Rows are deleted first whose starts had the fewest
	 * nodes besides the first one: starts that a single node invents have none, however many
	 * there are. */
	[AT(SQL_DAY_TRIM)] = { "trim a day",
			       "DELETE FROM start_day WHERE day = $1 AND "
			       "(" DAY_KEY ") IN (SELECT " DAY_KEY
			       " FROM start_day WHERE day = $1 "
			       "ORDER BY nodes - starts, starts, 1 "
			       "LIMIT CAST($2 AS BIGINT))",
			       "" },
	/* Parameters: since, image or '', label or '', class or -1, limit */
	[AT(SQL_TREND_DAY)] = { "trend by day", TREND("CAST(day AS TEXT)"),
				TREND_TYPES },
	[AT(SQL_TREND_IMAGE)] = { "trend by image", TREND("image"),
				  TREND_TYPES },
	[AT(SQL_TREND_LABEL)] = { "trend by label", TREND("label"),
				  TREND_TYPES },
	[AT(SQL_TREND_CLASS)] = { "trend by class",
				  TREND("CAST(class AS TEXT)"), TREND_TYPES },
	[AT(SQL_DAY_EXPIRE)] = { "expire days",
				 "DELETE FROM start_day WHERE day < $1", "" },
	/* Parameters: start, at, job, image, label, nodes, gpus, job_ms, median_ms, max_ms, stages,
	 * class */
	[AT(SQL_SCALE_PUT)] = { "add to starts by size",
				"INSERT INTO start_scale (start, stage, at, job, "
				"image, label, nodes, gpus, job_ms, median_ms, "
				"max_ms, stages, class) VALUES ($1, '', $2, $3, $4, "
				"$5, $6, $7, $8, $9, $10, $11, $12) "
				"ON CONFLICT (start, stage) DO "
				"UPDATE SET at = excluded.at, job = excluded.job, "
				"image = excluded.image, label = excluded.label, "
				"nodes = excluded.nodes, gpus = excluded.gpus, "
				"job_ms = excluded.job_ms, "
				"median_ms = excluded.median_ms, "
				"max_ms = excluded.max_ms, "
				"stages = excluded.stages, "
				"class = excluded.class",
				"" },
	/* Parameters: since, image or '', label or '', nodes from, nodes to, class or -1, limit.
	 * The newest starts. */
	[AT(SQL_SCALE_LIST)] = { "starts by size",
				 "SELECT stage, job, nodes, gpus, job_ms, "
				 "median_ms, max_ms, stages FROM start_scale "
				 "WHERE at >= $1 AND "
				 "(CAST($2 AS TEXT) = '' OR image = $2) AND "
				 "(CAST($3 AS TEXT) = '' OR label = $3) AND "
				 "nodes BETWEEN CAST($4 AS BIGINT) AND "
				 "CAST($5 AS BIGINT) AND "
				 "(CAST($6 AS BIGINT) < 0 OR class = $6) "
				 "ORDER BY at DESC LIMIT CAST($7 AS BIGINT)",
				 "ttiiiiit" },
	[AT(SQL_SCALE_EXPIRE)] = { "expire starts by size",
				   "DELETE FROM start_scale WHERE at < $1",
				   "" },
	[AT(SQL_SCALE_TOTAL)] = { "total of starts by size",
				  "SELECT CAST(count(*) AS BIGINT) FROM start_scale",
				  "i" },
	/* Parameters: number of starts to delete. Those of the fewest nodes are deleted, the oldest
	 * first; invented starts have one node each. */
	[AT(SQL_SCALE_TRIM)] = { "trim starts by size",
				 "DELETE FROM start_scale WHERE start IN (SELECT "
				 "start FROM start_scale WHERE stage = '' ORDER BY "
				 "nodes, at LIMIT CAST($1 AS BIGINT))",
				 "" },
};
