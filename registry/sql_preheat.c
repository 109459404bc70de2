// SPDX-License-Identifier: Apache-2.0
/* Statements of preheats.c: preheat orders. */
#include "registry/sql.h"

#define AT(s) (s - SQL_OF_PREHEAT)

const struct db_statement sql_preheat[SQL_OF_IMAGE - SQL_OF_PREHEAT] = {
	/* Parameters: before */
	[AT(SQL_PREHEAT_EXPIRE)] = { "expire preheats",
				     "DELETE FROM preheat WHERE created < $1",
				     "" },
	/* Parameters: ref, repo, what, everybody, created, env, limit */
	[AT(SQL_PREHEAT_PUT)] = { "put preheat",
				  "INSERT INTO preheat (ref, repo, what, "
				  "everybody, created, env) "
				  "SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), "
				  "CAST($3 AS TEXT), CAST($4 AS BIGINT), "
				  "CAST($5 AS BIGINT), CAST($6 AS TEXT) WHERE "
				  "(SELECT count(*) FROM preheat) < "
				  "CAST($7 AS BIGINT) RETURNING id",
				  "i" },
	/* Parameters: preheat, node, now */
	[AT(SQL_PREHEAT_NAME)] = { "name a node to preheat",
				   "INSERT INTO preheat_node (preheat, node, "
				   "state, have, total, error, changed) "
				   "VALUES ($1, $2, 'waiting', 0, 0, '', $3) "
				   "ON CONFLICT (preheat, node) DO NOTHING",
				   "" },
	/* Parameters: node, since, prefix, limit. Orders that the node has not finished. */
	[AT(SQL_PREHEAT_FOR)] = { "preheats of a node",
				  "SELECT id, ref, what, env FROM preheat "
				  "LEFT JOIN preheat_node AS n "
				  "ON n.preheat = id AND n.node = $1 "
				  "WHERE created >= $2 AND " SEES(
					  "CAST($3 AS TEXT)") "AND CASE WHEN n.state IS "
							      "NULL THEN everybody = 1 ELSE "
							      "n.state IN ('waiting', 'running') END "
							      "ORDER BY id LIMIT CAST($4 AS BIGINT)",
				  "ittt" },
	/* Parameters: node, state, have, total, error, now, preheat, limit */
	[AT(SQL_PREHEAT_REPORT)] = { "report a preheat",
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
	/* Parameters: id, prefix */
	[AT(SQL_PREHEAT_GET)] = { "preheat",
				  "SELECT id, ref, what, everybody, created "
				  "FROM preheat WHERE id = $1 AND " SEES(
					  "CAST($2 AS TEXT)"),
				  "ittii" },
	[AT(SQL_PREHEAT_NODES)] = { "nodes of a preheat",
				    "SELECT node, state, have, total, error, "
				    "changed FROM preheat_node WHERE preheat = $1 "
				    "ORDER BY node",
				    "ttiiti" },
};
