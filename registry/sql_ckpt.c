// SPDX-License-Identifier: Apache-2.0
/* Statements of ckpt_db.c and ckpt_parts.c: checkpoint loads and saves. */
#include "registry/sql.h"

/* The list is chosen from so many of the latest rows. Of starts reported by a single node, at most
 * so many of that node come before those of others, and starts of one namespace fill at most half
 * of the list, so that invented starts do not crowd out real ones. */
#define CKPT_LIST_MAX "100000"
#define CKPT_OF_NODE_MAX "16"
#define CKPT_ORDER "last DESC, id DESC, stage"
#define CKPT_ROW \
	"id, job, attempt, image, label, stage, last, rounds, nodes, runs, " \
	"open, bytes, job_ms, run_ms, wait_ms, queue_ms, storage_ms, " \
	"network_ms, median_ms, max_ms, slow, slowest"

#define AT(s) (s - SQL_OF_CKPT)

const struct db_statement sql_ckpt[SQL_OF_ENV - SQL_OF_CKPT] = {
	[AT(SQL_CKPT_EVENTS)] = { "loads and saves of a start",
				  "SELECT node, stage, ev, ts, mono, boot, rank, "
				  "status, facts FROM stage_event "
				  "WHERE start + 0 = $1 AND " CKPT_STAGES
				  " ORDER BY node, event",
				  "ttiiiiiit" },
	/* Parameters: now, limit. A start is due a minute after its last sums, or later if it has
	 * many events. */
	[AT(SQL_CKPT_DUE)] = { "starts whose loads and saves to sum up",
			       "SELECT id FROM job_start WHERE "
			       "ckpt_revision < revision AND events > 0 AND "
			       "ckpt_summed + 60 + events / 1000 <= "
			       "CAST($1 AS BIGINT) ORDER BY received "
			       "LIMIT CAST($2 AS BIGINT)",
			       "i" },
	/* Parameters: revision, now, id */
	[AT(SQL_CKPT_SUMMED)] = { "loads and saves are summed up",
				  "UPDATE job_start SET ckpt_revision = $1, "
				  "ckpt_summed = $2, ckpt_tries = 0 "
				  "WHERE id = $3 AND ckpt_revision < $1",
				  "" },
	/* Parameters: as for SQL_JOB_SUM_FAILED. SQL_CKPT_DUE adds the minute between sums. */
	[AT(SQL_CKPT_SUM_FAILED)] = { "loads and saves could not be summed up",
				      "UPDATE job_start SET "
				      "ckpt_tries = ckpt_tries + 1, "
				      "ckpt_summed = CASE WHEN ckpt_tries + 1 >= "
				      "CAST($1 AS BIGINT) THEN "
				      "CAST($2 AS BIGINT) ELSE CAST($3 AS BIGINT) + "
				      "CAST($4 AS BIGINT) * ckpt_tries END "
				      "WHERE id = $5 RETURNING ckpt_tries",
				      "i" },
	[AT(SQL_CKPT_PUT)] = { "put loads or saves",
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
	/* Parameters: since, job or '', image or '', label or '', limit */
	[AT(SQL_CKPT_LIST)] = { "list loads and saves",
				"SELECT " CKPT_ROW " FROM (SELECT * FROM "
				"(SELECT k.*, row_number() OVER (PARTITION BY "
				"space ORDER BY of_node > " CKPT_OF_NODE_MAX
				", " CKPT_ORDER ") AS turn FROM "
				"(SELECT j.*, CASE WHEN node_count > 1 THEN 1 "
				"ELSE row_number() OVER (PARTITION BY "
				"node_count > 1, node_name ORDER BY " CKPT_ORDER
				") END AS of_node FROM (SELECT " CKPT_ROW
				", space, node_count, node_name "
				"FROM ckpt_sum JOIN job_start ON id = start "
				"WHERE last >= $1 AND "
				"(CAST($2 AS TEXT) = '' OR job = $2) AND "
				"(CAST($3 AS TEXT) = '' OR image = $3) AND "
				"(CAST($4 AS TEXT) = '' OR label = $4) "
				"ORDER BY " CKPT_ORDER " LIMIT " CKPT_LIST_MAX
				") AS j) AS k) AS t ORDER BY CASE WHEN "
				"of_node > " CKPT_OF_NODE_MAX
				" OR 2 * turn > CAST($5 AS BIGINT) + 1 "
				"THEN 1 ELSE 0 END, " CKPT_ORDER
				" LIMIT CAST($5 AS BIGINT)) AS s "
				"ORDER BY " CKPT_ORDER,
				"ititttiiiiiiiiiiiiiiit" },
	/* Parameters: start, node */
	[AT(SQL_CKPT_PART_LAST)] = { "last part of a node's loads and saves",
				     "SELECT part, events FROM ckpt_part "
				     "WHERE start = $1 AND node = $2 "
				     "ORDER BY part DESC LIMIT 1",
				     "ib" },
	/* Parameters: start, node, part, events */
	[AT(SQL_CKPT_PART_PUT)] = { "put a part of loads and saves",
				    "INSERT INTO ckpt_part (start, node, part, "
				    "events) VALUES ($1, $2, $3, $4) "
				    "ON CONFLICT (start, node, part) DO UPDATE SET "
				    "events = excluded.events",
				    "" },
	[AT(SQL_CKPT_PART_DROP)] = { "drop a node's parts of loads and saves",
				     "DELETE FROM ckpt_part WHERE start = $1 AND "
				     "node = $2",
				     "" },
	[AT(SQL_CKPT_PARTS)] = { "parts of a start's loads and saves",
				 "SELECT node, events FROM ckpt_part "
				 "WHERE start = $1 ORDER BY node, part",
				 "tb" },
	/* Parameters: start, node */
	[AT(SQL_CKPT_NODE_EVENTS)] = { "a node's loads and saves",
				       "SELECT stage, ev, ts, mono, boot, rank, "
				       "status, facts FROM stage_event "
				       "WHERE start + 0 = $1 AND node = $2 AND " CKPT_STAGES
				       " ORDER BY event",
				       "tiiiiiit" },
	[AT(SQL_CKPT_WHOLE)] = { "are all loads and saves in parts",
				 "SELECT CASE WHEN ckpt_seen = events THEN 1 "
				 "ELSE 0 END FROM job_start WHERE id = $1",
				 "i" },
};
