// SPDX-License-Identifier: Apache-2.0
/* Statements of doctor.c: reports of nodes' doctors. */
#include "registry/sql.h"

#define AT(s) (s - SQL_OF_DOCTOR)

const struct db_statement sql_doctor[SQL_COUNT_ - SQL_OF_DOCTOR] = {
	/* Parameters: node, now, checks, missing, advice, failed, most nodes */
	[AT(SQL_DOCTOR_PUT)] = { "put what a node lacks",
				 "INSERT INTO node_doctor (node, received, "
				 "checks, missing, advice, failed) "
				 "SELECT CAST($1 AS TEXT), CAST($2 AS BIGINT), "
				 "CAST($3 AS BIGINT), CAST($4 AS BIGINT), "
				 "CAST($5 AS BIGINT), CAST($6 AS TEXT) WHERE "
				 "EXISTS (SELECT 1 FROM node_doctor WHERE "
				 "node = $1) OR (SELECT count(*) FROM "
				 "node_doctor) < CAST($7 AS BIGINT) "
				 "ON CONFLICT (node) DO UPDATE SET "
				 "received = excluded.received, "
				 "checks = excluded.checks, "
				 "missing = excluded.missing, "
				 "advice = excluded.advice, "
				 "failed = excluded.failed",
				 "" },
	/* Parameters: fresh since, kept since */
	[AT(SQL_DOCTOR_COUNT)] = { "count nodes that lack something",
				   "SELECT count(*), "
				   "count(CASE WHEN received >= $1 THEN 1 END), "
				   "count(CASE WHEN received >= $1 AND "
				   "missing > 0 THEN 1 END), "
				   "count(CASE WHEN received >= $1 AND "
				   "advice > 0 THEN 1 END) "
				   "FROM node_doctor WHERE received >= $2",
				   "iiii" },
	/* Parameters: kept since, node or '', limit */
	[AT(SQL_DOCTOR_LIST)] = { "list what nodes lack",
				  "SELECT node, received, checks, missing, "
				  "advice, failed FROM node_doctor WHERE "
				  "received >= $1 AND (CAST($2 AS TEXT) = '' "
				  "OR node = $2) ORDER BY missing DESC, "
				  "advice DESC, node LIMIT CAST($3 AS BIGINT)",
				  "tiiiit" },
	/* Parameters: before */
	[AT(SQL_DOCTOR_EXPIRE)] = { "forget what nodes lacked",
				    "DELETE FROM node_doctor WHERE "
				    "received < $1",
				    "" },
};
