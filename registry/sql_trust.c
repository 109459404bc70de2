// SPDX-License-Identifier: Apache-2.0
/* Statements of capabilities.c and trust.c: revoked rights of nodes, revoked signing keys. */
#include "registry/sql.h"

#define AT(s) (s - SQL_OF_TRUST)

const struct db_statement sql_trust[SQL_OF_PREHEAT - SQL_OF_TRUST] = {
	/* Parameters: image, node */
	[AT(SQL_REVOKED)] = { "revoked",
			      "SELECT since FROM revocation WHERE "
			      "(image = $1 OR image = '') AND "
			      "(node = $2 OR node = '') LIMIT 1",
			      "i" },
	[AT(SQL_REVOCATIONS)] = { "revocations",
				  "SELECT image, node, since FROM revocation "
				  "ORDER BY image, node",
				  "tti" },
	/* Parameters: image, node, since, limit */
	[AT(SQL_REVOKE)] = { "revoke",
			     "INSERT INTO revocation (image, node, since) "
			     "SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), "
			     "CAST($3 AS BIGINT) WHERE "
			     "(SELECT count(*) FROM revocation) < "
			     "CAST($4 AS BIGINT) "
			     "ON CONFLICT (image, node) DO NOTHING",
			     "" },
	[AT(SQL_RESTORE)] = { "restore",
			      "DELETE FROM revocation WHERE image = $1 AND "
			      "node = $2",
			      "" },
	[AT(SQL_TRUST_FIND)] = { "find a revoked key",
				 "SELECT since FROM trust_revoked "
				 "WHERE key_id = $1",
				 "i" },
	/* Parameters: key, since, limit */
	[AT(SQL_TRUST_REVOKE)] = { "revoke a key",
				   "INSERT INTO trust_revoked (key_id, since) "
				   "SELECT CAST($1 AS TEXT), CAST($2 AS BIGINT) "
				   "WHERE (SELECT count(*) FROM trust_revoked) < "
				   "CAST($3 AS BIGINT) "
				   "ON CONFLICT (key_id) DO NOTHING",
				   "" },
	[AT(SQL_TRUST_RESTORE)] = { "restore a key",
				    "DELETE FROM trust_revoked WHERE key_id = $1",
				    "" },
	[AT(SQL_TRUST_REVOKED)] = { "revoked keys",
				    "SELECT key_id, since FROM trust_revoked "
				    "ORDER BY key_id",
				    "ti" },
};
